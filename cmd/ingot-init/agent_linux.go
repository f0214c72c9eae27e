package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"ingot/internal/platform/instance/agentserver"
	"ingot/internal/platform/instance/initproto"
)

// runAgent runs an instance that a server launches over the network.
func runAgent(home string) (status int, err error) {
	// The files of a protected process belong to root: this one is opened before.
	score, err := os.OpenFile(oomScore, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer score.Close()
	if err := agentserver.Protect(); err != nil {
		return 0, err
	}
	config, err := agentserver.FromEnvironment()
	if err != nil {
		return 0, err
	}
	config.Home, config.Output = home, os.Stdout
	a, err := agentserver.Listen(config)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	launch := a.AwaitLaunch(stop)
	if launch == nil {
		return 0, errors.New("the instance was not launched")
	}
	w := initproto.NewStreamWriter(a)
	s, err := newSupervisor(launch.Spec, a.SetState, w)
	if err != nil {
		return 0, err
	}
	s.host.score = score
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT) // not only when it runs
	launch.Accept(s)
	status = s.run()
	if err := w.Close(); err != nil {
		return status, err
	}
	a.Linger(stop) // a signal that stopped the instance also shortens this
	return status, nil
}

var errOver = errors.New("the instance has ended")

// call runs f between events and returns when it is done, or errOver.
func (s *supervisor) call(f func()) error {
	done := make(chan struct{})
	select {
	case s.calls <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-s.over:
		return errOver
	}
}

// Stop stops the instance.
func (s *supervisor) Stop(kill bool) {
	_ = s.call(func() { // it may have ended
		if kill {
			s.machine.plan.grace = -1
		}
		s.handle(event{kind: evStop})
		if kill {
			s.handle(event{kind: evGraceOver})
		}
	})
}

// Exec starts a process that is not a member; see agentserver.Instance.
func (s *supervisor) Exec(m initproto.Member, files [3]*os.File, terminal bool,
	exited func(status int)) (signal func(syscall.Signal), err error) {
	var pid int
	failure := errOver
	if err := s.call(func() {
		if s.machine.state >= sweeping {
			return // what is left is being killed
		}
		pid, failure = s.host.exec(m, files, terminal)
		if failure == nil {
			s.execs[pid] = exited
		}
	}); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	return func(sig syscall.Signal) {
		_ = s.call(func() { // it may have ended with the instance
			if s.execs[pid] != nil {
				s.host.signalGroup(pid, sig)
			}
		})
	}, nil
}

// exec starts a process with these files.
func (h *host) exec(m initproto.Member, files [3]*os.File, terminal bool) (pid int, err error) {
	path, err := findProgram(m)
	if err != nil {
		return 0, err
	}
	sys := h.attributes()
	sys.Setctty = terminal // its file descriptor 0
	restore := h.expose()
	pid, err = syscall.ForkExec(path, m.Args, &syscall.ProcAttr{
		Dir: m.Dir, Env: m.Env, Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}, Sys: sys,
	})
	restore()
	if err != nil {
		return 0, &os.PathError{Op: "exec", Path: m.Args[0], Err: err}
	}
	return pid, nil
}
