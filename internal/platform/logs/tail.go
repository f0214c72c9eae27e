package logs

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"ingot/internal/platform"
)

// SourceLogs is the source of lines by the log itself.
const SourceLogs = "LGR"

const (
	batchLines = 256
	batchBytes = 32 << 10 // text in a batch, except for a single longer line
	batchRead  = 64 << 10 // read from a segment at a time
)

// Start is the start position of a tail.
type Start struct {
	kind  startKind
	after uint64
	since int64
}

type startKind int

const (
	startAfter startKind = iota
	startNewest
	startSince
)

// After starts after the line with this number.
func After(number uint64) Start { return Start{kind: startAfter, after: number} }

// Newest starts with the newest existing lines.
func Newest(lines uint64) Start { return Start{kind: startNewest, after: lines} }

// Since starts with the first line, in the order of arrival, that is newer than t.
func Since(t time.Time) Start {
	if t.IsZero() {
		return Start{kind: startSince, since: math.MinInt64}
	}
	return Start{kind: startSince, since: t.UnixNano()}
}

// Tail reads an app's lines in the order of arrival, and waits for more. It reads the
// files, so it never delays the writer, and it misses lines only if they were dropped
// before it read them. Lines are numbered by arrival, from 1, without gaps and for the
// lifetime of the app, so that a number is enough to continue.
type Tail struct {
	app  *appLog
	wake chan struct{}

	next    uint64 // number of the next line
	skip    int64  // lines up to this time are skipped, until the first later one
	segment uint64 // current segment; 0: unknown
	begin   uint64 // number of the segment's first line
	offset  int64
	at      uint64 // number of the line at offset
	scan    scanner

	mu     sync.Mutex
	closed bool
}

// Batch is a sequence of consecutive lines.
type Batch struct {
	// Missed is the number of lines before the entries that were dropped before the tail
	// read them.
	Missed  uint64
	First   uint64 // number of the first entry
	Entries []platform.LogLine
}

// Last returns the number of the last line in the batch.
func (b Batch) Last() uint64 { return b.First + uint64(len(b.Entries)) - 1 }

// Tail subscribes to an app. The subscriber calls Next from one goroutine, and Close at the
// end.
func (s *Store) Tail(app string, from Start) (*Tail, error) {
	t := &Tail{wake: make(chan struct{}, 1), skip: math.MinInt64}
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

func (a *appLog) subscribe(t *Tail, from Start) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return false
	}
	t.app = a
	total := a.total()
	switch from.kind {
	case startAfter:
		// A number from before a crash of the machine may be too high.
		t.next = min(from.after, total) + 1
	case startNewest:
		t.next = max(total-min(total, from.after), a.expired) + 1
	case startSince:
		t.skip = from.since
		t.next = a.expired + 1
		for _, s := range append(slices.Clone(a.sealed), a.active) {
			if s.count > 0 && s.max > from.since {
				break
			}
			t.next += s.count
		}
	}
	if a.tails == nil {
		a.tails = map[*Tail]struct{}{}
	}
	a.tails[t] = struct{}{}
	return true
}

// At returns the number of the line before the next one.
func (t *Tail) At() uint64 { return t.next - 1 }

// total returns the number of the newest line.
func (a *appLog) total() uint64 {
	n := a.expired + a.active.count
	for _, s := range a.sealed {
		n += s.count
	}
	return n
}

// Next waits for lines. It fails with ctx, with ErrStopped if the store was stopped, and
// with ErrClosed if the tail was closed or the app deleted.
func (t *Tail) Next(ctx context.Context) (Batch, error) {
	var missed uint64
	for {
		seg, gap, err := t.find()
		missed += gap
		switch {
		case err != nil:
			return Batch{}, err
		case seg.number != 0:
			b, err := t.read(seg)
			b.Missed += missed
			if err != nil || len(b.Entries) > 0 {
				return b, err
			}
			missed = b.Missed
			continue
		case missed > 0:
			return Batch{Missed: missed, First: t.next}, nil
		}
		select {
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-t.wake:
		}
	}
}

// find returns the segment with the next line, or none if that has not arrived; gap is the
// number of lines that were dropped.
func (t *Tail) find() (seg segment, gap uint64, err error) {
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return segment{}, 0, ErrClosed
	}
	a := t.app
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.gone {
		return segment{}, 0, a.reason
	}
	if t.next <= a.expired {
		gap = a.expired + 1 - t.next
		t.next = a.expired + 1
	}
	first := a.expired + 1
	for i := 0; i <= len(a.sealed); i++ {
		s := a.active
		if i < len(a.sealed) {
			s = a.sealed[i]
		}
		if t.next < first+s.count {
			if t.segment != s.number {
				t.segment, t.begin, t.offset, t.at, t.scan = s.number, first, 0, first, scanner{}
			}
			return s, gap, nil
		}
		first += s.count
	}
	return segment{}, gap, nil
}

// read reads on in a segment.
func (t *Tail) read(seg segment) (Batch, error) {
	f, err := os.Open(t.app.path(seg.number))
	if errors.Is(err, os.ErrNotExist) {
		t.segment = 0
		return Batch{First: t.next}, nil // dropped meanwhile, which find will see
	}
	if err != nil {
		return Batch{}, err
	}
	defer f.Close()
	pooled := buffers.Get().(*[]byte)
	defer func() {
		if cap(*pooled) <= 2*maxSegment {
			buffers.Put(pooled)
		}
	}()
	for want := int64(batchRead); ; want *= 2 {
		want = min(want, seg.size-t.offset)
		*pooled = slices.Grow((*pooled)[:0], int(want))[:want]
		if _, err := f.ReadAt(*pooled, t.offset); err != nil && !errors.Is(err, io.EOF) {
			return Batch{}, err
		}
		b, moved := t.take(*pooled)
		if moved {
			return b, nil
		}
		if want == seg.size-t.offset {
			// Damaged: the rest of the segment cannot be read.
			end := t.begin + seg.count
			b := Batch{Missed: end - t.next, First: end}
			t.next, t.segment = end, 0
			return b, nil
		}
	}
}

// take returns the lines in buf, which starts at the offset. moved is false if not even one
// frame is complete.
func (t *Tail) take(buf []byte) (b Batch, moved bool) {
	s := &t.scan
	s.buf, s.off, s.middle = buf, 0, t.offset > 0
	var text []byte
	var l line
	for len(b.Entries) < batchLines && len(text) < batchBytes {
		more, _ := s.next(&l)
		if !more {
			break
		}
		number := t.at
		t.at++
		if number < t.next {
			continue
		}
		t.next = number + 1
		if l.at <= t.skip {
			continue
		}
		t.skip = math.MinInt64
		if len(b.Entries) == 0 {
			b.First, text = number, make([]byte, 0, min(len(buf), batchBytes))
		}
		from := len(text)
		text = append(text, l.text...)
		b.Entries = append(b.Entries, platform.LogLine{
			App: t.app.guid, Time: time.Unix(0, l.at).UTC(), Source: l.origin.source, Instance: l.origin.instance, Stderr: l.stderr,
			Text: text[from:len(text):len(text)], Tags: l.origin.tags, Stream: l.origin.stream, Seq: l.seq,
		})
	}
	t.offset += int64(s.off)
	moved = s.off > 0
	s.buf = nil
	if len(b.Entries) == 0 {
		b.First = t.next
	}
	return b, moved
}

// Close closes the subscription. It may be called more than once, and concurrently with
// Next.
func (t *Tail) Close() {
	t.app.mu.Lock()
	delete(t.app.tails, t)
	t.app.mu.Unlock()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.signal()
}

func (t *Tail) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
