//go:build linux

package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"ingot/internal/base/distro"
	"ingot/internal/platform/engine/local"
)

// runtimeOCI is the runc program and the directory of its state.
type runtimeOCI struct {
	root    string
	program atomic.Pointer[string]
}

func findRunc(explicit string) (string, error) {
	name := cmp.Or(explicit, "runc")
	path, err := exec.LookPath(name)
	if err != nil && explicit == "" {
		for _, p := range []string{"/usr/sbin/runc", "/usr/local/sbin/runc", "/usr/bin/runc", "/usr/local/bin/runc"} {
			if _, e := os.Stat(p); e == nil {
				return p, nil
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w; install it: %s", err, distro.Install("runc"))
	}
	return filepath.Abs(path)
}

// command runs runc with an empty environment.
func (r *runtimeOCI) command(ctx context.Context, args ...string) *exec.Cmd {
	program := "runc" // which then is not found
	if p := r.program.Load(); p != nil {
		program = *p
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--root", r.root}, args...)...)
	cmd.Env = []string{"PATH=" + pathInside}
	cmd.Dir = "/"
	return cmd
}

// state returns the directory of runc's state of an instance.
func (r *runtimeOCI) state(id string) string { return filepath.Join(r.root, id) }

func (r *runtimeOCI) fifo(id string) string { return filepath.Join(r.state(id), "exec.fifo") }

// create creates the container of a bundle, with a first process that waits for release.
// The output of that process and of runc goes to the file says. The process inherits files,
// from descriptor 3 on.
func (r *runtimeOCI) create(ctx context.Context, id, bundle, says string, files []*os.File) (local.ProcessID, error) {
	out, err := os.OpenFile(says, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return local.ProcessID{}, err
	}
	defer out.Close()
	pidFile := filepath.Join(bundle, "pid")
	cmd := r.command(ctx, "create", "--bundle", bundle, "--pid-file", pidFile, "--preserve-fds",
		strconv.Itoa(len(files)), id)
	cmd.ExtraFiles = files
	cmd.Stdout, cmd.Stderr = out, out
	// It must not continue when this server is killed meanwhile. The kernel watches the
	// thread, so the thread must stay.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	err = cmd.Run()
	runtime.UnlockOSThread()
	if err != nil {
		return local.ProcessID{}, fmt.Errorf("runc create: %w%s", err, lastWords(says))
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		return local.ProcessID{}, err
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		return local.ProcessID{}, fmt.Errorf("runc's pid file: %w", err)
	}
	return local.Identify(pid)
}

// lastWords returns the end of a file, for an error message.
func lastWords(path string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return ""
	}
	if n := len(b); n > 2000 {
		b = b[n-2000:]
	}
	return ": " + strings.TrimSpace(string(b))
}

// release starts a created container. It does the same as `runc start`, without starting a
// program: the first process waits until its fifo is read.
func (r *runtimeOCI) release(ctx context.Context, id string, first local.ProcessID) error {
	fifo := r.fifo(id)
	fd, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: fifo, Err: err}
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100) //nolint:gosec // a file descriptor
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		if n > 0 {
			var b [1]byte
			if n, err := unix.Read(fd, b[:]); err == nil && n > 0 {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !first.Alive() {
			return errors.New("ended before it was started")
		}
	}
	return os.Remove(fifo)
}

// waits reports whether a container was created and never released.
func (r *runtimeOCI) waits(id string) bool {
	_, err := os.Lstat(r.fifo(id))
	return !errors.Is(err, fs.ErrNotExist)
}

// version returns the name and release of runc, and known problems of it.
func (r *runtimeOCI) version(ctx context.Context) (name, problem string, err error) {
	out, err := r.command(ctx, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("%s --version: %w", *r.program.Load(), err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.Replace(line, " version", "", 1), RuncProblem(string(out)), nil
}

// RuncVersion returns the version of this machine's runc, and known problems of it.
func RuncVersion(ctx context.Context) (name, problem string, err error) {
	program, err := findRunc("")
	if err != nil {
		return "", "", err
	}
	r := &runtimeOCI{root: os.DevNull}
	r.program.Store(&program)
	return r.version(ctx)
}
