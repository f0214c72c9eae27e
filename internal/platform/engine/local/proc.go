//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/platform/instance/initproto"
)

// ProcessID identifies one process of this machine permanently. A pid alone does not: it is
// reused, also after a reboot.
type ProcessID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the boot
	Boot  string `json:"boot"`
}

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// Identify returns the identity of the process that has the pid now.
func Identify(pid int) (ProcessID, error) {
	s, err := ReadStat(pid)
	if err != nil {
		return ProcessID{}, err
	}
	return s.ID(), nil
}

// Alive reports whether that very process still runs. A zombie does not.
func (p ProcessID) Alive() bool {
	s, err := p.stat()
	return err == nil && !s.Zombie()
}

// Exists is like Alive, but includes zombies.
func (p ProcessID) Exists() bool {
	_, err := p.stat()
	return err == nil
}

func (p ProcessID) stat() (Stat, error) {
	if p.PID <= 0 || p.Boot != bootID() {
		return Stat{}, os.ErrProcessDone
	}
	s, err := ReadStat(p.PID)
	if err != nil {
		return Stat{}, err
	}
	if s.Start != p.Start {
		return Stat{}, os.ErrProcessDone
	}
	return s, nil
}

// Displaced reports whether an instance ended with its machine: that was restarted since its
// ingot-init was started, and the instance had not failed before.
func Displaced(init ProcessID, state initproto.State) bool {
	return init.PID > 0 && init.Boot != bootID() && (state.Exit == nil || state.Exit.Stopped)
}

// Signal sends a signal to that very process, or returns os.ErrProcessDone.
func (p ProcessID) Signal(sig syscall.Signal) error {
	if p.PID <= 0 {
		return os.ErrProcessDone
	}
	// The handle is a pidfd: it refers to the process that had the pid when it was opened,
	// so checking the start time afterwards is not a race.
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer func() { _ = h.Release() }()
	if !p.Alive() {
		return os.ErrProcessDone
	}
	return h.Signal(sig)
}

// Wait waits until that very process has ended, which need not be a child, or until ctx
// ends.
func (p ProcessID) Wait(ctx context.Context) error {
	if !p.Alive() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return p.poll(ctx) // an old kernel, or one that forbids it
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if !p.Alive() { // after the handle was opened: it is the right process, or has ended
		return nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return p.poll(ctx)
	}
	stop := background.OnDone(ctx, "engine wait", func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// The handle becomes readable when the process ends.
	err = conn.Read(func(uintptr) bool { return !p.Alive() })
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return p.poll(ctx)
}

func (p ProcessID) poll(ctx context.Context) error {
	const interval = 100 * time.Millisecond
	for p.Alive() {
		if !background.Sleep(ctx, interval) {
			return ctx.Err()
		}
	}
	return nil
}

// Stat is one entry of the process table.
type Stat struct {
	PID, Parent, Group, Session int
	State                       byte // of the first thread
	Threads                     int
	Start                       uint64        // clock ticks since the boot
	CPU                         time.Duration // including children that were waited for
	Memory                      int64         // resident bytes
}

// Zombie reports whether it has ended but was not waited for. While other threads than the first
// run, it has not: it works on, or is about to close its files and ports.
func (s Stat) Zombie() bool { return s.Headless() && s.Threads <= 1 }

// Headless reports whether the first thread has ended. The process has no environment and no
// arguments then, but its other threads have.
func (s Stat) Headless() bool { return s.State == 'Z' || s.State == 'X' }

// ID returns the identity of the process.
func (s Stat) ID() ProcessID { return ProcessID{PID: s.PID, Start: s.Start, Boot: bootID()} }

var errStat = errors.New("unreadable process table")

// ReadStat reads an entry of the process table; os.ErrProcessDone if there is no such
// process.
func ReadStat(pid int) (Stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return Stat{}, os.ErrProcessDone
	}
	if err != nil {
		return Stat{}, err
	}
	return parseStat(b)
}

// Indexes of fields, by their number in proc(5) minus three, which is what parseStat skips.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldGroup   = 2
	fieldSession = 3
	fieldUser    = 11 // and system, and both of the children
	fieldThreads = 17
	fieldStart   = 19
	fieldRSS     = 21
)

// tick is the kernel's USER_HZ, which is 100 on every machine Go runs on.
const tick = time.Second / 100

func parseStat(b []byte) (Stat, error) {
	// The name, in parentheses, may contain anything, even a parenthesis.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Stat{}, errStat
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) <= fieldRSS {
		return Stat{}, errStat
	}
	var errs []error
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			errs = append(errs, err)
		}
		return n
	}
	s := Stat{
		PID:     int(number(strings.TrimSpace(string(b[:open])))),
		State:   f[fieldState][0],
		Parent:  int(number(f[fieldParent])),
		Group:   int(number(f[fieldGroup])),
		Session: int(number(f[fieldSession])),
		Threads: int(number(f[fieldThreads])),
		Start:   uint64(number(f[fieldStart])),
		Memory:  number(f[fieldRSS]) * int64(os.Getpagesize()),
	}
	for i := range 4 {
		s.CPU += time.Duration(number(f[fieldUser+i])) * tick
	}
	if len(errs) > 0 {
		return Stat{}, fmt.Errorf("%w: %w", errStat, errors.Join(errs...))
	}
	return s, nil
}

// Processes returns the process table, by pid. Processes that end meanwhile may be missing.
func Processes() (map[int]Stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	table := make(map[int]Stat, len(names)/2)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := ReadStat(pid); err == nil {
			table[pid] = s
		}
	}
	return table, nil
}

// Tree returns the processes that keep accepts and all their descendants.
func Tree(table map[int]Stat, keep func(Stat) bool) []Stat {
	in := map[int]bool{}
	var member func(pid, depth int) bool
	member = func(pid, depth int) bool {
		if known, ok := in[pid]; ok {
			return known
		}
		s, ok := table[pid]
		if !ok || depth > len(table) {
			return false
		}
		in[pid] = keep(s) || member(s.Parent, depth+1)
		return in[pid]
	}
	var tree []Stat
	for pid, s := range table {
		if member(pid, 0) {
			tree = append(tree, s)
		}
	}
	return tree
}
