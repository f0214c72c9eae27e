package delivery

import (
	"context"
	"errors"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

const (
	// manyExpansions is how many sends are expanded in turns, sideBySide how many
	// of them at the same moment.
	manyExpansions = 64
	sideBySide     = 4
	// glance is how often to look for new sends at most: a kick comes with every
	// send, and most of them have all their recipients.
	glance = 20 * time.Millisecond
)

// expansion is a send whose recipients are being read.
type expansion struct {
	send     notify.Send
	failures failures
	// rest is when to go on after a failure.
	rest time.Time
}

// turn is what came of one chunk.
type turn struct {
	of *expansion
	// over tells that there is nothing left to do for this server.
	over bool
	err  error
}

// expand reads the recipients of sends. Each send gets a chunk a turn, so that a
// send to everyone does not keep one to a space waiting.
func (d *Delivery) expand(ctx context.Context) {
	active := map[int64]*expansion{}
	var line []*expansion // those whose turn it is next, in order
	turns := make(chan turn)
	running := 0
	var looked time.Time
	defer func() {
		for ; running > 0; running-- {
			<-turns
		}
	}()
	look := d.o.Now() // when to look for more sends
	for {
		if now := d.o.Now(); !now.Before(look) {
			if len(active) < manyExpansions {
				line = d.claimExpansions(ctx, active, line)
			}
			looked, look = now, now.Add(d.o.Poll)
		}
		for running < sideBySide {
			var next *expansion
			if next, line = due(line, d.o.Now()); next == nil {
				break
			}
			running++
			background.Go("expansion of a send", func() { turns <- d.chunk(ctx, next) })
		}
		d.o.Metrics.expansions(len(active), oldest(active, d.o.Now()))

		timer := time.NewTimer(min(d.untilTurn(line, running), max(0, look.Sub(d.o.Now()))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.expansions:
			look = sooner(look, looked.Add(glance))
		case <-timer.C:
		case t := <-turns:
			running--
			switch {
			case t.over:
				delete(active, t.of.send.Number)
				if len(active) == manyExpansions-1 { // there may be more that did not fit in
					look = sooner(look, looked.Add(glance))
				}
			case t.err != nil:
				t.of.rest = d.o.Now().Add(t.of.failures.next())
				line = append(line, t.of)
			default:
				t.of.failures.clear()
				line = append(line, t.of)
			}
		}
		timer.Stop()
	}
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// claimExpansions adds sends that wait to be expanded.
func (d *Delivery) claimExpansions(ctx context.Context, active map[int64]*expansion, line []*expansion) []*expansion {
	var sends []notify.Send
	err := background.Do("delivery expansion", func() (err error) {
		sends, err = d.o.Store.ClaimExpansions(ctx, d.owner, manyExpansions-len(active), d.o.Lease)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			d.o.Log.Error("sends that wait for their recipients cannot be read", "error", err)
		}
		return line
	}
	for _, s := range sends {
		if active[s.Number] == nil {
			e := &expansion{send: s}
			active[s.Number] = e
			line = append(line, e)
		}
	}
	return line
}

// due takes the first of the line that does not rest.
func due(line []*expansion, now time.Time) (*expansion, []*expansion) {
	for i, e := range line {
		if !now.Before(e.rest) {
			return e, append(line[:i:i], line[i+1:]...)
		}
	}
	return nil, line
}

func oldest(active map[int64]*expansion, now time.Time) time.Duration {
	var lag time.Duration
	for _, e := range active {
		lag = max(lag, now.Sub(e.send.Received))
	}
	return lag
}

// untilTurn is when to look again if nothing happens.
func (d *Delivery) untilTurn(line []*expansion, running int) time.Duration {
	pause := d.o.Poll
	if running < sideBySide {
		for _, e := range line {
			pause = min(pause, max(0, e.rest.Sub(d.o.Now())))
		}
	}
	return pause
}

// chunk reads some recipients of a send and adds them.
func (d *Delivery) chunk(ctx context.Context, e *expansion) (t turn) {
	s := &e.send
	defer func() {
		if cause := recover(); cause != nil {
			err := background.Recovered("expansion of a send", cause)
			d.o.Log.Error("the recipients of a send cannot be read; trying again", "send", d.o.IDs.Send(s.Number), "error", err)
			t = turn{of: e, err: err}
		}
	}()
	reader := notify.Reader{
		Directory: d.o.Directory, Page: d.o.Chunk, Lenient: true,
		Skipped: func(a notify.Audience, err error) {
			d.o.Log.Warn("an audience that does not exist is skipped", "send", d.o.IDs.Send(s.Number), "type", a.Type, "id", a.ID, "error", err)
		},
	}
	members, to, done, err := reader.Read(ctx, s.Audiences, s.Cursor, d.o.Chunk)
	if err != nil {
		if ctx.Err() == nil {
			d.o.Metrics.directoryFailed("members")
			d.o.Log.Warn("recipients of a send cannot be read; trying again", "send", d.o.IDs.Send(s.Number), "error", err)
		}
		return turn{of: e, err: err}
	}
	err = d.o.Store.Extend(ctx, s.Number, s.Cursor, members, to, done)
	switch {
	case err == nil:
		s.Cursor = to
		d.o.Extended(s.ClientID, len(members))
		d.claims.poke()
	case errors.Is(err, notify.ErrTooMany):
		// It cannot get better by trying again. Those who are in get the mail.
		d.o.Metrics.cutOff()
		d.o.Log.Error("a send has more recipients than are possible; the rest gets nothing: send to parts of them",
			"send", d.o.IDs.Send(s.Number), "client", s.ClientID, "possible", notify.MaxRecipients)
		if err = d.o.Store.Extend(ctx, s.Number, s.Cursor, nil, to, true); err == nil {
			done = true
		}
	case errors.Is(err, notify.ErrConflict), errors.Is(err, notify.ErrNotFound):
		return turn{of: e, over: true} // another server does it, or it is gone
	case ctx.Err() == nil:
		d.o.Log.Error("recipients cannot be added to a send; trying again", "send", d.o.IDs.Send(s.Number), "error", err)
	}
	return turn{of: e, over: err == nil && done, err: err}
}
