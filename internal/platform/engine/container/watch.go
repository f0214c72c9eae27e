//go:build linux

package container

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine/local"
)

// watch reports the end of processes that are not children, with one thread for all of
// them.
type watch struct {
	epoll, wake int

	mu     sync.Mutex
	closed bool
	files  map[int32]*watched // by pidfd
	work   background.WaitGroup
}

// watched is one process. gone is closed when it has ended.
type watched struct {
	id   local.ProcessID
	gone chan struct{}
}

func newWatch() (*watch, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, //nolint:gosec // a file descriptor
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)})
		if err != nil {
			_ = unix.Close(wake)
		}
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	w := &watch{epoll: epoll, wake: wake, files: map[int32]*watched{}}
	w.work.Loop(context.Background(), "engine watch", w.run) // until close
	return w, nil
}

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// add starts watching a process; one that has ended is gone at once.
func (w *watch) add(id local.ProcessID) (*watched, error) {
	p := &watched{id: id, gone: ended}
	if !id.Alive() {
		return p, nil
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return p, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if !id.Alive() { // the pid was reused
		_ = unix.Close(fd)
		return p, nil
	}
	p.gone = make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		_ = unix.Close(fd)
		return nil, os.ErrClosed
	}
	w.files[int32(fd)] = p                                                                      //nolint:gosec // a file descriptor
	err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, //nolint:gosec // the same
		Fd: int32(fd)})
	if err != nil {
		delete(w.files, int32(fd)) //nolint:gosec // the same
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return p, nil
}

func (w *watch) run() {
	events := make([]unix.EpollEvent, 16)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if w.tell(events[:max(n, 0)]) {
			return
		}
	}
}

// tell reports the processes that have ended; closed is true when watching is over.
func (w *watch) tell(events []unix.EpollEvent) (closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		p, ok := w.files[e.Fd]
		if !ok {
			continue // the wake-up descriptor
		}
		delete(w.files, e.Fd)
		// Explicitly: a process that is being started may hold a copy of the file for a
		// moment, and then closing alone does not end the watch.
		_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, int(e.Fd), nil)
		_ = unix.Close(int(e.Fd))
		// If this server is PID 1 or a subreaper, it must reap the process.
		_, _ = unix.Wait4(p.id.PID, nil, unix.WNOHANG, nil)
		close(p.gone)
	}
	return w.closed
}

// close stops watching. Processes that were not gone are never reported.
func (w *watch) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	_, err := unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	w.mu.Unlock()
	w.work.Wait()
	for fd := range w.files {
		_ = unix.Close(int(fd))
	}
	return errors.Join(err, unix.Close(w.epoll), unix.Close(w.wake))
}
