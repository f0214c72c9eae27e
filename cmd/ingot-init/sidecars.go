package main

import (
	"context"
	"slices"
	"syscall"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// policiesOf returns what the members of a spec ask for, or nil if none asks for anything.
func policiesOf(spec initproto.Spec) []policy {
	if spec.Needs() == 1 {
		return nil
	}
	indexes := func(names []string) (list []int) {
		for _, name := range names {
			list = append(list, slices.IndexFunc(spec.Members, func(m initproto.Member) bool { return m.Name == name }))
		}
		return list
	}
	policies := make([]policy, 0, len(spec.Members))
	for _, m := range spec.Members {
		policies = append(policies, policy{
			after: indexes(m.After), stopAfter: indexes(m.StopAfter), restart: m.Restart, optional: m.Optional,
			health: m.Health != nil && needsCheck(*m.Health), ready: m.Readiness != nil && needsCheck(*m.Readiness),
			grace: m.Grace, preStop: len(m.PreStop) > 0,
		})
	}
	return policies
}

func stopSignal(m initproto.Member) syscall.Signal {
	if m.StopSignal > 0 {
		return syscall.Signal(m.StopSignal)
	}
	return syscall.SIGTERM
}

// later sends an event after a while.
func (s *supervisor) later(delay time.Duration, e event) *time.Timer {
	return time.AfterFunc(delay, func() {
		select {
		case s.events <- e:
		case <-s.over:
		}
	})
}

// scope is the life of a member, as far as its checks are concerned.
type scope struct {
	context.Context
	end context.CancelFunc
}

// newLife ends the checks of a member's last life and begins the next.
func (s *supervisor) newLife(i int) {
	if s.lives[i].end != nil {
		s.lives[i].end()
	}
	ctx, cancel := context.WithCancel(s.checks)
	s.lives[i] = scope{ctx, cancel}
}

// check starts the health check of a member.
func (s *supervisor) check(i int) {
	pid, c := s.pids[i], s.spec.Health
	of := subject{
		listening: func() ([]socket, bool) { return s.host.listening(pid) },
		taken:     s.host.taken,
		used:      func() time.Duration { return cpuTime(pid) },
		others:    declared(s.spec),
	}
	if i > 0 {
		c, of.sidecar, of.others = *s.spec.Members[i].Health, true, ""
	}
	of.patient = c.Startup > 0
	go watchHealth(s.lives[i], c, of, s.postOf(s.lives[i], i))
}

// watch starts the readiness check of a member.
func (s *supervisor) watch(i int) {
	c := s.spec.Readiness
	if i > 0 {
		c = *s.spec.Members[i].Readiness
	}
	go watchReadiness(s.lives[i], c, subject{taken: s.host.taken}, s.postOf(s.lives[i], i))
}

// postOf returns what hands over the results of a member's check, until its context ends: an
// earlier life of the member says nothing about the next.
func (s *supervisor) postOf(ctx context.Context, i int) func(event) {
	return func(e event) {
		e.member = i
		select {
		case s.events <- e:
		case <-ctx.Done():
		}
	}
}

// preStop runs the command of a member before it is told to stop. It ends with an event, at
// once if it cannot be run.
func (s *supervisor) preStop(i int) (result event, ok bool) {
	m := s.spec.Members[i]
	command := initproto.Member{Name: m.Name, Source: m.Source, Args: m.PreStop, Env: m.Env, Dir: m.Dir, Group: m.Group}
	pid, failure := s.host.start(command, s.outputs[i])
	if failure != nil {
		s.recorder.record(note{state: s.state(), member: i, kind: initproto.Stderr, line: "The command before the stop: " +
			failure.Error()})
		return event{kind: evPreStopped, member: i}, true
	}
	s.execs[pid] = func(int) { s.handle(event{kind: evPreStopped, member: i}) }
	return event{}, false
}
