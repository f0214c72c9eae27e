package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/initproto"
)

const (
	// maxBatch is how many records are taken over at once.
	maxBatch = 512
	// pumpPause lies between attempts to read or to write.
	pumpPause = 250 * time.Millisecond
	// appendTries is how often lines are tried to be written before they are
	// lost: what happens to the instance must not wait for ever.
	appendTries = 8
	// endTries is how often the engine is asked how an instance ended before
	// nobody knows. It has half a minute to come back.
	endTries = 120
)

// follow begins to read an instance's records.
func (c *Controller) follow(a *app, l *live) {
	if l.unread != nil {
		return
	}
	c.mu.Lock()
	work := c.work
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(work)
	l.unread = cancel
	l.after = max(l.after, c.Logs.Position(l.id))
	sample := c.usage.get(l.id)
	p := pump{
		Config: &c.Config, app: a.guid, id: l.id, index: strconv.Itoa(l.at.index), sources: l.sources, last: l.after, missed: &c.lost,
		gone: &a.gone, wrote: &sample.written,
		happened: func(events []event) {
			for _, e := range events {
				a.post(occurrence{id: l.id, event: e})
			}
			c.Kick(a.guid)
		},
	}
	c.spawn("records of an instance", func(context.Context) {
		defer cancel()
		sample.followed.Store(true)
		if e, ok := p.run(ctx); ok {
			c.tell(a, l.id, e)
		}
	})
}

// pump takes an instance's records over: lines into the log, events to whoever
// looks after the instance. An event is told after the lines before it are safe.
type pump struct {
	*Config
	app, id, index string
	sources        []string // of the members

	gone     *atomic.Bool   // nobody reads the app's log any more
	wrote    *atomic.Int64  // bytes of output
	missed   *atomic.Uint64 // lines that were lost, of all instances
	happened func([]event)

	last uint64 // record that was read
	lost uint64 // lines, not told of yet
	end  *initproto.EventBody
	exit *initproto.Exit // how it ended, if that is known
}

// run returns how it ended: an evEnded, or evLost. It is false when ctx ended
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
		p.Log.Warn("the records of an instance cannot be read", "app", p.app, "instance", p.id, "error", err)
		if !rest(ctx, pauseAfter(failures)) {
			return event{}, false
		}
	}
}

// read takes over what one stream has.
func (p *pump) read(ctx context.Context) error {
	stream, err := p.Engine.Records(ctx, p.id, engine.Position(p.last))
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // only read
	return p.drain(ctx, stream)
}

// rest is a pause in real time: files and disks do not follow the clock of a
// test.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// finishSafely is finish; after a panic nobody knows how the instance ended.
func (p *pump) finishSafely(ctx context.Context) (e event, known bool) {
	if !background.Safely("records of an instance", func() { e, known = p.finish(ctx) }) {
		return event{kind: evEnded, seq: p.last, text: "Instance was killed"}, true
	}
	return e, known
}

// finish tells how the instance ended. When its last record does not say, it was
// killed together with its ingot-init, and the engine may know more.
func (p *pump) finish(ctx context.Context) (event, bool) {
	e := event{kind: evEnded, seq: p.last}
	if p.end != nil {
		p.exit = &initproto.Exit{Status: p.end.Status, Description: p.end.Reason, Stopped: p.end.Stopped, OOM: p.end.OOM}
	} else {
		in, err := p.lastState(ctx)
		switch {
		case ctx.Err() != nil:
			return event{}, false
		case errors.Is(err, engine.ErrNotFound):
			return event{kind: evLost}, true
		}
		p.exit = in.State.Exit
	}
	if p.exit == nil {
		e.text = "Instance was killed"
		return e, true
	}
	e.text, e.status = p.exit.Description, p.exit.Status
	return e, true
}

// lastState asks the engine for the instance until it answers, or was asked
// often enough.
func (p *pump) lastState(ctx context.Context) (engine.Instance, error) {
	for try := 1; ; try++ {
		in, err := p.Engine.Get(ctx, p.id)
		if err == nil || errors.Is(err, engine.ErrNotFound) || ctx.Err() != nil {
			return in, err
		}
		if try == 1 || try == endTries {
			p.Log.Warn("the engine does not say how an instance ended", "app", p.app, "instance", p.id, "try", try, "of", endTries, "error", err)
		}
		if try == endTries || !rest(ctx, pumpPause) {
			return engine.Instance{}, err
		}
	}
}

// drain reads until the stream ends. A goroutine reads ahead, so that what is
// there is taken over at once.
func (p *pump) drain(ctx context.Context, stream engine.Stream) error {
	records := make(chan initproto.Record, maxBatch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := background.Async("records of an instance", func() error {
		defer close(records)
		for {
			r, err := stream.Next()
			if err != nil {
				return err
			}
			r.Payload = bytes.Clone(r.Payload)
			select {
			case records <- r:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	batch := make([]initproto.Record, 0, maxBatch)
	for first := range records {
		batch = append(batch[:0], first)
	more:
		for len(batch) < maxBatch {
			select {
			case r, ok := <-records:
				if !ok {
					break more
				}
				batch = append(batch, r)
			default:
				break more
			}
		}
		p.take(ctx, batch)
	}
	return <-failed
}

// take writes a batch and tells its events.
func (p *pump) take(ctx context.Context, batch []initproto.Record) {
	entries := make([]platform.LogLine, 0, len(batch)+1)
	var events []event
	if p.lost > 0 {
		// It takes the number of the last record that was lost.
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
			p.Log.Warn("an instance tells something strange", "instance", p.id, "record", string(r.Payload))
			continue
		}
		if body.Event == initproto.EventDropped {
			p.missed.Add(uint64(max(0, body.Lines)))
			entries = append(entries, p.own(r.Seq, r.Time, uint64(max(0, body.Lines)), fmt.Sprintf(
				"app instance exceeded log rate limit (%d bytes/sec): %d lines (%d bytes) of %s were dropped",
				body.Rate, body.Lines, body.Bytes, p.source(r.Member))))
		}
		if e, ok := p.event(body); ok {
			e.seq = r.Seq
			events = append(events, e)
		}
	}
	p.write(ctx, entries)
	if len(events) > 0 {
		p.happened(events)
	}
}

// event is what an instance's event means here.
func (p *pump) event(body initproto.EventBody) (event, bool) {
	switch body.Event {
	case initproto.EventStarted:
		return event{kind: evChecking}, true
	case initproto.EventHealthy:
		return event{kind: evHealthy}, true
	case initproto.EventReady:
		return event{kind: evReady}, true
	case initproto.EventNotReady:
		return event{kind: evNotReady, text: body.Reason}, true
	case initproto.EventUnhealthy, initproto.EventExited:
		return event{kind: evFailing, text: body.Reason}, true
	case initproto.EventEnded:
		p.end = &body // told when the stream has ended
	}
	return event{}, false
}

func (p *pump) source(member int) string {
	if member >= 0 && member < len(p.sources) {
		return p.sources[member]
	}
	return "APP"
}

// own is a line about lost output. It has the number of a record that is no line
// of the log itself, so that a loss is told once, also when the server is killed.
func (p *pump) own(seq uint64, at time.Time, lost uint64, text string) platform.LogLine {
	return platform.LogLine{
		App: p.app, Time: at, Source: "LGR", Instance: p.index, Stderr: true, Text: []byte(text),
		Stream: p.id, Seq: seq, Lost: lost,
	}
}

func (p *pump) lossLine(seq uint64, at time.Time, n uint64) platform.LogLine {
	return p.own(seq, at, n, fmt.Sprintf("%d lines were lost", n))
}

// write appends entries. Lines that cannot be written after all are counted, and
// told of when writing works again.
func (p *pump) write(ctx context.Context, entries []platform.LogLine) {
	if len(entries) == 0 || p.gone.Load() {
		return
	}
	for try := 1; ; try++ {
		err := p.Logs.Append(entries...)
		if err == nil {
			return
		}
		// What is there already is not written again.
		position := p.Logs.Position(p.id)
		left := entries[:0:0]
		for _, e := range entries {
			if e.Seq > position {
				left = append(left, e)
			}
		}
		if try == 1 {
			p.Log.Error("lines of an instance cannot be written", "app", p.app, "instance", p.id, "lines", len(left), "error", err)
		}
		entries = left
		if len(entries) == 0 {
			return
		}
		if try >= appendTries {
			for _, e := range entries {
				p.lost += max(1, e.Lost)
				if e.Lost == 0 {
					p.missed.Add(1)
				}
			}
			return
		}
		if !rest(ctx, pumpPause) {
			return
		}
	}
}
