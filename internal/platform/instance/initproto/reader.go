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

	"ingot/internal/base/background"
)

// Reader reads a stream in a directory and follows it. Next must be called by one goroutine
// at a time; Finish and Close may be called by any.
//
// Record numbers always increase, whatever the files contain. A skipped number means a
// loss: the segment was deleted before it was read, writing it failed, or the line is
// damaged.
type Reader struct {
	dir string

	// Only Next changes f and sub; it holds mu for that, because Close reads them.
	mu     sync.Mutex
	sub    *subscription // nil until the first wait
	f      *os.File      // the segment being read; nil before the first
	closed bool
	done   chan struct{} // closed by Close
	finish chan struct{} // closed by Finish
	once   sync.Once

	first  uint64 // of the segment being read
	sealed bool   // a newer segment exists, so this one is complete
	listed bool   // the last listing of the directory found no newer one
	off    int64  // offset of buf[pos:] in the segment
	buf    *[]byte
	pos    int  // of the first byte that was not returned
	end    int  // of the data
	skip   bool // inside a damaged line that is longer than any record
	last   uint64
	ended  bool
}

// buffers are used by readers that have something to read, so that the many idle readers
// need none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 2*maxRecordSize); return &b }}

// OpenReader returns a reader of the records after the given one, or from the oldest that
// still exists. The directory must exist; segments need not.
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

// Next waits for the next record, whose memory is valid until the next call. It returns
// io.EOF after the event EventEnded, after the directory was removed, or when all records
// were read after Finish; and os.ErrClosed after Close.
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
		// Checked before reading: then nothing follows what is read now.
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

// buffered returns the next record in the buffer.
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
			r.ended = true // even if the caller has read it before
		}
		if rec.Seq > r.last {
			r.last = rec.Seq
			return rec, true
		}
	}
	return Record{}, false
}

// isEnd reports whether an event is the last of the stream.
func isEnd(payload []byte) bool {
	var body struct {
		Event EventKind `json:"event"`
	}
	return json.Unmarshal(payload, &body) == nil && body.Event == EventEnded
}

// fill reads from the start of the incomplete line, and reports whether there is a complete
// line now. The part that was read before is read again, because a restarted writer
// truncates it.
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
		// Longer than any record: damaged. Continue after it.
		r.skip, r.end = true, 0
		r.off += int64(n)
		return true, nil
	}
	return false, nil
}

// advance opens the next segment if this one was read to its end. It lists the directory
// only after a change in it.
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
		// Records may have been added to this segment after it was read.
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
		// It was deleted, perhaps with its directory. The kernel reports that only when the
		// file is closed.
		return false, r.replace(nil)
	}
	r.listed = r.sub != nil // without a subscription the next segment would go unnoticed
	return false, nil
}

// replace closes the current segment.
func (r *Reader) replace(f *os.File) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		if f != nil {
			_ = f.Close() // only read
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

// choose returns the segment to read after the current one. The first is the one with the
// last record that the caller has read, to see whether that was the end.
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

// wait blocks until something may have changed.
func (r *Reader) wait() {
	if r.sub == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed {
			r.sub = subscribe(r.dir)
			r.sub.notify(true) // changes before the subscription are not reported: look again
		}
		return
	}
	select {
	case <-r.sub.wake:
	case <-r.done:
	case <-r.finish:
	}
}

// release returns the buffer to the pool. Records that were not returned are read again.
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

// Finish declares that the writer is gone: Next returns the remaining records, and then
// io.EOF even if the stream has no end.
func (r *Reader) Finish() { r.once.Do(func() { close(r.finish) }) }

// Close stops reading; a concurrent Next returns.
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

// subscription is a reader's subscription to changes of a directory.
type subscription struct {
	wake   chan struct{} // capacity 1, so that no change is missed
	dirty  atomic.Bool   // a segment was created or deleted
	gone   atomic.Bool   // the directory was removed: no more notifications
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
	background.Kick(s.wake)
}

// changed reports whether a segment was created or deleted since the last call.
func (s *subscription) changed() bool { return s.dirty.Swap(false) }

func (s *subscription) close() { s.once.Do(s.cancel) }
