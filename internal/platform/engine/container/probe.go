//go:build linux

package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container/network"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

// probeTime limits a trial. It takes a second, and can take more than a minute on an emulated machine that is
// busy: being slow is no reason to run nothing.
const probeTime = 5 * time.Minute

// wallTime is how long a connection attempt may take; the firewall rejects it at once, and
// one that drops packets is as good.
const wallTime = 2 * time.Second

// Open is like New, but returns only an engine in which a trial container has run. A
// complete run is the only proof; single capabilities only explain a failure. Nothing is
// left of the trial, nor of an engine that cannot be opened.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if err := ready(o); err != nil {
		return nil, err
	}
	_, err := os.Lstat(o.Root)
	fresh := errors.Is(err, fs.ErrNotExist)
	e, err := New(ctx, o)
	if err == nil {
		trial := trialID()
		if err = e.why(); err == nil {
			err = e.try(ctx, trial)
		}
		if err == nil {
			e.leaveTrial(ctx, trial)
			return e, nil
		}
		err = errors.Join(err, e.removeTrial(ctx, trial), e.Close())
	}
	if fresh {
		err = errors.Join(err, os.RemoveAll(o.Root))
	}
	return nil, unable(err)
}

// leaveTrial removes a trial container while the server starts. New instances wait for it, and so does Close. If it
// fails, the engine is paused, as by a failed trial, and Check tries again.
func (e *Engine) leaveTrial(ctx context.Context, id string) {
	e.trying, e.endTrial = make(chan struct{}), func() {}
	background.Go("trial container", func() {
		defer close(e.trying)
		err := errUntried // after a panic
		defer func() {
			if err != nil {
				err = unable(err)
				e.log.Error("the trial container could not be removed: no app instance is started until containers work again",
					"why", err)
				e.hold(err)
			}
		}()
		err = e.removeTrial(ctx, id)
	})
}

// removeTrial removes a trial container. If it fails, even by a panic, the container is remembered.
func (e *Engine) removeTrial(ctx context.Context, id string) error {
	e.setLeftTrial(id)
	err := e.Remove(context.WithoutCancel(ctx), id)
	if err == nil {
		e.setLeftTrial("")
	}
	return err
}

func (e *Engine) setLeftTrial(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leftTrial = id
}

// removeLeftTrial removes the trial container whose removal failed, if there is one.
func (e *Engine) removeLeftTrial(ctx context.Context) error {
	e.mu.Lock()
	id := e.leftTrial
	e.mu.Unlock()
	if id == "" {
		return nil
	}
	return e.removeTrial(ctx, id)
}

// Reopen is like Open, for a directory that has been used before. It does not wait for the
// trial, because running instances need the engine at once, and new ones wait for its result.
// If no container can run any more, the engine is paused: its instances are not affected, and
// Check tries again. tried is called with the reason, or nil, unless the engine is closed
// before.
func Reopen(ctx context.Context, o Options, tried func(error)) (*Engine, error) {
	if err := needsRoot(o); err != nil {
		return nil, err
	}
	e, err := adopt(ctx, o)
	if err != nil {
		return nil, unable(err)
	}
	trial, end := context.WithCancel(context.WithoutCancel(ctx))
	e.trying, e.endTrial = make(chan struct{}), end
	background.Go("trial container", func() {
		defer close(e.trying)
		defer end()
		err := errUntried // after a panic
		defer func() {
			if trial.Err() == nil {
				e.hold(err)
				tried(err)
			}
		}()
		err = e.check(trial)
	})
	return e, nil
}

// errUntried means that a trial did not end.
var errUntried = errors.New("the trial did not end")

// Check tests whether a paused engine can run containers again, and resumes it if so. It
// returns the reason if not.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.Tried(ctx); err != nil {
		return err
	}
	if err := e.net.Unprotected(); err != nil || e.why() == nil {
		return err // the firewall is restored without it
	}
	err := e.check(ctx)
	if ctx.Err() == nil {
		e.hold(err)
	}
	return err
}

// check tests whether containers can run, and returns the reason if not.
func (e *Engine) check(ctx context.Context) error {
	e.checking.Lock()
	defer e.checking.Unlock()
	err := e.able(ctx)
	if err == nil {
		err = e.tryAndRemove(ctx)
	}
	if err != nil {
		return unable(err)
	}
	return nil
}

func (e *Engine) tryAndRemove(ctx context.Context) (err error) {
	if err := e.removeLeftTrial(ctx); err != nil {
		return err // each trial would leave another one
	}
	trial := trialID()
	defer func() { err = errors.Join(err, e.removeTrial(ctx, trial)) }() // even after a panic
	return e.try(ctx, trial)
}

// Tried waits until the trial of Reopen has ended; Describe has its result then.
func (e *Engine) Tried(ctx context.Context) error {
	if e.trying == nil {
		return nil
	}
	select {
	case <-e.trying:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold pauses the engine for a reason; nil resumes it.
func (e *Engine) hold(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = why
}

// heldText is the message for users: the reason itself is about the machine.
const heldText = "the platform starts no instances at the moment because it cannot isolate them; the server's log " +
	"tells its operator why"

// why returns why the engine is paused; nil if it is not.
func (e *Engine) why() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.whyLocked()
}

func (e *Engine) whyLocked() error {
	if e.held != nil {
		return e.held
	}
	return e.net.Unprotected()
}

// heldBack returns why no instance is started. It waits for the trial of Reopen: a build or a
// task would fail because of it.
func (e *Engine) heldBack(ctx context.Context) error {
	if err := e.Tried(ctx); err != nil {
		return err
	}
	if err := e.why(); err != nil {
		return &engine.PlacementError{Reason: heldText, Err: err}
	}
	return nil
}

// Probe reports whether containers can run here, as Open does. Options.Root is not used.
func Probe(ctx context.Context, o Options) error {
	if err := ready(o); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ingot-probe")
	if err != nil {
		return err
	}
	o.Root = dir
	e, err := Open(ctx, o)
	if err == nil {
		err = e.Close()
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func needsRoot(o Options) error {
	if os.Geteuid() == 0 {
		return nil
	}
	if o.NotRoot != nil {
		return o.NotRoot
	}
	return errors.New("containers need root: start the server as root")
}

// ready checks what can be checked without a trial.
func ready(o Options) error {
	if err := needsRoot(o); err != nil {
		return err
	}
	if _, err := findRunc(o.Runc); err != nil {
		return err
	}
	_, err := local.InitPath(o.Init)
	return err
}

// unable explains why a trial failed.
func unable(err error) error {
	if reason := explain(); reason != nil {
		return fmt.Errorf("%w (the trial container said: %w)", reason, err)
	}
	return fmt.Errorf("the trial container failed: %w", err)
}

// trialPrefix begins the ids of trial containers.
const trialPrefix = "trial-"

const (
	trialMemory = 64 << 20
	trialDisk   = smallestDisk // its empty disk exists already
	trialPIDs   = 32
)

// trialScript runs as the user of members, who must be able to do what apps do and nothing
// more.
const trialScript = `
test "$(id -u)" = 2000 || { echo "user $(id -u)"; exit 1; }
grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status || { echo "has capabilities"; exit 1; }
grep -q '^NoNewPrivs:[[:space:]]*1' /proc/self/status || { echo "may gain privileges"; exit 1; }
grep -q '^Seccomp:[[:space:]]*2' /proc/self/status || { echo "has no system call filter"; exit 1; }
echo text >file && echo text >/tmp/file || exit 1
if touch /usr/ingot-probe 2>/dev/null; then echo "/usr is writable"; exit 1; fi
echo fine
exec sleep 60
`

// trialID returns the id of a trial container: a new one each time, because a killed server may have left one.
func trialID() string { return trialPrefix + strconv.FormatInt(time.Now().UnixNano(), 36) }

// try runs a trial container and checks its isolation. The caller removes it, whatever the result is.
func (e *Engine) try(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := e.begin(ctx, engine.Spec{
		ID:     id,
		Limits: engine.Limits{Memory: trialMemory, Disk: trialDisk, PIDs: trialPIDs},
		Launch: initproto.Spec{
			Instance: id, OneOff: true, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
			Members: []initproto.Member{{
				Name: "probe", Source: "PROBE", Args: []string{"/bin/sh", "-c", trialScript},
				Env: []string{"PATH=" + pathInside}, Dir: "{{home}}",
			}},
		},
	})
	if err != nil {
		return err
	}
	in, err := e.find(id)
	if err != nil {
		return err
	}
	if err := e.awaitOutput(ctx, id); err != nil {
		return err
	}
	for _, ns := range []string{"pid", "mnt", "net", "ipc", "uts", "user"} {
		ours, err1 := os.Readlink("/proc/self/ns/" + ns)
		theirs, err2 := os.Readlink("/proc/" + strconv.Itoa(in.Init.PID) + "/ns/" + ns)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if ours == theirs {
			return fmt.Errorf("it shares the host's %s namespace", ns)
		}
	}
	if err := e.limited(id); err != nil {
		return err
	}
	if err := e.checkFirewall(ctx, id); err != nil {
		return err
	}
	// Nothing listens there: a refusal is an answer and proves connectivity.
	conn, err := rootless.InNet(func() (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", net.JoinHostPort(in.Addr.String(), "1"))
	})
	if err == nil {
		return errors.Join(errors.New("another program answers at its address"), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("it cannot be reached by network: %w", err)
	}
	return nil
}

// limited checks that every limit of the trial is in force: no app would notice a limit
// that was silently skipped.
func (e *Engine) limited(id string) error {
	group := e.groupOf(id)
	if err := e.groups.CheckMemory(group, trialMemory); err != nil {
		return err
	}
	pids, err := e.groups.Processes(group)
	if err != nil {
		return fmt.Errorf("limit of processes: %w", err)
	}
	if pids != trialPIDs+pidsOfInit {
		return fmt.Errorf("its limit of processes is %d instead of %d", pids, trialPIDs+pidsOfInit)
	}
	if e.disks == nil {
		return nil // HardDisk is not promised
	}
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Join(e.bundle(id), "disk"), &st); err != nil {
		return fmt.Errorf("disk limit: %w", err)
	}
	if size := int64(st.Blocks) * st.Bsize; st.Type != unix.EXT4_SUPER_MAGIC || //nolint:gosec // far below 2^63
		size > imageSize(trialDisk) {
		return fmt.Errorf("its disk has %d bytes instead of %d", size, trialDisk)
	}
	return nil
}

// checkFirewall checks that the firewall keeps the trial from a listening port of this machine.
func (e *Engine) checkFirewall(ctx context.Context, id string) error {
	listener, err := rootless.InNet(func() (net.Listener, error) {
		var config net.ListenConfig
		return config.Listen(ctx, "tcp", net.JoinHostPort(e.net.Gateway().String(), "0"))
	})
	if err != nil {
		return fmt.Errorf("firewall: %w", err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(ctx, wallTime)
	defer cancel()
	conn, err := e.Dial(ctx, id, "tcp", listener.Addr().String())
	if err == nil {
		return errors.Join(errors.New("the firewall does not keep it from this machine"), conn.Close())
	}
	return nil
}

// awaitOutput waits for the output of the trial.
func (e *Engine) awaitOutput(ctx context.Context, id string) error {
	s, err := e.Records(ctx, id, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	var said []string
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			in, _ := e.find(id)
			return fmt.Errorf("it ended with the output %q%s", said, lastWords(filepath.Join(in.dir.Path(), initSays)))
		}
		if err != nil {
			return fmt.Errorf("waiting for its output: %w", err)
		}
		if string(r.Payload) == "fine" {
			return nil
		}
		if r.Kind != initproto.Event {
			said = append(said, string(r.Payload))
		}
	}
}

// explain looks for a single missing capability. It returns nil if all exist and a
// container still does not run.
func explain() error {
	for _, step := range []struct {
		name, hint string
		try        func() error
	}{
		{"making namespaces", "containers need CAP_SYS_ADMIN; in Docker: --privileged", tryNamespaces},
		{"making a user namespace", "see /proc/sys/user/max_user_namespaces and kernel.unprivileged_userns_clone",
			tryUserNamespace},
		{"control groups", "mount /sys/fs/cgroup writable", tryGroups},
		{"network links", "containers need CAP_NET_ADMIN and a kernel with bridge and veth", network.TryLinks},
		{"firewall", "containers need CAP_NET_ADMIN and a kernel with nftables", network.TryFirewall},
	} {
		if err := step.try(); err != nil {
			return fmt.Errorf("containers cannot run here: %s: %w; %s", step.name, err, step.hint)
		}
	}
	return nil
}

func tryNamespaces() error {
	return runIn(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS)
}

func tryUserNamespace() error { return runIn(unix.CLONE_NEWUSER) }

// runIn runs a program that does nothing in new namespaces.
func runIn(flags uintptr) error {
	cmd := exec.Command("/bin/true") //nolint:noctx // does nothing
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		u := newUsers()
		ids := u.mapping(u.first)
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
	}
	return cmd.Run()
}

func tryGroups() error {
	t, err := findGroups()
	if err != nil {
		return err
	}
	// Not the process's number: a group that a killed process left would have that name too.
	name := "ingot-try-" + rand.Text()
	if _, err := t.Create(name, "memory"); err != nil {
		return err
	}
	return t.Remove(context.Background(), name)
}
