package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const prSetChildSubreaper = 36

// prepare makes ingot-init the parent of orphans and detects what the system
// offers.
func (h *host) prepare() error {
	if !h.first {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
			return fmt.Errorf("becoming the parent of orphans: %w", errno)
		}
	}
	groups, err := os.ReadFile("/proc/self/setgroups")
	h.noGroups = err == nil && strings.TrimSpace(string(groups)) == "deny"
	h.oom = newOOMCounter(h.first)
	return h.openGroups("/sys/fs/cgroup")
}

// tie makes a member die with ingot-init. In a pid namespace it does anyway.
func (h *host) tie(a *syscall.SysProcAttr) {
	if !h.first {
		a.Pdeathsig = syscall.SIGKILL
	}
}

const (
	oomScore = "/proc/self/oom_score_adj"
	// killFirst is the OOM score of the process that the kernel kills first.
	killFirst = "1000"
)

// expose makes the next started process the first candidate of the OOM killer,
// and restore resets that for ingot-init. A process inherits its score, and any
// process may raise its own and lower it again to the initial value; lowering it
// further would need privileges. So the kernel kills a member rather than the
// process that reports how it ended. Members are started one at a time.
func (h *host) expose() (restore func()) {
	write := func(value []byte) error { return os.WriteFile(oomScore, value, 0) }
	if h.score != nil {
		write = func(value []byte) error { _, err := h.score.WriteAt(value, 0); return err }
	}
	before, err := os.ReadFile(oomScore)
	if err != nil || write([]byte(killFirst)) != nil {
		return func() {} // the kernel then chooses by size alone
	}
	return func() { _ = write(before) } // returning to the initial value is always allowed
}

// childless reports whether no child is left, dead or alive. Every descendant is
// the child of a child, or became a child of ingot-init: so no descendant is left
// either.
func (h *host) childless() bool {
	const waitEvenUnreaped = syscall.WEXITED | syscall.WNOHANG | syscall.WNOWAIT
	const all = 0
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, all, 0, 0, waitEvenUnreaped, 0, 0)
		if errno != syscall.EINTR {
			return errno == syscall.ECHILD
		}
	}
}

// killAll kills all other processes of the instance.
func (h *host) killAll([]int) {
	if h.first {
		_ = syscall.Kill(-1, syscall.SIGKILL) // fails when there are none
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited in the meantime
	}
}

// descendants returns the descendants of a process, parents first.
func descendants(root int) []int {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	buffer := make([]byte, 1024) // a name has at most 64 bytes, and the parent follows soon
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, ok := parentOf(name, buffer); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// parentOf reads /proc/PID/stat: pid (name) state parent …, where the name may
// contain any character. It does not matter whether the process is shown as a zombie:
// one whose first thread has ended is, although its other threads run, and a signal
// does nothing to one that is dead.
// The buffer is used for each process, because every process of the machine is read.
func parentOf(pid string, buffer []byte) (parent int, ok bool) {
	file, err := syscall.Open("/proc/"+pid+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	n, err := syscall.Read(file, buffer)
	_ = syscall.Close(file)
	if err != nil || n <= 0 {
		return 0, false
	}
	_, rest, _ := bytes.Cut(buffer[bytes.LastIndexByte(buffer[:n], ')')+1:n], []byte(" ")) // before the state
	_, rest, _ = bytes.Cut(rest, []byte(" "))
	number, _, ok := bytes.Cut(rest, []byte(" "))
	parent, err = strconv.Atoi(string(number))
	return parent, ok && err == nil
}

// v2Events is the file of version 2 with the counts of a group.
const v2Events = "/memory.events"

// oomCounter counts the OOM kills in the control group, if that file is visible.
type oomCounter struct {
	file string
	seen int64
	// watched means that every kill ends the instance: see watch.
	watched bool
}

func newOOMCounter(first bool) oomCounter {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return oomCounter{}
	}
	return findOOMCounter("/sys/fs/cgroup", string(groups), first)
}

// findOOMCounter finds the file of our control group below root. Inside a
// container it is often at the root itself, whatever the path is outside. The
// root of the whole machine is of no use.
func findOOMCounter(root, groups string, first bool) oomCounter {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var mount, name string
		switch {
		case fields[1] == "": // version 2
			mount, name = root, v2Events
		case strings.Contains(","+fields[1]+",", ",memory,"):
			mount, name = root+"/memory", "/memory.oom_control"
		default:
			continue
		}
		paths := []string{fields[2]}
		if first {
			paths = append(paths, "")
		}
		for _, path := range paths {
			if strings.Trim(path, "/") == "" && !first {
				continue
			}
			c := oomCounter{file: mount + strings.TrimSuffix(path, "/") + name}
			if n, err := c.read(); err == nil {
				c.seen = n
				return c
			}
		}
	}
	return oomCounter{}
}

// outOfMemory reports whether the counter grew since the last call.
func (h *host) outOfMemory() bool {
	n, err := h.oom.read()
	if err != nil || n <= h.oom.seen {
		return false
	}
	h.oom.seen = n
	return true
}

// watchPause limits how often the counter is read: while memory is short, the kernel counts much else in
// the same file.
const watchPause = 100 * time.Millisecond

// watch sends a value when the kernel has killed a process of the instance: version 2 lets a file of
// counts be waited for. It needs a descriptor and no thread; inotify would use up what the owner of all
// instances may have.
func (c *oomCounter) watch() (<-chan time.Time, error) {
	f, err := os.Open(c.file)
	if err != nil {
		return nil, err
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("epoll_create1", err), f.Close())
	}
	err = syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, int(f.Fd()), &syscall.EpollEvent{Events: syscall.EPOLLPRI})
	if err == nil {
		err = syscall.SetNonblock(epoll, true) // so that the runtime waits for it
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("epoll_ctl", err), syscall.Close(epoll), f.Close())
	}
	waiter, err := os.NewFile(uintptr(epoll), "epoll").SyscallConn()
	if err != nil {
		return nil, err
	}
	c.watched = true
	killed, last := make(chan time.Time, 1), c.seen
	go func() {
		events := make([]syscall.EpollEvent, 1)
		for waiter.Read(func(fd uintptr) bool {
			n, _ := syscall.EpollWait(int(fd), events, 0)
			return n > 0
		}) == nil {
			content := make([]byte, 512)
			n, _ := f.ReadAt(content, 0) // reading is what makes the kernel report the next change
			if kills, err := parseKills(string(content[:n])); err == nil && kills > last {
				last = kills
				killed <- time.Now()
			}
			time.Sleep(watchPause)
		}
	}()
	return killed, nil
}

var errNoCounter = errors.New("no counter")

func (c oomCounter) read() (int64, error) {
	if c.file == "" {
		return 0, errNoCounter
	}
	content, err := os.ReadFile(c.file)
	if err != nil {
		return 0, err
	}
	return parseKills(string(content))
}

func parseKills(content string) (int64, error) {
	for line := range strings.Lines(content) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errNoCounter
}
