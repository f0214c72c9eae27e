package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ingot/internal/platform/instance/initproto"
)

// host is the operating system as seen by the supervisor.
type host struct {
	spec     initproto.Spec
	first    bool // ingot-init is the first process of a pid namespace
	noGroups bool // the system does not allow dropping groups
	oom      oomCounter
	score    *os.File // oomScore, if it has to be kept open
	groups   []*group // of the members; nil for those without
}

func newHost(spec initproto.Spec) (*host, error) {
	h := &host{spec: spec, first: os.Getpid() == 1}
	if err := h.prepare(); err != nil {
		return nil, err
	}
	return h, nil
}

// startFailure is the reason why a member could not be started, with the exit
// status that a shell would return.
type startFailure struct {
	status int
	text   string
}

func (f *startFailure) Error() string { return f.text }

const (
	statusCannotRun = 126
	statusNotFound  = 127
)

// start starts a member in its own session.
func (h *host) start(m initproto.Member, o *output) (pid int, failure *startFailure) {
	if info, err := os.Stat(m.Dir); m.Dir != "" && (err != nil || !info.IsDir()) {
		return 0, &startFailure{statusCannotRun, fmt.Sprintf("%s: no such directory", m.Dir)}
	}
	path, err := findProgram(m)
	if err != nil {
		return 0, failed(m, err)
	}
	var files [3]*os.File // passed to the member
	var ends [2]*os.File  // kept by ingot-init
	defer func() {
		for _, f := range files {
			if f != nil {
				_ = f.Close() // nothing was written to it
			}
		}
	}()
	if files[0], err = noInput(); err != nil {
		return 0, failed(m, err)
	}
	for i := range ends {
		if ends[i], files[i+1], err = os.Pipe(); err != nil {
			return 0, failed(m, err)
		}
	}
	sys := h.attributes()
	if c := sys.Credential; c != nil {
		// Web servers open /dev/stdout by name for their logs. That needs
		// ownership of the pipe; without the permission to change it, only such
		// an open fails.
		_ = files[1].Chown(int(c.Uid), int(c.Gid))
		_ = files[2].Chown(int(c.Uid), int(c.Gid))
	}
	restore := h.expose()
	if m.Group != nil {
		pid, err = h.enter(path, m, files, sys)
	} else {
		pid, err = syscall.ForkExec(path, m.Args, &syscall.ProcAttr{
			Dir: m.Dir, Env: m.Env, Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}, Sys: sys,
		})
	}
	restore()
	if err != nil {
		for _, f := range ends {
			_ = f.Close() // nothing was written to it
		}
		return 0, failed(m, err)
	}
	go newStream(o, initproto.Stdout, ends[0]).run()
	go newStream(o, initproto.Stderr, ends[1]).run()
	return pid, nil
}

func failed(m initproto.Member, err error) *startFailure {
	f := &startFailure{status: statusCannotRun}
	if errors.Is(err, syscall.ENOENT) {
		f.status = statusNotFound
	}
	reason := err.Error()
	var number syscall.Errno
	var step *stepError
	if !errors.As(err, &step) && errors.As(err, &number) {
		reason = number.Error()
	}
	f.text = fmt.Sprintf("%s: %s", m.Args[0], reason)
	return f
}

// stepError is the failure of something before the program of a member runs.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

// attributes returns the attributes of a member's process.
func (h *host) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if h.spec.User > 0 && (h.spec.User != os.Getuid() || os.Getuid() == 0) {
		c := &syscall.Credential{Uid: uint32(h.spec.User), Gid: uint32(h.spec.Group), NoSetGroups: h.noGroups}
		if h.spec.Group == 0 {
			c.Gid = uint32(os.Getgid())
		}
		a.Credential = c
	}
	h.tie(a)
	return a
}

// noInput returns an empty standard input.
func noInput() (*os.File, error) {
	if f, err := os.Open(os.DevNull); err == nil {
		return f, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return r, w.Close()
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// findProgram finds a member's program as a shell in its directory and with its
// PATH would.
func findProgram(m initproto.Member) (string, error) {
	name := m.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := defaultPath
	for _, v := range m.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value // the last one wins
		}
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(m.Dir, dir)
		}
		candidate := filepath.Join(dir, name)
		info, err := os.Stat(candidate)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			denied = syscall.EACCES
		default:
			return candidate, nil
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%s: %w", name, syscall.ENOENT)
}

// signal and signalGroup must be called only for processes that are not reaped
// yet, so that their pids cannot be in use by another process.
func (h *host) signal(pid int, s syscall.Signal) {
	_ = syscall.Kill(pid, s) // it may have exited in the meantime
}

func (h *host) signalGroup(pid int, s syscall.Signal) {
	if syscall.Kill(-pid, s) != nil {
		_ = syscall.Kill(pid, s) // it may not lead its group yet, or may have exited
	}
}

var errNoneEnded = errors.New("no child has ended")

// reap returns a child that exited.
func (h *host) reap() (pid int, status syscall.WaitStatus, err error) {
	for {
		pid, err = syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, 0, err
		case pid == 0:
			return 0, 0, errNoneEnded
		default:
			return pid, status, nil
		}
	}
}
