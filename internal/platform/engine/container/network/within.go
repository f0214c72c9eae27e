//go:build linux

package network

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine/local"
)

// ErrEnded means that the process of an instance has ended.
var ErrEnded = errors.New("the instance has ended")

// Within calls f on a thread in a process's network namespace. A socket stays in the
// namespace it was created in, wherever it is used.
func Within[T any](p local.ProcessID, f func() (T, error)) (T, error) {
	var result T
	err := <-background.Async("engine dial", func() error {
		runtime.LockOSThread()
		back, err := visit(p, func() (err error) { result, err = f(); return err })
		if back {
			runtime.UnlockOSThread() // else the thread ends with this goroutine
		}
		return err
	})
	return result, err
}

// visit is Within for a locked thread; back reports whether the thread is back in its
// own namespace.
func visit(p local.ProcessID, f func() error) (back bool, err error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return true, err
	}
	defer home.Close()
	away, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/ns/net")
	if err != nil {
		return true, err
	}
	defer away.Close()
	if !p.Alive() {
		return true, ErrEnded
	}
	if err := unix.Setns(int(away.Fd()), unix.CLONE_NEWNET); err != nil {
		return true, os.NewSyscallError("setns", err)
	}
	err = f()
	return unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil, err
}
