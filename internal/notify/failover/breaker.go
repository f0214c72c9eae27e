package failover

import (
	"sync"
	"time"
)

// Options configure a Breaker.
type Options struct {
	// Failures is how many failures in a row open it (5).
	Failures int
	// First is how long it stays open then (5 s). It doubles with each further failure, up to Longest (1 min).
	First, Longest time.Duration
}

// AskedMost limits how long the other side may ask to be left alone.
const AskedMost = time.Hour

// State is that of a Breaker.
type State string

const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half-open"
)

// Breaker stops calls of something that fails, and tries it again after a while. It is safe for concurrent use.
type Breaker struct {
	o Options

	mu sync.Mutex
	// row counts the failures since the last success, opened how often it opened since.
	row, opened int
	until       time.Time // of the pause; zero while it is closed
	asked       bool      // the other side asked for the pause
	why         string    // of the last failure
	probing     bool
}

// NewBreaker returns a closed one.
func NewBreaker(o Options) *Breaker {
	if o.Failures <= 0 {
		o.Failures = 5
	}
	if o.First <= 0 {
		o.First = 5 * time.Second
	}
	if o.Longest <= 0 {
		o.Longest = time.Minute
	}
	return &Breaker{o: o}
}

// Call is permission for one call. One of its methods must be called once.
type Call struct {
	b     *Breaker
	probe bool
}

// Refusal says why a Breaker permits no call.
type Refusal struct {
	// For is how long it does not.
	For time.Duration
	// Asked reports that the other side asked for it, so that it is no failure. Trying reports that another call is
	// trying it at the moment.
	Asked, Trying bool
	Why           string
}

// Try returns permission for a call, or why there is none.
func (b *Breaker) Try(now time.Time) (Call, *Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return Call{b: b}, nil
	case now.Before(b.until):
		return Call{}, &Refusal{For: b.until.Sub(now), Asked: b.asked, Why: b.why}
	case b.probing:
		return Call{}, &Refusal{For: time.Second, Asked: b.asked, Trying: true, Why: b.why}
	}
	b.probing = true
	return Call{b, true}, nil
}

// Succeeded closes the breaker.
func (c Call) Succeeded() {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.probe {
		b.probing = false
	}
	if !c.probe && !b.until.IsZero() && b.asked {
		return // it was on its way when another was told to wait
	}
	b.row, b.opened, b.until, b.asked, b.why = 0, 0, time.Time{}, false, ""
}

// Failed counts a failure, and may open the breaker.
func (c Call) Failed(now time.Time, why string) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.probe {
		b.probing = false
	}
	b.row++
	b.why = why
	if !c.probe && (!b.until.IsZero() || b.row < b.o.Failures) {
		return // one that was on its way when the breaker opened does not make the pause longer
	}
	b.until, b.asked = now.Add(min(b.o.First<<min(b.opened, 20), b.o.Longest)), false
	b.opened++
}

// Asked opens the breaker for the time that the other side asked for.
func (c Call) Asked(now time.Time, pause time.Duration, why string) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.probe {
		b.probing = false
	}
	b.until, b.asked, b.why = now.Add(min(max(pause, 0), AskedMost)), true, why
}

// Dropped ends a call that says nothing about the other side.
func (c Call) Dropped() {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.probe {
		b.probing = false
	}
}

// Health is what a Breaker knows.
type Health struct {
	State State
	// Failures are those since the last success, and Why is the latest.
	Failures int
	Why      string
	// Until is the end of the pause; zero if there is none.
	Until time.Time
}

// Health returns the present state.
func (b *Breaker) Health(now time.Time) Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := Health{State: Closed, Failures: b.row, Why: b.why}
	switch {
	case b.until.IsZero():
	case now.Before(b.until):
		h.State, h.Until = Open, b.until
	default:
		h.State = HalfOpen
	}
	return h
}
