package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// group is the control group of a member, as ingot-init sees it.
type group struct {
	limit int64  // of memory, if the member has its own
	dir   string // of the memory controller; "" if it is not visible
	v2    bool
	kills int64 // processes that the kernel has killed, as far as reported
	hits  int64 // how often its limit was the reason, likewise
}

// openGroups takes over the control groups of the members. A member that asks for limits
// without having a group is refused: nothing would enforce them.
func (h *host) openGroups(root string) error {
	h.groups = make([]*group, len(h.spec.Members))
	for i, m := range h.spec.Members {
		if m.Group == nil {
			if m.Memory > 0 || m.CPUWeight > 0 {
				return fmt.Errorf("member %q has its own limits, but no control group to enforce them", m.Name)
			}
			continue
		}
		for _, fd := range m.Group.Files {
			// Inherited without it: a member that could write there could leave its group.
			syscall.CloseOnExec(fd)
			if _, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil {
				return fmt.Errorf("control group of member %q: descriptor %d: %w", m.Name, fd, err)
			}
		}
		h.groups[i] = findGroup(root, m.Group.Name, m.Memory)
	}
	return nil
}

// findGroup finds the files of a group below the mount point of control groups.
func findGroup(root, name string, limit int64) *group {
	g := &group{limit: limit}
	for dir, v2 := range map[string]bool{filepath.Join(root, "memory", name): false, filepath.Join(root, name): true} {
		file := "memory.oom_control"
		if v2 {
			file = "memory.events"
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			g.dir, g.v2 = dir, v2
		}
	}
	g.kills, g.hits = g.counts()
	return g
}

// counts returns how many processes the kernel has killed in the group, and with version 2
// how often because the group reached its own limit.
func (g *group) counts() (kills, hits int64) {
	if !g.v2 {
		return g.field("memory.oom_control", "oom_kill "), 0
	}
	events := "memory.events.local" // without those of groups below
	if _, err := os.Stat(filepath.Join(g.dir, events)); err != nil {
		events = "memory.events"
	}
	return g.field("memory.events", "oom_kill "), g.field(events, "oom ")
}

// chargeBatch is how far a group may be from its limit when the kernel finds no memory left
// in it: the kernel takes it in batches.
const chargeBatch = 512 << 10

// reached reports whether the group's own limit was reached: with version 2 since an earlier
// number of hits. Version 1 has no such count if swap is limited too, only the most that was
// ever used.
func (g *group) reached(hits int64) bool {
	if g.v2 {
		return hits > g.hits
	}
	return g.field("memory.max_usage_in_bytes", "") >= g.limit-chargeBatch
}

// field reads a number after a key; 0 if there is none.
func (g *group) field(file, key string) int64 {
	content, err := os.ReadFile(filepath.Join(g.dir, file))
	if g.dir == "" || err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// outOfMemory reports whether the kernel has killed a process of the group since the last
// call, and the member's own limit if that was reached.
func (g *group) outOfMemory() (oom bool, limit int64) {
	kills, hits := g.counts()
	if kills <= g.kills {
		return false, 0
	}
	if g.limit > 0 && g.reached(hits) {
		limit = g.limit
	}
	g.kills, g.hits = kills, hits
	return true, limit
}

// kill kills all processes of the group.
func (g *group) kill() {
	content, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if g.dir == "" || err != nil {
		return
	}
	for line := range strings.Lines(string(content)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited in the meantime
		}
	}
}

// limitPause is the interval at which groups of version 1 are looked at.
const limitPause = time.Second

// watchLimits returns when to call killExceeded; nil if it is not needed. Version 2 kills
// the processes of a member's group together; version 1 kills the largest, and the rest would live on
// without it. A single member has the group of its instance, with ingot-init in it, which is to report
// the end: with version 2 it kills the others itself. Version 1 would have to be asked every second, in
// every instance.
func (h *host) watchLimits() <-chan time.Time {
	for _, g := range h.groups {
		switch {
		case g == nil && h.first && strings.HasSuffix(h.oom.file, v2Events):
			if killed, err := h.oom.watch(); err == nil {
				return killed
			}
		case g != nil && g.limit > 0 && !g.v2 && g.dir != "":
			return time.NewTicker(limitPause).C
		}
	}
	return nil
}

// killExceeded kills the rest of the members of which the kernel has killed a process.
func (h *host) killExceeded(members []int) {
	if h.oom.watched {
		h.killAll(members)
		return
	}
	for _, g := range h.groups {
		if g == nil || g.limit == 0 || g.v2 {
			continue
		}
		if kills, _ := g.counts(); kills > g.kills {
			g.kill()
		}
	}
}

// enterArg makes ingot-init move itself into a control group and then become a member.
const enterArg = "--enter"

// Descriptors of the program that enters a group, after the three of the member.
const (
	enterDocument = 3
	enterStatus   = 4
	enterFiles    = 5
)

// entry is what it has to do.
type entry struct {
	Path     string   `json:"path"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	Files    int      `json:"files"` // number of files of the group
	User     int      `json:"user"`  // 0 means to stay
	Group    int      `json:"group"`
	NoGroups bool     `json:"no_groups"`
}

// entryFailure is why it could not.
type entryFailure struct {
	Step  string `json:"step"`
	Errno int    `json:"errno"`
}

// enter starts a member in its control group: a copy of ingot-init moves itself there before
// it becomes the member, so that nothing of the member ever runs elsewhere. (Moving
// ingot-init would expose it to the limit; CLONE_INTO_CGROUP needs clone3, which the system
// call filter of instances cannot look into.)
func (h *host) enter(path string, m initproto.Member, files [3]*os.File, sys *syscall.SysProcAttr) (pid int,
	err error) {
	var pipes [4]*os.File // document: read, write; status: read, write
	defer func() {
		for _, f := range pipes {
			if f != nil {
				_ = f.Close() // closed before where that matters
			}
		}
	}()
	if pipes[0], pipes[1], err = os.Pipe(); err != nil {
		return 0, err
	}
	if pipes[2], pipes[3], err = os.Pipe(); err != nil {
		return 0, err
	}
	e := entry{Path: path, Args: m.Args, Env: m.Env, Dir: m.Dir, Files: len(m.Group.Files)}
	if c := sys.Credential; c != nil {
		e.User, e.Group, e.NoGroups = int(c.Uid), int(c.Gid), c.NoSetGroups
	}
	document, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	passed := []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd(), pipes[0].Fd(), pipes[3].Fd()}
	for _, fd := range m.Group.Files {
		passed = append(passed, uintptr(fd))
	}
	pid, err = syscall.ForkExec("/proc/self/exe", []string{"ingot-init", enterArg}, &syscall.ProcAttr{
		Env: []string{"GOMAXPROCS=1"}, Files: passed, Sys: &syscall.SysProcAttr{Setsid: sys.Setsid, Pdeathsig: sys.Pdeathsig},
	})
	if err != nil {
		return 0, err
	}
	_ = errors.Join(pipes[0].Close(), pipes[3].Close())
	_, _ = pipes[1].Write(document) // if it has died, that is reported as its exit
	_ = pipes[1].Close()
	answer, _ := io.ReadAll(pipes[2]) // ends when it has become the member, or died
	var failure entryFailure
	if len(answer) == 0 || json.Unmarshal(answer, &failure) != nil {
		return pid, nil
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	if failure.Step == "" {
		return 0, syscall.Errno(failure.Errno)
	}
	return 0, &stepError{failure.Step, syscall.Errno(failure.Errno)}
}

// runEnter is the program of enter. It returns only if it fails.
func runEnter() int {
	for fd := enterDocument; fd <= enterStatus; fd++ {
		syscall.CloseOnExec(fd)
	}
	step, err := enterAndExec()
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.EINVAL
	}
	answer, _ := json.Marshal(entryFailure{Step: step, Errno: int(errno)}) // plain fields only
	_, _ = syscall.Write(enterStatus, answer)
	return statusCannotRun
}

func enterAndExec() (step string, err error) {
	document, err := io.ReadAll(os.NewFile(enterDocument, "document"))
	if err != nil {
		return "reading what to start", err
	}
	var e entry
	if err := json.Unmarshal(document, &e); err != nil {
		return "reading what to start", err
	}
	for fd := enterFiles; fd < enterFiles+e.Files; fd++ {
		syscall.CloseOnExec(fd)
		if _, err := syscall.Write(fd, []byte("0")); err != nil {
			return "moving into its control group", err
		}
	}
	if e.User > 0 {
		if !e.NoGroups {
			if err := syscall.Setgroups([]int{}); err != nil {
				return "setgroups", err
			}
		}
		if err := syscall.Setgid(e.Group); err != nil {
			return "setgid", err
		}
		if err := syscall.Setuid(e.User); err != nil {
			return "setuid", err
		}
	}
	if e.Dir != "" {
		if err := syscall.Chdir(e.Dir); err != nil {
			return "", err
		}
	}
	return "", syscall.Exec(e.Path, e.Args, e.Env)
}
