package usage

import (
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// Member is the state and the resource usage of one member of an instance.
type Member struct {
	// Name is the process type, or the name of the sidecar.
	Name    string
	Sidecar bool
	State   State
	Since   time.Time // when its current life began
	// CPU is the share of a processor: 1 is all of one.
	CPU    float64
	Memory int64 // bytes
	// MemoryLimit is the limit of its own; 0 if it has none.
	MemoryLimit int64
	Restarts    int
	LastExit    *initproto.MemberExit
}

// State is whether a member runs.
type State string

// The states of a member.
const (
	Waiting State = "WAITING" // for others, or to be started again
	Running State = "RUNNING"
	Exited  State = "EXITED"
)

func stateOf(m initproto.MemberState) State {
	switch {
	case m.Exited:
		return Exited
	case m.Waiting:
		return Waiting
	}
	return Running
}

// membersBetween returns the usage of members over a time, at whose begin they had used cpu of
// the processor.
func membersBetween(seen []engine.MemberUsage, cpu map[string]time.Duration, d time.Duration) []Member {
	list := make([]Member, 0, len(seen))
	for i, m := range seen {
		one := Member{
			Name: m.State.Name, Sidecar: i > 0, State: stateOf(m.State), Since: m.State.Since, Memory: m.Memory,
			MemoryLimit: m.MemoryLimit,
			Restarts:    m.State.Restarts, LastExit: m.State.LastExit,
		}
		if d > 0 {
			// Measured by processes, it begins again at 0 with a new life.
			one.CPU = max(0, float64(m.CPUTime-cpu[one.Name])/float64(d))
		}
		list = append(list, one)
	}
	return list
}

// cpuOfMembers returns the processor time of each member.
func cpuOfMembers(seen []engine.MemberUsage) map[string]time.Duration {
	if len(seen) == 0 {
		return nil
	}
	cpu := make(map[string]time.Duration, len(seen))
	for _, m := range seen {
		cpu[m.State.Name] = m.CPUTime
	}
	return cpu
}
