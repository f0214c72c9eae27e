package initproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// Reader reads a stream in a directory and follows it. Next and Finish are for
// one goroutine each; Close may be called by any.
//
// Its records have growing numbers, whatever the files hold. A number that was
// skipped is a loss: the segment was deleted before it was read, writing it
// failed, or the line is damaged.
type Reader struct {
	dir string

	// Next alone changes f and sub, and holds mu for it, so that Close can look.
	mu     sync.Mutex
	sub    *subscription // nil until there was something to wait for
	f      *os.File      // the segment being read; nil before the first
	closed bool
	done   chan struct{} // closed by Close
	finish chan struct{} // closed by Finish
	once   sync.Once

	first  uint64 // of the segment being read
	sealed bool   // a newer segment exists, so nothing will be added to it
	listed bool   // none did when the directory was listed last
	off    int64  // where buf[pos:] begins in the segment
	buf    *[]byte
	pos    int  // of the first byte that was not returned
	end    int  // of what was read
	skip   bool // in a damaged line that is longer than any record
	last   uint64
	ended  bool
}

// buffers are lent to readers while they have something to read, so that the
// many that wait need none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 2*maxRecordSize); return &b }}

// OpenReader reads the records of a directory that come after the given one,
// or from the first that still exists. The directory has to exist; segments need
// not.
func OpenReader(dir string, after uint64) (*Reader, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("opening record stream: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening record stream: %s is not a directory", dir)
	}
	return &Reader{dir: dir, last: after, done: make(chan struct{}), finish: make(chan struct{})}, nil
}

// Next blocks for the next record, whose memory is valid until the call after.
// It returns io.EOF after the event EventEnded, when the directory was removed,
// or when everything was read after Finish; and os.ErrClosed after Close.
func (r *Reader) Next() (Record, error) {
	for {
		if rec, ok := r.buffered(); ok {
			return rec, nil
		}
		if r.ended {
			r.release()
			return Record{}, io.EOF
		}
		select {
		case <-r.done:
			r.release()
			return Record{}, os.ErrClosed
		default:
		}
		// Asked before looking: then what is there now is all.
		finished := isClosed(r.finish) || r.sub != nil && r.sub.gone.Load()
		more, err := r.fill()
		if err != nil {
			return Record{}, r.orClosed(err)
		}
		if more {
			continue
		}
		moved, err := r.advance(finished)
		switch {
		case errors.Is(err, os.ErrNotExist):
			r.ended = true // the directory is gone, and all of the segment was read
		case err != nil:
			return Record{}, r.orClosed(err)
		case moved:
		case finished:
			r.ended = true
		default:
			r.release()
			r.wait()
		}
	}
}

// buffered returns the next record that was read already.
func (r *Reader) buffered() (Record, bool) {
	for r.pos < r.end && !r.ended {
		window := (*r.buf)[r.pos:r.end]
		i := bytes.IndexByte(window, '\n')
		if i < 0 {
			return Record{}, false
		}
		r.pos += i + 1
		r.off += int64(i + 1)
		if r.skip {
			r.skip = false
			continue
		}
		rec, err := ParseRecord(window[:i])
		if err != nil {
			continue
		}
		if rec.Kind == Event && isEnd(rec.Payload) {
			r.ended = true // also when the caller has read it before
		}
		if rec.Seq > r.last {
			r.last = rec.Seq
			return rec, true
		}
	}
	return Record{}, false
}

// isEnd tells whether an event is the last.
func isEnd(payload []byte) bool {
	var body struct {
		Event EventKind `json:"event"`
	}
	return json.Unmarshal(payload, &body) == nil && body.Event == EventEnded
}

// fill reads on from the beginning of the line that is not complete yet, and
// tells whether there is a line now. The part of it that was read before is read
// again, because a writer that was started anew cuts it off.
func (r *Reader) fill() (more bool, err error) {
	if r.f == nil {
		return false, nil
	}
	if r.buf == nil {
		r.buf, _ = buffers.Get().(*[]byte)
	}
	buf := *r.buf
	n, err := r.f.ReadAt(buf, r.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	r.pos, r.end = 0, n
	if bytes.IndexByte(buf[:n], '\n') >= 0 {
		return true, nil
	}
	if n == len(buf) {
		// Longer than any record: damaged. Go on after it.
		r.skip, r.end = true, 0
		r.off += int64(n)
		return true, nil
	}
	return false, nil
}

// advance goes to the next segment if this one was read to its end. It lists the
// directory only when something in it came or went.
func (r *Reader) advance(finished bool) (moved bool, err error) {
	if r.f != nil && r.listed && !finished && !r.sub.changed() {
		return false, nil
	}
	firsts, err := listSegments(r.dir)
	if err != nil {
		return false, err
	}
	next, newer := r.choose(firsts)
	_, exists := slices.BinarySearch(firsts, r.first)
	if r.f != nil && (newer || !exists) && !r.sealed {
		// The last of this segment may have been written after we read it.
		r.sealed, r.listed = true, false
		return true, nil
	}
	switch {
	case newer:
		f, err := os.Open(filepath.Join(r.dir, segmentName(next)))
		if errors.Is(err, os.ErrNotExist) {
			return true, nil // deleted meanwhile: look again
		}
		if err != nil {
			return false, err
		}
		r.first, r.sealed, r.listed = next, false, false
		r.off, r.pos, r.end, r.skip = 0, 0, 0, false
		return true, r.replace(f)
	case !exists && r.f != nil:
		// It was deleted, with its directory perhaps: that is told only when
		// nobody has it open.
		return false, r.replace(nil)
	}
	r.listed = r.sub != nil // else we would not hear of the next
	return false, nil
}

// replace closes the present segment.
func (r *Reader) replace(f *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		if f != nil {
			_ = f.Close() // it is only read
		}
		return os.ErrClosed
	}
	old := r.f
	r.f = f
	if old != nil {
		return old.Close()
	}
	return nil
}

// choose returns the segment to read after the present one. The first is the one
// that holds the record the caller has read last, to see whether that was the
// end.
func (r *Reader) choose(firsts []uint64) (uint64, bool) {
	chosen, ok := uint64(0), false
	for _, first := range firsts {
		if first <= r.first {
			continue
		}
		if ok && (r.f != nil || first > r.last) {
			break
		}
		chosen, ok = first, true
	}
	return chosen, ok
}

// wait blocks until something may have happened.
func (r *Reader) wait() {
	if r.sub == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed {
			r.sub = subscribe(r.dir)
			r.sub.notify(true) // what happened before is not told: look once more
		}
		return
	}
	select {
	case <-r.sub.wake:
	case <-r.done:
	case <-r.finish:
	}
}

// release gives the buffer back. What was not returned of it is read again.
func (r *Reader) release() {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf, r.pos, r.end = nil, 0, 0
	}
	if r.ended && r.sub != nil {
		r.sub.close()
	}
}

func (r *Reader) orClosed(err error) error {
	if isClosed(r.done) {
		r.release()
		return os.ErrClosed
	}
	return err
}

// Finish tells that the writer is gone: Next returns what there is, and then
// io.EOF, even if the stream has no end.
func (r *Reader) Finish() { r.once.Do(func() { close(r.finish) }) }

// Close ends reading; a Next under way returns.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	close(r.done)
	if r.sub != nil {
		r.sub.close()
	}
	if r.f != nil {
		return r.f.Close()
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// subscription is one reader's interest in a directory.
type subscription struct {
	wake   chan struct{} // has room for one: nothing that happens is missed
	dirty  atomic.Bool   // a segment came or went
	gone   atomic.Bool   // the directory was removed: nothing more will be told
	once   sync.Once
	cancel func()
}

func newSubscription() *subscription {
	return &subscription{wake: make(chan struct{}, 1)}
}

// notify wakes the reader. It does not block.
func (s *subscription) notify(changed bool) {
	if changed {
		s.dirty.Store(true)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// changed tells whether a segment came or went since the last call.
func (s *subscription) changed() bool { return s.dirty.Swap(false) }

func (s *subscription) close() { s.once.Do(s.cancel) }
