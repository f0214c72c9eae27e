package main

import (
	"fmt"
	"slices"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// policy is what a member asks for. The zero value is the way of Cloud Foundry: it starts
// and stops with the others, and its exit ends the instance.
type policy struct {
	after     []int // it starts when these are up
	stopAfter []int // it is told to stop when these are gone
	restart   initproto.Restart
	optional  bool
	health    bool // it has its own health check
	ready     bool // it has its own readiness check
	grace     time.Duration
	preStop   bool
}

// The pauses before a member is started again grow, until it has lived for a while.
const (
	firstRestart   = 500 * time.Millisecond
	longestRestart = 30 * time.Second
	calmLife       = 30 * time.Second
)

func (m *machine) policy(i int) policy {
	if i < len(m.plan.policies) {
		return m.plan.policies[i]
	}
	return policy{}
}

func (m *machine) hasCheck(i int) bool { return i == 0 && m.plan.health || m.policy(i).health }

// once reports whether a member runs to its end before those that wait for it start.
func (m *machine) once(i int) bool {
	return m.policy(i).restart == initproto.RestartNever && !m.hasCheck(i) &&
		slices.ContainsFunc(m.plan.policies, func(p policy) bool { return slices.Contains(p.after, i) })
}

// up reports whether those that wait for a member may start.
func (m *machine) up(i int) bool {
	b := m.members[i]
	switch {
	case b.phase == gone:
		return b.harmless // done, or not needed
	case m.once(i):
		return false
	}
	return b.phase == alive && b.healthy && b.failing == ""
}

// gate reports whether a waiting member may start.
func (m *machine) gate(i int) bool {
	return !slices.ContainsFunc(m.policy(i).after, func(other int) bool { return !m.up(other) })
}

// startMembers starts the members that need not wait.
func (m *machine) startMembers() (do []action) {
	for i := range m.members {
		if m.members[i].phase == waiting && m.gate(i) {
			m.members[i].phase = launching
			m.members[i].life++
			do = append(do, action{kind: doStart, member: i})
		}
	}
	return do
}

// begun reports whether every member has been started.
func (m *machine) begun() bool {
	return !slices.ContainsFunc(m.members, func(b member) bool {
		return b.phase == launching && b.restarts == 0 || b.phase == waiting && b.restarts == 0
	})
}

// checkMembers starts the health checks of members that run. That of the main process waits
// until all run, unless another one waits for its result.
func (m *machine) checkMembers() (do []action) {
	for i := range m.members {
		b := &m.members[i]
		if b.phase != alive || b.checked || !m.hasCheck(i) || i == 0 && !m.started && !m.awaited(i) {
			continue
		}
		b.checked = true
		do = append(do, action{kind: doCheck, member: i})
	}
	return do
}

// awaited reports whether a member waits for this one.
func (m *machine) awaited(i int) bool {
	for other, b := range m.members {
		if b.phase == waiting && slices.Contains(m.policy(other).after, i) {
			return true
		}
	}
	return false
}

// memberHealthy notes that the health check of a member passed.
func (m *machine) memberHealthy(i int) []action {
	b := &m.members[i]
	if b.phase != alive || !b.checked || b.healthy || b.failing != "" {
		return nil
	}
	b.healthy = true
	if i > 0 && m.policy(i).ready {
		return []action{{kind: doWatch, member: i}}
	}
	return nil
}

// memberUnhealthy ends the instance, or stops the member alone if others go on without it.
func (m *machine) memberUnhealthy(i int, reason string, final bool) []action {
	b, p := &m.members[i], m.policy(i)
	if i == 0 || p.restart == initproto.RestartDefault && !p.optional {
		m.cause = reason
		if i > 0 {
			m.cause = m.plan.sources[i] + ": " + reason
		}
		do := []action{tell(initproto.EventBody{Event: initproto.EventUnhealthy, Reason: m.cause, Final: final})}
		return append(do, m.stop()...)
	}
	if b.phase != alive || b.failing != "" {
		return nil
	}
	b.failing, b.told, b.healthy, b.ready = reason, true, false, false
	m.why = m.plan.sources[i] + ": " + reason
	grace := p.grace
	if grace <= 0 {
		grace = max(m.plan.grace, 0)
	}
	return []action{
		{kind: doTell, member: i, line: reason, body: initproto.EventBody{Event: initproto.EventMemberUnhealthy,
			Reason: reason}},
		{kind: doUncheckMember, member: i}, {kind: doTerm, member: i}, {kind: doMemberGrace, member: i, delay: grace,
			life: b.life},
	}
}

// afterExit returns what follows the exit of a member: ended for the instance, starting if the
// member is started again, and running if the others go on without it.
func (m *machine) afterExit(x exit) state {
	p := m.policy(x.member)
	failed := x.status != 0 || m.members[x.member].failing != ""
	switch {
	case x.member == 0:
		return ended
	case p.restart == initproto.RestartAlways, p.restart == initproto.RestartOnFailure && failed:
		return starting
	case p.restart == initproto.RestartDefault && !p.optional, failed && !p.optional:
		return ended
	}
	return running
}

// memoryReason says why the kernel killed a member that ran out of memory, and names the
// member whose own limit was reached.
func (m *machine) memoryReason(x exit) string {
	if x.limit == 0 {
		return "out of memory"
	}
	kind := "sidecar"
	if x.member == 0 {
		kind = "process"
	}
	return fmt.Sprintf("out of memory: %s %s exceeded its limit of %dM", kind, m.plan.names[x.member], x.limit>>20)
}

// reasonOf returns why a life of a member ended, for its statistics and events.
func (m *machine) reasonOf(x exit) string {
	b := m.members[x.member]
	switch {
	case x.oom:
		return m.memoryReason(x)
	case b.failing != "":
		return b.failing
	case b.told:
		return "stopped"
	}
	return fmt.Sprintf("exited with status %d", x.status)
}

// pause makes a member wait before it is started again.
func (m *machine) pause(x exit) []action {
	i := x.member
	b := &m.members[i]
	if x.lived >= calmLife {
		b.inRow = 0
	}
	delay := min(firstRestart<<min(b.inRow, 10), longestRestart)
	line := m.exitLine(i) + fmt.Sprintf("; it is started again in %s", delay)
	body := m.exitBody(x)
	body.Restart = delay
	m.why = m.plan.sources[i] + ": " + line
	b.phase, b.healthy, b.ready, b.checked, b.told, b.overdue, b.failing, b.stopping = pausing, false, false, false, false,
		false, "", false
	b.restarts++
	b.inRow++
	do := []action{{kind: doTell, member: i, line: line, body: body}}
	if m.hasCheck(i) || m.policy(i).ready {
		do = append(do, action{kind: doUncheckMember, member: i})
	}
	return append(do, action{kind: doPause, member: i, delay: delay})
}

// allHealthy reports whether the instance is healthy: all members that it needs are up.
func (m *machine) allHealthy() bool {
	for i := range m.members {
		if !m.policy(i).optional && !m.up(i) {
			return false
		}
	}
	return true
}

// mayBeReady reports whether the result of a member's readiness check counts.
func (m *machine) mayBeReady(i int) bool {
	if i == 0 {
		return m.state == running
	}
	return (m.state == starting || m.state == running) && m.members[i].phase == alive && m.members[i].healthy
}

func (m *machine) allReady() bool {
	for i, b := range m.members {
		switch p := m.policy(i); {
		case p.optional, b.phase == gone && b.harmless:
		case !m.up(i), i == 0 && !b.ready, i > 0 && p.ready && !b.ready:
			return false
		}
	}
	return true
}

// tellReady reports a change of the instance's readiness.
func (m *machine) tellReady() []action {
	ready := m.allReady()
	if ready == m.ready {
		return nil
	}
	m.ready = ready
	if ready {
		return []action{tell(initproto.EventBody{Event: initproto.EventReady})}
	}
	return []action{tell(initproto.EventBody{Event: initproto.EventNotReady, Reason: m.why})}
}

// tellStops tells members to stop whose turn it is.
func (m *machine) tellStops() (do []action) {
	if m.state != stopping {
		return nil
	}
	for i := range m.members {
		b := &m.members[i]
		if b.told || b.phase != launching && b.phase != alive || slices.ContainsFunc(m.policy(i).stopAfter,
			func(other int) bool { return m.members[other].phase != gone }) {
			continue
		}
		b.told = true
		if b.phase != alive {
			continue // when it has started
		}
		p := m.policy(i)
		if b.stopping = p.preStop; b.stopping {
			do = append(do, action{kind: doPreStop, member: i})
		} else {
			do = append(do, action{kind: doTerm, member: i})
		}
		if p.grace > 0 {
			do = append(do, action{kind: doMemberGrace, member: i, delay: p.grace, life: b.life})
		}
	}
	return do
}
