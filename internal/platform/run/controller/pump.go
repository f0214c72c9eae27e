package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

const (
	// maxBatch is the largest number of records in one write.
	maxBatch = 512
	// pumpPause is the pause before reading or writing again after an error.
	pumpPause = 250 * time.Millisecond
	// appendTries is how often a write is tried before its lines are lost: the controller
	// must not wait for ever.
	appendTries = 8
	// endTries is how often the engine is asked how an instance ended. That gives it half a
	// minute to come back.
	endTries = 120
)

// follow starts reading an instance's records.
func (c *Controller) follow(a *app, l *live) {
	if l.unread != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.workOf(a))
	l.unread = cancel
	l.after = max(l.after, c.Logs.Position(l.id))
	output := c.usage.Output(l.id)
	p := pump{
		Config: &c.Config, app: a.guid, id: l.id, index: strconv.Itoa(l.at.index), sources: l.sources, last: l.after,
		missed: &c.lost,
		gone:   &a.gone, wrote: &output.Written,
		happened: func(events []event) {
			for _, e := range events {
				a.post(occurrence{id: l.id, event: e})
			}
			c.Kick(a.guid)
		},
	}
	c.spawnFor(a, "records of an instance", func(context.Context) {
		defer cancel()
		output.Followed.Store(true)
		if e, ok := p.run(ctx); ok {
			c.tell(a, l.id, e)
		}
	})
}

// pump copies an instance's records: lines to the log, events to the owner of the instance.
// An event is delivered after the lines before it are stored.
type pump struct {
	*Config
	app, id, index string
	sources        []string // of the members

	gone     *atomic.Bool   // the app's log is no longer read
	wrote    *atomic.Int64  // bytes of output
	missed   *atomic.Uint64 // lost lines, of all instances
	happened func([]event)

	last uint64 // last record that was read
	lost uint64 // lost lines that were not reported yet
	end  *initproto.EventBody
	exit *initproto.Exit // how it ended, if known
}

// run returns how the instance ended: an evEnded or evLost. It returns false if ctx ended
// before.
func (p *pump) run(ctx context.Context) (event, bool) {
	for failures := 0; ; failures++ {
		before := p.last
		err := background.Do("records of an instance", func() error { return p.read(ctx) })
		if p.last > before {
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
			return event{}, false
		case errors.Is(err, io.EOF):
			return p.finishSafely(ctx)
		case errors.Is(err, engine.ErrNotFound):
			return event{kind: evLost}, true
		}
		p.Log.Warn("reading the records of an instance failed", "app", p.app, "instance", p.id, "error", err)
		if !background.Sleep(ctx, pauseAfter(failures)) {
			return event{}, false
		}
	}
}

// read copies the records of one stream.
func (p *pump) read(ctx context.Context) error {
	stream, err := p.Engine.Records(ctx, p.id, engine.Position(p.last))
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // only read
	return p.readAll(ctx, stream)
}

// finishSafely is finish with panics recovered; after a panic the end of the instance is
// unknown.
func (p *pump) finishSafely(ctx context.Context) (e event, known bool) {
	if !background.Safely("records of an instance", func() { e, known = p.finish(ctx) }) {
		return event{kind: evEnded, seq: p.last, text: "Instance was killed"}, true
	}
	return e, known
}

// finish returns how the instance ended. If the last record does not say, the instance was
// killed together with its ingot-init, and the engine may know more.
func (p *pump) finish(ctx context.Context) (event, bool) {
	e := event{kind: evEnded, seq: p.last}
	var in engine.Instance
	if p.end != nil {
		p.exit = &initproto.Exit{Status: p.end.Status, Description: p.end.Reason, Stopped: p.end.Stopped, OOM: p.end.OOM}
		if p.end.Stopped {
			in, _ = p.Engine.Get(ctx, p.id) // it may have been told so by its machine
		}
	} else {
		var err error
		in, err = p.lastState(ctx)
		switch {
		case ctx.Err() != nil:
			return event{}, false
		case errors.Is(err, engine.ErrNotFound):
			return event{kind: evLost}, true
		}
		p.exit = in.State.Exit
	}
	if in.Displaced && (p.exit == nil || p.exit.Stopped) {
		e.moved = movedAway
	}
	if p.exit == nil {
		e.text = "Instance was killed"
		return e, true
	}
	e.text, e.status = p.exit.Description, p.exit.Status
	return e, true
}

// lastState asks the engine for the instance until it answers, at most endTries times.
func (p *pump) lastState(ctx context.Context) (engine.Instance, error) {
	for try := 1; ; try++ {
		in, err := p.Engine.Get(ctx, p.id)
		if err == nil || errors.Is(err, engine.ErrNotFound) || ctx.Err() != nil {
			return in, err
		}
		if try == 1 || try == endTries {
			p.Log.Warn("asking the engine how an instance ended failed", "app", p.app, "instance", p.id, "try", try, "of",
				endTries, "error", err)
		}
		if try == endTries || !background.Sleep(ctx, pumpPause) {
			return engine.Instance{}, err
		}
	}
}

// readAll reads until the stream ends. A goroutine reads ahead, so that available records
// are written in one batch.
func (p *pump) readAll(ctx context.Context, stream engine.Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := readAhead{arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
	failed := background.Async("records of an instance", func() error {
		defer close(ahead.arrived)
		for {
			r, err := stream.Next()
			if err != nil {
				return err
			}
			r.Payload = bytes.Clone(r.Payload)
			if !ahead.add(ctx, r) {
				return ctx.Err()
			}
		}
	})
	for more := true; more; {
		_, more = <-ahead.arrived
		batch := ahead.take()
		// The end is acknowledged by Remove, after the controller has handled it. If this
		// fails, so does the stream.
		if len(batch) > 0 && p.take(ctx, batch) {
			_ = stream.Ack(engine.Position(p.stored()))
		}
	}
	return <-failed
}

// readAhead has the records that were read and not written yet, up to maxBatch. It needs
// memory only while there are some: most instances write nothing most of the time.
type readAhead struct {
	arrived, taken chan struct{}
	mu             sync.Mutex
	records        []initproto.Record
}

// add waits for room. It returns false if ctx ends.
func (a *readAhead) add(ctx context.Context, r initproto.Record) bool {
	for {
		a.mu.Lock()
		full := len(a.records) >= maxBatch
		if !full {
			a.records = append(a.records, r)
		}
		a.mu.Unlock()
		if !full {
			background.Kick(a.arrived)
			return true
		}
		select {
		case <-a.taken:
		case <-ctx.Done():
			return false
		}
	}
}

func (a *readAhead) take() []initproto.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	batch := a.records
	a.records = nil
	background.Kick(a.taken)
	return batch
}

// stored returns the last record that the engine need not keep.
func (p *pump) stored() uint64 {
	if p.end != nil {
		return p.last - 1
	}
	return p.last
}

// take writes a batch and delivers its events. It reports whether the batch is done with.
func (p *pump) take(ctx context.Context, batch []initproto.Record) bool {
	entries := make([]platform.LogLine, 0, len(batch)+1)
	var events []event
	if p.lost > 0 {
		// It gets the number of the last lost record.
		entries = append(entries, p.lossLine(p.last, batch[0].Time, p.lost))
		p.lost = 0
	}
	for _, r := range batch {
		if r.Seq <= p.last {
			continue
		}
		if missing := r.Seq - p.last - 1; missing > 0 {
			p.missed.Add(missing)
			entries = append(entries, p.lossLine(r.Seq-1, r.Time, missing))
		}
		p.last = r.Seq
		if r.Kind != initproto.Event {
			p.wrote.Add(int64(len(r.Payload)))
			entries = append(entries, platform.LogLine{
				App: p.app, Time: r.Time, Source: p.source(r.Member), Instance: p.index,
				Stderr: r.Kind == initproto.Stderr, Text: r.Payload, Stream: p.id, Seq: r.Seq,
			})
			continue
		}
		var body initproto.EventBody
		if err := json.Unmarshal(r.Payload, &body); err != nil {
			p.Log.Warn("unknown record of an instance", "instance", p.id, "record", string(r.Payload))
			continue
		}
		if body.Event == initproto.EventDropped {
			p.missed.Add(uint64(max(0, body.Lines)))
			entries = append(entries, p.own(r.Seq, r.Time, uint64(max(0, body.Lines)), fmt.Sprintf(
				"app instance exceeded log rate limit (%d bytes/sec): %d lines (%d bytes) of %s were dropped",
				body.Rate, body.Lines, body.Bytes, p.source(r.Member))))
		}
		if e, ok := p.event(r.Member, body); ok {
			e.seq = r.Seq
			events = append(events, e)
		}
	}
	written := p.write(ctx, entries)
	if len(events) > 0 {
		p.happened(events)
	}
	return written
}

// event translates an instance's event.
func (p *pump) event(member int, body initproto.EventBody) (event, bool) {
	switch body.Event {
	case initproto.EventStarted:
		return event{kind: evChecking}, true
	case initproto.EventHealthy:
		return event{kind: evHealthy, ready: body.Ready}, true
	case initproto.EventReady:
		return event{kind: evReady}, true
	case initproto.EventNotReady:
		return event{kind: evNotReady, text: body.Reason}, true
	case initproto.EventExited:
		if body.Restart > 0 || body.Harmless { // the instance lives
			return event{kind: evSidecar, text: p.source(member), status: body.Status, reason: body.Reason}, body.Status != 0
		}
		e := event{kind: evFailing, text: body.Reason, status: body.Status}
		if member > 0 && body.OOM {
			e.sidecar = p.source(member)
		}
		return e, true
	case initproto.EventUnhealthy:
		return event{kind: evFailing, text: body.Reason, final: body.Final}, true
	case initproto.EventWaiting:
		return event{kind: evWaiting, text: body.Reason}, true
	case initproto.EventEnded:
		p.end = &body // delivered when the stream has ended
	}
	return event{}, false
}

func (p *pump) source(member int) string {
	if member >= 0 && member < len(p.sources) {
		return p.sources[member]
	}
	return "APP"
}

// own returns a line about lost output. It has the number of a record that is not a log
// line itself, so that a loss is reported once even if the server is killed.
func (p *pump) own(seq uint64, at time.Time, lost uint64, text string) platform.LogLine {
	return platform.LogLine{
		App: p.app, Time: at, Source: "LGR", Instance: p.index, Stderr: true, Text: []byte(text),
		Stream: p.id, Seq: seq, Lost: lost,
	}
}

func (p *pump) lossLine(seq uint64, at time.Time, n uint64) platform.LogLine {
	return p.own(seq, at, n, fmt.Sprintf("%d lines were lost", n))
}

// write appends entries. Lines that cannot be written are counted, and reported once
// writing works again. It returns false if ctx ended before.
func (p *pump) write(ctx context.Context, entries []platform.LogLine) bool {
	if len(entries) == 0 || p.gone.Load() {
		return true
	}
	for try := 1; ; try++ {
		err := p.Logs.Append(entries...)
		if err == nil {
			return true
		}
		// Lines that were stored are not written again.
		position := p.Logs.Position(p.id)
		left := entries[:0:0]
		for _, e := range entries {
			if e.Seq > position {
				left = append(left, e)
			}
		}
		if try == 1 {
			p.Log.Error("writing log lines of an instance failed", "app", p.app, "instance", p.id, "lines", len(left),
				"error", err)
		}
		entries = left
		if len(entries) == 0 {
			return true
		}
		if try >= appendTries {
			for _, e := range entries {
				p.lost += max(1, e.Lost)
				if e.Lost == 0 {
					p.missed.Add(1)
				}
			}
			return true
		}
		if !background.Sleep(ctx, pumpPause) {
			return false
		}
	}
}
