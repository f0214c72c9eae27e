package frame

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

// PageBytes is the largest size of the texts of a page, apart from a single line.
const PageBytes = 2 << 20

// maxPooled is the largest buffer that is reused.
const maxPooled = 2 << 20

// Page collects the lines of one query by time, from pieces of a log: segments, chunks or
// runs. The caller adds the pieces in the order of their first time, or their last time if
// the newest lines are wanted, until Done.
type Page struct {
	query logs.ReadQuery
	lines []Line // in ascending order, even if the newest are wanted
	bufs  []*[]byte
}

var (
	pages   = sync.Pool{New: func() any { return new(Page) }}
	buffers = sync.Pool{New: func() any { return new([]byte) }}
)

// NewPage returns an empty page. The caller must release it.
func NewPage(q logs.ReadQuery) *Page {
	if q.Limit <= 0 {
		q.Limit = logs.DefaultLimit
	}
	q.Limit = min(q.Limit, logs.MaxLimit)
	q.End = cmp.Or(q.End, math.MaxInt64)
	p := pages.Get().(*Page)
	p.query = q
	return p
}

// Query returns the query, with its defaults.
func (p *Page) Query() logs.ReadQuery { return p.query }

// Count returns the number of lines so far.
func (p *Page) Count() int { return len(p.lines) }

// Release returns the memory of the page.
func (p *Page) Release() {
	for _, b := range p.bufs {
		PutBuffer(b)
	}
	clear(p.bufs)
	clear(p.lines[:cap(p.lines)])
	if p.lines = p.lines[:0]; cap(p.lines) > 16*logs.MaxLimit {
		p.lines = nil
	}
	p.bufs = p.bufs[:0]
	pages.Put(p)
}

// GetBuffer returns a buffer of this size.
func GetBuffer(size int) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = slices.Grow((*b)[:0], size)[:size]
	return b
}

// PutBuffer makes a buffer available for reuse.
func PutBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// Overlapping returns the segments that may have lines of the query, in the order in which
// they must be read. It changes all.
func (p *Page) Overlapping(all []Segment) []Segment {
	q := &p.query
	all = slices.DeleteFunc(all, func(s Segment) bool {
		return s.Count == 0 || s.Max < q.Start || s.Min >= q.End
	})
	slices.SortStableFunc(all, func(x, y Segment) int {
		if q.Descending {
			return cmp.Compare(y.Max, x.Max)
		}
		return cmp.Compare(x.Min, y.Min)
	})
	return all
}

func compareLines(x, y Line) int {
	if x.At != y.At {
		return cmp.Compare(x.At, y.At)
	}
	return cmp.Compare(x.Order, y.Order)
}

// bounds returns the time range in which lines still matter.
func (p *Page) bounds() (from, to int64) {
	from, to = p.query.Start, p.query.End-1
	if len(p.lines) >= p.query.Limit {
		if p.query.Descending {
			from = p.lines[0].At
		} else {
			to = p.lines[len(p.lines)-1].At
		}
	}
	return from, to
}

// Done reports whether neither this piece nor the pieces after it can have a line that the
// query selects.
func (p *Page) Done(s Segment) bool {
	from, to := p.bounds()
	return s.Max < from || s.Min > to
}

// Add adds the lines of a piece, up to the first damage. A piece is a segment, or with
// middle a sequence of frames without a header. The page owns the buffer afterwards. Lines
// with equal times are in the order of the pieces' numbers.
func (p *Page) Add(buf *[]byte, number uint64, middle bool) {
	p.bufs = append(p.bufs, buf)
	from, to := p.bounds()
	s := Scanner{Buf: *buf, Middle: middle}
	var l Line
	for {
		if more, _ := s.Next(&l); !more {
			break
		}
		l.Order |= number << 32
		if l.At >= from && l.At <= to {
			p.lines = append(p.lines, l)
		}
	}
	if !slices.IsSortedFunc(p.lines, compareLines) {
		slices.SortFunc(p.lines, compareLines)
	}
	p.cut()
}

// cut drops the lines above the limit.
func (p *Page) cut() {
	n := p.query.Limit
	if len(p.lines) <= n {
		return
	}
	if p.query.Descending {
		kept := copy(p.lines, p.lines[len(p.lines)-n:])
		p.lines = p.lines[:kept]
		return
	}
	for n < len(p.lines) && p.lines[n].At == p.lines[n-1].At {
		n++
	}
	p.lines = p.lines[:n]
}

// Lines returns the lines, which do not share the buffers.
func (p *Page) Lines(app string) []platform.LogLine {
	if p.query.Descending {
		slices.Reverse(p.lines)
	}
	total, n := 0, 0
	for ; n < len(p.lines) && (n == 0 || total+len(p.lines[n].Text) <= PageBytes); n++ {
		total += len(p.lines[n].Text)
	}
	// A page that is cut because of its size is not cut between equal times.
	if !p.query.Descending && n < len(p.lines) && p.lines[n].At == p.lines[n-1].At {
		if n = p.index(p.lines[n].At); n == 0 {
			n = p.index(p.lines[0].At + 1)
		}
	}
	text := make([]byte, 0, total)
	out := make([]platform.LogLine, n)
	for i := range out {
		text = p.lines[i].copyTo(&out[i], text, app)
	}
	return out
}

// index returns the index of the first line at or after a time.
func (p *Page) index(at int64) int {
	i, _ := slices.BinarySearchFunc(p.lines, at, func(l Line, at int64) int { return cmp.Compare(l.At, at) })
	return i
}

// copyTo sets a line whose text it appends to text.
func (l *Line) copyTo(into *platform.LogLine, text []byte, app string) []byte {
	from := len(text)
	text = append(text, l.Text...)
	*into = platform.LogLine{
		App: app, Time: time.Unix(0, l.At).UTC(), Source: l.Origin.Source, Instance: l.Origin.Instance, Stderr: l.Stderr,
		Text: text[from:len(text):len(text)], Tags: l.Origin.Tags, Stream: l.Origin.Stream, Seq: l.Seq,
	}
	return text
}

// Cursor reads lines in the order of arrival, for a tail.
type Cursor struct {
	Next uint64 // number of the next line
	Skip int64  // lines up to this time are skipped, until the first later one
	at   uint64 // number of the line that the scanner comes to
	scan Scanner
}

// Begin moves the cursor to the start of a piece whose first line has this number.
func (c *Cursor) Begin(first uint64) { c.at, c.scan = first, Scanner{} }

// Take returns lines in buf: a segment from its start, or with middle frames after it. It
// also returns how many bytes were used, which is 0 if not even one frame is complete.
func (c *Cursor) Take(app string, buf []byte, middle bool) (b logs.Batch, used int) {
	s := &c.scan
	s.Buf, s.Off, s.Middle = buf, 0, middle
	var text []byte
	var l Line
	for len(b.Entries) < logs.BatchLines && len(text) < logs.BatchBytes {
		more, _ := s.Next(&l)
		if !more {
			break
		}
		number := c.at
		c.at++
		if number < c.Next {
			continue
		}
		c.Next = number + 1
		if l.At <= c.Skip {
			continue
		}
		c.Skip = math.MinInt64
		if len(b.Entries) == 0 {
			b.First, text = number, make([]byte, 0, min(len(buf), logs.BatchBytes))
		}
		b.Entries = append(b.Entries, platform.LogLine{})
		text = l.copyTo(&b.Entries[len(b.Entries)-1], text, app)
	}
	used, s.Buf = s.Off, nil
	if len(b.Entries) == 0 {
		b.First = c.Next
	}
	return b, used
}
