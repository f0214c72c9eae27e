package main

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// web returns an instance with a main process and a sidecar.
func web(change ...func(*plan)) machine {
	p := plan{sources: []string{"APP/PROC/WEB", "APP/PROC/WEB/SIDECAR/HELPER"}, names: []string{"web", "helper"},
		grace: 10 * time.Second}
	for _, c := range change {
		c(&p)
	}
	return newMachine(p)
}

func checked(p *plan) { p.health, p.ready = true, true }
func oneOff(p *plan)  { p.oneOff, p.deadline = true, 5*time.Minute }
func atOnce(p *plan)  { p.grace = -1 }

func ev(kind eventKind, member ...int) event {
	e := event{kind: kind}
	if len(member) > 0 {
		e.member = member[0]
	}
	if kind == evMemberOverdue {
		e.life = 1 // of the first life
	}
	return e
}

func because(kind eventKind, reason string) event { return event{kind: kind, reason: reason} }

func exited(exits ...exit) event { return event{kind: evExited, exits: exits} }

func (a action) String() string {
	s := a.kind.String()
	switch a.kind {
	case doStart, doTerm, doKill, doUncheckMember, doPreStop:
		s += fmt.Sprintf(" %d", a.member)
	case doPause, doMemberGrace:
		s += fmt.Sprintf(" %d %s", a.member, a.delay)
	case doCheck, doWatch:
		if a.member > 0 {
			s += fmt.Sprintf(" %d", a.member)
		}
	case doTell:
		s += " " + string(a.body.Event)
		if a.body.Event == initproto.EventExited {
			s += fmt.Sprintf(" %d [%s]", a.member, a.line)
			if a.body.Cancelled {
				s += " cancelled"
			}
			if a.body.Overdue {
				s += " overdue"
			}
			if a.body.Harmless {
				s += " harmless"
			}
		}
		if a.body.Reason != "" {
			s += " (" + a.body.Reason + ")"
		}
	}
	return s
}

// after returns a machine after some events.
func after(m machine, events ...event) machine {
	for _, e := range events {
		m, _ = m.step(e)
	}
	return m
}

var (
	begun = []event{ev(evBegin)}
	half  = append(slices.Clone(begun), ev(evStarted, 0))
	up    = append(slices.Clone(half), ev(evStarted, 1))
	fit   = append(slices.Clone(up), ev(evHealthy))
)

func TestTransitions(t *testing.T) {
	t.Parallel()
	crash := exited(exit{member: 1, status: 3})
	crashed := append(slices.Clone(up), crash)
	overdue := append(slices.Clone(crashed), ev(evGraceOver))
	quiet := append(slices.Clone(crashed), exited(exit{member: 0, status: 143, signaled: true}))
	over := append(slices.Clone(quiet), ev(evSwept))
	takeSteps(t, []transition{
		{"begin", web(), nil, ev(evBegin), starting, "start 0, start 1"},
		{"stop before the beginning", web(), nil, ev(evStop), sweeping, "uncheck, sweep"},
		{"nothing else happens before the beginning", web(), nil, ev(evTimeout), unborn, ""},
		{"exit before the beginning", web(), nil, crash, unborn, ""},
		{"begin twice", web(), begun, ev(evBegin), starting, ""},

		{"one started", web(), begun, ev(evStarted, 0), starting, ""},
		{"all started, no checks", web(), half, ev(evStarted, 1), running, "tell started, tell healthy, tell ready"},
		{"all started, checks", web(checked), half, ev(evStarted, 1), starting, "tell started, check"},
		{"started twice", web(checked), up, ev(evStarted, 1), starting, ""},
		{"cannot start", web(), begun, exited(exit{member: 0, status: 127}), stopping,
			"tell exited 0 [Exit status 127], uncheck, grace"},
		{"cannot start, the other runs", web(), half, exited(exit{member: 1, status: 126}), stopping,
			"tell exited 1 [Exit status 126], uncheck, term 0, grace"},

		{"healthy", web(checked), up, ev(evHealthy), running, "tell healthy, watch"},
		{"healthy, readiness is not checked", web(func(p *plan) { p.health = true }), up, ev(evHealthy), running,
			"tell healthy, tell ready"},
		{"healthy too early", web(checked), half, ev(evHealthy), starting, ""},
		{"healthy again", web(checked), fit, ev(evHealthy), running, ""},
		{"never healthy", web(checked), up, because(evUnhealthy, "why"), stopping,
			"tell unhealthy (why), uncheck, term 0, term 1, grace"},
		{"no more healthy", web(checked), fit, because(evUnhealthy, "why"), stopping,
			"tell unhealthy (why), uncheck, term 0, term 1, grace"},
		{"not healthy yet", web(checked), up, because(evWaiting, "why"), starting, "tell waiting (why)"},
		{"no longer waiting", web(checked), fit, because(evWaiting, "why"), running, ""},
		{"unhealthy when stopping", web(checked), crashed, because(evUnhealthy, "why"), stopping, ""},

		{"ready", web(checked), fit, ev(evReady), running, "tell ready"},
		{"ready again", web(), fit, ev(evReady), running, ""},
		{"ready before healthy", web(checked), up, ev(evReady), starting, ""},
		{"not ready", web(), fit, because(evNotReady, "why"), running, "tell not-ready (why)"},
		{"still not ready", web(checked), fit, because(evNotReady, "why"), running, ""},
		{"not ready when stopping", web(), crashed, because(evNotReady, "why"), stopping, ""},

		{"stop while starting", web(checked), up, ev(evStop), stopping, "uncheck, term 0, term 1, grace"},
		{"stop while running", web(), up, ev(evStop), stopping, "uncheck, term 0, term 1, grace"},
		{"stop before the start is known", web(), half, ev(evStop), stopping, "uncheck, term 0, grace"},
		{"started when stopping", web(), append(slices.Clone(half), ev(evStop)), ev(evStarted, 1), stopping, "term 1"},
		{"started when killing", web(), append(slices.Clone(half), ev(evStop), ev(evGraceOver)), ev(evStarted, 1),
			killing, "kill 1"},
		{"failed to start when stopping", web(), append(slices.Clone(half), ev(evStop)), exited(exit{member: 1, status: 127}),
			stopping, "tell exited 1 [Exit status 127] cancelled"},
		{"stop twice", web(), crashed, ev(evStop), stopping, ""},
		{"stop without grace", web(atOnce), up, ev(evStop), killing, "uncheck, term 0, term 1, kill 0, kill 1"},
		{"timeout", web(oneOff), up, ev(evTimeout), stopping, "uncheck, term 0, term 1, grace"},

		{"sidecar exits", web(), up, crash, stopping, "tell exited 1 [Exit status 3], uncheck, term 0, grace"},
		{"sidecar exits with 0", web(), up, exited(exit{member: 1}), stopping,
			"tell exited 1 [Exit status 0], uncheck, term 0, grace"},
		{"main exits", web(), up, exited(exit{member: 0}), stopping, "tell exited 0 [Exit status 0], uncheck, term 1, grace"},
		{"main exits before it is healthy", web(checked), up, exited(exit{member: 0, status: 1}), stopping,
			"tell exited 0 [Exit status 1], uncheck, term 1, grace"},
		{"both exit at once", web(), up, exited(exit{member: 1, status: 1}, exit{member: 0, status: 2}), sweeping,
			"tell exited 1 [Exit status 1], tell exited 0 [Exit status 2], uncheck, sweep"},
		{"out of memory", web(), up, exited(exit{member: 0, status: 137, oom: true}), stopping,
			"tell exited 0 [Exit status 137 (out of memory)] (out of memory), uncheck, term 1, grace"},
		{"exits twice", web(), crashed, crash, stopping, ""},

		{"the others went", web(), crashed, exited(exit{member: 0, status: 143}), sweeping,
			"tell exited 0 [Exit status 143] cancelled, sweep"},
		{"grace over", web(), crashed, ev(evGraceOver), killing, "kill 0"},
		{"grace over twice", web(), overdue, ev(evGraceOver), killing, ""},
		{"grace over while running", web(), up, ev(evGraceOver), running, ""},
		{"killed", web(), overdue, exited(exit{member: 0, status: 137}), sweeping,
			"tell exited 0 [Exit status 137 (exceeded 10s graceful shutdown interval)] cancelled overdue, sweep"},
		{"killed without grace", web(atOnce), append(slices.Clone(up), crash), exited(exit{member: 0, status: 137}), sweeping,
			"tell exited 0 [Exit status 137] cancelled, sweep"},
		{"stop while killing", web(), overdue, ev(evStop), killing, ""},
		{"swept", web(), quiet, ev(evSwept), ended, "tell ended (APP/PROC/WEB/SIDECAR/HELPER: Exited with status 3), leave"},
		{"swept too early", web(), crashed, ev(evSwept), stopping, ""},
		{"stop while sweeping", web(), quiet, ev(evStop), sweeping, ""},
		{"the end is the end", web(), over, ev(evStop), ended, ""},
		{"swept twice", web(), over, ev(evSwept), ended, ""},
	})
}

// transition is one step of a machine.
type transition struct {
	name   string
	from   machine
	before []event
	event  event
	want   state
	do     string
}

func takeSteps(t *testing.T, all []transition) {
	t.Helper()
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := after(test.from, test.before...)
			untouched := slices.Clone(m.members)
			got, actions := m.step(test.event)
			var do []string
			for _, a := range actions {
				do = append(do, a.String())
			}
			if got.state != test.want || strings.Join(do, ", ") != test.do {
				t.Errorf("%v + %v: %v, %s\nwant %v, %s", m.state, test.event.kind, got.state, strings.Join(do, ", "),
					test.want, test.do)
			}
			if !reflect.DeepEqual(m.members, untouched) {
				t.Error("the machine before the step was changed")
			}
		})
	}
}

func TestHowItEnded(t *testing.T) {
	t.Parallel()
	wentWith := func(member, status int) event { return exited(exit{member: member, status: status}) }
	const (
		main    = "APP/PROC/WEB: Exited with status "
		sidecar = "APP/PROC/WEB/SIDECAR/HELPER: Exited with status "
	)
	for _, test := range []struct {
		name   string
		from   machine
		events []event
		want   initproto.Exit
	}{
		{"sidecar killed", web(), []event{exited(exit{member: 1, status: 137, signaled: true}), wentWith(0, 143)},
			initproto.Exit{Status: 137, Description: sidecar + "137"}},
		{"main failed", web(), []event{wentWith(0, 3), wentWith(1, 1)}, initproto.Exit{Status: 3, Description: main + "3"}},
		{"main exited with 0", web(), []event{wentWith(0, 0), wentWith(1, 143)},
			initproto.Exit{Description: "Codependent step exited"}},
		{"sidecar exited with 0", web(), []event{wentWith(1, 0), wentWith(0, 143)},
			initproto.Exit{Description: "Codependent step exited"}},
		{"both failed", web(), []event{exited(exit{member: 1, status: 1}, exit{member: 0, status: 2})},
			initproto.Exit{Status: 1, Description: main + "2; " + sidecar + "1"}},
		{"one failed, one finished", web(), []event{exited(exit{member: 0}, exit{member: 1, status: 2})},
			initproto.Exit{Description: sidecar + "2"}},
		{"out of memory", web(), []event{exited(exit{member: 0, status: 137, oom: true}), wentWith(1, 143)},
			initproto.Exit{Status: 137, OOM: true, Description: main + "137 (out of memory)"}},
		{"out of memory when told to stop", web(), []event{ev(evStop), exited(exit{member: 0, status: 137, oom: true}),
			wentWith(1, 143)}, initproto.Exit{Status: 137, Stopped: true}},
		{"stopped", web(), []event{ev(evStop), wentWith(1, 143), wentWith(0, 7)}, initproto.Exit{Status: 7, Stopped: true}},
		{"stopped after a crash", web(), []event{wentWith(0, 7), ev(evStop), wentWith(1, 143)},
			initproto.Exit{Status: 7, Description: main + "7"}},
		{"unhealthy", web(), []event{because(evUnhealthy, "Instance became unhealthy: x"), wentWith(0, 143), wentWith(1, 0)},
			initproto.Exit{Status: 143, Description: "Instance became unhealthy: x"}},
		{"one-off finished", web(oneOff), []event{wentWith(0, 0), wentWith(1, 143)}, initproto.Exit{}},
		{"one-off failed", web(oneOff), []event{wentWith(0, 5), wentWith(1, 143)},
			initproto.Exit{Status: 5, Description: main + "5"}},
		{"one-off, sidecar finished", web(oneOff), []event{wentWith(1, 0), wentWith(0, 143)},
			initproto.Exit{Status: 143, Description: sidecar + "0 before the task ended"}},
		{"one-off, sidecar finished, main takes it well", web(oneOff), []event{wentWith(1, 0), wentWith(0, 0)},
			initproto.Exit{Status: 1, Description: sidecar + "0 before the task ended"}},
		{"one-off, sidecar failed, main takes it well", web(oneOff), []event{wentWith(1, 9), wentWith(0, 0)},
			initproto.Exit{Status: 9, Description: sidecar + "9"}},
		{"one-off, sidecar unhealthy", web(oneOff), []event{{kind: evUnhealthy, member: 1, reason: "why"}, wentWith(0, 0),
			wentWith(1, 0)}, initproto.Exit{Status: 1, Description: "APP/PROC/WEB/SIDECAR/HELPER: why"}},
		{"one-off, both finished together", web(oneOff), []event{exited(exit{member: 1}, exit{member: 0})}, initproto.Exit{}},
		{"one-off, sidecar failed while told to stop", web(oneOff), []event{wentWith(0, 0), wentWith(1, 9)},
			initproto.Exit{}},
		{"one-off, sidecar failed", web(oneOff), []event{wentWith(1, 9), wentWith(0, 143)},
			initproto.Exit{Status: 143, Description: sidecar + "9"}},
		{"one-off timed out", web(oneOff), []event{ev(evTimeout), wentWith(1, 143), wentWith(0, 143)},
			initproto.Exit{Status: 143, Description: "Timed out after 5m0s"}},
		{"a very long reason", web(), []event{because(evUnhealthy, strings.Repeat("é", 9000)), wentWith(0, 0),
			wentWith(1, 0)}, initproto.Exit{Description: strings.Repeat("é", 5000)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := after(after(test.from, up...), append(test.events, ev(evSwept))...)
			if m.state != ended || m.exit() != test.want {
				t.Errorf("%v: %+v\nwant %+v", m.state, m.exit(), test.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	name := func(kind, s string) {
		if s == "" || seen[kind+s] {
			t.Errorf("%s has the name %q, want one that is not empty and not taken", kind, s)
		}
		seen[kind+s] = true
	}
	for s := unborn; s <= ended; s++ {
		name("state", s.String())
	}
	for k := evBegin; k <= evWaiting; k++ {
		name("event", k.String())
	}
	for k := doStart; k <= doMemberGrace; k++ {
		name("action", k.String())
	}
	for p := waiting; p <= gone; p++ {
		name("member", p.String())
	}
	phases := []initproto.Phase{initproto.Starting, initproto.Starting, initproto.Running, initproto.Stopping,
		initproto.Stopping, initproto.Stopping, initproto.Ended}
	for s, want := range phases {
		if got := state(s).phase(); got != want {
			t.Errorf("%v is %s, want %s", state(s), got, want)
		}
	}
	if len(stateNames)+len(eventNames)+len(actionNames)+len(memberPhaseNames) != len(seen) {
		t.Error("a name without a value")
	}
}

// TestAnyOrderOfEventsEnds sends random events to machines, and then lets every
// member exit that was told to stop.
func TestAnyOrderOfEventsEnds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, r)
		for range r.IntN(40) {
			w.feed(w.random())
		}
		w.feed(ev(evBegin))
		w.feed(ev(evStop))
		for round := 0; w.m.state != ended; round++ {
			if round > 20 {
				t.Fatalf("seed %d: does not end: %v %+v\n%v", seed, w.m.state, w.m.members, w.log)
			}
			for i, b := range w.m.members {
				if b.phase == launching {
					w.feed(ev(evStarted, i))
				}
			}
			w.feed(ev(evGraceOver))
			for i, b := range w.m.members {
				if b.phase == alive && !w.killed[i] {
					t.Fatalf("seed %d: member %d was not killed\n%v", seed, i, w.log)
				}
				w.feed(exited(exit{member: i, status: 137}))
			}
			w.feed(ev(evSwept))
		}
		w.check()
		if t.Failed() {
			t.Fatalf("seed %d:\n%v", seed, w.log)
		}
	}
}

// world records the actions of a machine and checks them.
type world struct {
	t       *testing.T
	r       *rand.Rand
	m       machine
	log     []string
	killed  map[int]bool
	started map[int]int
	told    map[string]int
	counts  map[actionKind]int
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	p := plan{sources: make([]string, 1+r.IntN(4)), oneOff: r.IntN(2) == 0, health: r.IntN(2) == 0, ready: r.IntN(2) == 0}
	if r.IntN(3) > 0 {
		p.grace = time.Second
	}
	if r.IntN(3) > 0 {
		p.policies = randomPolicies(r, len(p.sources))
	}
	return &world{
		t: t, r: r, m: newMachine(p),
		killed: map[int]bool{}, started: map[int]int{}, told: map[string]int{}, counts: map[actionKind]int{},
	}
}

func (w *world) random() event {
	kinds := []eventKind{
		evBegin, evStarted, evStarted, evStarted, evStarted, evExited, evHealthy, evHealthy, evUnhealthy, evReady, evNotReady,
		evStop, evTimeout, evGraceOver, evSwept,
	}
	if w.m.plan.policies != nil {
		kinds = append(kinds, evResume, evResume, evPreStopped, evMemberOverdue, evExited, evHealthy, evHealthy, evReady)
		kinds = slices.DeleteFunc(kinds, func(k eventKind) bool { return k == evStop && w.r.IntN(3) > 0 })
	}
	e := event{kind: kinds[w.r.IntN(len(kinds))], member: w.r.IntN(len(w.m.members)), reason: "x"}
	if e.kind == evMemberOverdue {
		e.life = max(0, w.m.members[e.member].life-w.r.IntN(2)) // or of an earlier life
	}
	if e.kind == evExited {
		for range 1 + w.r.IntN(2) {
			e.exits = append(e.exits, exit{member: w.r.IntN(len(w.m.members)), status: w.r.IntN(3)})
		}
	}
	return e
}

func (w *world) feed(e event) {
	before := w.m
	var actions []action
	w.m, actions = w.m.step(e)
	w.log = append(w.log, fmt.Sprintf("%v %d -> %v %v", e.kind, e.member, w.m.state, actions))
	if w.m.state < before.state {
		w.t.Errorf("went back from %v to %v", before.state, w.m.state)
	}
	if before.state == ended && len(actions) > 0 {
		w.t.Error("did something after the end")
	}
	for _, a := range actions {
		w.counts[a.kind]++
		switch a.kind {
		case doStart:
			w.started[a.member]++
			w.mayStart(before, a.member)
		case doKill:
			w.killed[a.member] = true
			fallthrough
		case doTerm:
			w.mayStop(before, a.member)
			if w.m.members[a.member].phase != alive {
				w.t.Errorf("signals a member that is %v", w.m.members[a.member].phase)
			}
		case doTell:
			key := string(a.body.Event)
			if a.body.Event == initproto.EventExited {
				key += fmt.Sprint(a.member)
			}
			w.told[key]++
		}
	}
}

func (w *world) check() {
	for i, b := range w.m.members {
		if b.phase != gone {
			w.t.Errorf("member %d is %v at the end", i, b.phase)
		}
		if w.started[i] > 1+b.restarts || w.told[fmt.Sprint("exited", i)] != w.started[i] {
			w.t.Errorf("member %d was started %d times, and its exit recorded %d times", i, w.started[i],
				w.told[fmt.Sprint("exited", i)])
		}
	}
	for _, kind := range []actionKind{doSweep, doLeave, doUncheck} {
		if w.counts[kind] != 1 {
			w.t.Errorf("%v %d times", kind, w.counts[kind])
		}
	}
	if w.told["ended"] != 1 || w.told["started"] > 1 || w.told["healthy"] > w.told["started"] || w.counts[doGrace] > 1 {
		w.t.Errorf("events are %v, want one end, at most one start and no health before it", w.told)
	}
	// Ready and not ready alternate, starting with ready.
	if d := w.told["ready"] - w.told["not-ready"]; d < 0 || d > 1 || w.told["ready"] > 0 && w.told["healthy"] == 0 {
		w.t.Errorf("events are %v, want ready and not ready in turn, after healthy", w.told)
	}
}
