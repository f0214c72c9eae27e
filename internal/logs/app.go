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
)

// appLog is the log of one app. Its lock is held while it writes, so that one
// app's flood delays nobody else.
type appLog struct {
	store *Store
	guid  string
	dir   string

	mu       sync.RWMutex
	gone     bool      // deleted or stopped: look it up again
	sealed   []segment // oldest first
	active   segment   // number 0: there is none
	next     uint64    // number of the next segment
	broken   bool      // the active segment may end in something torn
	expired  uint64
	streams  map[string]*stream
	own      stream // of the lines without a stream
	tails    map[*Tail]struct{}
	lastUsed time.Time

	// The writer's state, while the active segment is open.
	file    *os.File
	origins map[originKey]int
	recent  *origin // the origin of the line before, and its number
	number  int
	before  int64
}

type originKey struct{ stream, source, instance, tags string }

// stream is where one stream of records stands.
type stream struct {
	name string
	app  *appLog
	seq  atomic.Uint64 // of the last line in the files
	last int64         // time of that line

	// What they will be when the chunk that is being made is written.
	nextSeq  uint64
	nextLast int64
	touched  bool
}

// chunk is what goes into a segment with one write.
type chunk struct {
	buf     []byte
	scratch []byte
	seg     segment // number, min, max and count with the lines of the chunk
	fresh   bool    // it begins the segment
	touched []*stream
	entries []Entry // for the tails, when there are any
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

func (c *chunk) reset() {
	clear(c.touched)
	clear(c.entries)
	c.buf, c.touched, c.entries, c.fresh = c.buf[:0], c.touched[:0], c.entries[:0], false
	if cap(c.buf) > 4*maxSegment {
		c.buf = nil
	}
}

// append writes entries, all of this app. retry says that the app was deleted
// meanwhile.
func (a *appLog) append(entries []Entry, now time.Time) (retry bool, err error) {
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
	latest := now.Add(maxSkew)
	limit := a.store.segmentBytes

	var problems []error
	for i := range entries {
		e := &entries[i]
		st, err := a.streamOf(e)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if st != &a.own && e.Seq <= st.nextSeq {
			continue // it is there already
		}
		if len(c.buf) > 0 && c.seg.size+int64(len(c.buf)) >= limit {
			if err := a.flush(c); err != nil {
				return false, errors.Join(append(problems, err)...)
			}
		}
		if len(c.buf) == 0 {
			a.begin(c)
		}
		at := now.UnixNano()
		if !e.Time.IsZero() && e.Time.Before(latest) {
			at = e.Time.UnixNano()
		}
		if at <= st.nextLast {
			at = st.nextLast + 1
		}
		a.encode(c, e, at)
		st.nextSeq, st.nextLast = max(st.nextSeq, e.Seq), at
		if !st.touched {
			st.touched = true
			c.touched = append(c.touched, st)
		}
		if len(a.tails) > 0 {
			copied := *e
			copied.Time, copied.Text = time.Unix(0, at).UTC(), slices.Clone(e.Text)
			c.entries = append(c.entries, copied)
		}
	}
	if len(c.buf) > 0 {
		if err := a.flush(c); err != nil {
			problems = append(problems, err)
		}
	}
	if a.file != nil && a.store.open.Load() > int64(a.store.options.OpenFiles) {
		a.closeFile()
	}
	return false, errors.Join(problems...)
}

// streamOf finds the stream of e and checks what e says of its origin.
func (a *appLog) streamOf(e *Entry) (*stream, error) {
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
	return a.addStream(e.Stream, 0, 0)
}

func (a *appLog) addStream(name string, seq uint64, last int64) (*stream, error) {
	st := &stream{name: name, app: a, last: last, nextSeq: seq, nextLast: last}
	st.seq.Store(seq)
	if other, loaded := a.store.streams.LoadOrStore(name, st); loaded {
		return nil, fmt.Errorf("stream %s belongs to app %s, not to %s", name, other.(*stream).app.guid, a.guid)
	}
	if len(a.streams) >= a.store.maxStreams {
		a.forgetOldest()
	}
	if a.streams == nil {
		a.streams = map[string]*stream{}
	}
	a.streams[name] = st
	return st, nil
}

// forgetOldest makes room for another stream. One that the chunk in the making
// has touched stays.
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

// begin starts a chunk: in the active segment, or in a new one when that is
// full or there is none.
func (a *appLog) begin(c *chunk) {
	c.seg = a.active
	if a.active.number == 0 || a.active.size >= a.store.segmentBytes || a.broken {
		a.seal()
		c.fresh = true
		c.seg = segment{number: a.next}
		h := header{expired: a.expired, segments: a.sealed}
		for _, st := range a.streams {
			h.streams = append(h.streams, streamMark{st.name, st.seq.Load(), st.last})
		}
		if a.own.last != 0 {
			h.streams = append(h.streams, streamMark{"", 0, a.own.last})
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

// seal ends the active segment and drops the oldest ones over the app's share.
func (a *appLog) seal() {
	a.closeFile()
	if a.active.count > 0 {
		a.sealed = append(a.sealed, a.active)
	} else if a.active.number != 0 {
		_ = os.Remove(a.path(a.active.number))
	}
	a.active, a.broken = segment{}, false
	total := a.store.segmentBytes
	for _, s := range a.sealed {
		total += s.size
	}
	drop := 0
	for ; drop < len(a.sealed) && total > a.store.options.PerAppBytes; drop++ {
		total -= a.sealed[drop].size
		a.expired += a.sealed[drop].count
		if err := os.Remove(a.path(a.sealed[drop].number)); err != nil {
			a.store.options.Log.Warn("an old log segment stays", "error", err)
		}
	}
	a.sealed = slices.Delete(a.sealed, 0, drop)
}

func (a *appLog) encode(c *chunk, e *Entry, at int64) {
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
	c.scratch = appendLine(c.scratch[:0], e.Stderr, a.number, at-a.before, e.Seq, text)
	c.buf = appendFrame(c.buf, c.scratch)
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

// flush writes the chunk. When it cannot, everything is as before the chunk.
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
	}
	if err != nil {
		a.closeFile() // what it knows of origins is not in the file
		c.reset()
		return fmt.Errorf("write the log of app %s: %w", a.guid, err)
	}
	c.seg.size += int64(len(c.buf))
	a.active, a.next = c.seg, c.seg.number+1
	for t := range a.tails {
		t.push(c.entries)
	}
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
				a.next++ // somebody else's: leave it alone
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
			a.broken = true // readers stop there, and the next line begins a new segment
		}
	}
	return err
}

func (a *appLog) closeFile() {
	if a.file == nil {
		return
	}
	if err := a.file.Close(); err != nil {
		a.store.options.Log.Warn("close a log segment", "error", err)
	}
	a.file, a.origins, a.recent = nil, nil, nil
	a.store.open.Add(-1)
}

func (a *appLog) path(number uint64) string {
	return filepath.Join(a.dir, fmt.Sprintf("%016x.log", number))
}

// load reads what is in the app's folder. It returns false when there is
// nothing.
func (a *appLog) load() (bool, error) {
	numbers, err := segmentNumbers(a.dir)
	if err != nil {
		return false, err
	}
	for len(numbers) > 0 {
		newest := numbers[len(numbers)-1]
		numbers = numbers[:len(numbers)-1]
		h, err := a.loadNewest(newest)
		if err != nil {
			return false, err
		}
		if h == nil {
			// Its header is not whole, so nothing in it ever counted.
			if err := os.Remove(a.path(newest)); err != nil {
				return false, err
			}
			continue
		}
		return true, a.loadSealed(h, numbers)
	}
	return false, nil
}

func (a *appLog) loadNewest(number uint64) (*header, error) {
	buf, err := os.ReadFile(a.path(number))
	if err != nil {
		return nil, err
	}
	s := scanner{buf: buf}
	seg := segment{number: number}
	marks := map[string]*streamMark{}
	take := func(h *header) {
		for i := range h.streams {
			marks[h.streams[i].name] = &h.streams[i]
		}
	}
	var l line
	for {
		more, err := s.next(&l)
		if s.header != nil && len(marks) == 0 {
			take(s.header)
		}
		if !more {
			if err != nil && s.header != nil {
				a.store.options.Log.Info("cut the torn end of a log segment", "file", a.path(number), "bytes", len(buf)-s.off)
				if err := os.Truncate(a.path(number), int64(s.off)); err != nil {
					return nil, err
				}
			}
			break
		}
		seg.add(l.at)
		m := marks[l.origin.stream]
		if m == nil {
			m = &streamMark{name: l.origin.stream}
			marks[l.origin.stream] = m
		}
		m.seq, m.last = max(m.seq, l.seq), max(m.last, l.at)
	}
	if s.header == nil {
		return nil, nil //nolint:nilnil // nothing to load is no failure
	}
	seg.size = int64(s.off)
	a.active, a.next = seg, number+1
	a.expired = s.header.expired
	for _, m := range marks {
		if m.name == "" {
			a.own.last, a.own.nextLast = m.last, m.last
			continue
		}
		if _, err := a.addStream(m.name, m.seq, m.last); err != nil {
			a.store.options.Log.Warn("a log stream is in two apps", "error", err)
		}
	}
	return s.header, nil
}

// loadSealed takes over the older segments: from the header those that it
// knows, from the file itself those that do not look as it says. What it does
// not know had been dropped.
func (a *appLog) loadSealed(h *header, numbers []uint64) error {
	for _, s := range h.segments {
		i, there := slices.BinarySearch(numbers, s.number)
		if !there {
			a.expired += s.count
			continue
		}
		numbers = slices.Delete(numbers, i, i+1)
		info, err := os.Stat(a.path(s.number))
		if err != nil {
			return err
		}
		if info.Size() != s.size {
			buf, err := os.ReadFile(a.path(s.number))
			if err != nil {
				return err
			}
			s = measure(s.number, buf)
		}
		a.sealed = append(a.sealed, s)
	}
	for _, left := range numbers {
		if err := os.Remove(a.path(left)); err != nil {
			return err
		}
	}
	return nil
}

// measure reads a whole segment as far as it makes sense.
func measure(number uint64, buf []byte) segment {
	sc := scanner{buf: buf}
	seg := segment{number: number}
	var l line
	for {
		if more, _ := sc.next(&l); !more {
			seg.size = int64(sc.off)
			return seg
		}
		seg.add(l.at)
	}
}

// segmentNumbers lists the segments in a folder, oldest first.
func segmentNumbers(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".log")
		if !ok || len(name) != 16 {
			continue
		}
		if n, err := strconv.ParseUint(name, 16, 64); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
