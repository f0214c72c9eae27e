package controller

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// defaultStopGrace is how long a sidecar that stops after others may take, unless it says
// more.
const defaultStopGrace = 2 * time.Second

// memberNames returns the names of members by the names that sidecars use for each other.
func memberNames(main string, sidecars []*platform.Sidecar) map[string]string {
	names := map[string]string{platform.MainMember: main}
	for _, s := range sidecars {
		names[s.Name] = s.Name
		if s.Name == main {
			names[s.Name] = "sidecar/" + s.Name
		}
	}
	return names
}

// applyOptions gives members what their sidecars ask for; the first is the main process. A
// sidecar that does not run beside this process is not waited for. grace is the time that
// the whole instance has to stop.
func applyOptions(d *platform.Droplet, members []initproto.Member, sidecars []*platform.Sidecar,
	grace time.Duration) error {
	if !slices.ContainsFunc(sidecars, func(s *platform.Sidecar) bool { return !s.Options.IsZero() }) {
		return nil
	}
	names := memberNames(members[0].Name, sidecars)
	known := func(list []string) (out []string) {
		for _, name := range list {
			if real, ok := names[name]; ok {
				out = append(out, real)
			}
		}
		return out
	}
	byName := map[string]*initproto.Member{}
	for i := range members {
		byName[members[i].Name] = &members[i]
	}
	for i, s := range sidecars {
		m, o := &members[i+1], s.Options
		m.After, m.StopAfter, m.Restart, m.Optional = known(o.DependsOn), known(o.StopAfter),
			initproto.Restart(o.Restart), o.Optional
		if o.BeforeMain {
			members[0].After = append(members[0].After, m.Name)
		}
		m.Health, m.Readiness = sidecarCheck(o.Health, o.Ports), sidecarCheck(o.Readiness, o.Ports)
		m.Ports = o.Ports
		m.StopSignal = platform.StopSignals[o.StopSignal]
		m.Grace = time.Duration(o.StopGrace) * time.Second
		if o.PreStop != "" {
			m.PreStop = memberOf(d, m.Name, m.Source, o.PreStop).Args
		}
		m.Env = withOwn(m.Env, o.Env)
	}
	// What others waited for at the start stops after them.
	for _, m := range members {
		for _, other := range m.After {
			if first := byName[other]; !slices.Contains(first.StopAfter, m.Name) {
				first.StopAfter = append(first.StopAfter, m.Name)
			}
		}
	}
	// Two changes at the same time may have made a cycle that neither of them has.
	starts, stops := map[string][]string{}, map[string][]string{}
	for _, m := range members {
		starts[m.Name], stops[m.Name] = m.After, m.StopAfter
	}
	for _, waits := range []map[string][]string{starts, stops} {
		if cycle := platform.WaitCycle(waits); cycle != nil {
			return fault.New(fault.Unprocessable,
				"the sidecars wait for each other: %s; change depends_on, before or stop-after of one of them",
				strings.Join(cycle, " → "))
		}
	}
	divideGrace(members, grace)
	return nil
}

// limitMembers gives members the limits that their sidecars ask for; the first is the main
// process, which gets what enforced sidecars leave of the memory of the process.
func limitMembers(members []initproto.Member, sidecars []*platform.Sidecar, processMB int) error {
	rest, enforced := processMB, false
	for i, s := range sidecars {
		m := &members[i+1]
		m.CPUWeight = s.Options.CPUWeight
		if s.Options.MemoryEnforced {
			enforced = true
			m.Memory = int64(s.MemoryMB) << 20
			rest -= s.MemoryMB
		}
	}
	if !enforced {
		return nil
	}
	if rest <= 0 { // a revision may have other sidecars than the app
		return fault.New(fault.Unprocessable,
			"the process %s has %dM of memory, and its sidecars get %dM of it: raise `memory` of the process, or lower that "+
				"of the sidecars",
			members[0].Name, processMB, processMB-rest)
	}
	members[0].Memory = int64(rest) << 20
	return nil
}

// withOwn sets variables in an environment of the form NAME=value.
func withOwn(env []string, own map[string]string) []string {
	env = slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, replaced := own[name]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(own)) {
		env = append(env, name+"="+engine.Escape(own[name])) // a user's value: the engine must not expand it
	}
	return env
}

// sidecarCheck translates a check of a sidecar.
func sidecarCheck(h *platform.HealthCheck, ports []int) *initproto.Check {
	if h == nil || h.Type == platform.CheckProcess {
		return nil
	}
	c := check(*h, ports)
	return &c
}

// divideGrace gives each member a part of the time that the instance has to stop: those that
// stop last get what they ask for, and those before them the rest. The order has no cycle.
func divideGrace(members []initproto.Member, grace time.Duration) {
	next := map[string][]int{} // who stops after a member
	for i, m := range members {
		for _, other := range m.StopAfter {
			next[other] = append(next[other], i)
		}
	}
	known := map[string]time.Duration{} // there may be very many ways through the order
	var later func(name string) time.Duration
	later = func(name string) time.Duration {
		if d, ok := known[name]; ok {
			return d
		}
		var longest time.Duration
		for _, i := range next[name] {
			own := cmp.Or(members[i].Grace, defaultStopGrace)
			longest = max(longest, own+later(members[i].Name))
		}
		known[name] = longest
		return longest
	}
	// All first, because what is set below is not what a member asked for.
	for _, m := range members {
		later(m.Name)
	}
	for i := range members {
		m := &members[i]
		if reserved := known[m.Name]; reserved > 0 && (m.Grace == 0 || m.Grace > grace-reserved) {
			m.Grace = max(grace-reserved, time.Second)
		}
	}
}
