//go:build linux

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

// kill kills every process of an instance and returns when none is left.
//
// ingot-init is stopped first, not killed: while it exists, processes that lose their
// parent become its children, so that none can escape.
func (e *Engine) kill(ctx context.Context, d *local.Dir) error {
	first, err := e.first(d)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	w := wanted{first: first, home: d.Path(), state: d.State()}
	if err := ignoreDone(first.Signal(syscall.SIGSTOP)); err != nil {
		return err
	}
	if err := w.killAll(ctx); err != nil {
		return err
	}
	if err := ignoreDone(first.Signal(syscall.SIGKILL)); err != nil {
		return err
	}
	if err := e.gone(ctx, d); err != nil {
		return err
	}
	return w.killAll(ctx)
}

func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// wanted identifies the processes of an instance.
type wanted struct {
	first local.ProcessID // ingot-init
	home  string          // the instance's directory, which is in their environment
	state initproto.State
}

// killAll kills all processes except ingot-init until none is left.
func (w wanted) killAll(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		left, err := w.find()
		if err != nil || len(left) == 0 {
			return err
		}
		var errs []error
		for _, s := range left {
			errs = append(errs, ignoreDone(s.ID().Signal(syscall.SIGKILL)))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if !background.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// find returns the instance's processes that have not ended, without ingot-init.
func (w wanted) find() ([]local.Stat, error) {
	table, err := local.Processes()
	if err != nil {
		return nil, err
	}
	var left []local.Stat
	for _, s := range local.Tree(table, func(s local.Stat) bool { return w.is(s, table) }) {
		if !s.Zombie() && s.ID() != w.first && s.PID != os.Getpid() {
			left = append(left, s)
		}
	}
	return left, nil
}

// is reports whether a process itself belongs to the instance, whatever its parent.
func (w wanted) is(s local.Stat, table map[int]local.Stat) bool {
	if w.first.PID != 0 {
		if s.ID() == w.first {
			return true
		}
		if s.ID().Boot != w.first.Boot || s.Start < w.first.Start {
			return false
		}
	}
	return s.PID != os.Getpid() && (w.marked(s) || w.orphan(s, table))
}

// marked reports whether a process has inherited the environment of the instance: a
// variable whose value is the instance's directory or a path below it, such as HOME. The
// working directory of a process proves nothing.
func (w wanted) marked(s local.Stat) bool {
	files := []string{"/proc/" + strconv.Itoa(s.PID) + "/environ"}
	if s.Headless() {
		files, _ = filepath.Glob("/proc/" + strconv.Itoa(s.PID) + "/task/*/environ")
	}
	var environ []byte
	for _, file := range files {
		// Empty if it has ended, or is of another user. All threads have the same one, and there
		// may be thousands.
		if environ, _ = os.ReadFile(file); len(environ) > 0 {
			break
		}
	}
	for v := range strings.SplitSeq(string(environ), "\x00") {
		if names(v, w.home) {
			return true
		}
	}
	return false
}

// names reports whether the value of a variable is dir or a path below it.
func names(variable, dir string) bool {
	name, value, _ := strings.Cut(variable, "=")
	rest, ok := strings.CutPrefix(value, dir)
	return ok && (rest == "" || rest[0] == '/') && name != "PWD" && name != "OLDPWD"
}

// orphan reports whether a process that has cleared its environment was left by a member
// when ingot-init was killed: it is in the session or process group that the member led. If
// the leader exists but does not belong to the instance, its pid was reused.
func (w wanted) orphan(s local.Stat, table map[int]local.Stat) bool {
	if w.first.PID == 0 || w.state.Phase == initproto.Ended || w.first.Alive() {
		return false
	}
	for _, m := range w.state.Members {
		if m.PID <= 1 || s.Group != m.PID && s.Session != m.PID {
			continue
		}
		leader, ok := table[m.PID]
		return !ok || leader.Zombie() || w.marked(leader)
	}
	return false
}
