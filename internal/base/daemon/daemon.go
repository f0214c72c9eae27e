package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
)

// Spec says what a Daemon runs.
type Spec struct {
	// Name is for messages.
	Name string
	// Dir holds all it has on disk: data, the log, what Prepare makes. It is
	// made when missing and belongs to Owner; others may pass to it only if
	// they may pass through its parents.
	Dir string
	// Owner is as whom it runs; nil means as ourselves.
	Owner *syscall.Credential
	// Program and Args start it in the foreground. Data has to be one of Args,
	// or the end of one after "=": by it leftovers are known.
	Program string
	Args    []string
	Env     []string
	Data    string
	// PIDFile is what the server itself writes, if it does.
	PIDFile string
	// Prepare is called before each start: it makes the data directory when
	// there is none, in a way that can be killed at any moment.
	Prepare func(ctx context.Context) error
	// Answers returns nil when the server does.
	Answers func(ctx context.Context) error
	// Stop is the signal that ends it in good order, without waiting for its
	// clients.
	Stop syscall.Signal
	Log  *slog.Logger
}

// Limits of the supervision.
const (
	startTime  = 90 * time.Second // until it has to answer; recovery takes its time
	askTime    = 5 * time.Second
	firstPause = 100 * time.Millisecond
	longPause  = 30 * time.Second
	steady     = time.Minute // who ran that long begins again with the first pause
	logBytes   = 8 << 20
)

// Daemon keeps a server running, from the first Ensure on until Stop.
type Daemon struct {
	background.Part
	spec Spec
	want chan struct{} // has a value when a start is wanted

	mu      sync.Mutex
	up      bool
	attempt int           // counts starts that ended: in answers, or in err
	err     error         // why the last attempt failed
	changed chan struct{} // closed and replaced with each change of the above
	pid     int
	stopped bool
}

// New returns a daemon that has to be started as a background.Service; the server
// itself waits for Ensure.
func New(spec Spec) *Daemon {
	if spec.Log == nil {
		spec.Log = slog.New(slog.DiscardHandler)
	}
	return &Daemon{spec: spec, want: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Start readies the supervision. The server is not started yet.
func (d *Daemon) Start(ctx context.Context) error {
	return d.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { d.supervise(work) })
		return nil
	})
}

// Stop ends the server and waits for it.
func (d *Daemon) Stop() { d.Halt(nil) }

// PID is that of the running server, 0 when there is none.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pid
}

// Up tells whether the server runs and answered when it was started.
func (d *Daemon) Up() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.up
}

// Wake starts the server unless it runs, and does not wait.
func (d *Daemon) Wake() {
	select {
	case d.want <- struct{}{}:
	default:
	}
}

// Ensure starts the server unless it runs, and waits until it answers. When
// that fails the reason is returned, and the supervision goes on trying.
func (d *Daemon) Ensure(ctx context.Context) error {
	d.Wake()
	d.mu.Lock()
	seen := d.attempt
	for {
		up, stopped, attempt, err, changed := d.up, d.stopped, d.attempt, d.err, d.changed
		d.mu.Unlock()
		switch {
		case up:
			return nil
		case stopped:
			return fmt.Errorf("%s does not run: %w", d.spec.Name, background.ErrStopped)
		case attempt > seen && err != nil:
			return fmt.Errorf("%s does not run: %w", d.spec.Name, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%s does not run: %w", d.spec.Name, err)
			}
			return fmt.Errorf("%s is not ready yet: %w", d.spec.Name, ctx.Err())
		}
		d.mu.Lock()
	}
}

func (d *Daemon) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// supervise is the life of the server.
func (d *Daemon) supervise(ctx context.Context) {
	defer d.set(func() { d.up, d.stopped = false, true })
	select {
	case <-ctx.Done():
		return
	case <-d.want:
	}
	for pause := firstPause; ; {
		began := time.Now()
		err := d.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steady {
			pause = firstPause
		}
		d.set(func() { d.up, d.err, d.attempt = false, err, d.attempt+1 })
		d.spec.Log.Warn("a server ended and is started again", "server", d.spec.Name, "reason", err, "in", pause.String(), "log", d.logPath())
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// once runs the server until it ends. Its error says why it did.
func (d *Daemon) once(ctx context.Context) error {
	s := d.spec
	if err := d.makeDir(); err != nil {
		return err
	}
	if err := EndLeftover(ctx, s.Program, s.Data, s.PIDFile, s.Stop); err != nil {
		return fmt.Errorf("ending the one that is left over: %w", err)
	}
	if s.Prepare != nil {
		if err := s.Prepare(ctx); err != nil {
			return err
		}
	}
	log, err := d.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := Command(context.WithoutCancel(ctx), s.Owner, s.Dir, s.Env, s.Program, s.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := background.Async("server of a service", cmd.Wait)
	d.set(func() { d.pid = cmd.Process.Pid })
	defer d.set(func() { d.pid = 0 })
	if err := d.await(ctx, ended); err != nil {
		return err
	}
	d.set(func() { d.up, d.err, d.attempt = true, nil, d.attempt+1 })
	select {
	case err := <-ended:
		return howEnded(err)
	case <-ctx.Done():
		stopChild(cmd.Process, s.Stop, ended)
		return ctx.Err()
	}
}

// await returns when the server answers, or with it ended.
func (d *Daemon) await(ctx context.Context, ended <-chan error) error {
	deadline := time.NewTimer(startTime)
	defer deadline.Stop()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, cancel := context.WithTimeout(ctx, askTime)
		err := d.spec.Answers(ask)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case end := <-ended:
			return howEnded(end)
		case <-ctx.Done():
		case <-deadline.C:
			err = fmt.Errorf("it does not answer: %w", err)
			d.kill(ended)
			return err
		case <-tick.C:
			continue
		}
		d.kill(ended)
		return ctx.Err()
	}
}

// kill ends a server that is not ready: in good order first, for it may be in
// the middle of its recovery.
func (d *Daemon) kill(ended <-chan error) {
	if p, err := os.FindProcess(d.PID()); err == nil && d.PID() > 0 {
		stopChild(p, d.spec.Stop, ended)
	}
}

func stopChild(p *os.Process, stop syscall.Signal, ended <-chan error) {
	_ = p.Signal(stop) // it may be gone already
	select {
	case <-ended:
	case <-time.After(patience):
		_ = p.Kill()
		<-ended
	}
}

func howEnded(err error) error {
	if err == nil {
		return errors.New("it ended by itself")
	}
	return fmt.Errorf("it ended: %w", err)
}

func (d *Daemon) logPath() string { return filepath.Join(d.spec.Dir, "log") }

// openLog continues the server's log, or begins a new one when it is long.
func (d *Daemon) openLog() (*os.File, error) {
	if info, err := os.Stat(d.logPath()); err == nil && info.Size() > logBytes {
		if err := os.Rename(d.logPath(), d.logPath()+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(d.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

func (d *Daemon) makeDir() error { return MakeDir(d.spec.Dir, d.spec.Owner) }

// MakeDir makes a directory that only its owner can look into.
func MakeDir(dir string, owner *syscall.Credential) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if owner == nil {
		return nil
	}
	return os.Chown(dir, int(owner.Uid), int(owner.Gid))
}

// Command is a program that runs as owner in a session of its own, so that a
// signal to our terminal is not its business. It sees nothing of our
// environment but PATH.
func Command(ctx context.Context, owner *syscall.Credential, dir string, env []string, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + dir}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: owner}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// Run runs a command of a server to its end. What it wrote is in the error.
func Run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		if len(out) > 2000 {
			out = out[len(out)-2000:]
		}
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

// WriteFile puts a whole file in place, durable, for owner alone.
func WriteFile(path string, content []byte, owner *syscall.Credential) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".new-*") // always 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already after the rename
	if owner != nil {
		err = tmp.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err == nil {
		_, err = tmp.Write(content)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
