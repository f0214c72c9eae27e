package cfapi

import "time"

// App is an app.
type App struct {
	Thing
	State     string `json:"state"`
	Lifecycle struct {
		Type string `json:"type"`
	} `json:"lifecycle"`
	Relationships struct {
		Space To `json:"space"`
	} `json:"relationships"`
}

// Started reports whether the app is meant to run.
func (a *App) Started() bool { return a.State == "STARTED" }

// Route is a route.
type Route struct {
	GUID          string        `json:"guid"`
	Protocol      string        `json:"protocol"`
	Host          string        `json:"host"`
	Path          string        `json:"path"`
	Port          int           `json:"port"`
	URL           string        `json:"url"`
	Destinations  []Destination `json:"destinations"`
	Relationships struct {
		Space  To `json:"space"`
		Domain To `json:"domain"`
	} `json:"relationships"`
}

// Destination is an app that a route is mapped to.
type Destination struct {
	GUID string `json:"guid"`
	App  struct {
		GUID    string `json:"guid"`
		Process struct {
			Type string `json:"type"`
		} `json:"process"`
		// Sidecar declares the port; nil if none does.
		Sidecar *struct {
			Name string `json:"name"`
		} `json:"sidecar"`
	} `json:"app"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
	Weight   *int   `json:"weight"`
}

// Droplet is a built app.
type Droplet struct {
	GUID       string    `json:"guid"`
	State      string    `json:"state"`
	Stack      string    `json:"stack"`
	CreatedAt  time.Time `json:"created_at"`
	Buildpacks []struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"buildpacks"`
	Image        string            `json:"image"`
	Checksum     Checksum          `json:"checksum"`
	ProcessTypes map[string]string `json:"process_types"`
}

// Checksum is the checksum of a file.
type Checksum struct {
	Value string `json:"value"`
}

// Package is an upload of an app.
type Package struct {
	GUID  string `json:"guid"`
	State string `json:"state"`
	Data  struct {
		Error string `json:"error"`
	} `json:"data"`
}

// Build turns a package into a droplet.
type Build struct {
	GUID      string    `json:"guid"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	CreatedBy Party     `json:"created_by"`
	State     string    `json:"state"`
	Error     string    `json:"error"`
	Droplet   *GUID     `json:"droplet"`

	Relationships struct {
		App To `json:"app"`
	} `json:"relationships"`
}

// Failed reports whether the build ended without a droplet.
func (b *Build) Failed() bool { return b.State == "FAILED" }

// Task is a one-off command that runs an app's droplet.
type Task struct {
	GUID      string    `json:"guid"`
	Sequence  int       `json:"sequence_id"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Command   string    `json:"command"`
	CreatedAt time.Time `json:"created_at"`
	MemoryMB  int       `json:"memory_in_mb"`
	DiskMB    int       `json:"disk_in_mb"`
	Result    struct {
		Failure string `json:"failure_reason"`
	} `json:"result"`
}

// Revision is a version of an app that was started.
type Revision struct {
	GUID        string                    `json:"guid"`
	Version     int                       `json:"version"`
	Description string                    `json:"description"`
	Deployable  bool                      `json:"deployable"`
	CreatedAt   time.Time                 `json:"created_at"`
	Droplet     GUID                      `json:"droplet"`
	Processes   map[string]map[string]any `json:"processes"` // by type
	Sidecars    []map[string]any          `json:"sidecars"`
	// Ingot has the settings of processes by type, and the options of sidecars by
	// name.
	Ingot struct {
		Processes map[string]map[string]any `json:"processes"`
		Sidecars  map[string]map[string]any `json:"sidecars"`
	} `json:"ingot"`
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// Deployment replaces the instances of an app step by step.
type Deployment struct {
	GUID      string    `json:"guid"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Strategy  string    `json:"strategy"`
	Status    struct {
		Value   string `json:"value"`
		Reason  string `json:"reason"`
		Details struct {
			LastChange string `json:"last_status_change"`
			Error      string `json:"error"`
		} `json:"details"`
		Canary *struct {
			Steps struct {
				Current int `json:"current"`
				Total   int `json:"total"`
			} `json:"steps"`
		} `json:"canary"`
	} `json:"status"`
	Options struct {
		MaxInFlight int `json:"max_in_flight"`
	} `json:"options"`
	NewProcesses []GUID `json:"new_processes"`
	Revision     *struct {
		Version int `json:"version"`
	} `json:"revision"`
	Relationships struct {
		App To `json:"app"`
	} `json:"relationships"`
}

// Over reports whether the deployment makes no further progress on its own.
func (d *Deployment) Over() bool { return d.Status.Value == "FINALIZED" || d.Status.Reason == "PAUSED" }
