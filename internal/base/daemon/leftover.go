package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/background"
)

// patience is how long a server may take to exit before it is killed.
const patience = 20 * time.Second

// StopLeftover stops every process that runs program on the data directory: a
// server whose supervisor was killed. It returns when none is left.
func StopLeftover(ctx context.Context, program, data, pidFile string, stop syscall.Signal) error {
	var errs []error
	for _, pid := range leftovers(program, data, pidFile) {
		if err := stopProcess(ctx, pid, stop, func() bool { return !runs(pid, program, data) }); err != nil {
			errs = append(errs, fmt.Errorf("process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// programs are the names of the programs that StopBelow stops.
var programs = []string{"postgres", "mariadbd", "mysqld", "redis-server", "valkey-server"}

// StopBelow stops every server of a kind that this package runs whose arguments
// name a directory below dir and whose user is the current user, root, or the
// owner of a directory there: servers whose supervisor is gone. It returns the
// names of the stopped programs.
func StopBelow(ctx context.Context, dir string) (ended []string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	owners, err := ownersOf(dir)
	if err != nil {
		return nil, err
	}
	all, err := Below(dir)
	if err != nil {
		return nil, err
	}
	var pids []int
	names := map[int]string{}
	for pid, args := range all {
		if owners[ownerOf("/proc/"+strconv.Itoa(pid))] {
			pids, names[pid] = append(pids, pid), filepath.Base(args[0])
		}
	}
	var errs []error
	for _, pid := range withoutChildren(pids) {
		program := names[pid]
		stop := syscall.SIGTERM
		if program == "postgres" {
			stop = syscall.SIGINT // without waiting for its clients
		}
		if err := stopProcess(ctx, pid, stop, func() bool { return !namesBelow(arguments(pid), dir) }); err != nil {
			errs = append(errs, fmt.Errorf("%s, process %d: %w", program, pid, err))
			continue
		}
		ended = append(ended, program)
	}
	return ended, errors.Join(errs...)
}

// Below returns the servers of a kind that this package runs whose arguments name a directory
// below dir, by their pids.
func Below(dir string) (map[int][]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int][]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		if args := arguments(pid); namesBelow(args, dir) && slices.Contains(programs, filepath.Base(args[0])) {
			all[pid] = args
		}
	}
	return all, nil
}

func namesBelow(args []string, dir string) bool {
	return len(args) > 1 && slices.ContainsFunc(args[1:], func(a string) bool {
		if _, value, found := strings.Cut(a, "="); found {
			a = value
		}
		return strings.HasPrefix(a, dir+string(filepath.Separator))
	})
}

// ownersOf returns the users whose processes may be servers of this data
// directory: the current user, root, and the owners of the entries of dir and below
// them.
func ownersOf(dir string) (map[int]bool, error) {
	owners := map[int]bool{0: true, os.Geteuid(): true}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		owners[ownerOf(path)] = true
		below, _ := os.ReadDir(path) // none in a file
		for _, one := range below {
			owners[ownerOf(filepath.Join(path, one.Name()))] = true
		}
	}
	delete(owners, nobody)
	return owners, nil
}

// nobody stands for the owner of a path that does not exist.
const nobody = -1

func ownerOf(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return nobody
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return nobody
}

// stopProcess signals a process that is not a child and waits until it is gone.
// A pid that disappears at once may belong to another process.
func stopProcess(ctx context.Context, pid int, stop syscall.Signal, gone func() bool) error {
	deadline := time.Now().Add(patience)
	was := statOf(pid)
	if gone() {
		return nil
	}
	ended := func() bool { return gone() && hasExited(pid, was) }
	for sig := stop; !ended(); {
		if err := syscall.Kill(pid, sig); errors.Is(err, syscall.ESRCH) {
			return nil
		} else if err != nil {
			return os.NewSyscallError("kill", err)
		}
		for !ended() {
			if !background.Sleep(ctx, 10*time.Millisecond) {
				return ctx.Err()
			}
			if time.Now().After(deadline) {
				sig, deadline = syscall.SIGKILL, time.Now().Add(patience)
				break
			}
		}
	}
	return nil
}

// leftovers returns the processes that run program on the data directory. The
// pid file names one; where the system lists all processes, they are searched
// too, because a server may be killed before it writes its pid file.
func leftovers(program, data, pidFile string) []int {
	var pids []int
	if text, err := os.ReadFile(pidFile); err == nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && pid > 1 && runs(pid, program, data) {
			pids = append(pids, pid)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid > 1 && (len(pids) == 0 || pids[0] != pid) && runs(pid, program, data) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// withoutChildren leaves out the processes whose parent is one of pids, too: a child
// of the server has its arguments until it sets its own, and is not a second server.
func withoutChildren(pids []int) []int {
	if len(pids) < 2 {
		return pids
	}
	var own []int
	for _, pid := range pids {
		// One without a parent has exited by now.
		if parent := statOf(pid).parent; parent != 0 && !slices.Contains(pids, parent) {
			own = append(own, pid)
		}
	}
	return own
}

// processStat is what /proc tells of a process.
type processStat struct {
	state   string // of the first thread
	threads string
	parent  int
	started string // in ticks since the machine started; a reused pid has another
}

// statOf returns nothing for a process that is gone, and on systems without /proc.
func statOf(pid int) processStat {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return processStat{}
	}
	// The name of the program, in parentheses, may hold any character.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return processStat{}
	}
	parent, _ := strconv.Atoi(fields[1]) // 0 for what is not a number
	return processStat{state: fields[0], threads: fields[17], parent: parent, started: fields[19]}
}

// hasExited reports whether the process that was is gone or waits for its parent only: one
// that exits has no arguments any more before its files and locks are closed, and its first
// thread may be gone before the others have closed them.
func hasExited(pid int, was processStat) bool {
	is := statOf(pid)
	return is.started != was.started || is.state == "" || (is.state == "Z" || is.state == "X") &&
		(is.threads == "1" || is.threads == "0")
}

// runs reports whether a process runs program on the data directory, by its
// arguments: a pid alone may have been reused.
func runs(pid int, program, data string) bool {
	args := arguments(pid)
	if len(args) < 2 || filepath.Base(args[0]) != filepath.Base(program) {
		return false
	}
	return slices.ContainsFunc(args[1:], func(a string) bool { return a == data || strings.HasSuffix(a, "="+data) })
}

// arguments returns the arguments of a process; none when it has exited.
func arguments(pid int) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat("/proc/self"); err == nil {
			return nil
		}
		// Systems without /proc have ps.
		out, err := exec.Command("ps", "-o", "command=", "-p", //nolint:noctx // it prints a line and ends
			strconv.Itoa(pid)).Output()
		if err != nil {
			return nil
		}
		return strings.Fields(string(out))
	}
	if err != nil {
		return nil
	}
	return strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
}
