package logfiles

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"ingot/internal/base/background"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// batchRead is what is read from a segment at a time.
const batchRead = 64 << 10

// tail implements logs.Tail. It reads the files at its own pace.
type tail struct {
	app  *appLog
	wake chan struct{}

	cursor  frame.Cursor
	segment uint64 // current segment; 0: unknown
	begin   uint64 // number of the segment's first line
	offset  int64

	mu     sync.Mutex
	closed bool
}

// Tail implements logs.Store.
func (s *Store) Tail(app string, from logs.Start) (logs.Tail, error) {
	t := &tail{wake: make(chan struct{}, 1), cursor: frame.Cursor{Skip: math.MinInt64}}
	for {
		a, err := s.makeApp(app)
		if err != nil {
			return nil, err
		}
		if a.subscribe(t, from) {
			return t, nil
		}
	}
}

func (a *appLog) subscribe(t *tail, from logs.Start) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return false
	}
	t.app = a
	total := a.total()
	switch from.Kind {
	case logs.StartAfter:
		// A number from before a crash of the machine may be too high.
		t.cursor.Next = min(from.Lines, total) + 1
	case logs.StartNewest:
		t.cursor.Next = max(total-min(total, from.Lines), a.expired) + 1
	case logs.StartSince:
		t.cursor.Skip = from.Time
		t.cursor.Next = a.expired + 1
		for _, s := range append(slices.Clone(a.sealed), a.active) {
			if s.Count > 0 && s.Max > from.Time {
				break
			}
			t.cursor.Next += s.Count
		}
	}
	if a.tails == nil {
		a.tails = map[*tail]struct{}{}
	}
	a.tails[t] = struct{}{}
	return true
}

// At implements logs.Tail.
func (t *tail) At() uint64 { return t.cursor.Next - 1 }

// total returns the number of the newest line.
func (a *appLog) total() uint64 {
	n := a.expired + a.active.Count
	for _, s := range a.sealed {
		n += s.Count
	}
	return n
}

// Next implements logs.Tail.
func (t *tail) Next(ctx context.Context) (logs.Batch, error) {
	var missed uint64
	for {
		seg, gap, err := t.find()
		missed += gap
		switch {
		case err != nil:
			return logs.Batch{}, err
		case seg.Number != 0:
			b, err := t.read(seg)
			b.Missed += missed
			if err != nil || len(b.Entries) > 0 {
				return b, err
			}
			missed = b.Missed
			continue
		case missed > 0:
			return logs.Batch{Missed: missed, First: t.cursor.Next}, nil
		}
		select {
		case <-ctx.Done():
			return logs.Batch{}, ctx.Err()
		case <-t.wake:
		}
	}
}

// find returns the segment with the next line, or none if that has not arrived; gap is the
// number of lines that were dropped.
func (t *tail) find() (seg frame.Segment, gap uint64, err error) {
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return frame.Segment{}, 0, logs.ErrClosed
	}
	a := t.app
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.gone {
		return frame.Segment{}, 0, a.reason
	}
	if t.cursor.Next <= a.expired {
		gap = a.expired + 1 - t.cursor.Next
		t.cursor.Next = a.expired + 1
	}
	first := a.expired + 1
	for i := 0; i <= len(a.sealed); i++ {
		s := a.active
		if i < len(a.sealed) {
			s = a.sealed[i]
		}
		if t.cursor.Next < first+s.Count {
			if t.segment != s.Number {
				t.segment, t.begin, t.offset = s.Number, first, 0
				t.cursor.Begin(first)
			}
			return s, gap, nil
		}
		first += s.Count
	}
	return frame.Segment{}, gap, nil
}

// read reads on in a segment.
func (t *tail) read(seg frame.Segment) (logs.Batch, error) {
	f, err := os.Open(t.app.path(seg.Number))
	if errors.Is(err, os.ErrNotExist) {
		t.segment = 0
		return logs.Batch{First: t.cursor.Next}, nil // dropped meanwhile, which find will see
	}
	if err != nil {
		return logs.Batch{}, err
	}
	defer f.Close()
	pooled := frame.GetBuffer(0)
	defer frame.PutBuffer(pooled)
	for want := int64(batchRead); ; want *= 2 {
		want = min(want, seg.Size-t.offset)
		*pooled = slices.Grow((*pooled)[:0], int(want))[:want]
		if _, err := f.ReadAt(*pooled, t.offset); err != nil && !errors.Is(err, io.EOF) {
			return logs.Batch{}, err
		}
		b, used := t.cursor.Take(t.app.guid, *pooled, t.offset > 0)
		t.offset += int64(used)
		if used > 0 {
			return b, nil
		}
		if want == seg.Size-t.offset {
			// Damaged: the rest of the segment cannot be read.
			end := t.begin + seg.Count
			b := logs.Batch{Missed: end - t.cursor.Next, First: end}
			t.cursor.Next, t.segment = end, 0
			return b, nil
		}
	}
}

// Close implements logs.Tail.
func (t *tail) Close() {
	t.app.mu.Lock()
	delete(t.app.tails, t)
	t.app.mu.Unlock()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.signal()
}

func (t *tail) signal() { background.Kick(t.wake) }
