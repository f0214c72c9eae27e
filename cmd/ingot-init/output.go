package main

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"ingot/internal/platform/instance/initproto"
)

// splitter splits a stream of bytes into lines. Its buffer grows when there is
// much to read, or for a long line.
type splitter struct {
	buf  []byte
	have int  // length of the incomplete line
	cut  bool // the line exceeded the limit and its first part was emitted
}

const firstBuffer = 1 << 10

// space returns the buffer to read into. It is never empty.
func (s *splitter) space() []byte {
	if s.buf == nil {
		s.buf = make([]byte, firstBuffer)
	}
	return s.buf[s.have:]
}

// took emits the lines that are complete after n bytes were read. A line is valid
// until emit returns.
func (s *splitter) took(n int, emit func(line []byte)) {
	data := s.buf[:s.have+n]
	begin, from := 0, s.have
	for {
		i := bytes.IndexByte(data[from:], '\n')
		if i < 0 {
			break
		}
		line := data[begin : from+i]
		begin += len(line) + 1
		from = begin
		if len(line) > 0 || !s.cut {
			emit(line)
		}
		s.cut = false
	}
	rest := data[begin:]
	if len(rest) == initproto.MaxLineSize {
		n := wholeRunes(rest)
		emit(rest[:n])
		s.cut = true
		rest = rest[n:]
	}
	buf := s.buf
	if len(data) == len(buf) && len(buf) < initproto.MaxLineSize {
		s.buf = make([]byte, min(4*len(buf), initproto.MaxLineSize))
	}
	s.have = copy(s.buf, rest)
}

// flush emits the text after the last line break.
func (s *splitter) flush(emit func(line []byte)) {
	if s.have > 0 {
		emit(s.buf[:s.have])
	}
	s.have, s.cut = 0, false
}

// wholeRunes returns the length of the longest prefix of b that ends between
// characters.
func wholeRunes(b []byte) int {
	for back := 1; back < utf8.UTFMax && back < len(b); back++ {
		at := len(b) - back
		if utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}

// bucket is a rate limit: it fills at rate bytes a second, up to one second's
// worth. A line may exceed what is left; the bucket then goes into debt.
type bucket struct {
	rate int64 // negative means unlimited, zero that nothing passes
	left float64
	last time.Time
}

func (b *bucket) take(now time.Time, n int) bool {
	switch {
	case b.rate < 0:
		return true
	case b.last.IsZero():
		b.left = float64(b.rate)
	default:
		b.left = min(float64(b.rate), b.left+max(0, now.Sub(b.last).Seconds())*float64(b.rate))
	}
	b.last = now
	if b.left <= 0 {
		return false
	}
	b.left -= float64(n)
	return true
}

// output is the output of one member, on both streams of each of its lives.
type output struct {
	member int
	w      *initproto.Writer

	mu       sync.Mutex
	streams  []*stream
	bucket   bucket
	lines    int64 // dropped and not reported yet
	bytes    int64
	reporter *time.Timer // fires once a second while lines are dropped
}

// line writes one line, unless it exceeds the limit. A line that cannot be
// written leaves a gap in the sequence numbers of the records.
func (o *output) line(kind initproto.Kind, at time.Time, line []byte) {
	if o.bucket.rate >= 0 && !o.admit(at, len(line)+1) {
		return
	}
	_, _ = o.w.Add(kind, at, o.member, line)
}

func (o *output) admit(at time.Time, n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bucket.take(at, n) {
		return true
	}
	if o.lines == 0 {
		o.reporter = time.AfterFunc(time.Second, o.report)
	}
	o.lines++
	o.bytes += int64(n)
	return false
}

// report writes how much was dropped since the last report.
func (o *output) report() {
	o.mu.Lock()
	body := initproto.EventBody{Event: initproto.EventDropped, Lines: o.lines, Bytes: o.bytes, Rate: o.bucket.rate}
	o.lines, o.bytes = 0, 0
	if o.reporter != nil {
		o.reporter.Stop()
	}
	o.mu.Unlock()
	if body.Lines > 0 {
		_, _ = o.w.Append(initproto.Event, time.Now(), o.member, body.JSON())
	}
}

// settle waits until everything that the member wrote to the streams of a life before it
// exited has been recorded. Processes that it left behind may continue to write.
func (o *output) settle(ended []*stream) {
	for _, s := range ended {
		s.settle()
	}
	o.report()
}

// current returns the streams that have not ended.
func (o *output) current() []*stream {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams = slices.DeleteFunc(o.streams, (*stream).ended)
	return slices.Clone(o.streams)
}

// end waits until everything is recorded, after all processes have exited.
func (o *output) end() {
	for _, s := range o.current() {
		s.end()
	}
	o.report()
}

const (
	// pipeSize is the maximum number of bytes in a pipe.
	pipeSize = 1 << 20
	// patience is how long a pipe may stay open and silent after all processes
	// have exited: a process outside the instance holds it open.
	patience = time.Second
)

// stream is one of a member's two output streams.
type stream struct {
	kind   initproto.Kind
	f      *os.File // the reading end of the pipe
	o      *output
	split  splitter
	marks  chan chan struct{}
	ending atomic.Bool
	done   chan struct{}
}

func newStream(o *output, kind initproto.Kind, f *os.File) *stream {
	s := &stream{kind: kind, f: f, o: o, marks: make(chan chan struct{}, 1), done: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams = append(o.streams, s)
	return s
}

func (s *stream) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// run reads until the pipe is closed. A slow reader of the records slows it down,
// and it slows down the member, so that nothing is lost.
func (s *stream) run() {
	defer close(s.done)
	defer s.f.Close()
	for {
		n, err := s.f.Read(s.split.space())
		if n > 0 {
			s.took(n)
		}
		switch {
		case err == nil:
			if s.ending.Load() {
				s.deadline(time.Now().Add(patience))
			}
		case !errors.Is(err, os.ErrDeadlineExceeded), s.ending.Load():
			s.flush()
			return
		default: // woken by settle
			s.deadline(time.Time{})
			s.readAvailable()
			s.flush()
			close(<-s.marks)
		}
	}
}

// took records the lines that are complete after n bytes were read.
func (s *stream) took(n int) {
	now := time.Now()
	s.split.took(n, func(line []byte) { s.o.line(s.kind, now, line) })
	_ = s.o.w.Flush() // a failure leaves a gap in the sequence numbers
}

func (s *stream) flush() {
	now := time.Now()
	s.split.flush(func(line []byte) { s.o.line(s.kind, now, line) })
	_ = s.o.w.Flush()
}

// readAvailable reads what is in the pipe now, without waiting for more.
func (s *stream) readAvailable() {
	conn, err := s.f.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < pipeSize; {
		var n int
		var readErr error
		err := conn.Read(func(fd uintptr) bool {
			n, readErr = syscall.Read(int(fd), s.split.space())
			return true
		})
		if errors.Is(readErr, syscall.EINTR) {
			continue
		}
		if err != nil || readErr != nil || n <= 0 {
			return
		}
		s.took(n)
		total += n
	}
}

func (s *stream) deadline(t time.Time) {
	_ = s.f.SetReadDeadline(t) // fails only when the pipe is closed, and then no read is waiting
}

func (s *stream) settle() {
	mark := make(chan struct{})
	select {
	case s.marks <- mark:
	case <-s.done:
		return
	}
	s.deadline(time.Unix(1, 0))
	select {
	case <-mark:
	case <-s.done:
	}
}

func (s *stream) end() {
	s.ending.Store(true)
	s.deadline(time.Now().Add(patience))
	<-s.done
}
