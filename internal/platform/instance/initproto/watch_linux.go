package initproto

import (
	"context"
	"encoding/binary"
	"os"
	"sync"
	"syscall"

	"ingot/internal/base/background"
)

// The watched events of a directory: a segment grew, was created or deleted, or the
// directory itself was.
const (
	watchGrown   = syscall.IN_MODIFY
	watchChanged = syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MOVED_FROM | syscall.IN_MOVED_TO |
		syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF
)

// watcher is the only inotify instance of the process. It exists while there are
// subscribers; a directory is watched once, however many readers it has.
type watcher struct {
	mu   sync.Mutex
	f    *os.File
	fd   int
	dirs map[int32]map[*subscription]struct{} // by watch descriptor
}

var watched watcher

// subscribe wakes a reader when the directory may have changed.
func subscribe(dir string) *subscription {
	if s := watched.subscribe(dir); s != nil {
		return s
	}
	return polled.subscribe() // out of instances or watches, or the directory is gone
}

func (w *watcher) subscribe(dir string) *subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
		if err != nil {
			return nil
		}
		w.fd, w.f = fd, os.NewFile(uintptr(fd), "inotify")
		w.dirs = map[int32]map[*subscription]struct{}{}
		f := w.f
		background.GoLoop(context.Background(), "record watch", func() { w.run(f) }) // until f is closed
	}
	n, err := syscall.InotifyAddWatch(w.fd, dir, watchGrown|watchChanged|syscall.IN_ONLYDIR)
	if err != nil {
		w.closeIfUnused()
		return nil
	}
	wd := int32(n)
	subs := w.dirs[wd]
	if subs == nil {
		subs = map[*subscription]struct{}{}
		w.dirs[wd] = subs
	}
	s := newSubscription()
	subs[s] = struct{}{}
	f := w.f
	s.cancel = func() { w.remove(f, wd, s) }
	return s
}

func (w *watcher) remove(f *os.File, wd int32, s *subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f != f {
		return
	}
	// The kernel has removed the watch of a deleted directory itself.
	if subs := w.dirs[wd]; subs != nil {
		delete(subs, s)
		if len(subs) == 0 {
			delete(w.dirs, wd)
			_, _ = syscall.InotifyRmWatch(w.fd, uint32(wd)) // fails if the directory is just being deleted
		}
	}
	w.closeIfUnused()
}

func (w *watcher) closeIfUnused() {
	if len(w.dirs) == 0 {
		_ = w.f.Close() // ends run; nothing was written to it
		w.f = nil
	}
}

// run passes the kernel's notifications to subscribers until f is closed.
func (w *watcher) run(f *os.File) {
	buf := make([]byte, 16<<10)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		w.dispatch(f, buf[:n])
	}
}

func (w *watcher) dispatch(f *os.File, events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f != f {
		return
	}
	for len(events) >= syscall.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		size := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(size, len(events)):]
		if mask&syscall.IN_Q_OVERFLOW != 0 {
			for _, subs := range w.dirs {
				notifyAll(subs, true)
			}
			continue
		}
		subs := w.dirs[wd]
		if mask&(syscall.IN_IGNORED|syscall.IN_MOVE_SELF) != 0 {
			for s := range subs {
				s.gone.Store(true)
			}
		}
		notifyAll(subs, mask&^watchGrown != 0)
		if mask&syscall.IN_IGNORED != 0 {
			delete(w.dirs, wd)
		}
	}
	w.closeIfUnused()
}

func notifyAll(subs map[*subscription]struct{}, changed bool) {
	for s := range subs {
		s.notify(changed)
	}
}
