package delivery

import (
	"context"
	"errors"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

const (
	// manyExpansions is the number of sends that are expanded in turns,
	// sideBySide the number expanded concurrently.
	manyExpansions = 64
	sideBySide     = 4
	// scanInterval is the minimum time between two searches for new sends: Kick
	// is called for every send, and most of them have all their recipients.
	scanInterval = 20 * time.Millisecond
	// firstChunk is by how much the first chunk of a send is smaller than the others.
	firstChunk = 4
)

// expansion is a send whose recipients are being read.
type expansion struct {
	send     notify.Send
	failures failures
	// rest is when to continue after a failure.
	rest time.Time
}

// turn is the result of one chunk.
type turn struct {
	of *expansion
	// over reports that this server has nothing left to do for the send.
	over bool
	err  error
}

// expand reads the recipients of sends, one chunk per send and turn, so that a
// send to everyone does not delay one to a space.
func (d *Delivery) expand(ctx context.Context) {
	active := map[int64]*expansion{}
	var queue []*expansion // those to expand next, in order
	turns := make(chan turn)
	running := 0
	var looked time.Time
	defer func() {
		for ; running > 0; running-- {
			<-turns
		}
	}()
	look := d.o.Now() // when to search for more sends
	for {
		if now := d.o.Now(); !now.Before(look) {
			next := d.activate(ctx)
			if len(active) < manyExpansions {
				queue = d.claimExpansions(ctx, active, queue)
			}
			looked, look = now, now.Add(d.o.Poll)
			if !next.IsZero() {
				look = earlier(look, later(next, now.Add(scanInterval)))
			}
		}
		for running < sideBySide {
			var next *expansion
			if next, queue = due(queue, d.o.Now()); next == nil {
				break
			}
			running++
			background.Go("expansion of a send", func() { turns <- d.chunk(ctx, next) })
		}
		d.o.Metrics.expansions(len(active), oldest(active, d.o.Now()))

		timer := time.NewTimer(min(d.untilTurn(queue, running), max(0, look.Sub(d.o.Now()))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.expansions:
			look = earlier(look, looked.Add(scanInterval))
		case <-timer.C:
		case t := <-turns:
			running--
			switch {
			case t.over:
				delete(active, t.of.send.Number)
				if len(active) == manyExpansions-1 { // there may be more
					look = earlier(look, looked.Add(scanInterval))
				}
			case t.err != nil:
				t.of.rest = d.o.Now().Add(t.of.failures.next())
				queue = append(queue, t.of)
			default:
				t.of.failures.clear()
				queue = append(queue, t.of)
			}
		}
		timer.Stop()
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// activatedAtOnce limits how many scheduled sends are started between two looks at the rest of
// the work.
const activatedAtOnce = 1000

// activate starts scheduled sends, and returns when the next is due; zero if none is scheduled.
func (d *Delivery) activate(ctx context.Context) time.Time {
	var started int
	var next time.Time
	err := background.Do("scheduled sends", func() (err error) {
		started, next, err = d.o.Store.Activate(ctx, activatedAtOnce)
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.o.Log.Error("start scheduled sends failed, retrying", "error", err)
		return d.o.Now().Add(recovery)
	}
	if started > 0 {
		d.wake()
	}
	return next
}

// claimExpansions adds sends that are waiting to be expanded.
func (d *Delivery) claimExpansions(ctx context.Context, active map[int64]*expansion, queue []*expansion) []*expansion {
	var sends []notify.Send
	err := background.Do("delivery expansion", func() (err error) {
		sends, err = d.o.Store.ClaimExpansions(ctx, d.owner, manyExpansions-len(active), d.o.Lease)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			d.o.Log.Error("claim expansions failed", "error", err)
		}
		return queue
	}
	for _, s := range sends {
		if active[s.Number] == nil {
			e := &expansion{send: s}
			active[s.Number] = e
			queue = append(queue, e)
		}
	}
	return queue
}

// due removes and returns the first expansion that is not waiting after a
// failure.
func due(queue []*expansion, now time.Time) (*expansion, []*expansion) {
	for i, e := range queue {
		if !now.Before(e.rest) {
			return e, append(queue[:i:i], queue[i+1:]...)
		}
	}
	return nil, queue
}

func oldest(active map[int64]*expansion, now time.Time) time.Duration {
	var lag time.Duration
	for _, e := range active {
		lag = max(lag, now.Sub(e.send.Received))
	}
	return lag
}

// untilTurn returns how long to wait for the next event.
func (d *Delivery) untilTurn(queue []*expansion, running int) time.Duration {
	pause := d.o.Poll
	if running < sideBySide {
		for _, e := range queue {
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
			d.o.Log.Error("read recipients failed, retrying", "send", d.o.IDs.Send(s.Number), "error", err)
			t = turn{of: e, err: err}
		}
	}()
	reader := actions.Reader{
		Directory: d.o.Directory, Lists: d.o.Store, Topics: d.o.Store, Client: s.ClientID, Page: d.o.Chunk, Lenient: true,
		Channels: s.Channels,
		Skipped: func(a notify.Audience, err error) {
			d.o.Log.Warn("audience does not exist, skipped", "send", d.o.IDs.Send(s.Number), "type", a.Type, "id", a.ID,
				"error", err)
		},
	}
	want := d.o.Chunk
	if s.Cursor == (notify.Cursor{}) {
		want = max(1, want/firstChunk) // so that the delivery begins early
	}
	members, to, done, err := reader.Read(ctx, s.Audiences, s.Cursor, want)
	if err != nil {
		if ctx.Err() == nil {
			d.o.Metrics.directoryFailed("members")
			d.o.Log.Warn("read recipients failed, retrying", "send", d.o.IDs.Send(s.Number), "error", err)
		}
		return turn{of: e, err: err}
	}
	err = d.o.Store.Extend(ctx, s.Number, s.Cursor, members, to, done)
	switch {
	case err == nil:
		s.Cursor = to
		d.o.Extended(s.ClientID, len(members))
		d.wake()
	case errors.Is(err, notify.ErrTooMany):
		// Retrying cannot help. The recipients already added get the message.
		d.o.Metrics.cutOff()
		d.o.Log.Error("too many recipients, the rest is not notified: split the audience",
			"send", d.o.IDs.Send(s.Number), "client", s.ClientID, "possible", notify.MaxRecipients)
		if err = d.o.Store.Extend(ctx, s.Number, s.Cursor, nil, to, true); err == nil {
			done = true
		}
	case errors.Is(err, notify.ErrConflict), errors.Is(err, notify.ErrNotFound):
		return turn{of: e, over: true} // another server does it, or the send was deleted
	case ctx.Err() == nil:
		d.o.Log.Error("add recipients failed, retrying", "send", d.o.IDs.Send(s.Number), "error", err)
	}
	return turn{of: e, over: err == nil && done, err: err}
}
