package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// inFlight counts the messages being delivered. It limits memory: a message
// leaves it when its own delivery ends, so that a few slow ones do not hold up
// a whole batch.
type inFlight struct {
	max     int
	metrics *Metrics
	landed  signal
	mu      sync.Mutex
	n       int
}

func newInFlight(bound int, m *Metrics) *inFlight {
	return &inFlight{max: bound, metrics: m, landed: newSignal()}
}

// room waits until n more messages fit.
func (f *inFlight) room(ctx context.Context, n int) bool {
	for {
		f.mu.Lock()
		fits := f.n+n <= f.max
		f.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-f.landed:
		case <-ctx.Done():
			return false
		}
	}
}

func (f *inFlight) add(n int) {
	f.mu.Lock()
	f.n += n
	f.metrics.addInFlight(n)
	f.mu.Unlock()
	if n < 0 {
		f.landed.send()
	}
}

// line is a channel with its own queue and its own limit in flight, so that one that hangs
// delays no other.
type line struct {
	id       notify.ChannelID
	channel  notify.Channel
	inFlight *inFlight
	claims   signal
	// steps decide whether a message is delivered. What can fail comes before throttle.
	steps []func(context.Context, *sorted) error
}

func (d *Delivery) newLines() []*line {
	make := func(id notify.ChannelID, c notify.Channel, steps ...func(context.Context, *sorted) error) *line {
		return &line{id, c, newInFlight(d.o.Workers*d.o.Batch, d.o.Metrics), newSignal(), steps}
	}
	lines := []*line{make(notify.Email, d.o.Channel, d.current, d.workflow, d.gather, d.addresses, d.wanted,
		d.notSuppressed, d.quiet, d.languages, d.throttle)}
	for _, more := range []struct {
		id    notify.ChannelID
		steps []func(context.Context, *sorted) error
	}{
		{notify.Inbox, []func(context.Context, *sorted) error{d.current, d.workflow, d.users, d.gather, d.wanted,
			d.quiet, d.languages, d.throttle}},
		{notify.Hook, []func(context.Context, *sorted) error{d.current, d.workflow, d.gather, d.wanted, d.quiet,
			d.languages, d.throttle}},
		// A chat is no recipient that could unsubscribe.
		{notify.Chat, []func(context.Context, *sorted) error{d.current, d.workflow, d.gather, d.languages,
			d.throttle}},
		{notify.SMS, []func(context.Context, *sorted) error{d.current, d.workflow, d.gather, d.wanted, d.phones,
			d.quiet, d.languages, d.throttle}},
		{notify.Push, []func(context.Context, *sorted) error{d.current, d.workflow, d.gather, d.wanted, d.browsers,
			d.quiet, d.languages, d.throttle}},
	} {
		if c := d.o.More[more.id]; c != nil {
			lines = append(lines, make(more.id, c, more.steps...))
		}
	}
	return lines
}

const (
	// claimPause is the pause after a claim that returned few messages, so that
	// messages that arrive one by one are claimed together. The first one does
	// not wait.
	claimPause = 20 * time.Millisecond
	// recovery is the pause after an error of the store.
	recovery = time.Second
)

// dispatch claims batches of a channel and delivers several concurrently.
func (d *Delivery) dispatch(ctx context.Context, l *line) {
	var batches background.WaitGroup
	defer batches.Wait()
	backoff := claimPause
	for l.inFlight.room(ctx, d.o.Batch) {
		var claimed []notify.Claimed
		err := background.Do("delivery", func() (err error) {
			claimed, err = d.o.Store.Claim(ctx, d.owner, d.o.Batch, d.o.Lease, l.id)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return // claimed messages are released
		case err != nil:
			d.o.Log.Error("claim messages failed, retrying", "error", err)
			if !wait(ctx, recovery) {
				return
			}
		case len(claimed) == 0:
			if !d.idle(ctx, l, backoff) {
				return
			}
			backoff = min(2*backoff, d.o.Poll)
		default:
			backoff = claimPause
			d.o.Metrics.claimed(claimed)
			l.inFlight.add(len(claimed))
			batches.Go("delivery of a batch", func() { d.deliver(ctx, l, claimed) })
			if len(claimed) < d.o.Batch/4 && !wait(ctx, claimPause) {
				return
			}
		}
	}
}

// idle waits until a message is due, Kick is called, or it is time to poll.
// backoff is how long to wait when messages seem due but none were claimed, and
// grows each time.
func (d *Delivery) idle(ctx context.Context, l *line, backoff time.Duration) bool {
	pause := d.o.Poll
	due, some, err := d.o.Store.NextDue(ctx, l.id)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		d.o.Log.Error("look up next due message failed", "error", err)
	case some:
		until := due.Sub(d.o.steady())
		if until <= 0 {
			until = backoff
		}
		pause = min(pause, until)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.claims:
	case <-timer.C:
	}
	return true
}

// failures computes the backoff after consecutive failures.
type failures struct {
	mu sync.Mutex
	n  int
}

func (f *failures) clear() {
	f.mu.Lock()
	f.n = 0
	f.mu.Unlock()
}

// next returns how long to wait after one more failure: from 2 s to about a
// minute.
func (f *failures) next() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n = min(f.n+1, 6)
	s := Schedule{First: 2 * time.Second, Longest: time.Minute, Jitter: 0.5}
	return s.pause(f.n, 0)
}

// batchState is the state of a batch being delivered.
type batchState struct {
	d    *Delivery
	line *line
	mu   sync.Mutex
	// open holds the messages without an outcome.
	open map[int64]notify.Message
	// permits are those of messages that are limited.
	permits map[int64]notify.Permit
	// refused holds addresses that were rejected permanently.
	refused []notify.Suppression
}

// suppress stores the rejected addresses of the batch in one call.
func (p *batchState) suppress(ctx context.Context) {
	p.mu.Lock()
	all := p.refused
	p.refused = nil
	p.mu.Unlock()
	if len(all) == 0 {
		return
	}
	if err := p.d.o.Store.Suppress(ctx, all...); err != nil && ctx.Err() == nil {
		// The next message to them will be rejected again.
		p.d.o.Log.Warn("suppress addresses failed", "addresses", len(all), "error", err)
	}
}

// permitted keeps the permits of messages for their outcomes.
func (p *batchState) permitted(messages []message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range messages {
		l := &messages[i]
		if l.permit.Limit == "" {
			continue
		}
		if p.permits == nil {
			p.permits = map[int64]notify.Permit{}
		}
		p.permits[l.Number] = l.permit
	}
}

// settle records the first outcome of a message and ignores later ones.
func (p *batchState) settle(o notify.Outcome) {
	p.mu.Lock()
	_, first := p.open[o.Number]
	delete(p.open, o.Number)
	o.Permit = p.permits[o.Number]
	p.mu.Unlock()
	if first {
		p.d.finish.add(o)
		p.line.inFlight.add(-1)
	}
}

// remove takes a message out of the batch, and reports whether it was open.
func (p *batchState) remove(number int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.open[number]
	delete(p.open, number)
	return open
}

// rest returns the open messages, in no particular order.
func (p *batchState) rest() []notify.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.open))
}

// deliverSingly delivers the rest of a batch that panicked one by one, so that
// only the message that causes the panic fails. None of it was passed to the
// channel: those messages have an outcome.
func (d *Delivery) deliverSingly(ctx context.Context, p *batchState, claimed []notify.Claimed) {
	left := p.rest()
	if len(left) == 1 {
		// It counts as an attempt, so that it is not retried forever.
		p.settle(d.o.Schedule.after(left[0], notify.Result{Verdict: notify.Temporary,
			Reason: "the delivery ended unexpectedly"}, d.o.Now(), d.o.steady()))
		return
	}
	for _, c := range claimed {
		if ctx.Err() == nil && p.remove(c.Number) {
			d.deliver(ctx, p.line, []notify.Claimed{c})
		}
	}
}

// deliver delivers a batch. Messages without an outcome when the process stops
// are released by Stop.
func (d *Delivery) deliver(ctx context.Context, l *line, claimed []notify.Claimed) {
	p := &batchState{d: d, line: l, open: make(map[int64]notify.Message, len(claimed))}
	for _, c := range claimed {
		p.open[c.Number] = c.Message
	}
	defer func() { l.inFlight.add(-len(p.rest())) }()
	var parts background.WaitGroup
	defer parts.Wait()
	defer func() {
		if cause := recover(); cause != nil {
			d.o.Log.Error("batch delivery failed, retrying the rest", "error",
				background.Recovered("delivery of a batch", cause))
			parts.Wait() // then what was passed to the channel has an outcome
			d.deliverSingly(ctx, p, claimed)
		}
	}()
	s := d.sort(ctx, l, claimed)
	for _, o := range s.outcomes {
		p.settle(o)
	}
	p.permitted(s.ready)
	d.contents.prepare(ctx, s.ready)
	ahead := make(chan struct{}, partsAhead)
	for len(s.ready) > 0 && ctx.Err() == nil {
		ahead <- struct{}{}
		out, taken, outcomes := d.render(ctx, s.ready)
		for _, o := range outcomes {
			p.settle(o)
		}
		most := newCountdown(len(out) - max(fewLeft, len(out)/8))
		parts.Go("delivery of a part", func() {
			defer func() { <-ahead }()
			defer most.end()
			d.send(ctx, out, p, most.down)
			p.suppress(ctx)
		})
		<-most.over
		s.ready = s.ready[taken:]
	}
}

const (
	// partsAhead is how many parts of a batch are in the channel at a time. The next one does not wait for the last few
	// messages of a part, which may go to a slow server.
	partsAhead = 3
	fewLeft    = 8
)

// countdown closes over after a number of calls of down, or at the end.
type countdown struct {
	left atomic.Int64
	over chan struct{}
	end  func()
}

func newCountdown(n int) *countdown {
	c := &countdown{over: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.over) })
	c.left.Store(int64(max(1, n)))
	return c
}

func (c *countdown) down() {
	if c.left.Add(-1) == 0 {
		c.end()
	}
}
