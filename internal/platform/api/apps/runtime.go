package apps

import (
	"context"
	"time"

	"ingot/internal/platform"
)

// Runtime gives access to the running instances.
type Runtime interface {
	// Usage returns the current resource usage of the running instances of a process
	// by guid. Instances whose usage is unknown are absent.
	Usage(ctx context.Context, instances []*platform.Instance) map[string]InstanceUsage
}

// InstanceUsage is the resource usage of an instance.
type InstanceUsage struct {
	Time   time.Time
	CPU    float64 // 1.0 is a whole processor
	Memory int64   // bytes
	Disk   int64
	// LogRate is its output in bytes a second.
	LogRate int64
	// LogLost is the number of lines of its output that were lost or dropped.
	LogLost uint64
	// Members are the main process and its sidecars, in this order.
	Members []MemberUsage
}

// MemberUsage is the state and the resource usage of one member of an instance.
type MemberUsage struct {
	Name    string
	Sidecar bool
	// State is WAITING, RUNNING or EXITED; Since is when its current life began.
	State  string
	Since  time.Time
	CPU    float64
	Memory int64
	// MemoryLimit is the limit of its own; 0 if it has none.
	MemoryLimit int64
	Restarts    int
	// LastExit is how its last life ended; nil if it has not exited yet.
	LastExit *MemberExit
}

// MemberExit is how one life of a member ended.
type MemberExit struct {
	Status int       `json:"status"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Traffic counts the requests to instances through their routes.
type Traffic interface {
	// Traffic returns the requests to instances since their start, by guid. Those that are
	// in progress are only the requests through this server.
	Traffic(ctx context.Context, instanceGUIDs ...string) map[string]InstanceTraffic
}

// InstanceTraffic counts the requests to an instance through its routes.
type InstanceTraffic struct {
	Requests       int64    // finished
	Active         int64    // in progress, with connections of TCP routes
	Connections    int64    // of TCP routes, ended
	Classes        [6]int64 // by the first digit of the status; 0 is for those without a response
	Received, Sent int64    // bytes of bodies
	Mean           time.Duration
	P50, P95, P99  time.Duration // quantiles of the duration
}
