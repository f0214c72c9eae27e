package logs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/platform"
)

// appLog is the log of one app. Its lock is held during writes, so that a busy app delays
// no other.
type appLog struct {
	store *Store
	guid  string
	dir   string

	mu       sync.RWMutex
	gone     bool      // deleted or stopped: look it up again
	reason   error     // why it is gone
	sealed   []segment // oldest first
	active   segment   // number 0: there is none
	next     uint64    // number of the next segment
	broken   bool      // the active segment may end in a partial frame
	expired  uint64
	lost     uint64 // lost lines
	owed     uint64 // lost lines that are not in the log yet
	streams  map[string]*stream
	own      stream // of the lines without a stream
	tails    map[*Tail]struct{}
	lastUsed time.Time
	old      atomic.Int64 // bytes in sealed segments

	// State of the writer, while the active segment is open.
	file    *os.File
	origins map[originKey]int
	recent  *origin // origin of the previous line, and its number
	number  int
	before  int64
}

type originKey struct{ stream, source, instance, tags string }

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
	seg     segment // number, min, max and count with the lines of the chunk
	fresh   bool    // it starts the segment
	first   int     // index of its first entry
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
	owed := a.owed
	if owed > 0 {
		a.owed = 0
		entries = append([]platform.LogLine{a.debt(owed, now)}, entries...)
	}
	written, problems := a.appendLocked(c, entries, now)
	for i, e := range entries[written:] {
		switch {
		case owed > 0 && written+i == 0:
			a.owed += owed
		case tell && e.Stream == "":
			a.owed++
		}
	}
	if a.file != nil && a.store.open.Load() > int64(a.store.options.OpenFiles) {
		a.closeFile()
	}
	return false, errors.Join(problems...)
}

// debt returns the line that reports lines that could not be written.
func (a *appLog) debt(n uint64, now time.Time) platform.LogLine {
	return platform.LogLine{
		App: a.guid, Time: now, Source: SourceLogs, Instance: "0", Stderr: true, Lost: n,
		Text: fmt.Appendf(nil, "%d lines about this app were lost: they could not be written to its log", n),
	}
}

// appendLocked returns how many entries were processed, without the first entry of a failed
// write and those after it.
func (a *appLog) appendLocked(c *chunk, entries []platform.LogLine, now time.Time) (written int, problems []error) {
	latest := now.Add(maxSkew)
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
		if len(c.buf) > 0 && c.seg.size+int64(len(c.buf)) >= limit {
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
	tags := 0
	for k, v := range e.Tags {
		tags += len(k) + len(v)
	}
	if len(e.Stream) > 256 || len(e.Source) > 512 || len(e.Instance) > 64 || tags > 16<<10 {
		return nil, fmt.Errorf("app %s: source, instance, stream or tags of a log line are too long", a.guid)
	}
	if e.Stream == "" {
		return &a.own, nil
	}
	if st, ok := a.streams[e.Stream]; ok {
		return st, nil
	}
	return a.addStream(streamMark{name: e.Stream})
}

func (a *appLog) addStream(m streamMark) (*stream, error) {
	st := &stream{name: m.name, app: a, last: m.last, nextSeq: m.seq, nextLast: m.last}
	st.seq.Store(m.seq)
	st.lost.Store(m.lost)
	if other, loaded := a.store.streams.LoadOrStore(m.name, st); loaded {
		return nil, fmt.Errorf("stream %s belongs to app %s, not to %s", m.name, other.(*stream).app.guid, a.guid)
	}
	if len(a.streams) >= a.store.maxStreams {
		a.forgetOldest()
	}
	if a.streams == nil {
		a.streams = map[string]*stream{}
	}
	a.streams[m.name] = st
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
	if a.active.number == 0 || a.active.size >= limit || a.broken {
		a.seal(limit)
		c.fresh = true
		c.seg = segment{number: a.next}
		h := header{expired: a.expired, lost: a.lost, segments: a.sealed}
		for _, st := range a.streams {
			h.streams = append(h.streams, streamMark{st.name, st.seq.Load(), st.last, st.lost.Load()})
		}
		if a.own.last != 0 {
			h.streams = append(h.streams, streamMark{"", 0, a.own.last, a.own.lost.Load()})
		}
		c.scratch = appendHeader(c.scratch[:0], &h)
		c.buf = appendFrame(c.buf, c.scratch)
	}
	if c.fresh || a.file == nil {
		a.origins, a.recent, a.before = map[originKey]int{}, nil, 0
		if !c.fresh {
			c.buf = appendFrame(c.buf, []byte{kindReset})
		}
	}
}

// seal closes the active segment and drops the oldest ones above the app's share, with room
// for the next segment.
func (a *appLog) seal(next int64) {
	a.closeFile()
	if a.active.count > 0 {
		a.sealed = append(a.sealed, a.active)
		a.old.Add(a.active.size)
	} else if a.active.number != 0 {
		_ = os.Remove(a.path(a.active.number))
		a.store.disk.Add(-a.active.size)
	}
	a.active, a.broken = segment{}, false
	for len(a.sealed) > 0 && a.old.Load()+next > a.store.options.PerAppBytes {
		a.dropOldest()
	}
}

// dropOldest removes the oldest sealed segment.
func (a *appLog) dropOldest() {
	s := a.sealed[0]
	a.sealed = slices.Delete(a.sealed, 0, 1)
	a.expired += s.count
	a.old.Add(-s.size)
	a.store.disk.Add(-s.size)
	if err := os.Remove(a.path(s.number)); err != nil {
		a.store.options.Log.Warn("removing an old log segment failed", "error", err)
	}
}

func (a *appLog) encode(c *chunk, e *platform.LogLine, at int64) {
	if a.recent == nil || a.recent.stream != e.Stream || a.recent.source != e.Source ||
		a.recent.instance != e.Instance || !maps.Equal(a.recent.tags, e.Tags) {
		a.recent = &origin{e.Stream, e.Source, e.Instance, maps.Clone(e.Tags)}
		key := originKey{e.Stream, e.Source, e.Instance, tagsKey(e.Tags)}
		number, known := a.origins[key]
		if !known {
			number = len(a.origins)
			a.origins[key] = number
			c.scratch = appendOrigin(c.scratch[:0], a.recent)
			c.buf = appendFrame(c.buf, c.scratch)
		}
		a.number = number
	}
	text := e.Text
	if len(text) > maxText {
		note := fmt.Sprintf(" … (%d bytes cut)", len(text)-maxText)
		text = append(slices.Clone(text[:maxText]), note...)
	}
	if e.Lost > 0 {
		c.scratch = appendLoss(c.scratch[:0], e.Stream, e.Lost)
		c.buf = appendFrame(c.buf, c.scratch)
		c.lost += e.Lost
	}
	c.scratch = appendLine(c.scratch[:0], e.Stderr, a.number, at-a.before, e.Seq, text)
	c.buf = appendFrame(c.buf, c.scratch)
	a.note(c, e, at, text)
	a.before = at
	c.seg.add(at)
}

func tagsKey(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		b.WriteString(strconv.Quote(k))
		b.WriteString(strconv.Quote(tags[k]))
	}
	return b.String()
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
	c.seg.size += int64(len(c.buf))
	a.active, a.next = c.seg, c.seg.number+1
	a.lost += c.lost
	a.store.lost.Add(c.lost)
	a.store.disk.Add(int64(len(c.buf)))
	for t := range a.tails {
		t.signal()
	}
	a.store.hoses.offer(c.told)
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
		f, err := os.OpenFile(a.path(c.seg.number), flags, 0o600)
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
		_ = os.Remove(a.path(c.seg.number))
	case n > 0:
		if cut := a.file.Truncate(c.seg.size); cut != nil {
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
	a.file, a.origins, a.recent = nil, nil, nil
	a.store.open.Add(-1)
}

func (a *appLog) path(number uint64) string {
	return filepath.Join(a.dir, fmt.Sprintf("%016x.log", number))
}
