package logdb

import (
	"context"
	"math"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/platform/logs/frame"
)

// feed collects which apps have new lines for the hoses of this server.
type feed struct {
	wake chan struct{}

	mu      sync.Mutex
	first   map[string]uint64 // first new line by app, 0 after the log was deleted
	every   bool              // any app may have new lines
	skipped bool              // there were new lines, but no hose
}

// add is called with the number of hoses as a function, which has to be called under the lock: an
// older answer would forget what was added after a hose was opened.
func (f *feed) add(app string, first uint64, hoses func() int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hoses() == 0 {
		f.skipped, f.first = true, nil
		return
	}
	if f.first == nil {
		f.first = map[string]uint64{}
	}
	if known, ok := f.first[app]; !ok || first < known {
		f.first[app] = first
	}
	f.signal()
}

func (f *feed) all() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.every = true
	f.signal()
}

func (f *feed) signal() { background.Kick(f.wake) }

func (f *feed) take() (first map[string]uint64, every, skipped bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, every, skipped = f.first, f.every, f.skipped
	f.first, f.every, f.skipped = nil, false, false
	return first, every, skipped
}

// feedHoses passes new lines of all servers to the hoses of this one.
func (s *Store) feedHoses(ctx context.Context) {
	var next map[string]uint64 // the next line for hoses, by app; nil if it is not known
	var fed map[string]bool    // whether lines of an app were passed since next is known
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.feed.wake:
		}
		first, every, skipped := s.feed.take()
		if s.readers.Hoses() == 0 {
			next = nil
			continue
		}
		if skipped {
			next = nil
		}
		begins := next == nil
		if begins || every {
			now, err := s.nextLines(ctx)
			if err != nil { // what is missed until then is not noticed
				background.Sleep(ctx, time.Second)
				s.feed.all()
				continue
			}
			if begins {
				next, fed = now, map[string]bool{}
			}
			if first == nil {
				first = map[string]uint64{}
			}
			for app, n := range now {
				if _, known := first[app]; !known && next[app] < n {
					first[app] = max(1, next[app])
				}
			}
		}
		for app, n := range first {
			known, ok := next[app]
			switch {
			case n == 0: // a later log begins with 1
				delete(next, app)
				continue
			case !ok, !fed[app] && n < known: // it was stored, but not announced, when this began
				next[app] = n
			}
			fed[app] = true
			s.feedApp(ctx, app, next)
		}
	}
}

// feedApp passes the lines of an app from next on.
func (s *Store) feedApp(ctx context.Context, app string, next map[string]uint64) {
	t := &tail{store: s, app: app, cursor: frame.Cursor{Next: next[app], Skip: math.MinInt64}}
	defer t.release()
	for {
		err := s.db.View(ctx, t.find)
		if err == nil && t.gap() {
			err = s.steady(ctx, t.find)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.options.Log.WarnContext(ctx, "lines for log streams of many apps cannot be read", "error", err)
			}
			break
		}
		if len(t.pieces) == 0 {
			break
		}
		for b, ok := t.take(); ok; b, ok = t.take() {
			s.readers.Offer(b.Entries)
		}
	}
	next[app] = t.cursor.Next
}

// nextLines returns the number of the next line of every app.
func (s *Store) nextLines(ctx context.Context) (all map[string]uint64, err error) {
	err = s.db.View(ctx, func(tx *db.Tx) error {
		all = map[string]uint64{}
		return each(tx, func(row db.Scanner) error {
			var app string
			var n uint64
			err := row.Scan(&app, &n)
			all[app] = n
			return err
		}, "SELECT app, next FROM log_apps")
	})
	return all, err
}
