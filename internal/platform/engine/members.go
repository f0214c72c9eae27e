package engine

import (
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/instance/initproto"
)

// MemberUsage is the resource usage of one member of an instance.
type MemberUsage struct {
	// State is as ingot-init reports it: its pid is that inside the instance.
	State   initproto.MemberState
	CPUTime time.Duration // of its processes, since the start of the instance or of its last life
	Memory  int64         // bytes
	// MemoryLimit is the limit of its own; 0 if it has none.
	MemoryLimit int64
}

// LimitsMembers reports whether members of the instance ask for their own limits.
func (s Spec) LimitsMembers() bool {
	return slices.ContainsFunc(s.Launch.Members, func(m initproto.Member) bool { return m.Memory > 0 || m.CPUWeight > 0 })
}

// NoMemberLimits returns the error of an engine that cannot limit single members, for the
// reason why.
func NoMemberLimits(why string) error { return fault.New(fault.Unprocessable, "%s", why) }
