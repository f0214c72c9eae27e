package console

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Resources of the platform API, with the fields that pages show.

type relation struct {
	Data struct {
		GUID string `json:"guid"`
	} `json:"data"`
}

type organization struct {
	GUID string `json:"guid"`
	Name string `json:"name"`
}

type space struct {
	GUID          string `json:"guid"`
	Name          string `json:"name"`
	Relationships struct {
		Organization relation `json:"organization"`
	} `json:"relationships"`
}

type app struct {
	GUID      string    `json:"guid"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Lifecycle struct {
		Type string `json:"type"`
		Data struct {
			Buildpacks []string `json:"buildpacks"`
			Stack      string   `json:"stack"`
		} `json:"data"`
	} `json:"lifecycle"`
	Relationships struct {
		Space relation `json:"space"`
	} `json:"relationships"`
}

// summary is an app in a list of many.
type summary struct {
	GUID      string `json:"guid"`
	Name      string `json:"name"`
	State     string `json:"state"`
	SpaceGUID string `json:"space_guid"`
	Instances struct {
		Desired int `json:"desired"`
		Running int `json:"running"`
		Crashed int `json:"crashed"`
	} `json:"instances"`
}

func (a *app) started() bool { return a.State == "STARTED" }

type process struct {
	GUID        string `json:"guid"`
	Type        string `json:"type"`
	Command     string `json:"command"`
	Instances   int    `json:"instances"`
	MemoryMB    int64  `json:"memory_in_mb"`
	DiskMB      int64  `json:"disk_in_mb"`
	HealthCheck struct {
		Type string `json:"type"`
	} `json:"health_check"`
	Embedded []struct {
		State string `json:"state"`
	} `json:"process_instances"`
}

// States of instances.
const (
	stateRunning = "RUNNING"
	stateCrashed = "CRASHED"
)

type instance struct {
	Index   int    `json:"index"`
	State   string `json:"state"`
	Uptime  int64  `json:"uptime"`
	Details string `json:"details"`
	Usage   struct {
		CPU    float64 `json:"cpu"`
		Memory int64   `json:"mem"`
		Disk   int64   `json:"disk"`
	} `json:"usage"`
	MemoryQuota int64 `json:"mem_quota"`
	DiskQuota   int64 `json:"disk_quota"`
	Router      *struct {
		Requests int64 `json:"requests"`
		Latency  struct {
			P50 float64 `json:"p50"`
			P95 float64 `json:"p95"`
		} `json:"latency_ms"`
	} `json:"router"`
	Members []instanceMember `json:"members"`
}

// instanceMember is the main process or a sidecar of an instance.
type instanceMember struct {
	Name        string  `json:"name"`
	State       string  `json:"state"`
	CPU         float64 `json:"cpu"`
	Memory      int64   `json:"mem"`
	MemoryQuota int64   `json:"mem_quota"`
	Restarts    int     `json:"restarts"`
	LastExit    *struct {
		Status int       `json:"status"`
		Reason string    `json:"reason"`
		Time   time.Time `json:"time"`
	} `json:"last_exit"`
}

type route struct {
	URL      string `json:"url"`
	Protocol string `json:"protocol"`
	Link     string `json:"-"`
}

// link returns the address of a route for a browser that reached the console with r; "" for
// routes that browsers cannot open.
func (t route) link(r *http.Request) string {
	if t.Protocol == "tcp" {
		return ""
	}
	scheme, host, path := "http://", t.URL, ""
	if secure(r) {
		scheme = "https://"
	}
	if i := strings.Index(host, "/"); i >= 0 {
		host, path = host[:i], host[i:]
	}
	// Apps listen where the console does.
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		host = net.JoinHostPort(host, port)
	}
	return scheme + host + path
}

type newProcess struct {
	GUID string `json:"guid"`
}

type deployment struct {
	GUID      string    `json:"guid"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Strategy  string    `json:"strategy"`
	Status    struct {
		Value   string `json:"value"`
		Reason  string `json:"reason"`
		Details struct {
			Error string `json:"error"`
		} `json:"details"`
	} `json:"status"`
	NewProcesses []newProcess `json:"new_processes"`
	Revision     *struct {
		Version int `json:"version"`
	} `json:"revision"`
	Relationships struct {
		App relation `json:"app"`
	} `json:"relationships"`
}

func (d *deployment) active() bool { return d.Status.Value == "ACTIVE" }

type auditEvent struct {
	GUID      string    `json:"guid"`
	CreatedAt time.Time `json:"created_at"`
	Type      string    `json:"type"`
	Actor     struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"actor"`
	Target struct {
		GUID string `json:"guid"`
		Name string `json:"name"`
	} `json:"target"`
	Data crashData `json:"data"`
}

// crashData is the data of an event about a crash.
type crashData struct {
	Index       int    `json:"index"`
	Instance    string `json:"instance"`
	Description string `json:"exit_description"`
	Timestamp   int64  `json:"crash_timestamp"`
	Sidecar     string `json:"sidecar"`
	Status      *int   `json:"exit_status"`
}

type role struct {
	Type          string `json:"type"`
	Relationships struct {
		Space        relation `json:"space"`
		Organization relation `json:"organization"`
	} `json:"relationships"`
}

// admin reports whether the user administers the platform.
func (s *Session) admin() bool { return slices.Contains(s.Scopes, "cloud_controller.admin") }

// command returns a line of the cf client. Words that a shell would split are quoted.
func command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r))
		}) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
