package apps

import (
	"net"
	"net/http"
	"strings"
	"time"

	"ingot/internal/console/page"
)

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
	if page.Secure(r) {
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

// Deployment is a deployment of an app.
type Deployment struct {
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
		App page.Relation `json:"app"`
	} `json:"relationships"`
}

func (d *Deployment) active() bool { return d.Status.Value == "ACTIVE" }

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
	Data page.CrashData `json:"data"`
}
