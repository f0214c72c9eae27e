package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"ingot/internal/platform"
)

// Limits of ReadQuery.Limit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// The envelope types of log lines.
const (
	TypeLog = "LOG"
	TypeAny = "ANY"
)

// ReadQuery selects lines. The zero value selects the oldest hundred.
type ReadQuery struct {
	Start int64 // nanoseconds since 1970, inclusive
	End   int64 // exclusive; 0 means no end
	// Limit is the largest number of lines: DefaultLimit if 0, at most MaxLimit. In
	// ascending order, lines with the same time as the last one are added, because a reader
	// that continues after it would miss them.
	Limit      int
	Descending bool     // the newest first, instead of the oldest
	Types      []string // envelope types; only LOG (or ANY) has lines; none means all
}

// Read returns lines of an app in the order of their times; equal times are in the order of
// arrival. An unknown app has no lines.
func (s *Store) Read(app string, q ReadQuery) ([]platform.LogLine, error) {
	s.mu.RLock()
	a, stopped := s.apps[app], s.stopped
	s.mu.RUnlock()
	if stopped {
		return nil, ErrStopped
	}
	if a == nil || len(q.Types) > 0 && !slices.Contains(q.Types, TypeLog) && !slices.Contains(q.Types, TypeAny) {
		return nil, nil
	}
	return a.read(q, math.MaxUint64)
}

// read returns lines whose order is below until.
func (a *appLog) read(q ReadQuery, until uint64) ([]platform.LogLine, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	q.Limit = min(q.Limit, MaxLimit)
	if q.End == 0 {
		q.End = math.MaxInt64
	}
	a.store.reads <- struct{}{}
	defer func() { <-a.store.reads }()

	r := readers.Get().(*reader)
	r.query, r.until = q, until
	defer r.release()
	for _, seg := range a.overlapping(q) {
		if r.done(seg) {
			break
		}
		if err := r.load(a.path(seg.number), seg); err != nil {
			return nil, fmt.Errorf("read the log of app %s: %w", a.guid, err)
		}
	}
	return r.entries(a.guid), nil
}

// overlapping returns the segments that may hold lines of the query, in the order in which
// they must be read.
func (a *appLog) overlapping(q ReadQuery) []segment {
	a.mu.RLock()
	segs := append(slices.Clone(a.sealed), a.active)
	a.mu.RUnlock()
	segs = slices.DeleteFunc(segs, func(s segment) bool {
		return s.count == 0 || s.max < q.Start || s.min >= q.End
	})
	slices.SortStableFunc(segs, func(x, y segment) int {
		if q.Descending {
			return cmp.Compare(y.max, x.max)
		}
		return cmp.Compare(x.min, y.min)
	})
	return segs
}

// reader collects the lines of one query.
type reader struct {
	query ReadQuery
	until uint64
	lines []line // in ascending order, even if the newest are wanted
	bufs  []*[]byte
}

var (
	readers = sync.Pool{New: func() any { return new(reader) }}
	buffers = sync.Pool{New: func() any { return new([]byte) }}
)

func (r *reader) release() {
	for _, b := range r.bufs {
		if cap(*b) <= 2*maxSegment {
			buffers.Put(b)
		}
	}
	clear(r.bufs)
	clear(r.lines[:cap(r.lines)])
	if r.lines = r.lines[:0]; cap(r.lines) > 16*MaxLimit {
		r.lines = nil
	}
	r.bufs = r.bufs[:0]
	readers.Put(r)
}

func compareLines(x, y line) int {
	if x.at != y.at {
		return cmp.Compare(x.at, y.at)
	}
	return cmp.Compare(x.order, y.order)
}

// bounds returns the time range in which lines still matter.
func (r *reader) bounds() (from, to int64) {
	from, to = r.query.Start, r.query.End-1
	if len(r.lines) >= r.query.Limit {
		if r.query.Descending {
			from = r.lines[0].at
		} else {
			to = r.lines[len(r.lines)-1].at
		}
	}
	return from, to
}

// done reports whether neither seg nor the segments after it can have a line that the query
// selects.
func (r *reader) done(seg segment) bool {
	from, to := r.bounds()
	return seg.max < from || seg.min > to
}

// load adds the lines of a segment and keeps those that the query selects.
func (r *reader) load(path string, seg segment) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // dropped meanwhile
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b := buffers.Get().(*[]byte)
	r.bufs = append(r.bufs, b)
	*b = slices.Grow((*b)[:0], int(seg.size))[:seg.size]
	n, err := io.ReadFull(f, *b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	from, to := r.bounds()
	s := scanner{buf: (*b)[:n]}
	var l line
	for {
		// A damaged segment is read up to the damage.
		if more, _ := s.next(&l); !more {
			break
		}
		l.order |= seg.number << 32
		if l.at >= from && l.at <= to && l.order < r.until {
			r.lines = append(r.lines, l)
		}
	}
	if !slices.IsSortedFunc(r.lines, compareLines) {
		slices.SortFunc(r.lines, compareLines)
	}
	r.cut()
	return nil
}

// cut drops the lines above the limit.
func (r *reader) cut() {
	n := r.query.Limit
	if len(r.lines) <= n {
		return
	}
	if r.query.Descending {
		kept := copy(r.lines, r.lines[len(r.lines)-n:])
		r.lines = r.lines[:kept]
		return
	}
	for n < len(r.lines) && r.lines[n].at == r.lines[n-1].at {
		n++
	}
	r.lines = r.lines[:n]
}

// entries returns entries that do not share the buffers.
func (r *reader) entries(app string) []platform.LogLine {
	if r.query.Descending {
		slices.Reverse(r.lines)
	}
	total, n := 0, 0
	for ; n < len(r.lines) && (n == 0 || total+len(r.lines[n].text) <= maxPageBytes); n++ {
		total += len(r.lines[n].text)
	}
	// A page that is cut because of its size is not cut between equal times.
	if !r.query.Descending && n < len(r.lines) && r.lines[n].at == r.lines[n-1].at {
		if n = r.index(r.lines[n].at); n == 0 {
			n = r.index(r.lines[0].at + 1)
		}
	}
	text := make([]byte, 0, total)
	out := make([]platform.LogLine, n)
	for i, l := range r.lines[:n] {
		from := len(text)
		text = append(text, l.text...)
		out[i] = platform.LogLine{
			App: app, Time: time.Unix(0, l.at).UTC(), Source: l.origin.source, Instance: l.origin.instance, Stderr: l.stderr,
			Text: text[from:len(text):len(text)], Tags: l.origin.tags, Stream: l.origin.stream, Seq: l.seq,
		}
	}
	return out
}

// index returns the index of the first line at or after a time.
func (r *reader) index(at int64) int {
	i, _ := slices.BinarySearchFunc(r.lines, at, func(l line, at int64) int { return cmp.Compare(l.at, at) })
	return i
}
