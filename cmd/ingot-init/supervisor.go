package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// supervisor executes the machine's actions and feeds it events. Everything that
// concerns processes happens in the goroutine of run, so that a process is always
// known before it is reaped.
type supervisor struct {
	spec     initproto.Spec
	machine  machine
	phase    initproto.Phase
	since    time.Time // start of the phase
	pids     []int     // of the members; 0 if it was never started
	begins   []time.Time
	byPID    map[int]int
	host     *host
	outputs  []*output
	recorder *recorder

	calls chan func()       // to run between events, from other goroutines
	over  chan struct{}     // closed when no calls are taken any more
	execs map[int]func(int) // other processes: what to call with their exit status

	children chan os.Signal // a child exited
	signals  chan os.Signal // requests to stop, and signals to forward
	events   chan event     // from other goroutines

	checks      context.Context
	stopChecks  context.CancelFunc
	lives       []scope // of the members
	timeout     *time.Timer
	sweep       *time.Ticker // while sweeping
	sweepingEnd time.Time
}

const (
	// sweepPause is the interval between attempts to kill remaining processes.
	// One attempt is enough unless processes fork faster than they are killed.
	sweepPause = 20 * time.Millisecond
	// sweepLimit is when ingot-init exits although a process is left that cannot
	// be killed, because it hangs in the kernel.
	sweepLimit = 10 * time.Second
)

// forwarded are the signals that are forwarded to the main process.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT}

func newSupervisor(spec initproto.Spec, save func(initproto.State) error, w *initproto.Writer) (*supervisor, error) {
	h, err := newHost(spec)
	if err != nil {
		return nil, err
	}
	p := plan{
		oneOff: spec.OneOff, health: needsCheck(spec.Health), ready: needsCheck(spec.Readiness),
		grace: spec.Grace, deadline: spec.Timeout, policies: policiesOf(spec),
	}
	if p.grace == 0 {
		p.grace = initproto.DefaultGrace
	}
	s := &supervisor{
		spec: spec, host: h,
		phase: initproto.Starting, since: time.Now(), pids: make([]int, len(spec.Members)),
		begins: make([]time.Time, len(spec.Members)), lives: make([]scope, len(spec.Members)), byPID: map[int]int{},
		calls: make(chan func()), over: make(chan struct{}), execs: map[int]func(int){},
		children: make(chan os.Signal, 1), signals: make(chan os.Signal, 16), events: make(chan event, 16),
	}
	for i, m := range spec.Members {
		p.sources, p.names = append(p.sources, m.Source), append(p.names, m.Name)
		s.outputs = append(s.outputs, &output{member: i, w: w, bucket: bucket{rate: spec.LogRate}})
	}
	s.machine = newMachine(p)
	s.checks, s.stopChecks = context.WithCancel(context.Background())
	s.recorder = newRecorder(save, w, s.outputs)
	return s, nil
}

// run runs the instance and returns its exit status when everything has ended and
// is recorded.
func (s *supervisor) run() int {
	signal.Notify(s.children, syscall.SIGCHLD)
	signal.Notify(s.signals, append(forwarded, syscall.SIGTERM, syscall.SIGINT)...)
	// A reader of the records that closes its end must not kill ingot-init. The
	// signal is not ignored, because members would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	s.recorder.record(note{state: s.state()})
	if err := terminateTLS(s.spec); err != nil {
		s.recorder.record(note{state: s.state(), kind: initproto.Stderr, line: "other apps cannot connect with TLS: " +
			err.Error()})
	}
	if s.spec.OneOff && s.spec.Timeout > 0 {
		s.timeout = s.later(s.spec.Timeout, event{kind: evTimeout})
	}
	s.handle(event{kind: evBegin})
	shedLater()
	watch := s.host.watchLimits()
	for s.machine.state != ended {
		var sweep <-chan time.Time
		if s.sweep != nil {
			sweep = s.sweep.C
		}
		select {
		case <-s.children:
			s.reap()
		case sig := <-s.signals:
			s.signal(sig)
		case e := <-s.events:
			s.handle(e)
		case call := <-s.calls:
			call()
		case <-sweep:
			s.host.killAll(s.pids)
			s.reap()
		case <-watch:
			s.host.killExceeded(s.pids)
		}
	}
	close(s.over)
	<-s.recorder.done
	return s.machine.exit().Status
}

// handle passes an event to the machine and executes the resulting actions, until
// none is left.
func (s *supervisor) handle(e event) {
	for queue := []event{e}; len(queue) > 0; queue = queue[1:] {
		var actions []action
		s.machine, actions = s.machine.step(queue[0])
		s.notePhase()
		for _, a := range actions {
			if next, ok := s.do(a); ok {
				queue = append(queue, next)
			}
		}
	}
}

// notePhase remembers when the phase began, and reports a stop that no other
// event reports.
func (s *supervisor) notePhase() {
	p := s.machine.state.phase()
	if p == s.phase {
		return
	}
	s.phase, s.since = p, time.Now()
	if p == initproto.Stopping {
		s.recorder.record(note{state: s.state()})
	}
}

// do executes an action. Some actions result in an event at once.
func (s *supervisor) do(a action) (result event, ok bool) {
	switch a.kind {
	case doStart:
		return s.start(a.member), true
	case doTerm:
		s.host.signalGroup(s.pids[a.member], stopSignal(s.spec.Members[a.member]))
	case doKill:
		s.host.signalGroup(s.pids[a.member], syscall.SIGKILL)
	case doCheck:
		s.check(a.member)
	case doWatch:
		s.watch(a.member)
	case doUncheckMember:
		if end := s.lives[a.member].end; end != nil { // it was started
			end()
		}
	case doPause:
		s.later(a.delay, event{kind: evResume, member: a.member})
	case doMemberGrace:
		s.later(a.delay, event{kind: evMemberOverdue, member: a.member, life: a.life})
	case doPreStop:
		return s.preStop(a.member)
	case doUncheck:
		s.stopChecks()
		if s.timeout != nil {
			s.timeout.Stop()
		}
	case doGrace:
		s.later(s.machine.plan.grace, event{kind: evGraceOver})
	case doSweep:
		s.sweep = time.NewTicker(sweepPause)
		s.sweepingEnd = time.Now().Add(sweepLimit)
		s.host.killAll(s.pids)
		select {
		case s.children <- nil: // check whether anything is left
		default: // a check is already pending
		}
	case doTell:
		n := note{state: s.state(), member: a.member, kind: initproto.Stdout, line: a.line, body: &a.body}
		if a.body.Event == initproto.EventExited {
			// Those of now: the next life may have begun to write when this is recorded.
			n.streams = s.outputs[a.member].current()
		}
		s.recorder.record(n)
	case doLeave:
		s.sweep.Stop()
	}
	return event{}, false
}

func (s *supervisor) start(i int) event {
	pid, failure := s.host.start(s.spec.Members[i], s.outputs[i])
	if failure != nil {
		s.recorder.record(note{state: s.state(), member: i, kind: initproto.Stderr, line: failure.Error()})
		return event{kind: evExited, exits: []exit{{member: i, status: failure.status, at: time.Now()}}}
	}
	s.pids[i], s.begins[i] = pid, time.Now()
	s.newLife(i)
	s.byPID[pid] = i
	return event{kind: evStarted, member: i}
}

// reap collects all children that exited, members and orphans alike.
func (s *supervisor) reap() {
	var exits []exit
	for {
		pid, status, err := s.host.reap()
		if err != nil {
			break
		}
		i, ours := s.byPID[pid]
		if !ours {
			if exited := s.execs[pid]; exited != nil {
				delete(s.execs, pid)
				exited(s.exitOf(none, status).status)
			}
			continue
		}
		delete(s.byPID, pid)
		x := s.exitOf(i, status)
		x.at, x.lived = time.Now(), time.Since(s.begins[i])
		exits = append(exits, x)
	}
	if len(exits) > 0 {
		s.handle(event{kind: evExited, exits: exits})
	}
	if s.machine.state == sweeping && (s.host.childless() || time.Now().After(s.sweepingEnd)) {
		s.handle(event{kind: evSwept})
	}
}

func (s *supervisor) exitOf(i int, status syscall.WaitStatus) exit {
	x := exit{member: i, status: status.ExitStatus()}
	if status.Signaled() {
		x.status, x.signaled = 128+int(status.Signal()), true
	}
	// A shell exits with the status of its killed child. Another status says nothing where the count
	// may be of a kill long ago.
	if i == none || x.status == 0 || x.status != 128+int(syscall.SIGKILL) && !s.host.oom.watched {
		return x
	}
	if g := s.host.groups[i]; g != nil {
		x.oom, x.limit = g.outOfMemory()
		if x.oom {
			g.kill() // what the kernel has left of it, where it kills single processes
		}
		return x
	}
	x.oom = s.host.outOfMemory()
	return x
}

func (s *supervisor) signal(sig os.Signal) {
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT:
		s.handle(event{kind: evStop})
	default:
		if pid := s.pids[0]; pid > 0 && s.machine.members[0].phase == alive {
			if number, ok := sig.(syscall.Signal); ok {
				s.host.signal(pid, number)
			}
		}
	}
}

// state returns the state that a restarted server needs to know.
func (s *supervisor) state() initproto.State {
	// Version 3 is about the launch alone: servers of version 2 understand its state.
	st := initproto.State{Protocol: min(s.spec.Needs(), 2), Phase: s.phase, Ready: s.machine.ready, Since: s.since.UTC(),
		PID: os.Getpid()}
	for i, m := range s.machine.members {
		one := initproto.MemberState{
			Name: s.spec.Members[i].Name, PID: s.pids[i], Exited: m.phase == gone, Status: m.exit.status,
			Since: s.begins[i].UTC(), Restarts: m.restarts, Waiting: m.phase == waiting || m.phase == pausing,
		}
		if !m.exit.at.IsZero() {
			one.LastExit = &initproto.MemberExit{Status: m.exit.status, Reason: m.reason, Time: m.exit.at.UTC(), OOM: m.exit.oom}
		}
		st.Members = append(st.Members, one)
	}
	if s.machine.state == ended {
		x := s.machine.exit()
		st.Exit = &x
	}
	return st
}
