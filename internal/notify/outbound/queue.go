package outbound

import (
	"context"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

const (
	defaultPerClient = 100
	defaultCallers   = 8
	defaultGrace     = 3 * time.Second
	// soonest and latest are when messages come back that have no room.
	soonest = time.Second
	latest  = 10 * time.Minute
	// manyClients is the number of clients at which those are forgotten that have nothing to deliver.
	manyClients = 1000
	// firstPace is how long a message is expected to take before any was delivered.
	firstPace = 20 * time.Millisecond
)

// QueueOptions configure a Queue.
type QueueOptions struct {
	// PerClient is how many messages of a client are in the channel at a time (100).
	PerClient int
	// Callers is how many messages of a client are delivered at a time, and how many of it a crash repeats (8).
	Callers int
	// Grace is how long calls may take after the end of Deliver's context (3 s): what is interrupted may
	// have been accepted.
	Grace time.Duration
	// Full is the reason of messages that have no room.
	Full string
	Now  func() time.Time
}

// Queue delivers the messages of a channel client by client, so that one whose receivers are slow takes nothing from
// others.
type Queue struct {
	o QueueOptions

	mu      sync.Mutex
	clients map[string]*queued
}

// NewQueue returns a queue.
func NewQueue(o QueueOptions) *Queue {
	if o.PerClient <= 0 {
		o.PerClient = defaultPerClient
	}
	if o.Callers <= 0 {
		o.Callers = defaultCallers
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Queue{o: o, clients: map[string]*queued{}}
}

// Work is how the messages of a client are delivered.
type Work struct {
	// One delivers a message. ctx is that of Deliver, calls is for calls that have begun.
	One func(ctx, calls context.Context, o *notify.Outgoing) notify.Result
	// Pace is how long a message takes at least, if calls are limited; otherwise 0.
	Pace time.Duration
	// Close is called at the end; it may be nil.
	Close func()
	// Instead is the result of all messages if they cannot be delivered; otherwise nil.
	Instead *notify.Result
}

// Stopping is the result of a message that was not delivered because the server stops.
var Stopping = notify.Result{Verdict: notify.Temporary, Reason: "not called: the server was stopping", Untried: true}

// Deliver delivers a batch, as notify.Channel does. Messages for which unusable returns a reason fail for good. open is
// called once for each client.
func (q *Queue) Deliver(ctx context.Context, batch []notify.Outgoing, unusable func(*notify.Outgoing) string,
	open func(ctx context.Context, client string) Work, done func(i int, r notify.Result)) {
	PerClient(ctx, q.o.Grace, batch, unusable, func(ctx, calls context.Context, id string, list []int) {
		w := open(ctx, id)
		if w.Close != nil {
			defer w.Close()
		}
		if w.Instead != nil {
			for _, i := range list {
				done(i, *w.Instead)
			}
			return
		}
		q.deliver(ctx, calls, id, batch, list, w, done)
	}, done)
}

// deliver delivers messages of one client.
func (q *Queue) deliver(ctx, calls context.Context, id string, batch []notify.Outgoing, list []int, w Work,
	done func(int, notify.Result)) {
	of := q.enter(id)
	defer of.leave()
	n := of.admit(len(list), q.o.PerClient)
	for _, i := range list[n:] {
		done(i, of.later(q.o.Now(), w.Pace, q.o.Full))
	}
	list = list[:n]
	next := make(chan int, len(list))
	for _, i := range list {
		next <- i
	}
	close(next)
	var all background.WaitGroup
	for range min(q.o.Callers, len(list)) {
		all.Go("messages of a client", func() {
			for i := range next {
				q.deliverOne(ctx, calls, of, w, &batch[i], func(r notify.Result) { done(i, r) })
			}
		})
	}
	all.Wait()
}

// deliverOne delivers a message when it is its turn.
func (q *Queue) deliverOne(ctx, calls context.Context, of *queued, w Work, o *notify.Outgoing,
	done func(notify.Result)) {
	defer of.admit(-1, 0)
	select {
	case of.slots <- struct{}{}:
	case <-ctx.Done():
		done(Stopping)
		return
	}
	// The slot is free when the outcome is recorded, so that a crash repeats no more messages than there are slots.
	defer func() { <-of.slots }()
	if ctx.Err() != nil {
		done(Stopping)
		return
	}
	r := notify.Result{Verdict: notify.Temporary, Reason: "the delivery ended unexpectedly"}
	_ = background.Do("delivery of a message", func() error {
		began := q.o.Now()
		if r = w.One(ctx, calls, o); !r.Untried {
			of.took(q.o.Now().Sub(began))
		}
		return nil
	})
	done(r)
}

// queued is what a queue knows of a client.
type queued struct {
	slots chan struct{} // one for each message that is being delivered

	mu    sync.Mutex
	using int // calls of Queue.deliver
	held  int // messages that wait or are being delivered
	// pace is how long a message takes, and next when the next that has no room may come back.
	pace time.Duration
	next time.Time
}

// enter returns the state of a client; leave is called when it is no longer used.
func (q *Queue) enter(id string) *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.clients[id]
	if of == nil {
		if len(q.clients) >= manyClients {
			for id, other := range q.clients {
				if other.idle() {
					delete(q.clients, id)
				}
			}
		}
		of = &queued{slots: make(chan struct{}, q.o.Callers), pace: firstPace}
		q.clients[id] = of
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.using++
	return of
}

func (c *queued) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.using--
}

func (c *queued) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.using == 0
}

// admit adds up to n messages and returns how many; it removes some if n is negative.
func (c *queued) admit(n, limit int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		n = max(0, min(n, limit-c.held))
	}
	c.held += n
	return n
}

// later is the result of a message that has no room: it comes back when those before it are likely to be through.
func (c *queued) later(now time.Time, atLeast time.Duration, reason string) notify.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := now.Add(soonest)
	if c.next.Before(first) {
		c.next = first
	}
	pause := c.next.Sub(now)
	// Those that come back without room count again: without an end they would delay later sends for hours.
	if end := now.Add(latest); c.next.Add(max(c.pace, atLeast)).Before(end) {
		c.next = c.next.Add(max(c.pace, atLeast))
	} else {
		c.next = end
	}
	return notify.Result{Verdict: notify.Temporary, Untried: true, RetryAfter: pause, Reason: reason}
}

// took records how long a message took.
func (c *queued) took(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace = (7*c.pace + max(d/time.Duration(cap(c.slots)), time.Millisecond)) / 8
}
