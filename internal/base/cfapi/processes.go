package cfapi

import "time"

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

// States of instances.
const (
	Running = "RUNNING"
	Crashed = "CRASHED"
)

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

// Member is the main process or a sidecar of an instance.
type Member struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	State string  `json:"state"`
	Since *string `json:"since"`
	CPU   float64 `json:"cpu"`
	Mem   int64   `json:"mem"`
	// MemQuota is its own limit, which is enforced.
	MemQuota *int64      `json:"mem_quota"`
	Restarts int         `json:"restarts"`
	LastExit *MemberExit `json:"last_exit"`
}

// MemberExit is how a member ended the last time.
type MemberExit struct {
	Status int       `json:"status"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Sidecar is a sidecar of a process.
type Sidecar struct {
	GUID     string `json:"guid"`
	Name     string `json:"name"`
	Command  string `json:"command"`
	MemoryMB int64  `json:"memory_in_mb"`
	// Options are what Cloud Foundry's sidecars do not have, see docs/sidecars.md.
	Options struct {
		MemoryEnforced bool              `json:"memory_enforced"`
		CPUWeight      int               `json:"cpu_weight"`
		DependsOn      []string          `json:"depends_on"`
		BeforeMain     bool              `json:"before_main"`
		Restart        string            `json:"restart"`
		Optional       bool              `json:"optional"`
		Health         *SidecarCheck     `json:"health_check"`
		Readiness      *SidecarCheck     `json:"readiness_health_check"`
		Ports          []int             `json:"ports"`
		Env            map[string]string `json:"env"` // the values are hidden
		StopSignal     string            `json:"stop_signal"`
		StopGrace      int               `json:"stop_grace"`
		StopAfter      []string          `json:"stop_after"`
		PreStop        string            `json:"pre_stop"`
	} `json:"options"`
}

// SidecarCheck is a health check of a sidecar.
type SidecarCheck struct {
	Type     string `json:"type"`
	Endpoint string `json:"endpoint"`
	Timeout  int    `json:"timeout"`
	Interval int    `json:"interval"`
}

// Series is what an app did over time, as /v3/ingot/apps/GUID/series answers. Its lists have a value
// for each step; nil means that nothing was measured.
type Series struct {
	Range     string    `json:"range"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Step      int64     `json:"step"` // seconds
	Processes []struct {
		Type      string `json:"type"`
		Instances []int  `json:"instances"`
	} `json:"processes"`
	Limits struct {
		Instances int   `json:"instances"`
		Memory    int64 `json:"memory"`
		Disk      int64 `json:"disk"`
		LogRate   int64 `json:"log_rate"`
	} `json:"limits"`
	Values  map[string][]*float64 `json:"series"`
	Markers []SeriesMarker        `json:"markers"`
}

// SeriesMarker is what happened to an app at a time: a deployment, crash, scaling, restart, start,
// stop, or alert (its developers were notified).
type SeriesMarker struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}
