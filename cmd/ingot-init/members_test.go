package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// helper returns an instance whose sidecar asks for something, and so may the main process.
func helper(sidecar policy, main ...policy) machine {
	return web(func(p *plan) {
		p.policies = []policy{{}, sidecar}
		if len(main) > 0 {
			p.policies[0] = main[0]
		}
	})
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	crash, success := exited(exit{member: 1, status: 3}), exited(exit{member: 1})
	always := policy{restart: initproto.RestartAlways}
	onFailure := policy{restart: initproto.RestartOnFailure}
	never := policy{restart: initproto.RestartNever}
	optional := policy{optional: true}
	checks := policy{restart: initproto.RestartAlways, health: true, ready: true}
	first := policy{after: []int{1}}
	last := policy{stopAfter: []int{0}, grace: 3 * time.Second}
	const again = "tell exited 1 [Exit status 3; it is started again in 500ms], pause 1 500ms, tell not-ready " +
		"(APP/PROC/WEB/SIDECAR/HELPER: Exit status 3; it is started again in 500ms)"
	takeSteps(t, []transition{
		{"always: crash", helper(always), up, crash, running, again},
		{"always: success", helper(always), up, success, running, strings.ReplaceAll(again, "status 3", "status 0")},
		{"always: pause over", helper(always), append(slices.Clone(up), crash), ev(evResume, 1), running, "start 1"},
		{"always: started again", helper(always), append(slices.Clone(up), crash, ev(evResume, 1)), ev(evStarted, 1), running,
			"tell restarted, tell ready"},
		{"always: crash again", helper(always), append(slices.Clone(up), crash, ev(evResume, 1), ev(evStarted, 1)), crash,
			running, strings.ReplaceAll(again, "500ms", "1s")},
		{"always: crash after a long life", helper(always), append(slices.Clone(up), crash, ev(evResume, 1),
			ev(evStarted, 1)), exited(exit{member: 1, status: 3, lived: time.Minute}), running, again},
		{"always: stop during the pause", helper(always), append(slices.Clone(up), crash), ev(evStop), stopping,
			"uncheck, term 0, grace"},
		{"always: pause over when stopping", helper(always), append(slices.Clone(up), crash, ev(evStop)), ev(evResume, 1),
			stopping, ""},
		{"always: the main process exits", helper(always), up, exited(exit{member: 0, status: 1}), stopping,
			"tell exited 0 [Exit status 1], uncheck, term 1, grace"},
		{"always: cannot start", helper(always), half, exited(exit{member: 1, status: 127}), starting,
			"tell exited 1 [Exit status 127; it is started again in 500ms], pause 1 500ms, tell started"},
		{"on failure: crash", helper(onFailure), up, crash, running, again},
		{"on failure: success", helper(onFailure), up, success, running, "tell exited 1 [Exit status 0] harmless"},
		{"never: crash", helper(never), up, crash, stopping, "tell exited 1 [Exit status 3], uncheck, term 0, grace"},
		{"never: success", helper(never), up, success, running, "tell exited 1 [Exit status 0] harmless"},
		{"never, optional: crash", helper(policy{restart: initproto.RestartNever, optional: true}), up, crash, running,
			"tell exited 1 [Exit status 3] harmless"},
		{"optional: crash", helper(optional), up, crash, running, "tell exited 1 [Exit status 3] harmless"},
		{"optional: cannot start", helper(optional), half, exited(exit{member: 1, status: 127}), running,
			"tell exited 1 [Exit status 127] harmless, tell started, tell healthy, tell ready"},

		{"before main: begins", helper(policy{}, first), nil, ev(evBegin), starting, "start 1"},
		{"before main: started", helper(policy{}, first), begun, ev(evStarted, 1), starting, "start 0"},
		{"before main: with a check", helper(policy{health: true}, first), begun, ev(evStarted, 1), starting, "check 1"},
		{"before main: healthy", helper(policy{health: true}, first), append(slices.Clone(begun), ev(evStarted, 1)),
			ev(evHealthy, 1), starting, "start 0"},
		{"before main: never healthy", helper(policy{health: true}, first), append(slices.Clone(begun), ev(evStarted, 1)),
			event{kind: evUnhealthy, member: 1, reason: "why"}, stopping,
			"tell unhealthy (APP/PROC/WEB/SIDECAR/HELPER: why), uncheck, term 1, grace"},
		{"once: runs", helper(never, first), begun, ev(evStarted, 1), starting, ""},
		{"once: done", helper(never, first), append(slices.Clone(begun), ev(evStarted, 1)), success, starting,
			"tell exited 1 [Exit status 0] harmless, start 0"},
		{"once: then main", helper(never, first), append(slices.Clone(begun), ev(evStarted, 1), success), ev(evStarted, 0),
			running, "tell started, tell healthy, tell ready"},
		{"once: failed", helper(never, first), append(slices.Clone(begun), ev(evStarted, 1)), crash, sweeping,
			"tell exited 1 [Exit status 3], uncheck, sweep"},
		{"before main: crash while main starts", helper(onFailure, first), append(slices.Clone(begun), ev(evStarted, 1)),
			crash, starting, "tell exited 1 [Exit status 3; it is started again in 500ms], pause 1 500ms"},
		{"once, optional: failed", helper(policy{restart: initproto.RestartNever, optional: true}, first),
			append(slices.Clone(begun), ev(evStarted, 1)), crash, starting, "tell exited 1 [Exit status 3] harmless, start 0"},
		{"after main: begins", helper(policy{after: []int{0}}), nil, ev(evBegin), starting, "start 0"},

		{"checks: started", helper(checks), half, ev(evStarted, 1), starting, "tell started, check 1"},
		{"checks: healthy", helper(checks), up, ev(evHealthy, 1), running, "watch 1, tell healthy"},
		{"checks: ready", helper(checks), append(slices.Clone(up), ev(evHealthy, 1)), ev(evReady, 1), running, "tell ready"},
		{"checks: not ready", helper(checks), append(slices.Clone(up), ev(evHealthy, 1), ev(evReady, 1)),
			event{kind: evNotReady, member: 1, reason: "why"}, running, "tell not-ready (why)"},
		{"checks: unhealthy", helper(checks), append(slices.Clone(up), ev(evHealthy, 1), ev(evReady, 1)),
			event{kind: evUnhealthy, member: 1, reason: "why"}, running,
			"tell member-unhealthy (why), uncheck member 1, term 1, member grace 1 10s, tell not-ready " +
				"(APP/PROC/WEB/SIDECAR/HELPER: why)"},
		{"checks: unhealthy, overdue", helper(checks),
			append(slices.Clone(up), event{kind: evUnhealthy, member: 1, reason: "why"}), ev(evMemberOverdue, 1),
			starting, "kill 1"},
		{"checks: unhealthy, exited", helper(checks),
			append(slices.Clone(up), event{kind: evUnhealthy, member: 1, reason: "why"}), success, starting,
			"tell exited 1 [Exit status 0; it is started again in 500ms] cancelled (why), uncheck member 1, pause 1 500ms"},
		{"checks: overdue timer of an earlier life", helper(checks),
			append(slices.Clone(up), event{kind: evUnhealthy, member: 1, reason: "why"}, success, ev(evResume, 1),
				ev(evStarted, 1), event{kind: evUnhealthy, member: 1, reason: "why"}), ev(evMemberOverdue, 1), starting, ""},
		{"always: exceeds its memory", helper(always), up, exited(exit{member: 1, status: 137, oom: true, limit: 32 << 20}),
			running, strings.ReplaceAll(strings.Replace(again, "[Exit status 3; it is started again in 500ms]",
				"[Exit status 3; it is started again in 500ms] (out of memory: sidecar helper exceeded its limit of 32M)", 1),
				"status 3;", "status 137 (out of memory: sidecar helper exceeded its limit of 32M);")},
		{"default: exceeds its memory", helper(policy{}), up,
			exited(exit{member: 1, status: 137, oom: true, limit: 32 << 20}), stopping,
			"tell exited 1 [Exit status 137 (out of memory: sidecar helper exceeded its limit of 32M)] (out of memory: " +
				"sidecar helper exceeded its limit of 32M), uncheck, term 0, grace"},
		{"checks of an optional one: ready", helper(policy{optional: true, health: true}), half, ev(evStarted, 1), running,
			"tell started, check 1, tell healthy, tell ready"},

		{"last: stop", helper(last), up, ev(evStop), stopping, "uncheck, term 0, grace"},
		{"last: its turn", helper(last), append(slices.Clone(up), ev(evStop)), exited(exit{member: 0}), stopping,
			"tell exited 0 [Exit status 0] cancelled, term 1, member grace 1 3s"},
		{"last: overdue", helper(last), append(slices.Clone(up), ev(evStop), exited(exit{member: 0})), ev(evMemberOverdue, 1),
			stopping, "kill 1"},
		{"last: grace of all over", helper(last), append(slices.Clone(up), ev(evStop)), ev(evGraceOver), killing,
			"kill 0, kill 1"},
		{"pre-stop: stop", helper(policy{preStop: true}), up, ev(evStop), stopping, "uncheck, term 0, pre-stop 1, grace"},
		{"pre-stop: done", helper(policy{preStop: true}), append(slices.Clone(up), ev(evStop)), ev(evPreStopped, 1),
			stopping, "term 1"},
		{"pre-stop: done after the exit", helper(policy{preStop: true}), append(slices.Clone(up), ev(evStop), success),
			ev(evPreStopped, 1), stopping, ""},
	})
}

// What a member did that was not needed is not why the instance ended.
func TestHarmlessExits(t *testing.T) {
	t.Parallel()
	optional := helper(policy{optional: true})
	m := after(optional, append(slices.Clone(up), exited(exit{member: 1, status: 9}), ev(evStop),
		exited(exit{member: 0, status: 143}), ev(evSwept))...)
	if got, want := m.exit(), (initproto.Exit{Status: 143, Stopped: true}); got != want {
		t.Errorf("the instance ended with %+v, want %+v", got, want)
	}
	always := helper(policy{restart: initproto.RestartAlways})
	m = after(always, append(slices.Clone(up), exited(exit{member: 1, status: 9}), exited(exit{member: 0, status: 4}),
		ev(evSwept))...)
	if got, want := m.exit(), (initproto.Exit{Status: 4, Description: "APP/PROC/WEB: Exited with status 4"}); got != want {
		t.Errorf("the instance ended with %+v, want %+v", got, want)
	}
	never := helper(policy{restart: initproto.RestartNever, health: true})
	m = after(never, append(slices.Clone(up), event{kind: evUnhealthy, member: 1, reason: "Sidecar never healthy"},
		exited(exit{member: 1}), exited(exit{member: 0}), ev(evSwept))...)
	if got, want := m.exit(), (initproto.Exit{
		Description: "APP/PROC/WEB/SIDECAR/HELPER: Sidecar never healthy"}); got != want {
		t.Errorf("the instance ended with %+v, want %+v", got, want)
	}
}

// randomPolicies returns policies whose orders have no cycle.
func randomPolicies(r *rand.Rand, n int) []policy {
	order, stopOrder := r.Perm(n), r.Perm(n)
	some := func(order []int, i int) (list []int) {
		for _, other := range order[:slices.Index(order, i)] {
			if r.IntN(3) == 0 {
				list = append(list, other)
			}
		}
		return list
	}
	restarts := []initproto.Restart{initproto.RestartDefault, initproto.RestartNever, initproto.RestartOnFailure,
		initproto.RestartAlways}
	policies := make([]policy, n)
	for i := range policies {
		p := policy{after: some(order, i), stopAfter: some(stopOrder, i), preStop: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			p.grace = time.Second
		}
		if i > 0 {
			p.restart, p.optional, p.health, p.ready = restarts[r.IntN(len(restarts))], r.IntN(3) == 0, r.IntN(3) == 0,
				r.IntN(3) == 0
		}
		policies[i] = p
	}
	return policies
}

// mayStart checks that a member starts only when those it waits for are up.
func (w *world) mayStart(before machine, i int) {
	for _, other := range w.m.policy(i).after {
		b := w.m.members[other]
		if !(b.phase == alive && b.healthy) && !(b.phase == gone && b.harmless) {
			w.t.Errorf("member %d starts while %d, which it waits for, is %v (%v before)", i, other, b.phase,
				before.members[other].phase)
		}
	}
}

// mayStop checks that a member is told to stop only when those it waits for are gone, unless
// it is unhealthy.
func (w *world) mayStop(before machine, i int) {
	if w.m.state != stopping || before.members[i].failing != "" {
		return
	}
	for _, other := range w.m.policy(i).stopAfter {
		if w.m.members[other].phase != gone {
			w.t.Errorf("member %d is told to stop while %d, which it waits for, is %v", i, other, w.m.members[other].phase)
		}
	}
}
