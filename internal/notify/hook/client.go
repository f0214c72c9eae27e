package hook

import (
	"net/http"
	"sync"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

const (
	// A receiver that does not answer is left alone for restFirst, then twice as long each time, up to restMost.
	restFirst = 5 * time.Second
	restMost  = time.Minute
	// askedMost limits how long a receiver may ask to be left alone.
	askedMost = time.Hour
	// soonest and latest are when messages come back that have no room.
	soonest = time.Second
	latest  = 10 * time.Minute
	// manyClients is the number of clients at which those are forgotten that have nothing to deliver.
	manyClients = 1000
)

// client is what a channel knows of a client.
type client struct {
	slots chan struct{} // one for each call at a time

	mu    sync.Mutex
	using int // calls of Channel.deliver
	// changed is when the destination was changed.
	changed time.Time
	held    int // messages that wait or are being delivered
	// until is when the receiver is called again, why it is not before, and asked whether it said so itself.
	until    time.Time
	why      string
	asked    bool
	failures int
	// pace is how long a message takes, and next when the next that has no room may come back.
	pace time.Duration
	next time.Time
}

// enter returns the state of a client; leave is called when it is no longer used. A destination that was changed is
// called at once.
func (c *Channel) enter(id string, changed time.Time) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.clients[id]
	if of == nil {
		if len(c.clients) >= manyClients {
			c.forget()
		}
		of = &client{slots: make(chan struct{}, c.callers), pace: 20 * time.Millisecond}
		c.clients[id] = of
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.using++
	if !of.changed.Equal(changed) {
		of.changed, of.until, of.failures = changed, time.Time{}, 0
	}
	return of
}

func (c *client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.using--
}

// forget removes clients that have nothing to deliver and whose receivers may be called.
func (c *Channel) forget() {
	now := c.o.Now()
	for id, of := range c.clients {
		of.mu.Lock()
		idle := of.using == 0 && !now.Before(of.until)
		of.mu.Unlock()
		if idle {
			delete(c.clients, id)
		}
	}
}

// admit adds up to n messages and returns how many; it removes some if n is negative.
func (c *client) admit(n, limit int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		n = max(0, min(n, limit-c.held))
	}
	c.held += n
	return n
}

// later is the result of a message that has no room: it comes back when those before it are likely to be through.
func (c *client) later(now time.Time) notify.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := now.Add(soonest)
	if c.next.Before(first) {
		c.next = first
	}
	pause := c.next.Sub(now)
	// Those that come back without room count again: without an end they would delay later sends for hours.
	if end := now.Add(latest); c.next.Add(c.pace).Before(end) {
		c.next = c.next.Add(c.pace)
	} else {
		c.next = end
	}
	return notify.Result{Verdict: notify.Temporary, Untried: true, RetryAfter: pause,
		Reason: "waiting: the receiver gets others of the client's messages first"}
}

// resting returns the result of messages while the receiver is not called.
func (c *client) resting(now time.Time) (r notify.Result, resting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now.Before(c.until) {
		return r, false
	}
	r = notify.Result{Verdict: notify.Temporary, Reason: c.why}
	if c.asked {
		r.Untried, r.RetryAfter = true, c.until.Sub(now)+c.pace
	}
	return r, true
}

// failed records that the receiver did not answer. The messages behind this one have failed too: each would take as
// long again.
func (c *client) failed(err error, now time.Time) notify.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := min(restFirst<<min(c.failures, 10), restMost)
	c.failures++
	reason := "the receiver did not answer: " + err.Error()
	c.until, c.why, c.asked = now.Add(rest), reason, false
	return notify.Result{Verdict: notify.Temporary, Reason: reason}
}

// took records an answer and how long it took.
func (c *client) took(d time.Duration, now time.Time, a outbound.Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = 0
	each := max(d/time.Duration(cap(c.slots)), time.Millisecond)
	c.pace = (7*c.pace + each) / 8
	if (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable) && a.RetryAfter > 0 {
		c.until, c.asked = now.Add(min(a.RetryAfter, askedMost)), true
		c.why = "waiting: the receiver asked to be called later (" + a.String() + ")"
	}
}
