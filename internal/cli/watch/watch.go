package watch

import (
	"context"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// DefaultQuiet is how long no event may come until a change counts as complete:
	// editors write a new file and rename it, and tools change many files.
	DefaultQuiet = 30 * time.Millisecond
	// most is how many events in a row are waited for: a file that is written all the
	// time must not hide the others.
	most = 100
	// DefaultPoll is how often files have to be compared where the system has no watch
	// left.
	DefaultPoll = 500 * time.Millisecond
)

// Folders watches folders, not those below them. Its methods are safe for concurrent
// use.
type Folders struct {
	quiet, poll time.Duration
	events      *fsnotify.Watcher // nil if all folders are polled
	touched     chan struct{}     // something happened since the last Wait

	mu       sync.Mutex
	watched  map[string]bool
	degraded error // why folders are polled
}

// New returns a watcher of no folders. Without a system that reports changes, it
// lets the caller compare the files every poll.
func New(quiet, poll time.Duration) *Folders {
	f := &Folders{quiet: quiet, poll: poll, touched: make(chan struct{}, 1), watched: map[string]bool{}}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		f.degraded = err
		return f
	}
	f.events = events
	go f.collect()
	return f
}

// collect passes on that there are events.
func (f *Folders) collect() {
	for {
		select {
		case _, ok := <-f.events.Events:
			if !ok {
				return
			}
			f.touch()
		case _, ok := <-f.events.Errors:
			if !ok {
				return
			}
			f.touch() // events were lost
		}
	}
}

func (f *Folders) touch() {
	select {
	case f.touched <- struct{}{}:
	default:
	}
}

// Set watches these folders and no others. A folder that vanished meanwhile is left
// out: its parent reports that. If the system has no more watches, changes are found
// by polling.
func (f *Folders) Set(folders []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events == nil {
		return
	}
	wanted := make(map[string]bool, len(folders))
	for _, dir := range folders {
		wanted[dir] = true
		// Also one that is watched: it may be another folder of that name.
		if err := f.events.Add(dir); err != nil && exhausted(err) {
			f.degraded = err
		}
	}
	for dir := range f.watched {
		if !wanted[dir] {
			_ = f.events.Remove(dir) // it may be gone
		}
	}
	f.watched = wanted
}

// Degraded returns why changes are found by polling; nil if they are not.
func (f *Folders) Degraded() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.degraded
}

// Wait returns when something may have changed since the last call and nothing has
// happened for a moment, or when ctx is done.
func (f *Folders) Wait(ctx context.Context) error {
	var tick <-chan time.Time
	if f.Degraded() != nil {
		t := time.NewTicker(f.poll)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-tick:
		return nil
	case <-f.touched:
	}
	for range most {
		t := time.NewTimer(f.quiet)
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
			return nil
		case <-f.touched:
			t.Stop()
		}
	}
	return nil
}

// Close ends the watches.
func (f *Folders) Close() error {
	if f.events == nil {
		return nil
	}
	return f.events.Close()
}
