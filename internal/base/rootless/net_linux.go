package rootless

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
)

// network is the network namespace of instances; nil if it is this process's.
var network = sync.OnceValues(func() (*os.File, error) {
	s := Current()
	if s == nil || s.Inside {
		return nil, nil //nolint:nilnil // none
	}
	f, err := os.Open("/proc/" + strconv.Itoa(s.Holder) + "/ns/net")
	if err != nil {
		return nil, fmt.Errorf("the network of instances is gone, because process %d has ended: %w", s.Holder, err)
	}
	return f, nil
})

// InNet calls f in the network of instances. A socket stays in the network that it was made in, wherever
// it is used.
func InNet[T any](f func() (T, error)) (result T, err error) {
	ns, err := network()
	if err != nil {
		return result, err
	}
	if ns == nil {
		return f()
	}
	w, err := takeWorker(ns)
	if err != nil {
		return result, err
	}
	err = w.call(func() (err error) { result, err = f(); return err })
	return result, err
}

// dials bounds the threads that connection attempts occupy: one that is not answered does so until its
// timeout, and the runtime ends a process with 10,000 threads.
var dials = make(chan struct{}, 1000)

// Dial is InNet for a connection attempt. Beyond a bound, attempts wait for others to end.
func Dial(ctx context.Context, connect func() (net.Conn, error)) (net.Conn, error) {
	if s := Current(); s == nil || s.Inside {
		return connect()
	}
	return bounded(ctx, dials, func() (net.Conn, error) { return InNet(connect) })
}

// bounded calls connect when a slot is free.
func bounded(ctx context.Context, slots chan struct{}, connect func() (net.Conn, error)) (net.Conn, error) {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-slots }()
	return connect()
}

// worker is a thread in the network of instances. It cannot go back to the network of the machine, which belongs
// to root, so it is kept for the next call.
type worker struct {
	calls chan func() error
	done  chan error
}

const idleWorkers = 16

var workers = make(chan *worker, idleWorkers)

func takeWorker(ns *os.File) (*worker, error) {
	select {
	case w := <-workers:
		return w, nil
	default:
	}
	w := &worker{calls: make(chan func() error), done: make(chan error)}
	background.Go("network of instances", func() {
		_ = OnOwnThread(func() error {
			err := os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET))
			w.done <- err
			if err != nil {
				return err
			}
			for f := range w.calls {
				w.done <- background.Do("network of instances", f)
			}
			return nil
		})
	})
	return w, <-w.done
}

func (w *worker) call(f func() error) error {
	w.calls <- f
	err := <-w.done
	select {
	case workers <- w:
	default:
		close(w.calls)
	}
	return err
}

// OnOwnThread calls f on a thread that ends afterwards.
func OnOwnThread(f func() error) error {
	return apart(func() (bool, error) { return false, f() })
}

// apart calls f on a thread that nothing else uses meanwhile. Unless f reports that the thread is as it was, it ends
// afterwards. It is never the first thread of the process, which does not end, and whose namespaces /proc/self shows
// as those of the process.
func apart(f func() (asBefore bool, err error)) error {
	return <-background.Async("network namespace", func() error {
		runtime.LockOSThread() // a thread that is still locked ends with its goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread() // unchanged, and occupied meanwhile
			return apart(f)
		}
		asBefore, err := f()
		if asBefore {
			runtime.UnlockOSThread()
		}
		return err
	})
}

// Within calls f on a thread in a network namespace.
func Within[T any](ns *os.File, f func() (T, error)) (result T, err error) {
	if s := Current(); s != nil && !s.Inside {
		err := OnOwnThread(func() (err error) {
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return os.NewSyscallError("setns", err)
			}
			result, err = f()
			return err
		})
		return result, err
	}
	err = apart(func() (bool, error) {
		return visit(ns, func() (err error) { result, err = f(); return err })
	})
	return result, err
}

// visit calls f in a network namespace; back reports whether the thread is in its own one again.
func visit(ns *os.File, f func() error) (back bool, err error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return true, err
	}
	defer home.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return true, os.NewSyscallError("setns", err)
	}
	err = f()
	return unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil, err
}
