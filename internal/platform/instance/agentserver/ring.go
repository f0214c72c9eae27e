//go:build linux

package agentserver

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"ingot/internal/base/background"
	"ingot/internal/platform/instance/initproto"
)

// The size of the ring.
const (
	segmentSize = 1 << 20
	segments    = 8
	// Without a file system for them, segments are in memory and smaller.
	memorySegment = 128 << 10
)

// ring keeps the newest records until they are acknowledged. The oldest are dropped when it
// is full. The segments are files without a name, so that the app cannot open them.
type ring struct {
	dirs []string // where files can be created

	mu    sync.Mutex
	segs  []*segment // oldest first; records are appended to the last
	last  uint64     // the last record
	acked uint64
	ended bool // no more records follow
	wake  map[chan struct{}]struct{}
	done  chan struct{} // closed when everything is acknowledged after the end
}

type segment struct {
	store       store
	first, last uint64 // records
	size, limit int64
	dropped     bool
}

// store holds the bytes of a segment.
type store interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

func newRing(dirs ...string) *ring {
	return &ring{dirs: dirs, wake: map[chan struct{}]struct{}{}, done: make(chan struct{})}
}

// Write adds records: whole lines, as an initproto.Writer writes them.
func (r *ring) Write(batch []byte) (int, error) {
	line, _, _ := bytes.Cut(batch, []byte{'\n'})
	first, err := initproto.ParseRecord(line)
	if err != nil {
		return 0, err
	}
	lines := uint64(bytes.Count(batch, []byte{'\n'})) //nolint:gosec // not negative
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.append(batch, first.Seq, first.Seq+lines-1)
	r.last = first.Seq + lines - 1
	for c := range r.wake {
		background.Kick(c)
	}
	if err != nil {
		return 0, err
	}
	return len(batch), nil
}

func (r *ring) append(batch []byte, first, last uint64) error {
	size := int64(len(batch))
	var s *segment
	if n := len(r.segs); n > 0 && r.segs[n-1].size+size <= r.segs[n-1].limit {
		s = r.segs[n-1]
	} else {
		s = r.create(first)
	}
	_, err := s.store.WriteAt(batch, s.size)
	for errors.Is(err, syscall.ENOSPC) && len(r.segs) > 1 {
		r.drop()
		_, err = s.store.WriteAt(batch, s.size)
	}
	if err != nil { // the next record goes to another segment
		s.limit = 0
		return err
	}
	s.size += size
	s.last = last
	return nil
}

// create adds a segment, and drops the oldest if there are too many.
func (r *ring) create(first uint64) *segment {
	for len(r.segs) >= segments {
		r.drop()
	}
	s := &segment{first: first, last: first - 1, limit: segmentSize}
	for _, dir := range r.dirs {
		if f, err := nameless(dir); err == nil {
			s.store = f
			break
		}
	}
	if s.store == nil {
		s.store, s.limit = &memory{}, memorySegment
	}
	r.segs = append(r.segs, s)
	return s
}

func (r *ring) drop() {
	s := r.segs[0]
	s.dropped = true
	_ = s.store.Close() // what was written to it is not needed any more
	r.segs = append(r.segs[:0], r.segs[1:]...)
}

const oTmpfile = 0o20000000 | syscall.O_DIRECTORY

// nameless creates a file without a name in a directory.
func nameless(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|oTmpfile|syscall.O_CLOEXEC, 0o600)
	if err == nil {
		return f, nil
	}
	// The file system cannot do that.
	f, err = os.CreateTemp(dir, ".records-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// memory is a store without a file.
type memory struct{ b []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.b = append(m.b[:off], p...)
	return len(p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Close() error {
	m.b = nil
	return nil
}

// finish says that the last record was written.
func (r *ring) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.settle()
	for c := range r.wake {
		background.Kick(c)
	}
}

func (r *ring) settle() {
	if r.ended && r.acked >= r.last && !closed(r.done) {
		close(r.done)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ack drops segments whose records are all acknowledged. A number that was not written yet
// is ignored.
func (r *ring) ack(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.last {
		return
	}
	r.acked = max(r.acked, seq)
	for len(r.segs) > 1 && r.segs[0].last <= r.acked {
		r.drop()
	}
	r.settle()
}

// cursor is a reader's position in the ring.
type cursor struct {
	ring *ring
	wake chan struct{}
	seg  *segment
	off  int64
	last uint64 // the last record that was read
}

// read returns a reader of the records after a number.
func (r *ring) read(after uint64) *cursor {
	c := &cursor{ring: r, wake: make(chan struct{}, 1), last: after}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake[c.wake] = struct{}{}
	return c
}

func (c *cursor) close() {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	delete(c.ring.wake, c.wake)
}

// next reads whole records into buf, which must have room for the largest. It returns
// nothing if there are none at the moment; over if there will be none.
func (c *cursor) next(buf []byte) (batch []byte, over bool, err error) {
	r := c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if c.seg == nil || c.seg.dropped || c.off >= c.seg.size {
			if !c.advance() {
				return nil, r.ended, nil
			}
		}
		n, err := c.seg.store.ReadAt(buf[:min(int64(len(buf)), c.seg.size-c.off)], c.off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		end := bytes.LastIndexByte(buf[:n], '\n') + 1
		if end == 0 { // damaged, or nothing could be read
			c.off = c.seg.size
			continue
		}
		batch, c.off = buf[:end], c.off+int64(end)
		if batch = c.skip(batch); len(batch) > 0 {
			return batch, false, nil
		}
	}
}

// advance moves to the segment with the next record and reports whether there is one.
func (c *cursor) advance() bool {
	for _, s := range c.ring.segs {
		if s != c.seg && s.last > c.last && s.size > 0 {
			c.seg, c.off = s, 0
			return true
		}
	}
	return false
}

// skip removes the records that were read before.
func (c *cursor) skip(batch []byte) []byte {
	for len(batch) > 0 {
		line, rest, _ := bytes.Cut(batch, []byte{'\n'})
		rec, err := initproto.ParseRecord(line)
		if err == nil && rec.Seq > c.last {
			break
		}
		batch = rest
	}
	if last := bytes.TrimSuffix(batch, []byte{'\n'}); len(last) > 0 {
		rec, err := initproto.ParseRecord(last[bytes.LastIndexByte(last, '\n')+1:])
		if err == nil {
			c.last = rec.Seq
		}
	}
	return batch
}
