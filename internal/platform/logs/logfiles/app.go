package logfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// appLog is the log of one app. Its lock is held during writes, so that a busy app delays
// no other.
type appLog struct {
	store *Store
	guid  string
	dir   string

	mu         sync.RWMutex
	gone       bool            // deleted or stopped: look it up again
	reason     error           // why it is gone
	sealed     []frame.Segment // oldest first
	active     frame.Segment   // number 0: there is none
	next       uint64          // number of the next segment
	broken     bool            // the active segment may end in a partial frame
	expired    uint64
	lost       uint64 // lost lines
	unreported uint64 // lost lines that are not in the log yet
	streams    map[string]*stream
	own        stream // of the lines without a stream
	tails      map[*tail]struct{}
	lastUsed   time.Time
	old        atomic.Int64 // bytes in sealed segments

	// State of the writer, while the active segment is open.
	file    *os.File
	encoder frame.Encoder
}

// stream is the position of one stream of records.
type stream struct {
	name string
	app  *appLog
	seq  atomic.Uint64 // of the last line in the files
	last int64         // time of that line
	lost atomic.Uint64 // lost lines

	// Values after the chunk under construction is written.
	nextSeq  uint64
	nextLast int64
	nextLost uint64
	touched  bool
}

// chunk is what is written to a segment with one write.
type chunk struct {
	buf     []byte
	scratch []byte
	seg     frame.Segment // number, min, max and count with the lines of the chunk
	fresh   bool          // it starts the segment
	first   int           // index of its first entry
	lost    uint64
	touched []*stream
	told    []platform.LogLine // for hoses, once it is written
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

func (c *chunk) reset() {
	clear(c.touched)
	c.buf, c.touched, c.fresh, c.lost, c.told = c.buf[:0], c.touched[:0], false, 0, nil
	if cap(c.buf) > 4*maxSegment {
		c.buf = nil
	}
}

// append writes entries, all of this app. retry is true if the app was deleted meanwhile.
// With tell, lines without a stream that cannot be written are counted, to be reported
// later.
func (a *appLog) append(entries []platform.LogLine, now time.Time, tell bool) (retry bool, err error) {
	c := chunks.Get().(*chunk)
	defer func() {
		c.reset()
		chunks.Put(c)
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return true, nil
	}
	a.lastUsed = now
	unreported := a.unreported
	if unreported > 0 {
		a.unreported = 0
		entries = append([]platform.LogLine{a.lossLine(unreported, now)}, entries...)
	}
	written, problems := a.appendLocked(c, entries, now)
	for i, e := range entries[written:] {
		switch {
		case unreported > 0 && written+i == 0:
			a.unreported += unreported
		case tell && e.Stream == "":
			a.unreported++
		}
	}
	if a.file != nil && a.store.open.Load() > int64(a.store.options.OpenFiles) {
		a.closeFile()
	}
	return false, errors.Join(problems...)
}

// lossLine returns the line that reports lines that could not be written.
func (a *appLog) lossLine(n uint64, now time.Time) platform.LogLine {
	return platform.LogLine{
		App: a.guid, Time: now, Source: logs.SourceLogs, Instance: "0", Stderr: true, Lost: n,
		Text: fmt.Appendf(nil, "%d lines about this app were lost: they could not be written to its log", n),
	}
}

// appendLocked returns how many entries were processed, without the first entry of a failed
// write and those after it.
func (a *appLog) appendLocked(c *chunk, entries []platform.LogLine, now time.Time) (written int, problems []error) {
	latest := now.Add(logs.MaxSkew)
	limit := a.store.segmentLimit()
	for i := range entries {
		e := &entries[i]
		st, err := a.streamOf(e)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if st != &a.own && e.Seq <= st.nextSeq {
			continue // already stored
		}
		if len(c.buf) > 0 && c.seg.Size+int64(len(c.buf)) >= limit {
			if err := a.flush(c); err != nil {
				return c.first, append(problems, err)
			}
		}
		if len(c.buf) == 0 {
			c.first = i
			a.begin(c, limit)
		}
		at := now.UnixNano()
		if !e.Time.IsZero() && e.Time.Before(latest) {
			at = e.Time.UnixNano()
		}
		if at <= st.nextLast {
			at = st.nextLast + 1
		}
		if !st.touched {
			st.touched, st.nextLost = true, st.lost.Load()
			c.touched = append(c.touched, st)
		}
		a.encode(c, e, at)
		st.nextSeq, st.nextLast = max(st.nextSeq, e.Seq), at
		st.nextLost += e.Lost
	}
	if len(c.buf) > 0 {
		if err := a.flush(c); err != nil {
			return c.first, append(problems, err)
		}
	}
	return len(entries), problems
}

// streamOf returns the stream of e and checks the origin of e.
func (a *appLog) streamOf(e *platform.LogLine) (*stream, error) {
	if err := frame.Check(e); err != nil {
		return nil, err
	}
	if e.Stream == "" {
		return &a.own, nil
	}
	if st, ok := a.streams[e.Stream]; ok {
		return st, nil
	}
	if err := frame.CheckStream(e.Stream); err != nil {
		return nil, err
	}
	return a.addStream(frame.StreamMark{Name: e.Stream})
}

func (a *appLog) addStream(m frame.StreamMark) (*stream, error) {
	st := &stream{name: m.Name, app: a, last: m.Last, nextSeq: m.Seq, nextLast: m.Last}
	st.seq.Store(m.Seq)
	st.lost.Store(m.Lost)
	if other, loaded := a.store.streams.LoadOrStore(m.Name, st); loaded {
		return nil, fmt.Errorf("stream %s belongs to app %s, not to %s", m.Name, other.(*stream).app.guid, a.guid)
	}
	if len(a.streams) >= a.store.maxStreams {
		a.forgetOldest()
	}
	if a.streams == nil {
		a.streams = map[string]*stream{}
	}
	a.streams[m.Name] = st
	return st, nil
}

// forgetOldest makes room for another stream. A stream of the current chunk stays.
func (a *appLog) forgetOldest() {
	var oldest *stream
	for _, st := range a.streams {
		if !st.touched && (oldest == nil || st.last < oldest.last) {
			oldest = st
		}
	}
	if oldest != nil {
		delete(a.streams, oldest.name)
		a.store.streams.CompareAndDelete(oldest.name, oldest)
	}
}

// begin starts a chunk: in the active segment, or in a new one if that is full or there is
// none.
func (a *appLog) begin(c *chunk, limit int64) {
	c.seg = a.active
	if a.active.Number == 0 || a.active.Size >= limit || a.broken {
		a.seal(limit)
		c.fresh = true
		c.seg = frame.Segment{Number: a.next}
		h := frame.Header{Expired: a.expired, Lost: a.lost, Segments: a.sealed}
		for _, st := range a.streams {
			h.Streams = append(h.Streams, frame.StreamMark{Name: st.name, Seq: st.seq.Load(), Last: st.last,
				Lost: st.lost.Load()})
		}
		if a.own.last != 0 {
			h.Streams = append(h.Streams, frame.StreamMark{Last: a.own.last, Lost: a.own.lost.Load()})
		}
		c.scratch = frame.AppendHeader(c.scratch[:0], &h)
		c.buf = frame.AppendFrame(c.buf, c.scratch)
	}
	if c.fresh || a.file == nil {
		a.encoder.Reset()
		if !c.fresh {
			c.buf = frame.AppendReset(c.buf)
		}
	}
}

// seal closes the active segment and drops the oldest ones above the app's share, with room
// for the next segment.
func (a *appLog) seal(next int64) {
	a.closeFile()
	if a.active.Count > 0 {
		a.sealed = append(a.sealed, a.active)
		a.old.Add(a.active.Size)
	} else if a.active.Number != 0 {
		_ = os.Remove(a.path(a.active.Number))
		a.store.disk.Add(-a.active.Size)
	}
	a.active, a.broken = frame.Segment{}, false
	for len(a.sealed) > 0 && a.old.Load()+next > a.store.options.PerAppBytes {
		a.dropOldest()
	}
}

// dropOldest removes the oldest sealed segment.
func (a *appLog) dropOldest() {
	s := a.sealed[0]
	a.sealed = slices.Delete(a.sealed, 0, 1)
	a.expired += s.Count
	a.old.Add(-s.Size)
	a.store.disk.Add(-s.Size)
	if err := os.Remove(a.path(s.Number)); err != nil {
		a.store.options.Log.Warn("removing an old log segment failed", "error", err)
	}
}

func (a *appLog) encode(c *chunk, e *platform.LogLine, at int64) {
	var text []byte
	var tags map[string]string
	c.buf, text, tags = a.encoder.Append(c.buf, e, at, &c.scratch)
	c.lost += e.Lost
	c.seg.Add(at)
	if a.store.readers.Hoses() > 0 {
		one := *e
		one.App, one.Time, one.Text, one.Tags, one.Lost = a.guid, time.Unix(0, at).UTC(), slices.Clone(text), tags, 0
		c.told = append(c.told, one)
	}
}

// flush writes the chunk. If it fails, the state is as before the chunk.
func (a *appLog) flush(c *chunk) error {
	err := a.write(c)
	for _, st := range c.touched {
		st.touched = false
		if err != nil {
			st.nextSeq, st.nextLast = st.seq.Load(), st.last
			continue
		}
		st.last = st.nextLast
		st.seq.Store(st.nextSeq)
		st.lost.Store(st.nextLost)
	}
	if err != nil {
		a.closeFile() // its origins are not in the file
		c.reset()
		return fmt.Errorf("write the log of app %s: %w", a.guid, err)
	}
	c.seg.Size += int64(len(c.buf))
	a.active, a.next = c.seg, c.seg.Number+1
	a.lost += c.lost
	a.store.lost.Add(c.lost)
	a.store.disk.Add(int64(len(c.buf)))
	for t := range a.tails {
		t.signal()
	}
	a.store.readers.Offer(c.told)
	c.reset()
	return nil
}

func (a *appLog) write(c *chunk) error {
	if a.file == nil {
		flags := os.O_WRONLY | os.O_APPEND
		if c.fresh {
			flags |= os.O_CREATE | os.O_EXCL
			if err := os.Mkdir(a.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
		f, err := os.OpenFile(a.path(c.seg.Number), flags, 0o600)
		if err != nil {
			if c.fresh && errors.Is(err, os.ErrExist) {
				a.next++ // not written by this store: leave it alone
			}
			return err
		}
		a.file = f
		a.store.open.Add(1)
	}
	n, err := a.file.Write(c.buf)
	if err == nil {
		return nil
	}
	switch {
	case c.fresh:
		_ = os.Remove(a.path(c.seg.Number))
	case n > 0:
		if cut := a.file.Truncate(c.seg.Size); cut != nil {
			a.broken = true // readers stop there, and the next line starts a new segment
		}
	}
	return err
}

func (a *appLog) closeFile() {
	if a.file == nil {
		return
	}
	if err := a.file.Close(); err != nil {
		a.store.options.Log.Warn("closing a log segment failed", "error", err)
	}
	a.file = nil
	a.encoder.Drop()
	a.store.open.Add(-1)
}

func (a *appLog) path(number uint64) string {
	return filepath.Join(a.dir, fmt.Sprintf("%016x.log", number))
}
