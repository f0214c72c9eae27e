package notify

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ingot/internal/base/fault"
)

// Limits bound what one client may do, and one request may hold. A field that is
// 0 has its default; a negative one is no limit.
type Limits struct {
	// Requests is how many sends a client may ask for in a second, over time;
	// Burst how many at once.
	Requests float64
	Burst    int
	// Recipients is how many messages a client may cause in a day.
	Recipients int
	// Bytes bounds the text and the HTML of a send, each.
	Bytes int
	// Queue is the store's limit of waiting messages, for the words of the
	// refusal.
	Queue int
}

// The defaults. They keep one client from taking everything by mistake; an
// operator who wants to share out lowers them.
const (
	defaultRequests   = 10_000
	defaultBurst      = 20_000
	defaultRecipients = 50_000_000
	defaultBytes      = 1 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Requests == 0 {
		l.Requests = defaultRequests
	}
	if l.Burst == 0 {
		l.Burst = max(1, int(math.Min(2*l.Requests, math.MaxInt32)))
		if l.Requests == defaultRequests {
			l.Burst = defaultBurst
		}
	}
	if l.Recipients == 0 {
		l.Recipients = defaultRecipients
	}
	if l.Bytes == 0 {
		l.Bytes = defaultBytes
	}
	return l
}

// RateLimit is what a client may still do, for the RateLimit headers.
type RateLimit struct {
	// Limit is how many requests fit in at once and Remaining how many of them
	// are left; Reset is when all of them are there again. Limit is 0 when
	// there is no limit.
	Limit     int
	Remaining int
	Reset     time.Duration
}

// Headers are the names and values that tell it to the caller; none without a
// limit.
func (l RateLimit) Headers() map[string]string {
	if l.Limit == 0 {
		return nil
	}
	return map[string]string{
		"RateLimit-Limit":     strconv.Itoa(l.Limit),
		"RateLimit-Remaining": strconv.Itoa(l.Remaining),
		"RateLimit-Reset":     strconv.Itoa(int(math.Ceil(l.Reset.Seconds()))),
	}
}

// gates keeps the limits of each client, in memory: a restart forgives, and
// several servers each grant them.
type gates struct {
	limits Limits
	mu     sync.Mutex
	of     map[string]*gate
}

type gate struct {
	requests, recipients *rate.Limiter
}

// manyGates is when those that are back at full are forgotten.
const manyGates = 10_000

func newGates(l Limits) *gates { return &gates{limits: l, of: map[string]*gate{}} }

func (g *gates) gate(client string, now time.Time) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if have := g.of[client]; have != nil {
		return have
	}
	if len(g.of) >= manyGates {
		for id, old := range g.of {
			if old.full(now) {
				delete(g.of, id)
			}
		}
	}
	made := &gate{
		requests:   limiter(g.limits.Requests, g.limits.Burst),
		recipients: limiter(float64(g.limits.Recipients)/(24*time.Hour).Seconds(), g.limits.Recipients),
	}
	g.of[client] = made
	return made
}

func limiter(perSecond float64, burst int) *rate.Limiter {
	if perSecond < 0 || burst < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), burst)
}

func (g *gate) full(now time.Time) bool {
	for _, l := range []*rate.Limiter{g.requests, g.recipients} {
		if l.Limit() != rate.Inf && l.TokensAt(now) < float64(l.Burst()) {
			return false
		}
	}
	return true
}

// request takes one request from the client's rate.
func (g *gates) request(client string, now time.Time) error {
	l := g.gate(client, now).requests
	if l.AllowN(now, 1) {
		return nil
	}
	return fault.New(fault.RateLimited, "The client %q has sent more than %g requests a second: wait and try again", client, float64(l.Limit())).
		After(until(l, 1, now))
}

// recipients takes n messages from the client's day, or refuses when not so many
// are left.
func (g *gates) recipients(client string, n int, now time.Time) error {
	l := g.gate(client, now).recipients
	if l.Limit() == rate.Inf || n == 0 {
		return nil
	}
	if l.AllowN(now, n) {
		return nil
	}
	if n > l.Burst() {
		return fault.New(fault.RateLimited, "The request has %d recipients, but the client %q may send to %d a day: nothing was sent", n, client, l.Burst()).
			After(24 * time.Hour)
	}
	return fault.New(fault.RateLimited, "The client %q may send to %d recipients a day, and too few are left for the %d of this request: nothing was sent", client, l.Burst(), n).
		After(until(l, n, now))
}

// open refuses a send whose recipients are not known yet when nothing is left of
// the client's day.
func (g *gates) open(client string, now time.Time) error {
	l := g.gate(client, now).recipients
	if l.Limit() == rate.Inf || l.TokensAt(now) >= 1 {
		return nil
	}
	return fault.New(fault.RateLimited, "The client %q may send to %d recipients a day, and none are left: nothing was sent", client, l.Burst()).
		After(until(l, 1, now))
}

// spend takes n messages that were found later, and leaves a debt when they are
// too many.
func (g *gates) spend(client string, n int, now time.Time) {
	l := g.gate(client, now).recipients
	if l.Limit() == rate.Inf || l.Burst() == 0 {
		return
	}
	for n > 0 {
		part := min(n, l.Burst())
		l.ReserveN(now, part)
		n -= part
	}
}

func (g *gates) state(client string, now time.Time) RateLimit {
	l := g.gate(client, now).requests
	if l.Limit() == rate.Inf {
		return RateLimit{}
	}
	left := math.Max(0, math.Floor(l.TokensAt(now)))
	return RateLimit{Limit: l.Burst(), Remaining: int(left), Reset: until(l, l.Burst(), now)}
}

// until is how long it takes, in whole seconds, until n tokens are there.
func until(l *rate.Limiter, n int, now time.Time) time.Duration {
	missing := float64(n) - l.TokensAt(now)
	if missing <= 0 || l.Limit() <= 0 {
		return 0
	}
	seconds := math.Ceil(missing / float64(l.Limit()))
	return time.Duration(math.Max(1, math.Min(seconds, 7*24*3600))) * time.Second
}

// giveBack returns what recipients took for a send that was not accepted.
func (g *gates) giveBack(client string, n int, now time.Time) {
	l := g.gate(client, now).recipients
	if l.Limit() != rate.Inf && n > 0 && n <= l.Burst() {
		l.ReserveN(now, -n) // the limiter counts a negative number like any other
	}
}
