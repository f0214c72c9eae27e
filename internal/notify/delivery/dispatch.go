package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// flight counts the messages under way. Its bound is what bounds memory: a
// message leaves it by its own end, so that a few slow ones do not hold up a
// whole batch.
type flight struct {
	max     int
	metrics *Metrics
	landed  signal
	mu      sync.Mutex
	n       int
}

func newFlight(bound int, m *Metrics) *flight {
	return &flight{max: bound, metrics: m, landed: newSignal()}
}

// room waits until n more fit in.
func (f *flight) room(ctx context.Context, n int) bool {
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

func (f *flight) add(n int) {
	f.mu.Lock()
	f.n += n
	f.metrics.flying(f.n)
	f.mu.Unlock()
	if n < 0 {
		f.landed.poke()
	}
}

const (
	// breath is the pause after a claim that brought little, so that messages
	// that come one by one are claimed together. Whoever is first does not wait.
	breath = 20 * time.Millisecond
	// recovery is the pause after the store failed.
	recovery = time.Second
)

// dispatch claims batches and has them delivered, several at once.
func (d *Delivery) dispatch(ctx context.Context) {
	var batches background.WaitGroup
	defer batches.Wait()
	vain := breath
	for d.flight.room(ctx, d.o.Batch) {
		var claimed []notify.Claimed
		err := background.Do("delivery", func() (err error) {
			claimed, err = d.o.Store.Claim(ctx, d.owner, d.o.Batch, d.o.Lease)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return // what was claimed is released
		case err != nil:
			d.o.Log.Error("messages cannot be claimed; trying again", "error", err)
			if !wait(ctx, recovery) {
				return
			}
		case len(claimed) == 0:
			if !d.idle(ctx, vain) {
				return
			}
			vain = min(2*vain, d.o.Poll)
		default:
			vain = breath
			d.o.Metrics.claimed(claimed)
			d.flight.add(len(claimed))
			batches.Go("delivery of a batch", func() { d.deliver(ctx, claimed) })
			if len(claimed) < d.o.Batch/4 && !wait(ctx, breath) {
				return
			}
		}
	}
}

// idle waits until something is due, or somebody kicks, or it is time to look
// what other servers left. vain is how long to wait for something that seems to
// be due and was not given out, which is longer each time.
func (d *Delivery) idle(ctx context.Context, vain time.Duration) bool {
	pause := d.o.Poll
	due, some, err := d.o.Store.NextDue(ctx)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		d.o.Log.Error("the next message cannot be looked up", "error", err)
	case some:
		until := due.Sub(d.o.Now())
		if until <= 0 {
			until = vain
		}
		pause = min(pause, until)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-d.claims:
	case <-timer.C:
	}
	return true
}

// failures spaces out what fails in a row.
type failures struct {
	mu sync.Mutex
	n  int
}

func (f *failures) clear() {
	f.mu.Lock()
	f.n = 0
	f.mu.Unlock()
}

// next is how long to wait after one more failure: from 2 s to about a minute.
func (f *failures) next() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n = min(f.n+1, 6)
	s := Schedule{First: 2 * time.Second, Longest: time.Minute, Jitter: 0.5}
	return s.pause(f.n, 0)
}

// parcel is a batch under way.
type parcel struct {
	d  *Delivery
	mu sync.Mutex
	// open are the messages that have no outcome yet.
	open map[int64]notify.Message
	// refused are addresses that refused mail for good.
	refused []notify.Suppression
}

// suppress stores the addresses that refused mail, all of a batch at once.
func (p *parcel) suppress(ctx context.Context) {
	p.mu.Lock()
	all := p.refused
	p.refused = nil
	p.mu.Unlock()
	if len(all) == 0 {
		return
	}
	if err := p.d.o.Store.Suppress(ctx, all...); err != nil && ctx.Err() == nil {
		// The next message to them is refused again.
		p.d.o.Log.Warn("refused addresses cannot be suppressed", "addresses", len(all), "error", err)
	}
}

// settle records an outcome, the first one of its message only.
func (p *parcel) settle(o notify.Outcome) {
	p.mu.Lock()
	_, first := p.open[o.Number]
	delete(p.open, o.Number)
	p.mu.Unlock()
	if first {
		p.d.finish.add(o)
		p.d.flight.add(-1)
	}
}

// drop gives a message to another parcel, and reports whether it was open.
func (p *parcel) drop(number int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.open[number]
	delete(p.open, number)
	return open
}

// rest returns what is open, in no order.
func (p *parcel) rest() []notify.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.open))
}

// alone delivers what is left of a batch that panicked one by one, so that only the
// message that is to blame fails. Nothing of it was handed to the channel: that has
// an outcome.
func (d *Delivery) alone(ctx context.Context, p *parcel, claimed []notify.Claimed) {
	left := p.rest()
	if len(left) == 1 {
		// It counts as an attempt, and does not come back for ever.
		p.settle(d.o.Schedule.after(left[0], notify.Result{Verdict: notify.Temporary, Reason: "the delivery ended unexpectedly"}, d.o.Now()))
		return
	}
	for _, c := range claimed {
		if ctx.Err() == nil && p.drop(c.Number) {
			d.deliver(ctx, []notify.Claimed{c})
		}
	}
}

// deliver brings a batch to its outcomes. What has none when the process stops is
// released by Stop.
func (d *Delivery) deliver(ctx context.Context, claimed []notify.Claimed) {
	p := &parcel{d: d, open: make(map[int64]notify.Message, len(claimed))}
	for _, c := range claimed {
		p.open[c.Number] = c.Message
	}
	defer func() { d.flight.add(-len(p.rest())) }()
	defer func() {
		if cause := recover(); cause != nil {
			d.o.Log.Error("the delivery of a batch failed; what is left of it is tried again", "error", background.Recovered("delivery of a batch", cause))
			d.alone(ctx, p, claimed)
		}
	}()
	s := d.sort(ctx, claimed)
	for _, o := range s.outcomes {
		p.settle(o)
	}
	for len(s.ready) > 0 && ctx.Err() == nil {
		out, taken, outcomes := d.render(ctx, s.ready)
		for _, o := range outcomes {
			p.settle(o)
		}
		d.hand(ctx, out, p)
		p.suppress(ctx)
		s.ready = s.ready[taken:]
	}
}
