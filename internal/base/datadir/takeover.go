package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// lockPoll is how often a lock that is held is tried again.
	lockPoll = 20 * time.Millisecond
	// pidTimeout is how long a server may hold the lock without its pid in the lock
	// file: it writes it after locking, and removes it before it exits.
	pidTimeout = 15 * time.Second
)

// TakeOver opens a data directory that exists. If a server uses it, TakeOver sends
// that server a signal to stop and waits; stopped is its pid, also if TakeOver
// fails afterwards.
func TakeOver(ctx context.Context, path string) (d *Dir, stopped int, err error) {
	if err := isDataDir(path); err != nil {
		return nil, 0, err
	}
	lock, stopped, err := stopHolder(ctx, path)
	if err != nil {
		return nil, stopped, err
	}
	d, err = opened(path, lock)
	return d, stopped, err
}

// stopHolder locks a data directory. If a server holds the lock, stopHolder sends
// it a signal to stop and waits.
func stopHolder(ctx context.Context, path string) (lock *os.File, signalled int, err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	timeout := time.After(pidTimeout)
	for {
		lock, pid, err := tryLock(path)
		if !errors.Is(err, errHeld) {
			return lock, signalled, err
		}
		if pid > 0 && pid != signalled {
			if !holds(pid, path) {
				return nil, signalled, fmt.Errorf(
					"%s is used by a server that cannot be seen from here (its pid is %d, perhaps in a container): stop it there",
					path, pid)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, signalled, fmt.Errorf("the server (pid %d) cannot be told to stop: %w", pid, err)
			}
			signalled = pid
		}
		select {
		case <-tick.C:
		case <-timeout:
			if signalled == 0 {
				return nil, 0, fmt.Errorf("%s is used by a server that does not say which process it is: stop it by hand", path)
			}
		case <-ctx.Done():
			return nil, signalled, fmt.Errorf("the server (pid %d) has not stopped yet: %w", signalled, ctx.Err())
		}
	}
}

// Holder returns the process that uses a data directory, or 0 if there is none or it cannot be
// seen from here.
func Holder(path string) int {
	f, err := os.Open(filepath.Join(path, lockName))
	if err != nil {
		return 0
	}
	defer f.Close()
	if pid := holder(f); pid > 0 && holds(pid, path) {
		return pid
	}
	return 0
}

// holds reports whether a process has the lock file of a data directory open. The
// pid in it may belong to another process if the server runs in another pid
// namespace.
func holds(pid int, path string) bool {
	want, err := os.Stat(filepath.Join(path, lockName))
	if err != nil || pid == 0 {
		return false
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return true // then the signal fails too, and its error is returned
	}
	denied := false
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err == nil && os.SameFile(info, want) {
			return true
		}
		denied = denied || errors.Is(err, fs.ErrPermission)
	}
	// In a container without CAP_SYS_PTRACE not even root may look: the program's name has to do.
	return denied && commandOf(pid) == commandOf(os.Getpid())
}

// commandOf returns the name of a process's program.
func commandOf(pid int) string {
	name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // empty if it has ended
	return string(name)
}
