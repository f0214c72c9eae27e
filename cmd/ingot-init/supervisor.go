package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ingot/internal/platform/initproto"
)

// supervisor is the machine's hands and eyes. Everything that concerns processes
// happens in the goroutine of run, so that a process is always known before it
// is reaped.
type supervisor struct {
	spec    initproto.Spec
	machine machine
	phase   initproto.Phase
	since   time.Time // of the phase
	pids    []int     // of the members; 0 when it never ran
	byPID   map[int]int
	host    *host
	outputs []*output
	teller  *teller

	children chan os.Signal // a child ended
	signals  chan os.Signal // somebody asked for something
	events   chan event     // from other goroutines

	checks      context.Context
	stopChecks  context.CancelFunc
	timeout     *time.Timer
	sweep       *time.Ticker // while sweeping
	sweepingEnd time.Time
}

const (
	// sweepPause lies between attempts to kill what is left. One is enough
	// unless somebody forks faster than we kill.
	sweepPause = 20 * time.Millisecond
	// sweepLimit is when we leave although something is left that cannot be
	// killed: it hangs in the kernel.
	sweepLimit = 10 * time.Second
)

// forwarded signals go to the main process.
var forwarded = []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT}

func newSupervisor(spec initproto.Spec, dir string, w *initproto.Writer) (*supervisor, error) {
	h, err := newHost(spec)
	if err != nil {
		return nil, err
	}
	p := plan{
		oneOff: spec.OneOff, health: needsLook(spec.Health), ready: needsLook(spec.Readiness),
		grace: spec.Grace, deadline: spec.Timeout,
	}
	if p.grace == 0 {
		p.grace = initproto.DefaultGrace
	}
	s := &supervisor{
		spec: spec, host: h,
		phase: initproto.Starting, since: time.Now(), pids: make([]int, len(spec.Members)), byPID: map[int]int{},
		children: make(chan os.Signal, 1), signals: make(chan os.Signal, 16), events: make(chan event, 16),
	}
	for i, m := range spec.Members {
		p.sources = append(p.sources, m.Source)
		s.outputs = append(s.outputs, &output{member: i, w: w, bucket: bucket{rate: spec.LogRate}})
	}
	s.machine = newMachine(p)
	s.checks, s.stopChecks = context.WithCancel(context.Background())
	s.teller = newTeller(dir, w, s.outputs)
	return s, nil
}

// run returns the exit status when everything has ended and is told.
func (s *supervisor) run() int {
	signal.Notify(s.children, syscall.SIGCHLD)
	signal.Notify(s.signals, append(forwarded, syscall.SIGTERM, syscall.SIGINT)...)
	// A reader of our records that leaves must not end us. It is not ignored,
	// because members would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	s.teller.tell(note{state: s.state()})
	if s.spec.OneOff && s.spec.Timeout > 0 {
		s.timeout = time.AfterFunc(s.spec.Timeout, func() { s.events <- event{kind: evTimeout} })
	}
	s.handle(event{kind: evBegin})
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
		case <-sweep:
			s.host.killAll(s.pids)
			s.reap()
		}
	}
	<-s.teller.done
	return s.machine.exit().Status
}

// handle puts an event into the machine and does what comes out, until nothing
// more follows.
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

// notePhase keeps since when the phase lasts, and tells of a stop that nothing
// else tells of.
func (s *supervisor) notePhase() {
	p := s.machine.state.phase()
	if p == s.phase {
		return
	}
	s.phase, s.since = p, time.Now()
	if p == initproto.Stopping {
		s.teller.tell(note{state: s.state()})
	}
}

// do carries out an action. Some have a result at once.
func (s *supervisor) do(a action) (result event, ok bool) {
	switch a.kind {
	case doStart:
		return s.start(a.member), true
	case doTerm:
		s.host.signalGroup(s.pids[a.member], syscall.SIGTERM)
	case doKill:
		s.host.signalGroup(s.pids[a.member], syscall.SIGKILL)
	case doCheck:
		main := s.pids[0]
		go watchHealth(s.checks, s.spec.Health, func() []socket { return s.host.listening(main) }, s.post)
	case doWatch:
		go watchReadiness(s.checks, s.spec.Readiness, s.post)
	case doUncheck:
		s.stopChecks()
		if s.timeout != nil {
			s.timeout.Stop()
		}
	case doGrace:
		time.AfterFunc(s.machine.plan.grace, func() { s.events <- event{kind: evGraceOver} })
	case doSweep:
		s.sweep = time.NewTicker(sweepPause)
		s.sweepingEnd = time.Now().Add(sweepLimit)
		s.host.killAll(s.pids)
		select {
		case s.children <- nil: // look whether anything is left
		default: // that is being done
		}
	case doTell:
		s.teller.tell(note{state: s.state(), member: a.member, kind: initproto.Stdout, line: a.line, body: &a.body})
	case doLeave:
		s.sweep.Stop()
	}
	return event{}, false
}

// post hands over what a check saw, unless nobody wants to know any more.
func (s *supervisor) post(e event) {
	select {
	case s.events <- e:
	case <-s.checks.Done():
	}
}

func (s *supervisor) start(i int) event {
	pid, failure := s.host.start(s.spec.Members[i], s.outputs[i])
	if failure != nil {
		s.teller.tell(note{state: s.state(), member: i, kind: initproto.Stderr, line: failure.Error()})
		return event{kind: evExited, exits: []exit{{member: i, status: failure.status}}}
	}
	s.pids[i] = pid
	s.byPID[pid] = i
	return event{kind: evStarted, member: i}
}

// reap collects all children that ended, members and orphans alike.
func (s *supervisor) reap() {
	var exits []exit
	for {
		pid, status, err := s.host.reap()
		if err != nil {
			break
		}
		i, ours := s.byPID[pid]
		if !ours {
			continue
		}
		delete(s.byPID, pid)
		exits = append(exits, s.exitOf(i, status))
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
	// A shell gives the status of the child that was killed as its own.
	x.oom = x.status == 128+int(syscall.SIGKILL) && s.host.outOfMemory()
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

// state is what a server that comes back needs to know.
func (s *supervisor) state() initproto.State {
	st := initproto.State{Phase: s.phase, Ready: s.machine.ready, Since: s.since.UTC(), PID: os.Getpid()}
	for i, m := range s.machine.members {
		st.Members = append(st.Members, initproto.MemberState{
			Name: s.spec.Members[i].Name, PID: s.pids[i], Exited: m.phase == gone, Status: m.exit.status,
		})
	}
	if s.machine.state == ended {
		x := s.machine.exit()
		st.Exit = &x
	}
	return st
}
