package logs

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	tailEntries = 4096
	tailBytes   = 1 << 20
)

// Tail is a subscription to an app's lines. It never holds up a writer: what it
// has no room for is missed, and counted.
type Tail struct {
	store *Store
	guid  string
	app   *appLog

	// The lines that were there when it began.
	backlog bool
	start   int64
	until   uint64

	mu     sync.Mutex
	queue  []Entry
	bytes  int64
	missed uint64
	ended  bool
	reason error
	wake   chan struct{}
}

// Batch is what a Tail has for its subscriber. The missed lines came after
// the entries and before those of the next batch.
type Batch struct {
	Entries []Entry
	Missed  uint64
}

// Tail subscribes to an app: first the lines after the given time that are
// there, in the order of their times, then new ones in the order in which they
// arrive. The subscriber calls Next from one goroutine, and Close at the end.
func (s *Store) Tail(app string, after time.Time) (*Tail, error) {
	t := &Tail{store: s, guid: app, backlog: true, wake: make(chan struct{}, 1)}
	if !after.IsZero() {
		t.start = after.UnixNano() + 1
	} else {
		t.start = math.MinInt64
	}
	for {
		a, err := s.makeApp(app)
		if err != nil {
			return nil, err
		}
		if a.subscribe(t) {
			return t, nil
		}
	}
}

func (a *appLog) subscribe(t *Tail) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return false
	}
	t.app = a
	t.until = max(a.active.number, 1)<<32 + uint64(a.active.size)
	if a.active.number == 0 {
		t.until = a.next << 32
	}
	if a.tails == nil {
		a.tails = map[*Tail]struct{}{}
	}
	a.tails[t] = struct{}{}
	return true
}

// Next waits for lines. It fails with ctx, with ErrStopped when the store was
// stopped, and with ErrClosed when the tail was closed or the app deleted.
func (t *Tail) Next(ctx context.Context) (Batch, error) {
	if t.backlog {
		entries, err := t.app.read(ReadQuery{Start: t.start, Limit: MaxLimit}, t.until)
		if err != nil {
			return Batch{}, err
		}
		if len(entries) > 0 {
			t.start = entries[len(entries)-1].Time.UnixNano() + 1
			return Batch{Entries: entries}, nil
		}
		t.backlog = false
	}
	for {
		t.mu.Lock()
		if len(t.queue) > 0 || t.missed > 0 {
			b := Batch{Entries: t.queue, Missed: t.missed}
			t.store.tailBytes.Add(-t.bytes)
			t.queue, t.bytes, t.missed = nil, 0, 0
			t.mu.Unlock()
			return b, nil
		}
		ended, reason := t.ended, t.reason
		t.mu.Unlock()
		if ended {
			return Batch{}, reason
		}
		select {
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-t.wake:
		}
	}
}

// Close ends the subscription. It may be called again.
func (t *Tail) Close() {
	t.app.mu.Lock()
	delete(t.app.tails, t)
	t.app.mu.Unlock()
	t.end(ErrClosed)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store.tailBytes.Add(-t.bytes)
	t.queue, t.bytes, t.missed = nil, 0, 0
}

// push is called by the writer, with the app locked.
func (t *Tail) push(entries []Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	for i := range entries {
		size := int64(len(entries[i].Text)) + 200
		full := t.missed > 0 || len(t.queue) >= tailEntries || t.bytes+size > tailBytes
		if full || t.store.tailBytes.Add(size) > t.store.tailLimit {
			if !full {
				t.store.tailBytes.Add(-size)
			}
			t.missed++
			continue
		}
		t.bytes += size
		t.queue = append(t.queue, entries[i])
	}
	t.signal()
}

func (t *Tail) end(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.ended, t.reason = true, reason
		t.signal()
	}
}

func (t *Tail) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
