package controller

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/controller/usage"
)

// TestLimitMembers: enforced sidecars get their memory, the main process what they leave, and
// others no limit of their own.
func TestLimitMembers(t *testing.T) {
	t.Parallel()
	enforced := platform.SidecarOptions{MemoryEnforced: true}
	sidecars := []*platform.Sidecar{
		{Name: "proxy", MemoryMB: 32, Options: enforced}, {Name: "plain", MemoryMB: 16},
		{Name: "light", Options: platform.SidecarOptions{CPUWeight: 20}},
	}
	members := []initproto.Member{{Name: "web"}, {Name: "proxy"}, {Name: "plain"}, {Name: "light"}}
	if err := limitMembers(members, sidecars, 256); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{224 << 20, 32 << 20, 0, 0} {
		if members[i].Memory != want {
			t.Errorf("%s may use %d bytes, want %d", members[i].Name, members[i].Memory, want)
		}
	}
	if members[3].CPUWeight != 20 || members[0].CPUWeight != 0 {
		t.Errorf("weights are %d and %d, want 20 and none", members[3].CPUWeight, members[0].CPUWeight)
	}
	err := limitMembers(members, sidecars, 32)
	if !fault.Is(err, fault.Unprocessable) ||
		!strings.Contains(err.Error(), "the process web has 32M of memory, and its sidecars get 32M of it") {
		t.Errorf("a process without memory of its own: %v", err)
	}
}

// TestUsageOfMembers: each member has its own rate, also after it was started again.
func TestUsageOfMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ended := &initproto.MemberExit{Status: 137, Reason: "out of memory", Time: time.Unix(100, 0)}
	members := []engine.MemberUsage{
		{State: initproto.MemberState{Name: "web"}, CPUTime: 30 * time.Second, Memory: 5},
		{State: initproto.MemberState{Name: "proxy", Restarts: 1, LastExit: ended}, CPUTime: 6 * time.Second, Memory: 3,
			MemoryLimit: 4},
		{State: initproto.MemberState{Name: "setup", Exited: true}},
		{State: initproto.MemberState{Name: "later", Waiting: true}},
	}
	w.fake.usage = func(string) *engine.Usage { return &engine.Usage{Members: members} }
	w.begin()
	id := w.awaitRunning(1)[0]
	w.clock.Advance(time.Minute)
	ask := func() []usage.Member { return w.c.Usage(t.Context(), id)[id].Members }
	got := ask()
	if len(got) != 4 || got[0].CPU != 0.5 || got[0].Sidecar || got[1].CPU != 0.1 || !got[1].Sidecar ||
		got[1].Memory != 3 || got[1].MemoryLimit != 4 || got[1].Restarts != 1 || got[1].LastExit != ended {
		t.Errorf("members are %+v", got)
	}
	for i, want := range []usage.State{usage.Running, usage.Running, usage.Exited, usage.Waiting} {
		if got[i].State != want {
			t.Errorf("%s is %s, want %s", got[i].Name, got[i].State, want)
		}
	}
	w.fake.set(func() { members[0].CPUTime, members[1].CPUTime = 32*time.Second, time.Second })
	w.clock.Advance(4 * time.Second)
	if got := ask(); got[0].CPU != 0.5 || got[1].CPU != 0 {
		t.Errorf("rates are %v and %v, want 0.5, and 0 for one that began again", got[0].CPU, got[1].CPU)
	}
}
