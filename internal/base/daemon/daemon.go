package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
)

// Spec describes the server that a Daemon runs.
type Spec struct {
	// Name is used in messages.
	Name string
	// Dir holds all files of the server: data, log, and files made by Prepare.
	// It is created if missing and belongs to Owner; other users can enter it
	// only if they can enter its parents.
	Dir string
	// Owner is the user the server runs as; nil means the current user.
	Owner *syscall.Credential
	// Program and Args start the server in the foreground. Data must be one of
	// Args, or the part of one after "=": it identifies processes left by an
	// earlier run.
	Program string
	Args    []string
	Env     []string
	Data    string
	// PIDFile is the file to which the server writes its pid, if it does.
	PIDFile string
	// Prepare is called before each start: it creates the data directory if it
	// does not exist. It may be killed at any time.
	Prepare func(ctx context.Context) error
	// Answers returns nil when the server is ready.
	Answers func(ctx context.Context) error
	// Stop is the signal for an orderly shutdown that does not wait for
	// clients.
	Stop syscall.Signal
	// Group limits the server; nil means no group.
	Group *cgroup.Group
	// MaxData limits the memory that each of its processes can write to, in bytes; 0 means no
	// limit. It is for servers without a Group.
	MaxData int64
	// StartTime is how long the server may take until it is ready; 0 means StartTime.
	StartTime time.Duration
	Log       *slog.Logger
}

// StartTime is long: a server that is ended while it recovers after a power failure begins again with the next start,
// on a slow disk for ever.
const StartTime = 15 * time.Minute

const (
	slowStart  = 90 * time.Second // after which the log says that the server is not ready
	askTime    = 5 * time.Second
	firstPause = 100 * time.Millisecond
	longPause  = 30 * time.Second
	steady     = time.Minute // a server that ran this long resets the pause
	logBytes   = 8 << 20
	// adoptedInterval is how often a process that is not a child is looked at.
	adoptedInterval = 200 * time.Millisecond
)

// Daemon keeps a server running from the first Ensure until Stop.
type Daemon struct {
	background.Part
	spec Spec
	want chan struct{} // holds a value when a start is requested

	mu      sync.Mutex
	up      bool
	attempt int           // number of completed starts, successful or not
	err     error         // why the last attempt failed
	changed chan struct{} // closed and replaced with each change of the above
	pid     int
	stopped bool
	leave   bool // Stop leaves the server running
}

// New returns a daemon, which has to be started as a background.Service; the
// server itself is started by Ensure.
func New(spec Spec) *Daemon {
	spec.Log = cmp.Or(spec.Log, slog.New(slog.DiscardHandler))
	spec.StartTime = cmp.Or(spec.StartTime, StartTime)
	return &Daemon{spec: spec, want: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Start starts the supervision, but not yet the server.
func (d *Daemon) Start(ctx context.Context) error { return d.Run(ctx, d.supervise) }

// Stop stops the server and waits for it to exit.
func (d *Daemon) Stop() { d.Halt(nil) }

// Leave ends the supervision and leaves the server running, for the next supervisor.
func (d *Daemon) Leave() {
	d.mu.Lock()
	d.leave = true
	d.mu.Unlock()
	d.Halt(nil)
}

func (d *Daemon) leaves() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leave
}

// PID returns the process id of the running server, or 0.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pid
}

// Up reports whether the server is running and became ready after its start.
func (d *Daemon) Up() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.up
}

// Wake starts the server if it is not running, without waiting.
func (d *Daemon) Wake() { background.Kick(d.want) }

// Ensure starts the server if it is not running, and waits until it is ready.
// When that fails, it returns the reason, and the supervision keeps trying.
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
			return fmt.Errorf("%s is not running: %w", d.spec.Name, background.ErrStopped)
		case attempt > seen && err != nil:
			return fmt.Errorf("%s is not running: %w", d.spec.Name, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%s is not running: %w", d.spec.Name, err)
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

// supervise runs the server and restarts it until ctx is done.
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
		d.spec.Log.Warn("server exited, restarting", "server", d.spec.Name, "reason", err, "in", pause.String(), "log",
			d.logPath())
		if !background.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, longPause)
	}
}

// once runs the server until it exits and returns the reason.
func (d *Daemon) once(ctx context.Context) error {
	s := d.spec
	if err := d.makeDir(); err != nil {
		return err
	}
	if pid := d.adoptable(); pid != 0 {
		return d.adopt(ctx, pid)
	}
	if err := StopLeftover(ctx, s.Program, s.Data, s.PIDFile, s.Stop); err != nil {
		return fmt.Errorf("stop the server of an earlier run: %w", err)
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
	program, args := s.command()
	cmd := Command(context.WithoutCancel(ctx), s.Owner, s.Dir, s.Env, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.Group.Start(cmd); err != nil {
		return err
	}
	ended := background.Async("server of a service", cmd.Wait)
	return d.tend(ctx, running{cmd.Process.Pid, ended, func() { stopChild(cmd.Process, s.Stop, ended) }})
}

// running is a process of the server.
type running struct {
	pid   int
	ended <-chan error
	stop  func() // returns when it has exited
}

// tend waits until the process is ready and then until it exits, and returns the reason. It stops the process when ctx
// is done, unless it is left to the next supervisor. One that is left may not be ready: it may recover, and would begin
// again.
func (d *Daemon) tend(ctx context.Context, r running) error {
	d.set(func() { d.pid = r.pid })
	defer d.set(func() { d.pid = 0 })
	exited, err := d.await(ctx, r)
	if err == nil {
		d.set(func() { d.up, d.err, d.attempt = true, nil, d.attempt+1 })
		select {
		case err := <-r.ended:
			return exitError(err)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if !exited && (ctx.Err() == nil || !d.leaves()) {
		r.stop()
	}
	return err
}

// command returns what starts the server. A shell limits its own memory and becomes the server: the
// limit of a process of another user cannot be set from outside.
func (s Spec) command() (program string, args []string) {
	if s.MaxData == 0 {
		return s.Program, s.Args
	}
	return "/bin/sh", append([]string{"-c", `ulimit -d "$0" && exec "$@"`, strconv.FormatInt(s.MaxData>>10, 10),
		s.Program}, s.Args...)
}

// adoptable returns the process of an earlier supervisor that runs the server as the same
// user, with the same arguments; 0 if there is none.
func (d *Daemon) adoptable() int {
	s := d.spec
	pids := withoutChildren(leftovers(s.Program, s.Data, s.PIDFile))
	owner := os.Geteuid()
	if s.Owner != nil {
		owner = int(s.Owner.Uid)
	}
	if len(pids) != 1 || ownerOf("/proc/"+strconv.Itoa(pids[0])) != owner ||
		!slices.Equal(arguments(pids[0]), append([]string{s.Program}, s.Args...)) {
		return 0
	}
	return pids[0]
}

// adopt supervises a process that is not a child until it exits, and returns the reason.
func (d *Daemon) adopt(ctx context.Context, pid int) error {
	s := d.spec
	s.Log.Info("adopted a server of an earlier run", "server", s.Name, "pid", pid)
	watch, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	was := statOf(pid)
	ended := background.Async("server of an earlier run", func() error {
		for runs(pid, s.Program, s.Data) || !hasExited(pid, was) {
			if !background.Sleep(watch, adoptedInterval) {
				return nil // it is left
			}
		}
		return nil
	})
	return d.tend(ctx, running{pid, ended, func() {
		// it has its own timeout
		_ = stopProcess(context.WithoutCancel(ctx), pid, s.Stop, func() bool { return !runs(pid, s.Program, s.Data) })
	}})
}

// await returns nil when the server is ready, and an error when it has exited, has no more time, or ctx is done.
func (d *Daemon) await(ctx context.Context, r running) (exited bool, err error) {
	deadline := time.NewTimer(d.spec.StartTime)
	defer deadline.Stop()
	slow := time.NewTimer(slowStart)
	defer slow.Stop()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, cancel := context.WithTimeout(ctx, askTime)
		err := d.spec.Answers(ask)
		cancel()
		if err == nil {
			return false, nil
		}
		select {
		case err := <-r.ended:
			return true, exitError(err)
		case <-ctx.Done():
			return false, ctx.Err()
		case <-deadline.C:
			return false, fmt.Errorf("not ready: %w", err)
		case <-slow.C:
			d.spec.Log.Warn("server is not ready yet, waiting", "server", d.spec.Name, "pid", d.PID(), "reason", err,
				"until", d.spec.StartTime.String(), "log", d.logPath())
		case <-tick.C:
		}
	}
}

func stopChild(p *os.Process, stop syscall.Signal, ended <-chan error) {
	_ = p.Signal(stop) // it may have exited
	select {
	case <-ended:
	case <-time.After(patience):
		_ = p.Kill()
		<-ended
	}
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exited")
	}
	return fmt.Errorf("exited: %w", err)
}

func (d *Daemon) logPath() string { return filepath.Join(d.spec.Dir, "log") }

// openLog opens the server's log for appending, or starts a new one when it is
// long.
func (d *Daemon) openLog() (*os.File, error) {
	if info, err := os.Stat(d.logPath()); err == nil && info.Size() > logBytes {
		if err := os.Rename(d.logPath(), d.logPath()+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(d.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// TrimLog empties the log of a running server that has become long. Clients of a server can write
// to it.
func (d *Daemon) TrimLog() {
	if info, err := os.Stat(d.logPath()); err == nil && info.Size() > 2*logBytes {
		_ = os.Truncate(d.logPath(), 0) // tried again
	}
}

func (d *Daemon) makeDir() error { return MakeDir(d.spec.Dir, d.spec.Owner) }

// MakeDir creates a directory that only its owner can read.
func MakeDir(dir string, owner *syscall.Credential) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if owner == nil {
		return nil
	}
	return os.Chown(dir, int(owner.Uid), int(owner.Gid))
}

// Command returns a command that runs as owner in its own session, so that
// signals of the terminal do not reach it. Its environment contains only PATH
// and env.
func Command(ctx context.Context, owner *syscall.Credential, dir string, env []string, program string,
	args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + dir}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: owner}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// Run runs a command and waits for it. The error contains its output.
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

// WriteFile atomically writes and syncs a file that only owner can read.
func WriteFile(path string, content []byte, owner *syscall.Credential) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".new-*") // always 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // does nothing after the rename
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

// SyncDir syncs a directory, so that its entries are durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
