package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/platform/instance/initproto"
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
//	 │ ▲                       └───────failed to start──────│────────▲
//	 │ └──pause over── pausing ◀──to be started again───────┘        │
//	 └──────────the instance is stopping: never started──────────────┘
//
// Without policies all members start and stop together, and the exit of one ends
// the instance. What policies of sidecars change is in members.go.
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
	evBegin         eventKind = iota
	evStarted                 // member is running
	evExited                  // the members in exits exited, or could not be started
	evHealthy                 // the health check of member passed
	evUnhealthy               // it failed for good; reason is a complete sentence
	evReady                   // the readiness check of member passed
	evNotReady                // it failed; reason says why
	evStop                    // the instance was asked to stop
	evTimeout                 // a task took too long
	evGraceOver               //
	evSwept                   // no process is left
	evResume                  // the pause before member starts again is over
	evPreStopped              // the command before member is stopped has ended
	evMemberOverdue           // the grace period of member is over
	evWaiting                 // member is not healthy yet; reason says why
)

var eventNames = [...]string{
	"begin", "started", "exited", "healthy", "unhealthy", "ready", "not ready", "stop", "timeout", "grace over", "swept",
	"resume", "pre-stopped", "member overdue", "waiting",
}

func (k eventKind) String() string { return eventNames[k] }

type event struct {
	kind   eventKind
	member int
	exits  []exit
	reason string
	final  bool // of evUnhealthy: another start would fail in the same way
	life   int  // of evMemberOverdue: the life of the member that it is about
}

// exit describes how a member exited. Exits that are noticed together are in one
// event, because none of them caused another.
type exit struct {
	member   int
	status   int // 128 + signal when killed
	signaled bool
	oom      bool
	limit    int64 // the member's own memory limit, in bytes, if that is what it exceeded
	at       time.Time
	lived    time.Duration
}

type actionKind int

const (
	doStart   actionKind = iota // start the member; results in evStarted or evExited
	doTerm                      // send the stop signal to the member's process group
	doKill                      // send SIGKILL to it
	doCheck                     // start the health check of the member
	doWatch                     // start its readiness check
	doUncheck                   // stop all checks
	doGrace                     // send evGraceOver when the grace period is over
	doSweep                     // kill remaining processes; evSwept when none is left
	doTell                      // write body, and line before it, if any, to the member's output
	doLeave
	doPause         // send evResume after a delay
	doUncheckMember // stop the checks of the member
	doPreStop       // run its command before it is stopped; evPreStopped when it has ended
	doMemberGrace   // send evMemberOverdue after a delay
)

var actionNames = [...]string{
	"start", "term", "kill", "check", "watch", "uncheck", "grace", "sweep", "tell", "leave", "pause", "uncheck member",
	"pre-stop", "member grace",
}

func (k actionKind) String() string { return actionNames[k] }

type action struct {
	kind   actionKind
	member int
	body   initproto.EventBody
	line   string
	delay  time.Duration
	life   int // of doMemberGrace
}

// plan is the fixed part of a machine.
type plan struct {
	sources  []string // of the members; the first is the main process
	names    []string // of the members
	oneOff   bool
	health   bool // the main process has a health check
	ready    bool // it has a readiness check
	grace    time.Duration
	deadline time.Duration // of a task
	policies []policy      // of the members, or nil
}

type memberPhase int

const (
	waiting memberPhase = iota
	launching
	alive
	pausing
	gone
)

var memberPhaseNames = [...]string{"waiting", "launching", "alive", "pausing", "gone"}

func (p memberPhase) String() string { return memberPhaseNames[p] }

type member struct {
	phase   memberPhase
	told    bool // told to stop
	overdue bool // had to be killed
	never   bool // was never started
	exit    exit

	healthy  bool
	ready    bool   // its readiness check passed
	checked  bool   // its health check has begun
	failing  string // why it is being stopped alone
	harmless bool   // its last exit did not end the instance
	stopping bool   // its command before the stop runs
	restarts int
	inRow    int    // restarts without a longer life between them
	life     int    // number of its lives
	reason   string // of its last exit
}

type machine struct {
	plan    plan
	state   state
	members []member
	started bool // all members were alive at the same time
	ready   bool
	why     string // the instance is not ready
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
		do = m.memberHealthy(e.member)
	case evUnhealthy:
		if live {
			do = m.memberUnhealthy(e.member, e.reason, e.final)
		}
	case evWaiting:
		if b := m.members[e.member]; live && b.phase == alive && !b.healthy {
			do = append(do, action{kind: doTell, member: e.member, body: initproto.EventBody{Event: initproto.EventWaiting,
				Reason: e.reason}})
		}
	case evReady:
		m.members[e.member].ready = m.members[e.member].ready || m.mayBeReady(e.member)
	case evNotReady:
		if m.mayBeReady(e.member) {
			m.members[e.member].ready, m.why = false, e.reason
		}
	case evResume:
		if b := &m.members[e.member]; b.phase == pausing {
			b.phase = waiting
		}
	case evPreStopped:
		if b := &m.members[e.member]; b.stopping && b.phase == alive {
			b.stopping = false
			do = append(do, action{kind: doTerm, member: e.member})
		}
	case evMemberOverdue:
		if b := &m.members[e.member]; b.told && b.phase == alive && m.state != killing && e.life == b.life {
			b.overdue = true
			do = append(do, action{kind: doKill, member: e.member})
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
		do = m.startMembers()
		if !m.started && m.begun() {
			m.started = true
			do = append(do, tell(initproto.EventBody{Event: initproto.EventStarted}))
		}
		do = append(do, m.checkMembers()...)
		if m.started && m.allHealthy() {
			do = append(do, m.healthy()...)
		}
	case running:
		do = append(m.startMembers(), m.checkMembers()...)
		do = append(do, m.tellReady()...)
	case stopping, killing:
		do = m.tellStops()
		if m.all(gone) {
			m.state = sweeping
			do = append(do, action{kind: doSweep})
		}
	}
	return do
}

func (m *machine) all(p memberPhase) bool {
	return !slices.ContainsFunc(m.members, func(b member) bool { return b.phase != p })
}

func (m *machine) memberStarted(i int) []action {
	b := &m.members[i]
	if b.phase != launching {
		return nil
	}
	b.phase, b.healthy = alive, !m.hasCheck(i)
	switch m.state {
	case stopping: // asked to stop while it was being started
		b.told = false
		return m.tellStops()
	case killing:
		b.told, b.overdue = true, m.plan.grace > 0
		return []action{{kind: doKill, member: i}}
	}
	var do []action
	if b.restarts > 0 {
		do = append(do, action{kind: doTell, member: i, body: initproto.EventBody{Event: initproto.EventRestarted}})
	}
	if b.healthy && i > 0 && m.policy(i).ready {
		do = append(do, action{kind: doWatch, member: i})
	}
	return do
}

func (m *machine) membersExited(exits []exit) []action {
	var do []action
	ends := false
	if m.plan.oneOff { // what exits together with the command did not end it
		exits = slices.Clone(exits)
		slices.SortStableFunc(exits, func(a, b exit) int { return min(a.member, 1) - min(b.member, 1) })
	}
	for _, x := range exits {
		b := &m.members[x.member]
		if b.phase != launching && b.phase != alive {
			continue
		}
		next, live := ended, m.state == starting || m.state == running
		if live {
			next = m.afterExit(x)
		}
		b.exit, b.reason = x, m.reasonOf(x)
		if next == starting {
			do = append(do, m.pause(x)...)
			continue
		}
		b.phase, b.harmless, b.healthy = gone, next == running, false
		do = append(do, action{kind: doTell, member: x.member, line: m.exitLine(x.member), body: m.exitBody(x)})
		if m.policy(x.member).health || m.policy(x.member).ready {
			do = append(do, action{kind: doUncheckMember, member: x.member})
		}
		if b.harmless {
			continue
		}
		if m.culprit == none && !b.told {
			m.culprit = x.member
		}
		if b.failing != "" && live {
			m.cause = m.plan.sources[x.member] + ": " + b.failing
		}
		ends = true
	}
	if ends && (m.state == starting || m.state == running) {
		do = append(do, m.stop()...)
	}
	return do
}

func (m *machine) exitBody(x exit) initproto.EventBody {
	b := m.members[x.member]
	body := initproto.EventBody{
		Event: initproto.EventExited, Status: x.status, Signaled: x.signaled, OOM: x.oom, Cancelled: b.told,
		Overdue: b.overdue, Harmless: b.harmless,
	}
	if x.oom || b.failing != "" {
		body.Reason = b.reason
	}
	return body
}

func (m *machine) healthy() []action {
	m.state = running
	b := &m.members[0]
	b.ready = !m.plan.ready
	ready := m.allReady()
	do := []action{tell(initproto.EventBody{Event: initproto.EventHealthy, Ready: ready})}
	if m.plan.ready {
		do = append(do, action{kind: doWatch})
	}
	return append(do, m.tellReady()...)
}

// stop stops the instance.
func (m *machine) stop() []action {
	m.state, m.ready = stopping, false
	do := []action{{kind: doUncheck}}
	for i := range m.members {
		switch b := &m.members[i]; b.phase {
		case waiting:
			b.phase, b.never, b.harmless = gone, b.restarts == 0, b.restarts > 0
		case pausing:
			b.phase, b.harmless = gone, true
		}
	}
	do = append(do, m.tellStops()...)
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
			b.told, b.overdue = true, m.plan.grace > 0
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
		line += " (" + m.memoryReason(b.exit) + ")"
	}
	if b.overdue {
		grace := m.plan.grace
		if own := m.policy(i).grace; own > 0 {
			grace = min(own, grace)
		}
		line += fmt.Sprintf(" (exceeded %s graceful shutdown interval)", grace)
	}
	return line
}

// maxDescription is the maximum length that the platform's API accepts.
const maxDescription = 10000

// exit returns how the instance ended.
func (m machine) exit() initproto.Exit {
	x := initproto.Exit{Stopped: m.stopped, Status: m.members[0].exit.status}
	byMain := m.cause == "" && m.culprit <= 0
	if m.culprit != none && (!m.plan.oneOff || x.Status == 0 && !byMain) {
		x.Status = m.members[m.culprit].exit.status
	}
	if m.plan.oneOff && !byMain {
		x.Status = max(x.Status, 1) // the command did not end by itself
	}
	var failures []string
	for i, b := range m.members {
		if b.told || b.never || b.harmless {
			continue // it was only told to stop, or was not needed
		}
		x.OOM = x.OOM || b.exit.oom
		if b.exit.status != 0 {
			failure := fmt.Sprintf("%s: Exited with status %d", m.plan.sources[i], b.exit.status)
			if b.exit.oom {
				failure += " (" + m.memoryReason(b.exit) + ")"
			}
			failures = append(failures, failure)
		}
	}
	switch {
	case m.cause != "":
		x.Description = m.cause
	case len(failures) > 0:
		x.Description = strings.Join(failures, "; ")
	case m.plan.oneOff && m.culprit > 0:
		x.Description = m.plan.sources[m.culprit] + ": Exited with status 0 before the task ended"
	case m.culprit != none && !m.plan.oneOff:
		x.Description = "Codependent step exited"
	}
	if len(x.Description) > maxDescription {
		x.Description = strings.ToValidUTF8(x.Description[:maxDescription], "")
	}
	return x
}
