package client

import (
	"encoding/json"
	"time"
)

// To is a relationship to one other resource.
type To struct {
	Data *struct {
		GUID string `json:"guid"`
	} `json:"data"`
}

// GUID returns the guid of the related resource, or "".
func (t To) GUID() string {
	if t.Data == nil {
		return ""
	}
	return t.Data.GUID
}

// Relate returns a relationship as JSON.
func Relate(guid string) map[string]any {
	return map[string]any{"data": map[string]string{"guid": guid}}
}

// Thing has the fields that all resources have.
type Thing struct {
	GUID      string    `json:"guid"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// ID returns the guid.
func (t Thing) ID() string { return t.GUID }

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

// Process is a process of an app.
type Process struct {
	GUID          string     `json:"guid"`
	Type          string     `json:"type"`
	Command       string     `json:"command"`
	Instances     int        `json:"instances"`
	MemoryMB      int64      `json:"memory_in_mb"`
	DiskMB        int64      `json:"disk_in_mb"`
	Embedded      []Instance `json:"process_instances"`
	Relationships struct {
		App To `json:"app"`
	} `json:"relationships"`
}

// Instance is a short form of Stat.
type Instance struct {
	Index int    `json:"index"`
	State string `json:"state"`
}

// Stat is the state of one instance.
type Stat struct {
	Index int    `json:"index"`
	State string `json:"state"`
	// Routable is nil where the platform does not report it.
	Routable  *bool  `json:"routable"`
	Uptime    int64  `json:"uptime"`
	Details   string `json:"details"`
	MemQuota  int64  `json:"mem_quota"`
	DiskQuota int64  `json:"disk_quota"`
	Usage     struct {
		CPU  float64 `json:"cpu"`
		Mem  int64   `json:"mem"`
		Disk int64   `json:"disk"`
	} `json:"usage"`
	// Router is nil for stopped instances, and where the platform does not report
	// it.
	Router *Requests `json:"router"`
	// Members are the main process and its sidecars; empty where the platform does not
	// report them.
	Members []Member `json:"members"`
}

// Requests counts the requests that the router sent to an instance.
type Requests struct {
	Requests int64            `json:"requests"`
	Active   int64            `json:"active"`
	Status   map[string]int64 `json:"status"`
	Received int64            `json:"bytes_received"`
	Sent     int64            `json:"bytes_sent"`
	Latency  struct {
		Mean float64 `json:"mean"`
		P50  float64 `json:"p50"`
		P95  float64 `json:"p95"`
		P99  float64 `json:"p99"`
	} `json:"latency_ms"`
}

// Sidecar is a sidecar of a process.
type Sidecar struct {
	GUID     string `json:"guid"`
	Name     string `json:"name"`
	Command  string `json:"command"`
	MemoryMB int64  `json:"memory_in_mb"`
	// Options are what Cloud Foundry does not have.
	Options SidecarOptions `json:"options"`
}

// SidecarOptions are those that the client shows.
type SidecarOptions struct {
	MemoryEnforced bool `json:"memory_enforced"`
	CPUWeight      int  `json:"cpu_weight"`
}

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
	State     string    `json:"state"`
	Error     string    `json:"error"`
	Droplet   *struct {
		GUID string `json:"guid"`
	} `json:"droplet"`
}

// Event is an audit event.
type Event struct {
	GUID      string    `json:"guid"`
	CreatedAt time.Time `json:"created_at"`
	Type      string    `json:"type"`
	Actor     struct {
		Name string `json:"name"`
	} `json:"actor"`
	Data map[string]json.RawMessage `json:"data"`
}

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
		Reason string `json:"failure_reason"`
	} `json:"result"`
}

// Operation is the last operation on a service instance or binding.
type Operation struct {
	Type        string    `json:"type"`
	State       string    `json:"state"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// ServiceInstance is a service instance.
type ServiceInstance struct {
	Thing
	Type          string    `json:"type"`
	Tags          []string  `json:"tags"`
	DashboardURL  string    `json:"dashboard_url"`
	LastOperation Operation `json:"last_operation"`
	Relationships struct {
		Plan To `json:"service_plan"`
	} `json:"relationships"`
}

// Plan is a service plan.
type Plan struct {
	Thing
	Description   string `json:"description"`
	Free          bool   `json:"free"`
	Available     bool   `json:"available"`
	Relationships struct {
		Offering To `json:"service_offering"`
	} `json:"relationships"`
}

// Offering is a service offering.
type Offering struct {
	Thing
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	Relationships struct {
		Broker To `json:"service_broker"`
	} `json:"relationships"`
}

// Binding is a service binding or key.
type Binding struct {
	Thing
	Type          string    `json:"type"`
	LastOperation Operation `json:"last_operation"`
	Relationships struct {
		App      To `json:"app"`
		Instance To `json:"service_instance"`
	} `json:"relationships"`
}

// Rotation is the rotation of a binding's credentials.
type Rotation struct {
	Thing
	State         string `json:"state"`
	Method        string `json:"method"`
	GraceSeconds  int    `json:"grace_seconds"`
	RevokeAt      string `json:"revoke_at"`
	Description   string `json:"description"`
	Relationships struct {
		App     To `json:"app"`
		Binding To `json:"service_credential_binding"`
	} `json:"relationships"`
}
