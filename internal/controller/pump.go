package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"ingot/internal/engine"
	"ingot/internal/launch"
)

const (
	// maxBatch is how many records are taken over at once.
	maxBatch = 512
	// pumpPause lies between attempts to read or to write.
	pumpPause = 250 * time.Millisecond
	// appendTries is how often lines are tried to be written before they are
	// lost: what happens to the instance must not wait for ever.
	appendTries = 8
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
	c.spawn(func(context.Context) {
		defer cancel()
		p := pump{Controller: c, app: a, live: l, last: l.after, sample: c.usage.get(l.id)}
		p.sample.followed.Store(true)
		p.run(ctx)
	})
}

// pump takes an instance's records over: lines into the log, events to the
// machine. An event is told after the lines before it are safe.
type pump struct {
	*Controller
	app    *app
	live   *live
	sample *sample
	last   uint64 // record that was read
	lost   uint64 // lines, not told of yet
	end    *launch.EventBody
}

func (p *pump) run(ctx context.Context) {
	for {
		stream, err := p.Engine.Records(ctx, p.live.id, engine.Position(p.last))
		if err == nil {
			err = p.drain(ctx, stream)
			_ = stream.Close() // only read
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, io.EOF):
			p.finish(ctx)
			return
		case errors.Is(err, engine.ErrNotFound):
			p.tell(p.app, p.live.id, event{kind: evLost})
			return
		}
		p.Log.Warn("the records of an instance cannot be read", "app", p.app.guid, "instance", p.live.id, "error", err)
		if !p.rest(ctx) {
			return
		}
	}
}

// rest is a pause in real time: files and disks do not follow the clock of a
// test.
func (p *pump) rest(ctx context.Context) bool {
	t := time.NewTimer(pumpPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// finish tells how the instance ended. When its last record does not say, it was
// killed together with its ingot-init, and the engine may know more.
func (p *pump) finish(ctx context.Context) {
	e := event{kind: evEnded, seq: p.last}
	if p.end != nil {
		e.text, e.status = p.end.Reason, p.end.Status
	} else {
		in, err := p.Engine.Get(ctx, p.live.id)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, engine.ErrNotFound):
			e = event{kind: evLost}
		case in.State.Exit != nil:
			e.text, e.status = in.State.Exit.Description, in.State.Exit.Status
		default:
			e.text = "Instance was killed"
		}
	}
	p.tell(p.app, p.live.id, e)
}

// drain reads until the stream ends. A goroutine reads ahead, so that what is
// there is taken over at once.
func (p *pump) drain(ctx context.Context, stream engine.Stream) error {
	records := make(chan launch.Record, maxBatch)
	var failed error
	go func() {
		defer close(records)
		for {
			r, err := stream.Next()
			if err != nil {
				failed = err
				return
			}
			r.Payload = bytes.Clone(r.Payload)
			select {
			case records <- r:
			case <-ctx.Done():
				failed = ctx.Err()
				return
			}
		}
	}()
	batch := make([]launch.Record, 0, maxBatch)
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
	return failed
}

// take writes a batch and tells its events.
func (p *pump) take(ctx context.Context, batch []launch.Record) {
	entries := make([]Entry, 0, len(batch)+1)
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
			p.Controller.lost.Add(missing)
			entries = append(entries, p.lossLine(r.Seq-1, r.Time, missing))
		}
		p.last = r.Seq
		if r.Kind != launch.Event {
			p.sample.written.Add(int64(len(r.Payload)))
			entries = append(entries, Entry{
				App: p.app.guid, Time: r.Time, Source: p.source(r.Member), Instance: strconv.Itoa(p.live.at.index),
				Stderr: r.Kind == launch.Stderr, Text: r.Payload, Stream: p.live.id, Seq: r.Seq,
			})
			continue
		}
		var body launch.EventBody
		if err := json.Unmarshal(r.Payload, &body); err != nil {
			p.Log.Warn("an instance tells something strange", "instance", p.live.id, "record", string(r.Payload))
			continue
		}
		if body.Event == launch.EventDropped {
			p.Controller.lost.Add(uint64(max(0, body.Lines)))
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
	for _, e := range events {
		p.app.post(occurrence{id: p.live.id, event: e})
	}
	if len(events) > 0 {
		p.Kick(p.app.guid)
	}
}

// event is what an instance's event means here.
func (p *pump) event(body launch.EventBody) (event, bool) {
	switch body.Event {
	case launch.EventStarted:
		return event{kind: evChecking}, true
	case launch.EventHealthy:
		return event{kind: evHealthy}, true
	case launch.EventReady:
		return event{kind: evReady}, true
	case launch.EventNotReady:
		return event{kind: evNotReady, text: body.Reason}, true
	case launch.EventUnhealthy, launch.EventExited:
		return event{kind: evFailing, text: body.Reason}, true
	case launch.EventEnded:
		p.end = &body // told when the stream has ended
	}
	return event{}, false
}

func (p *pump) source(member int) string {
	if member >= 0 && member < len(p.live.sources) {
		return p.live.sources[member]
	}
	return "APP"
}

// own is a line about lost output. It has the number of a record that is no line
// of the log itself, so that a loss is told once, also when the server is killed.
func (p *pump) own(seq uint64, at time.Time, lost uint64, text string) Entry {
	return Entry{
		App: p.app.guid, Time: at, Source: "LGR", Instance: strconv.Itoa(p.live.at.index), Stderr: true, Text: []byte(text),
		Stream: p.live.id, Seq: seq, Lost: lost,
	}
}

func (p *pump) lossLine(seq uint64, at time.Time, n uint64) Entry {
	return p.own(seq, at, n, fmt.Sprintf("%d lines were lost", n))
}

// write appends entries. Lines that cannot be written after all are counted, and
// told of when writing works again.
func (p *pump) write(ctx context.Context, entries []Entry) {
	if len(entries) == 0 || p.app.gone.Load() {
		return
	}
	for try := 1; ; try++ {
		err := p.Logs.Append(entries...)
		if err == nil {
			return
		}
		// What is there already is not written again.
		position := p.Logs.Position(p.live.id)
		left := entries[:0:0]
		for _, e := range entries {
			if e.Seq > position {
				left = append(left, e)
			}
		}
		if try == 1 {
			p.Log.Error("lines of an instance cannot be written", "app", p.app.guid, "instance", p.live.id, "lines", len(left), "error", err)
		}
		entries = left
		if len(entries) == 0 {
			return
		}
		if try >= appendTries {
			for _, e := range entries {
				p.lost += max(1, e.Lost)
				if e.Lost == 0 {
					p.Controller.lost.Add(1)
				}
			}
			return
		}
		if !p.rest(ctx) {
			return
		}
	}
}
