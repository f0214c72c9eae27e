package initproto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// maxRecordSize limits a record with its header and line break.
	maxRecordSize = MaxLineSize + 64
	// batchSize is how many bytes are buffered at most.
	batchSize = 64 << 10
)

// WriterOptions limit a stream in a directory. Zero means the default.
type WriterOptions struct {
	SegmentSize int64 // a segment does not grow larger; 1 MiB
	MaxBytes    int64 // of all segments; the oldest are deleted; 8 MiB
}

func (o WriterOptions) withDefaults() WriterOptions {
	if o.SegmentSize <= 0 {
		o.SegmentSize = 1 << 20
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 8 << 20
	}
	return o
}

// Writer writes a stream of records and numbers them. It is safe for concurrent use:
// records that arrive during a write are written together afterwards, with one system call.
//
// If a write fails, the records of that batch are lost and their numbers are not reused, so
// that readers see the gap. The writer continues.
type Writer struct {
	mu      sync.Mutex
	turn    sync.Cond // written or writing changed
	out     sink
	batch   int    // largest number of bytes to buffer
	pending []byte // buffered, not yet written
	first   uint64 // the first record in pending
	spare   []byte // the other buffer
	next    uint64 // number of the next record
	written uint64 // all records up to this one are written or lost
	writing bool
	closed  bool

	lostFrom, lostTo uint64 // the last batch that could not be written
	lostErr          error
}

// sink is the destination of batches. Only one write is in progress at a time.
type sink interface {
	write(batch []byte, first uint64) error
	close() error
}

// OpenWriter creates the directory if needed, and continues after the last complete record
// in it. A partial line left by a dead writer is removed. A directory can have one writer
// only.
func OpenWriter(dir string, o WriterOptions) (*Writer, error) {
	d := &dirSink{dir: dir, o: o.withDefaults()}
	last, err := d.open()
	if err != nil {
		return nil, fmt.Errorf("opening record stream: %w", err)
	}
	return newWriter(d, last, int(min(batchSize, d.o.SegmentSize))), nil
}

// NewStreamWriter writes records to w, numbered from 1.
func NewStreamWriter(w io.Writer) *Writer {
	return newWriter(streamSink{w}, 0, batchSize)
}

func newWriter(out sink, last uint64, batch int) *Writer {
	w := &Writer{out: out, batch: batch, next: last + 1, written: last}
	w.turn.L = &w.mu
	return w
}

// Append writes a record and returns its number. When it returns, readers can see the
// record.
func (w *Writer) Append(kind Kind, at time.Time, member int, payload []byte) (uint64, error) {
	seq, err := w.Add(kind, at, member, payload)
	if err != nil {
		return 0, err
	}
	return seq, w.flush(seq)
}

// Add buffers a record, to be written with the next Append or Flush, or when the buffer is
// full.
func (w *Writer) Add(kind Kind, at time.Time, member int, payload []byte) (uint64, error) {
	if len(payload) > MaxLineSize || member < 0 || bytes.IndexByte(payload, '\n') >= 0 {
		return 0, ErrRecord
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > 0 && len(w.pending)+len(payload)+64 > w.batch && !w.closed {
		w.writePending() // readers see a failure as a gap
	}
	if w.closed {
		return 0, os.ErrClosed
	}
	seq := w.next
	w.next++
	if len(w.pending) == 0 {
		w.first = seq
	}
	w.pending = Record{Kind: kind, Time: at, Seq: seq, Member: member, Payload: payload}.Append(w.pending)
	return seq, nil
}

// Flush writes the buffered records and waits until readers can see them.
func (w *Writer) Flush() error { return w.flush(w.Last()) }

// Last returns the number of the last record.
func (w *Writer) Last() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next - 1
}

// flush waits until all records up to upTo are written, and writes them itself if no other
// goroutine does.
func (w *Writer) flush(upTo uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.written < upTo {
		w.writePending()
	}
	if w.lostFrom <= upTo && upTo <= w.lostTo {
		return w.lostErr
	}
	return nil
}

// writePending writes the buffered records, or waits for the write in progress. mu is held
// at the start and at the end, but not in between.
func (w *Writer) writePending() {
	if w.writing {
		w.turn.Wait()
		return
	}
	batch, first, last := w.pending, w.first, w.next-1
	w.pending, w.spare = w.spare[:0], nil
	w.writing = true
	w.mu.Unlock()
	err := w.out.write(batch, first)
	w.mu.Lock()
	w.writing, w.written = false, last
	if cap(batch) <= 2*w.batch {
		w.spare = batch[:0]
	}
	if err != nil {
		w.lostFrom, w.lostTo, w.lostErr = first, last, err
	}
	w.turn.Broadcast()
}

// Close writes the buffered records and closes the stream. Further records are refused with
// os.ErrClosed.
func (w *Writer) Close() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	w.closed = true
	for w.written < w.next-1 {
		w.writePending()
	}
	w.turn.Broadcast()
	return errors.Join(err, w.out.close())
}

// streamSink is a stream whose records are kept by its reader.
type streamSink struct{ w io.Writer }

func (s streamSink) write(batch []byte, _ uint64) error {
	_, err := s.w.Write(batch)
	return err
}

func (streamSink) close() error { return nil }

// dirSink is a stream in a directory.
type dirSink struct {
	dir  string
	o    WriterOptions
	f    *os.File // the newest segment; nil before the first write, and after a failed one
	cur  segment  // its metadata
	old  []segment
	kept int64 // bytes of old
}

type segment struct {
	first uint64
	size  int64
}

func (d *dirSink) path(first uint64) string { return filepath.Join(d.dir, segmentName(first)) }

// open finds the segments of an earlier writer, and returns the number of its last record.
func (d *dirSink) open() (last uint64, err error) {
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return 0, err
	}
	firsts, err := listSegments(d.dir)
	if err != nil || len(firsts) == 0 {
		return 0, err
	}
	for _, first := range firsts[:len(firsts)-1] {
		info, err := os.Stat(d.path(first))
		if err != nil {
			return 0, err
		}
		d.old = append(d.old, segment{first, info.Size()})
		d.kept += info.Size()
	}
	first := firsts[len(firsts)-1]
	f, err := os.OpenFile(d.path(first), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	last, end, err := measureSegment(f)
	if err == nil {
		// Readers use whole lines only and read a partial one again, so they do not notice.
		err = f.Truncate(end)
	}
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	d.f, d.cur = f, segment{first, end}
	return max(last, first-1), nil
}

func (d *dirSink) write(batch []byte, first uint64) error {
	size := int64(len(batch))
	if d.f != nil && d.cur.size > 0 && d.cur.size+size > d.o.SegmentSize {
		if err := d.seal(); err != nil {
			return err
		}
	}
	if d.f == nil {
		f, err := os.OpenFile(d.path(first), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		d.f, d.cur = f, segment{first: first}
	}
	for len(d.old) > 0 && d.kept+d.cur.size+size > d.o.MaxBytes {
		if err := d.forget(); err != nil {
			return err
		}
	}
	n, err := d.f.Write(batch)
	for errors.Is(err, syscall.ENOSPC) && len(d.old) > 0 && d.forget() == nil {
		var more int
		more, err = d.f.Write(batch[n:])
		n += more
	}
	d.cur.size += int64(n)
	if err != nil {
		// The segment may end in a partial line now. Nothing is appended to that: readers
		// skip it once there is a newer segment.
		return errors.Join(err, d.seal())
	}
	return nil
}

// seal closes the newest segment.
func (d *dirSink) seal() error {
	f := d.f
	d.f = nil
	if d.cur.size == 0 {
		return errors.Join(f.Close(), os.Remove(d.path(d.cur.first)))
	}
	d.old = append(d.old, d.cur)
	d.kept += d.cur.size
	return f.Close()
}

// forget deletes the oldest segment.
func (d *dirSink) forget() error {
	if err := os.Remove(d.path(d.old[0].first)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	d.kept -= d.old[0].size
	d.old = append(d.old[:0], d.old[1:]...)
	return nil
}

func (d *dirSink) close() error {
	if d.f == nil {
		return nil
	}
	f := d.f
	d.f = nil
	return f.Close()
}
