package succession

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/version"
	"ingot/internal/server/handover"
	"ingot/internal/server/sockets"
	"ingot/internal/server/systemd"
)

// Server is a server that can take over from another one, and that another one can take over
// from.
type Server interface {
	background.Service
	// Inherit is called before Start: the server uses these sockets, and the data directory that
	// adopt returns. If adopt is nil, it locks the directory itself.
	Inherit(set *sockets.Set, adopt func() (*datadir.Dir, error))
	// Sockets returns its listening sockets.
	Sockets() *sockets.Set
	// Lock returns the locked file of its data directory.
	Lock() (*os.File, error)
	// Yield stops everything but the serving of apps. API requests wait until Release.
	Yield()
	// Release passes waiting requests on to the server that has taken over.
	Release()
	// Finish waits for the connections of a server that was released, unless stop is closed, and
	// stops it.
	Finish(stop <-chan struct{})
	// Left reports whether another server has taken over.
	Left() bool
	// HealthURL is where it answers a readiness check.
	HealthURL() string
}

// Options say how a server follows another process and is followed by one.
type Options[S Server] struct {
	DataDir string
	Log     *slog.Logger
	// New returns a server that is not running.
	New func() (S, error)
	// Check reads the files that a start needs, before the server that is replaced gives up its
	// work: to continue, it would have to read them again.
	Check func() error
	Process
}

// Process says what this process inherits, and what starts the next one.
type Process struct {
	// Replace takes over from the server that uses the data directory, if there is one.
	Replace bool
	// Inherited are sockets that a supervisor passed.
	Inherited []sockets.Socket
	// Manager is the service manager; nil without.
	Manager *systemd.Manager
	// Successor starts the next process on request, see handover.Reload; nil means that this
	// is not possible, with WhyNot.
	Successor func() *exec.Cmd
	WhyNot    string
}

// Succession runs a server that another process can replace without failing a request, see
// package handover. If that process does not start, it continues itself. It is a
// background.Service.
type Succession[S Server] struct {
	part    background.Part
	options Options[S]
	control *handover.Control

	mu       sync.Mutex
	current  S
	stopping bool
	spawned  int              // pid of the successor that was started here
	spare    []sockets.Socket // copies, for the case that the successor fails
	yielding atomic.Bool      // another server is starting, in this process or the next

	leaving background.WaitGroup // servers whose connections finish
	cut     chan struct{}        // closed when they may not
	over    chan struct{}        // closed when this process has nothing left to do
	err     error                // why; nil if another process has taken over
}

var (
	_ background.Service = (*Succession[Server])(nil)
	_ handover.Work      = (*Succession[Server])(nil)
)

// New returns a server that is not running. It fails when the configuration is not valid.
func New[S Server](o Options[S]) (*Succession[S], error) {
	first, err := o.New()
	if err != nil {
		return nil, err
	}
	return &Succession[S]{options: o, current: first, cut: make(chan struct{}), over: make(chan struct{})}, nil
}

// Current returns the running server.
func (s *Succession[S]) Current() S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Over is closed when another process has taken over and the connections of this one have
// finished, or when the server could not continue; Err says which.
func (s *Succession[S]) Over() <-chan struct{} { return s.over }

// Err returns why the server could not continue; nil if another process has taken over.
func (s *Succession[S]) Err() error { return s.err }

// Start returns when the server is ready.
func (s *Succession[S]) Start(ctx context.Context) error {
	return s.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := s.start(ctx); err != nil {
			return err
		}
		if s.options.Manager.Watchdog() > 0 {
			spawn(func() { s.watch(work) })
		}
		return nil
	})
}

func (s *Succession[S]) start(ctx context.Context) error {
	log := s.options.Log
	inherited := s.options.Inherited
	var before *handover.Predecessor
	if s.options.Replace {
		var list []sockets.Socket
		var err error
		if before, list, err = handover.Connect(ctx, s.options.DataDir, version.Version); err != nil {
			return err
		}
		inherited = append(inherited, list...)
	}
	set, err := sockets.New(log, inherited...)
	if err == nil {
		var adopt func() (*datadir.Dir, error)
		if before != nil {
			log.Info("taking over from the running server", "server", before.String())
			adopt = func() (*datadir.Dir, error) { return s.takeOver(before) }
		}
		s.current.Inherit(set, adopt)
		err = s.current.Start(ctx)
	}
	if err != nil {
		if before != nil {
			before.Fail(err)
		}
		return err
	}
	set.Open()
	if before != nil {
		if err := s.follow(before); err != nil {
			s.current.Stop()
			return err
		}
	}
	s.control = &handover.Control{Dir: s.options.DataDir, Version: version.Version, Work: s, Log: log}
	if err := s.control.Start(ctx); err != nil {
		log.Warn("this server cannot be replaced while it runs", "error", err)
	}
	set.KeepWith(s.options.Manager.Keeper())
	return nil
}

// takeOver gets the data directory of the server before this one. If that died, its lock is
// free.
func (s *Succession[S]) takeOver(before *handover.Predecessor) (*datadir.Dir, error) {
	if err := s.options.Check(); err != nil {
		return nil, err
	}
	lock, err := before.Yield()
	if err != nil {
		return nil, err
	}
	if lock == nil {
		s.options.Log.Warn("the server that was to be replaced has died; starting without it")
		return datadir.Open(s.options.DataDir, s.options.Log)
	}
	return datadir.Adopt(s.options.DataDir, lock)
}

// errOrphan means that systemd does not know this process.
var errOrphan = errors.New("the server that was to be replaced has died; systemd starts it again")

// follow tells the process before this one that this one serves.
func (s *Succession[S]) follow(before *handover.Predecessor) error {
	defer before.Close()
	alive, err := before.Ready()
	switch {
	case err != nil:
		return fmt.Errorf("the server that was to be replaced: %w", err)
	case !alive && s.options.Manager != nil:
		return errOrphan
	case !alive:
		s.options.Log.Warn("the server that was to be replaced has died; its connections are lost")
	}
	return nil
}

// Stop stops the server, and cuts off what a replaced one still serves.
func (s *Succession[S]) Stop() {
	s.part.HaltGently(func() {
		s.mu.Lock()
		s.stopping = true
		s.mu.Unlock()
		close(s.cut)
		if !s.Current().Left() {
			s.notify(s.options.Manager.Stopping())
		}
		s.control.Cancel()
		s.control.Stop()
		s.control.Wait()
		s.Current().Stop()
		s.leaving.Wait()
	})
}

var errStopping = errors.New("the server was asked to stop")

// Admit implements handover.Work.
func (s *Succession[S]) Admit(pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return errStopping
	}
	if s.options.Manager != nil && pid != s.spawned {
		return errors.New("systemd runs the server: use 'systemctl reload ingot'")
	}
	return nil
}

// Spawn implements handover.Work.
func (s *Succession[S]) Spawn() (pid int, exited <-chan error, err error) {
	if s.options.Successor == nil {
		return 0, nil, errors.New(s.options.WhyNot)
	}
	cmd := s.options.Successor()
	s.notify(s.options.Manager.Reloading())
	s.mu.Lock()
	err = cmd.Start()
	if err == nil {
		s.spawned = cmd.Process.Pid // known before it connects
	}
	s.mu.Unlock()
	if err != nil {
		s.notify(s.options.Manager.Ready("could not start a new process"))
		return 0, nil, err
	}
	return cmd.Process.Pid, background.Async("successor", func() error {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("it exited")
		}
		s.mu.Lock()
		replaced := s.current.Left()
		s.mu.Unlock()
		if !replaced {
			s.notify(s.options.Manager.Ready("a new process failed; the server continues"))
		}
		return err
	}), nil
}

// notify logs that systemd could not be notified.
func (s *Succession[S]) notify(err error) {
	if err != nil {
		s.options.Log.Warn("systemd could not be notified", "error", err)
	}
}

// Sockets implements handover.Work.
func (s *Succession[S]) Sockets() ([]sockets.Socket, error) {
	return s.Current().Sockets().Sockets()
}

// Yield implements handover.Work.
func (s *Succession[S]) Yield() (*os.File, error) {
	s.yielding.Store(true)
	// A part that stops closes its sockets; Resume needs them.
	var err error
	if s.spare, err = s.Sockets(); err != nil {
		return nil, err
	}
	s.Current().Yield()
	return s.Current().Lock()
}

// Resume implements handover.Work: it continues with a new server in this process.
func (s *Succession[S]) Resume(why error) error {
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	before := s.Current()
	if stopping {
		closeSockets(s.spare)
		return errStopping
	}
	s.options.Log.Error("the new process did not take over; this one continues", "error", why)
	next, err := s.again(before)
	if err != nil {
		s.options.Log.Error("the server could not continue; start it with 'ingot up'", "error", err)
		s.err = fmt.Errorf("the server could not continue after a failed handover: %w", err)
		close(s.over)
		return s.err
	}
	next.Sockets().Open()
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	s.yielding.Store(false)
	before.Release()
	next.Sockets().KeepWith(s.options.Manager.Keeper())
	s.leaving.Go("drain", func() { before.Finish(s.cut) })
	return nil
}

// again starts a server that takes over from one of this process.
func (s *Succession[S]) again(before S) (next S, err error) {
	set, err := sockets.New(s.options.Log, s.spare...)
	if err != nil {
		return next, err
	}
	if next, err = s.options.New(); err != nil {
		return next, err
	}
	next.Inherit(set, func() (*datadir.Dir, error) {
		lock, err := before.Lock()
		if err != nil {
			return nil, err
		}
		return datadir.Adopt(s.options.DataDir, lock)
	})
	err = next.Start(context.Background())
	return next, err
}

func closeSockets(list []sockets.Socket) {
	for _, one := range list {
		one.Close()
	}
}

// Release implements handover.Work.
func (s *Succession[S]) Release(next handover.Peer) {
	s.notify(s.options.Manager.Replaced(next.PID))
	closeSockets(s.spare)
	before := s.Current()
	s.mu.Lock()
	before.Release()
	s.mu.Unlock()
	s.options.Log.Info("another process has taken over; this one finishes its connections", "process", next.String())
	s.control.Stop()
	s.leaving.Go("drain", func() { before.Finish(s.cut) })
	background.Go("handover", func() {
		s.control.Wait() // until the requester has its reply
		s.leaving.Wait()
		close(s.over)
	})
}

// Reload asks the server of a data directory to start the program's file again as its
// successor, and returns when that serves.
func Reload(ctx context.Context, dataDir string) (string, error) {
	next, err := handover.Reload(ctx, dataDir)
	if err != nil {
		return "", err
	}
	return next.String(), nil
}

// SuccessorOf returns the function that starts program with the arguments of this process as
// its successor.
func SuccessorOf(program string, args, env []string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(program, args...) //nolint:gosec,noctx // the own program; it outlives this process
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the terminal is for this process
		cmd.Env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return slices.Contains(systemd.ListenVariables, name)
		})
		return cmd
	}
}
