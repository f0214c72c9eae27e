package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/platform/initproto"
)

// The life cycle of an instance. step implements all of it: events in, actions
// out, no clock and no I/O, so that every path can be tested.
//
//	               begin
//	unborn ───────────────────▶ starting ──healthy──▶ running
//	  │                            │                     │
//	  │ stop            member exited, stop, timed out, unhealthy
//	  │                            ▼                     │
//	  │                         stopping ◀───────────────┘
//	  │                            │  │ grace over
//	  │           all members gone │  ▼
//	  │                            │ killing
//	  │                            ▼  │ all members gone
//	  └───────────────────────▶ sweeping    remaining processes are killed
//	                               │ swept
//	                               ▼
//	                             ended
//
// Each member has its own life cycle within that:
//
//	waiting ──gate open──▶ launching ──started──▶ alive ──exited──▶ gone
//	   │                       └───────failed to start───────────────▲
//	   └────────the instance is stopping: never started──────────────┘
//
// Where to add features:
//   - an order of starts (a sidecar before the main process): machine.gate
//     decides whether a waiting member may start, and is asked again after every
//     event. What it needs to know (that a member started, or passed a check of
//     its own) is kept in member.
//   - restart policies of members: machine.fatal decides whether an exit ends
//     the instance; one that does not puts the member back to waiting.
type state int

const (
	unborn state = iota
	starting
	running
	stopping
	killing
	sweeping
	ended
)

var stateNames = [...]string{"unborn", "starting", "running", "stopping", "killing", "sweeping", "ended"}

func (s state) String() string { return stateNames[s] }

// phase returns the phase that is reported for the state.
func (s state) phase() initproto.Phase {
	switch s {
	case unborn, starting:
		return initproto.Starting
	case running:
		return initproto.Running
	case stopping, killing, sweeping:
		return initproto.Stopping
	default:
		return initproto.Ended
	}
}

type eventKind int

const (
	evBegin     eventKind = iota
	evStarted             // member is running
	evExited              // the members in exits exited, or could not be started
	evHealthy             // the health check passed
	evUnhealthy           // it failed for good; reason is a complete sentence
	evReady               // the readiness check passed
	evNotReady            // it failed; reason says why
	evStop                // the instance was asked to stop
	evTimeout             // a task took too long
	evGraceOver           //
	evSwept               // no process is left
)

var eventNames = [...]string{"begin", "started", "exited", "healthy", "unhealthy", "ready", "not ready", "stop", "timeout", "grace over", "swept"}

func (k eventKind) String() string { return eventNames[k] }

type event struct {
	kind   eventKind
	member int
	exits  []exit
	reason string
}

// exit describes how a member exited. Exits that are noticed together are in one
// event, because none of them caused another.
type exit struct {
	member   int
	status   int // 128 + signal when killed
	signaled bool
	oom      bool
}

type actionKind int

const (
	doStart   actionKind = iota // start the member; results in evStarted or evExited
	doTerm                      // send SIGTERM to the member's process group
	doKill                      // send SIGKILL to it
	doCheck                     // start the health check
	doWatch                     // start the readiness check
	doUncheck                   // stop the checks
	doGrace                     // send evGraceOver when the grace period is over
	doSweep                     // kill remaining processes; evSwept when none is left
	doTell                      // write body, and line before it, if any, to the member's output
	doLeave
)

var actionNames = [...]string{"start", "term", "kill", "check", "watch", "uncheck", "grace", "sweep", "tell", "leave"}

func (k actionKind) String() string { return actionNames[k] }

type action struct {
	kind   actionKind
	member int
	body   initproto.EventBody
	line   string
}

// plan is the fixed part of a machine.
type plan struct {
	sources  []string // of the members; the first is the main process
	oneOff   bool
	health   bool // it has a health check
	ready    bool // it has a readiness check
	grace    time.Duration
	deadline time.Duration // of a task
}

type memberPhase int

const (
	waiting memberPhase = iota
	launching
	alive
	gone
)

var memberPhaseNames = [...]string{"waiting", "launching", "alive", "gone"}

func (p memberPhase) String() string { return memberPhaseNames[p] }

type member struct {
	phase   memberPhase
	told    bool // told to stop
	overdue bool // had to be killed
	never   bool // was never started
	exit    exit
}

type machine struct {
	plan    plan
	state   state
	members []member
	started bool // all members were alive at the same time
	ready   bool
	// Why the instance ended: whichever of these happened first.
	cause   string // the description, unless a member exited
	stopped bool
	culprit int // the member that exited first, or none
}

const none = -1

func newMachine(p plan) machine {
	return machine{plan: p, members: make([]member, len(p.sources)), culprit: none}
}

// step returns the machine after an event and the actions to take, in order. An
// event without a meaning in the current state changes nothing.
func (m machine) step(e event) (machine, []action) {
	m.members = slices.Clone(m.members)
	var do []action
	live := m.state == starting || m.state == running
	switch e.kind {
	case evBegin:
		if m.state == unborn {
			m.state = starting
		}
	case evStarted:
		do = m.memberStarted(e.member)
	case evExited:
		do = m.membersExited(e.exits)
	case evHealthy:
		if m.state == starting && m.started {
			do = m.healthy()
		}
	case evUnhealthy:
		if live {
			m.cause = e.reason
			do = append(do, tell(initproto.EventBody{Event: initproto.EventUnhealthy, Reason: e.reason}))
			do = append(do, m.stop()...)
		}
	case evReady:
		if m.state == running && !m.ready {
			m.ready = true
			do = append(do, tell(initproto.EventBody{Event: initproto.EventReady}))
		}
	case evNotReady:
		if m.state == running && m.ready {
			m.ready = false
			do = append(do, tell(initproto.EventBody{Event: initproto.EventNotReady, Reason: e.reason}))
		}
	case evStop:
		if live || m.state == unborn {
			m.stopped = true
			do = m.stop()
		}
	case evTimeout:
		if live {
			m.cause = fmt.Sprintf("Timed out after %s", m.plan.deadline)
			do = m.stop()
		}
	case evGraceOver:
		if m.state == stopping {
			m.state = killing
			do = m.kill()
		}
	case evSwept:
		if m.state == sweeping {
			m.state = ended
			x := m.exit()
			do = append(do, tell(initproto.EventBody{
				Event: initproto.EventEnded, Status: x.Status, OOM: x.OOM, Stopped: x.Stopped, Reason: x.Description,
			}), action{kind: doLeave})
		}
	}
	return m, append(do, m.settle()...)
}

func tell(body initproto.EventBody) action { return action{kind: doTell, body: body} }

// settle takes the transitions that follow from the current state.
func (m *machine) settle() []action {
	var do []action
	switch m.state {
	case starting:
		for i := range m.members {
			if m.members[i].phase == waiting && m.gate(i) {
				m.members[i].phase = launching
				do = append(do, action{kind: doStart, member: i})
			}
		}
		if !m.started && m.all(alive) {
			m.started = true
			do = append(do, tell(initproto.EventBody{Event: initproto.EventStarted}))
			if m.plan.health {
				do = append(do, action{kind: doCheck})
			} else {
				do = append(do, m.healthy()...)
			}
		}
	case stopping, killing:
		if m.all(gone) {
			m.state = sweeping
			do = append(do, action{kind: doSweep})
		}
	}
	return do
}

// gate reports whether a waiting member may start. All start together.
func (m *machine) gate(int) bool { return true }

// fatal reports whether a member's exit stops the instance. Every exit does,
// because members depend on each other.
func (m *machine) fatal(int) bool { return true }

func (m *machine) all(p memberPhase) bool {
	return !slices.ContainsFunc(m.members, func(b member) bool { return b.phase != p })
}

func (m *machine) memberStarted(i int) []action {
	b := &m.members[i]
	if b.phase != launching {
		return nil
	}
	b.phase = alive
	switch m.state {
	case stopping: // asked to stop while it was being started
		b.told = true
		return []action{{kind: doTerm, member: i}}
	case killing:
		b.told, b.overdue = true, m.plan.grace > 0
		return []action{{kind: doKill, member: i}}
	}
	return nil
}

func (m *machine) membersExited(exits []exit) []action {
	var do []action
	ends := false
	for _, x := range exits {
		b := &m.members[x.member]
		if b.phase != launching && b.phase != alive {
			continue
		}
		b.phase, b.exit = gone, x
		do = append(do, action{kind: doTell, member: x.member, line: m.exitLine(x.member), body: initproto.EventBody{
			Event: initproto.EventExited, Status: x.status, Signaled: x.signaled, OOM: x.oom, Cancelled: b.told, Overdue: b.overdue,
		}})
		if m.culprit == none && !b.told && m.fatal(x.member) {
			m.culprit = x.member
		}
		ends = ends || m.fatal(x.member)
	}
	if ends && (m.state == starting || m.state == running) {
		do = append(do, m.stop()...)
	}
	return do
}

func (m *machine) healthy() []action {
	m.state = running
	do := []action{tell(initproto.EventBody{Event: initproto.EventHealthy})}
	if m.plan.ready {
		return append(do, action{kind: doWatch})
	}
	m.ready = true
	return append(do, tell(initproto.EventBody{Event: initproto.EventReady}))
}

// stop tells all members to stop.
func (m *machine) stop() []action {
	m.state, m.ready = stopping, false
	do := []action{{kind: doUncheck}}
	for i := range m.members {
		switch b := &m.members[i]; b.phase {
		case waiting:
			b.phase, b.never = gone, true
		case launching:
			b.told = true
		case alive:
			b.told = true
			do = append(do, action{kind: doTerm, member: i})
		}
	}
	if m.all(gone) {
		return do
	}
	if m.plan.grace <= 0 {
		m.state = killing
		return append(do, m.kill()...)
	}
	return append(do, action{kind: doGrace})
}

func (m *machine) kill() []action {
	var do []action
	for i := range m.members {
		if b := &m.members[i]; b.phase == alive {
			b.overdue = m.plan.grace > 0
			do = append(do, action{kind: doKill, member: i})
		}
	}
	return do
}

// exitLine returns the line that is added to a member's output when it exits.
func (m *machine) exitLine(i int) string {
	b := m.members[i]
	line := fmt.Sprintf("Exit status %d", b.exit.status)
	if b.exit.oom {
		line += " (out of memory)"
	}
	if b.overdue {
		line += fmt.Sprintf(" (exceeded %s graceful shutdown interval)", m.plan.grace)
	}
	return line
}

// maxDescription is the maximum length that the platform's API accepts.
const maxDescription = 10000

// exit returns how the instance ended.
func (m machine) exit() initproto.Exit {
	x := initproto.Exit{Stopped: m.stopped, Status: m.members[0].exit.status}
	if m.culprit != none && !m.plan.oneOff {
		x.Status = m.members[m.culprit].exit.status
	}
	var failures []string
	for i, b := range m.members {
		if b.told || b.never {
			continue // it was only told to stop
		}
		x.OOM = x.OOM || b.exit.oom
		if b.exit.status != 0 {
			failure := fmt.Sprintf("%s: Exited with status %d", m.plan.sources[i], b.exit.status)
			if b.exit.oom {
				failure += " (out of memory)"
			}
			failures = append(failures, failure)
		}
	}
	switch {
	case m.cause != "":
		x.Description = m.cause
	case len(failures) > 0:
		x.Description = strings.Join(failures, "; ")
	case m.culprit != none && !(m.plan.oneOff && m.culprit == 0):
		x.Description = "Codependent step exited"
	}
	if len(x.Description) > maxDescription {
		x.Description = strings.ToValidUTF8(x.Description[:maxDescription], "")
	}
	return x
}
