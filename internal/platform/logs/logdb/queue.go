package logdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

const (
	// A flush starts before its time when so much is queued.
	flushBytes = 1 << 20
	flushLines = 512
	// batchBytes limits one flush.
	batchBytes = 4 << 20
	lineBytes  = 128 // what a line takes beside its text
)

// batch is what one flush stores.
type batch struct {
	writes     []*write
	unreported map[string]uint64 // losses to report
	forget     []string          // streams
	problems   map[*write][]error
}

// write is what one call of Append or Tell stores.
type write struct {
	lines []platform.LogLine
	size  int
	since time.Time
	tell  bool
	done  chan error // of Append
}

// answer ends the call that waits for a write. Only the first answer counts.
func (w *write) answer(err error) {
	if w.done == nil {
		return
	}
	select {
	case w.done <- err:
	default:
	}
}

// queue has the lines that are not stored yet. A goroutine stores them; it ends when there
// are none.
type queue struct {
	limit int

	mu         sync.Mutex
	changed    sync.Cond // room, or the end of the flusher
	writes     []*write
	size       int
	lines      int
	busy       bool // the flusher runs
	closed     bool
	kick       chan struct{}     // enough is queued
	unreported map[string]uint64 // lost lines by app that were not reported yet
	report     bool              // report them without further lines
	forget     []string          // streams
	going      []string          // streams that the current flush forgets
}

func (q *queue) init(limit int) {
	q.limit, q.kick, q.unreported = limit, make(chan struct{}, 1), map[string]uint64{}
	q.changed.L = &q.mu
}

// Append implements logs.Store.
func (s *Store) Append(lines ...platform.LogLine) error {
	good, problems := check(lines)
	if len(good) > 0 {
		w := &write{lines: good, size: sizeOf(good), done: make(chan error, 1)}
		if err := s.put(w); err != nil {
			return errors.Join(append(problems, err)...)
		}
		problems = append(problems, <-w.done)
	}
	return errors.Join(problems...)
}

// Tell implements logs.Store. It returns when the lines are queued.
func (s *Store) Tell(lines ...platform.LogLine) error {
	good, problems := check(lines)
	if len(good) > 0 {
		for i := range good {
			good[i].Text = bytes.Clone(good[i].Text)
			good[i].Tags = maps.Clone(good[i].Tags)
		}
		problems = append(problems, s.put(&write{lines: good, size: sizeOf(good), tell: true}))
	}
	return errors.Join(problems...)
}

// check returns copies of the lines that can be stored.
func check(lines []platform.LogLine) (good []platform.LogLine, problems []error) {
	good = make([]platform.LogLine, 0, len(lines))
	for i := range lines {
		err := frame.CheckApp(lines[i].App)
		if err == nil {
			err = frame.Check(&lines[i])
		}
		if err == nil {
			err = frame.CheckStream(lines[i].Stream)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		good = append(good, lines[i])
	}
	return good, problems
}

func sizeOf(lines []platform.LogLine) (n int) {
	for i := range lines {
		n += lineBytes + min(len(lines[i].Text), frame.MaxText)
	}
	return n
}

// put queues a write. It waits for room, but not with lines of Tell: these are lost.
func (s *Store) put(w *write) error {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && q.size > 0 && q.size+w.size > q.limit {
		if w.tell {
			q.countLost(w)
			return fmt.Errorf("%d lines about an app are lost: too many wait to be stored", len(w.lines))
		}
		q.changed.Wait()
	}
	if q.closed {
		return logs.ErrStopped
	}
	w.since = time.Now()
	q.writes, q.size, q.lines = append(q.writes, w), q.size+w.size, q.lines+len(w.lines)
	s.flushSoon()
	return nil
}

// countLost counts lines of Tell that are lost.
func (q *queue) countLost(w *write) {
	for i := range w.lines {
		if w.lines[i].Stream == "" {
			q.unreported[w.lines[i].App] += max(1, w.lines[i].Lost)
		}
	}
}

// flushSoon starts the flusher. The queue is locked.
func (s *Store) flushSoon() {
	q := &s.queue
	if q.size >= flushBytes || q.lines >= flushLines {
		background.Kick(q.kick)
	}
	if !q.busy {
		q.busy = true
		background.Go("log flush", s.flushAll)
	}
}

// flushNow lets the flusher store what is queued of an app without delay, and waits for it.
// Lines of Tell can be read then.
func (s *Store) flushNow(ctx context.Context, app string) {
	w := &write{since: time.Now(), done: make(chan error, 1)}
	q := &s.queue
	q.mu.Lock()
	found := false
	for _, queued := range q.writes {
		for i := range queued.lines {
			found = found || queued.tell && queued.lines[i].App == app
		}
	}
	if !found || q.closed {
		q.mu.Unlock()
		return
	}
	q.writes = append(q.writes, w)
	background.Kick(q.kick)
	q.mu.Unlock()
	select {
	case <-w.done: // even if it failed: then there is nothing more to read
	case <-ctx.Done():
	}
}

// take removes the next batch from the queue, and what else the next flush does. ok is false
// if there is nothing to do, and news for other servers do not need a flush either: then the
// flusher has ended.
func (q *queue) take(news bool) (b batch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for ; n < len(q.writes) && (n == 0 || size+q.writes[n].size <= batchBytes); n++ {
		size += q.writes[n].size
		q.lines -= len(q.writes[n].lines)
	}
	b = batch{writes: q.writes[:n:n], forget: q.forget, unreported: map[string]uint64{}, problems: map[*write][]error{}}
	q.writes, q.size, q.forget, q.going = q.writes[n:], q.size-size, nil, q.forget
	for _, w := range b.writes {
		for i := range w.lines {
			app := w.lines[i].App
			if n := q.unreported[app]; n > 0 {
				b.unreported[app] = n
				delete(q.unreported, app)
			}
		}
	}
	if q.report {
		maps.Copy(b.unreported, q.unreported)
		clear(q.unreported)
		q.report = false
	}
	ok = len(b.writes) > 0 || len(b.forget) > 0 || len(b.unreported) > 0 || news
	q.busy = ok
	q.changed.Broadcast()
	return b, ok
}

// close refuses further writes, and waits until the flusher has ended. After some time it
// calls give up.
func (q *queue) close(patience time.Duration, giveUp func()) {
	timer := background.AfterFunc("log store", patience, giveUp)
	defer timer.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	background.Kick(q.kick)
	for q.busy {
		q.changed.Wait()
	}
}

// unreportedLosses returns the lost lines of apps that were not reported yet.
func (q *queue) unreportedLosses() map[string]uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.unreported)
}

// reportLosses lets the flusher report losses of apps that write nothing.
func (s *Store) reportLosses() {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.unreported) > 0 && !q.closed {
		q.report = true
		s.flushSoon()
	}
}

// flushAll stores what is queued, until the queue is empty and other servers know of it.
func (s *Store) flushAll() {
	for more := true; more; {
		var b batch
		if background.Safely("log flush", func() { more = s.flushNext(&b) }) {
			continue
		}
		// The callers of Append must not wait for ever, nor the queue.
		background.Safely("log flush", func() { s.fail(b, errPanicked) })
	}
}

// errPanicked means that a flush ended with a panic, which was logged.
var errPanicked = errors.New("the server failed to store them")

// flushNext stores the next batch. It returns false if there is none.
func (s *Store) flushNext(b *batch) (more bool) {
	s.await(s.flushed.Add(s.options.FlushEvery))
	if *b, more = s.queue.take(len(s.news) > 0 && !s.stopped()); more {
		s.flushed = time.Now()
		s.store(*b)
	}
	return more
}

// await waits until a time, or until enough is queued.
func (s *Store) await(until time.Time) {
	background.Wait(s.work, time.Until(until), s.queue.kick)
}

// store flushes a batch. While the database cannot be reached it tries again.
func (s *Store) store(b batch) {
	first := time.Now()
	if len(b.writes) > 0 {
		first = b.writes[0].since
	}
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(s.work, flushTimeout)
		err := background.Do("log flush", func() error { return s.flush(ctx, &b) })
		slow := errors.Is(err, context.DeadlineExceeded)
		cancel()
		switch {
		case err == nil:
			for _, w := range b.writes {
				w.answer(errors.Join(b.problems[w]...))
			}
			return
		case s.stopped():
			s.fail(b, logs.ErrStopped)
			return
		case slow || fault.Is(err, fault.Unavailable):
			if try == 1 {
				s.options.Log.Warn("storing log lines failed; this is tried again", "error", err)
			}
			if time.Since(first) < s.options.Patience {
				background.Sleep(s.work, min(time.Duration(try)*50*time.Millisecond, time.Second))
				continue
			}
		case try == 1:
			continue // a partition may have been replaced meanwhile
		}
		s.fail(b, err)
		return
	}
}

// flushTimeout is how long the transaction of a flush may take.
const flushTimeout = 30 * time.Second

// fail ends the calls whose lines could not be stored.
func (s *Store) fail(b batch, err error) {
	s.queue.mu.Lock()
	for app, n := range b.unreported {
		s.queue.unreported[app] += n
	}
	for _, w := range b.writes {
		if w.tell {
			s.queue.countLost(w)
		}
	}
	s.queue.forget = append(b.forget, s.queue.forget...)
	s.queue.mu.Unlock()
	clear(s.news) // others poll
	for _, w := range b.writes {
		w.answer(fmt.Errorf("store log lines: %w", err))
	}
}
