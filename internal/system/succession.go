package system

import (
	"context"
	"errors"
	"fmt"
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
	"ingot/internal/platform/engine/choice"
	"ingot/internal/server/certs"
	"ingot/internal/server/handover"
	"ingot/internal/server/sockets"
	"ingot/internal/server/systemd"
)

// SuccessionOptions say how a server follows another process and is followed by one.
type SuccessionOptions struct {
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
type Succession struct {
	part    background.Part
	config  Config
	options SuccessionOptions
	control *handover.Control

	mu       sync.Mutex
	current  *System
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
	_ background.Service = (*Succession)(nil)
	_ handover.Work      = (*Succession)(nil)
)

// NewSuccession returns a server that is not running. It fails when the configuration is
// not valid.
func NewSuccession(c Config, o SuccessionOptions) (*Succession, error) {
	first, err := New(c)
	if err != nil {
		return nil, err
	}
	return &Succession{config: first.config, options: o, current: first, cut: make(chan struct{}), over: make(chan struct{})}, nil
}

// Current returns the running server.
func (s *Succession) Current() *System {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Over is closed when another process has taken over and the connections of this one have
// finished, or when the server could not continue; Err says which.
func (s *Succession) Over() <-chan struct{} { return s.over }

// Err returns why the server could not continue; nil if another process has taken over.
func (s *Succession) Err() error { return s.err }

// Start returns when the server is ready.
func (s *Succession) Start(ctx context.Context) error {
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

func (s *Succession) start(ctx context.Context) error {
	c, log := s.config, s.config.Log
	inherited := s.options.Inherited
	var before *handover.Predecessor
	if s.options.Replace {
		var list []sockets.Socket
		var err error
		if before, list, err = handover.Connect(ctx, c.DataDir, version.Version); err != nil {
			return err
		}
		inherited = append(inherited, list...)
	}
	set, err := sockets.New(log, inherited...)
	if err == nil {
		first := s.current
		first.handover.sockets = set
		if before != nil {
			log.Info("taking over from the running server", "server", before.String())
			first.handover.adopt = func() (*datadir.Dir, error) { return takeOver(c, before) }
		}
		err = first.Start(ctx)
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
	s.control = &handover.Control{Dir: c.DataDir, Version: version.Version, Work: s, Log: log}
	if err := s.control.Start(ctx); err != nil {
		log.Warn("this server cannot be replaced while it runs", "error", err)
	}
	set.KeepWith(s.options.Manager.Keeper())
	return nil
}

// takeOver gets the data directory of the server before this one. If that died, its lock is
// free.
func takeOver(c Config, before *handover.Predecessor) (*datadir.Dir, error) {
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	lock, err := before.Yield()
	if err != nil {
		return nil, err
	}
	if lock == nil {
		c.Log.Warn("the server that was to be replaced has died; starting without it")
		return datadir.Open(c.DataDir, c.Log)
	}
	return datadir.Adopt(c.DataDir, lock)
}

// checkFiles reads the files that a start needs, before the server that is replaced gives
// up its work: to continue, it would have to read them again.
func (c Config) checkFiles() error {
	if err := datadir.Readable(c.DataDir); err != nil {
		return err
	}
	if _, err := datadir.ReadKeys(c.DataDir, c.EncryptionKey); err != nil {
		return err
	}
	if err := choice.Check(c.DataDir); err != nil {
		return err
	}
	if _, err := certs.OpenFiles(c.pairs(), c.Log); err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	for _, authorities := range []struct{ flag, file string }{{"client-ca", c.ClientCA}, {"acme-ca", c.ACMECA}} {
		if authorities.file == "" {
			continue
		}
		if _, err := certs.Pool(authorities.file); err != nil {
			return fmt.Errorf("--%s: %w", authorities.flag, err)
		}
	}
	if c.DKIMKeyFile != "" {
		_, err := c.dkimKey()
		return err
	}
	return nil
}

// errOrphan means that systemd does not know this process.
var errOrphan = errors.New("the server that was to be replaced has died; systemd starts it again")

// follow tells the process before this one that this one serves.
func (s *Succession) follow(before *handover.Predecessor) error {
	defer before.Close()
	alive, err := before.Ready()
	switch {
	case err != nil:
		return fmt.Errorf("the server that was to be replaced: %w", err)
	case !alive && s.options.Manager != nil:
		return errOrphan
	case !alive:
		s.config.Log.Warn("the server that was to be replaced has died; its connections are lost")
	}
	return nil
}

// Stop stops the server, and cuts off what a replaced one still serves.
func (s *Succession) Stop() {
	s.part.HaltGently(func() {
		s.mu.Lock()
		s.stopping = true
		s.mu.Unlock()
		close(s.cut)
		if !s.Current().steps.Left() {
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
func (s *Succession) Admit(pid int) error {
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
func (s *Succession) Spawn() (pid int, exited <-chan error, err error) {
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
		replaced := s.current.steps.Left()
		s.mu.Unlock()
		if !replaced {
			s.notify(s.options.Manager.Ready("a new process failed; the server continues"))
		}
		return err
	}), nil
}

// notify logs that systemd could not be notified.
func (s *Succession) notify(err error) {
	if err != nil {
		s.config.Log.Warn("systemd could not be notified", "error", err)
	}
}

// Sockets implements handover.Work.
func (s *Succession) Sockets() ([]sockets.Socket, error) {
	return s.Current().handover.sockets.Sockets()
}

// Yield implements handover.Work.
func (s *Succession) Yield() (*os.File, error) {
	s.yielding.Store(true)
	// A part that stops closes its sockets; Resume needs them.
	var err error
	if s.spare, err = s.Sockets(); err != nil {
		return nil, err
	}
	s.Current().yield()
	return s.Current().handover.dir.Lock()
}

// Resume implements handover.Work: it continues with a new server in this process.
func (s *Succession) Resume(why error) error {
	s.mu.Lock()
	stopping := s.stopping
	s.mu.Unlock()
	before := s.Current()
	if stopping {
		closeSockets(s.spare)
		return errStopping
	}
	s.config.Log.Error("the new process did not take over; this one continues", "error", why)
	next, err := s.again(before)
	if err != nil {
		s.config.Log.Error("the server could not continue; start it with 'ingot up'", "error", err)
		s.err = fmt.Errorf("the server could not continue after a failed handover: %w", err)
		close(s.over)
		return s.err
	}
	next.handover.sockets.Open()
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	s.yielding.Store(false)
	before.release()
	next.handover.sockets.KeepWith(s.options.Manager.Keeper())
	s.leaving.Go("drain", func() { before.finish(s.cut) })
	return nil
}

// again starts a server that takes over from one of this process.
func (s *Succession) again(before *System) (*System, error) {
	set, err := sockets.New(s.config.Log, s.spare...)
	if err != nil {
		return nil, err
	}
	next, err := New(s.config)
	if err != nil {
		return nil, err
	}
	next.handover.sockets = set
	next.handover.adopt = func() (*datadir.Dir, error) {
		lock, err := before.handover.dir.Lock()
		if err != nil {
			return nil, err
		}
		return datadir.Adopt(s.config.DataDir, lock)
	}
	err = next.Start(context.Background())
	return next, err
}

func closeSockets(list []sockets.Socket) {
	for _, one := range list {
		one.Close()
	}
}

// Release implements handover.Work.
func (s *Succession) Release(next handover.Peer) {
	s.notify(s.options.Manager.Replaced(next.PID))
	closeSockets(s.spare)
	before := s.Current()
	s.mu.Lock()
	before.release()
	s.mu.Unlock()
	s.config.Log.Info("another process has taken over; this one finishes its connections", "process", next.String())
	s.control.Stop()
	s.leaving.Go("drain", func() { before.finish(s.cut) })
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
