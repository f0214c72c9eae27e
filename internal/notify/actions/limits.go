package actions

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ingot/internal/base/fault"
)

// Limits are the limits of a client and of a request. Zero fields have a
// default; negative ones mean no limit.
type Limits struct {
	// Requests is the number of sends per second that a client may request on
	// average; Burst the number at once.
	Requests float64
	Burst    int
	// Recipients is the number of messages per day that a client may cause.
	Recipients int
	// Bytes limits the text and the HTML of a send, each.
	Bytes int
	// Scheduled is the number of messages of a client that may wait for their time.
	// An audience counts as one message.
	Scheduled int
	// Delayed is the number of messages of a client that its workflows may delay or its digests collect, until they are
	// final. They count in the queue; the default is at most two fifths of it, so that no client fills it with them.
	// Half as many others may wait for the end of quiet hours, and as many for another attempt.
	Delayed int
	// Queue is the store's limit of waiting messages, for the error message.
	Queue int
}

// The defaults prevent a client from using up everything by mistake; an
// operator can lower them to share capacity among clients.
const (
	defaultRequests   = 10_000
	defaultBurst      = 20_000
	defaultRecipients = 50_000_000
	defaultBytes      = 1 << 20
	defaultScheduled  = 2_000_000
	defaultDelayed    = 2_000_000
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
	if l.Scheduled == 0 {
		l.Scheduled = defaultScheduled
	}
	if l.Delayed == 0 {
		l.Delayed = defaultDelayed
		if l.Queue > 0 {
			l.Delayed = max(1, min(l.Delayed, l.Queue/5*2))
		}
	}
	return l
}

// waiting is how many messages of a client may wait for the end of quiet hours, and how many for another attempt; 0
// means no limit.
func (l Limits) waiting() int { return max(l.Delayed+1, 0) / 2 }

// RateLimit is the remaining quota of a client, for the RateLimit headers.
type RateLimit struct {
	// Limit is the number of requests allowed at once and Remaining how many of
	// them are left; Reset is when all of them are available again. Limit is 0
	// when there is no limit.
	Limit     int
	Remaining int
	Reset     time.Duration
}

// Headers returns the header names and values; none without a limit.
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

// quotas holds the quota of each client in memory: a restart resets it, and
// each of several servers has its part.
type quotas struct {
	limits  Limits
	servers func() int
	mu      sync.Mutex
	of      map[string]*clientQuota
}

type clientQuota struct {
	requests, recipients *rate.Limiter
	servers              int // that share it
}

// manyQuotas is the number of clients at which unused quotas are removed.
const manyQuotas = 10_000

func newQuotas(l Limits, servers func() int) *quotas {
	return &quotas{limits: l, servers: servers, of: map[string]*clientQuota{}}
}

// part returns the part of a limit that one of n servers has.
func part(limit, n int) int {
	if limit <= 0 {
		return limit
	}
	return max(1, limit/n)
}

func (g *quotas) clientQuota(client string, now time.Time) *clientQuota {
	n := max(1, g.servers())
	g.mu.Lock()
	defer g.mu.Unlock()
	if have := g.of[client]; have != nil {
		if have.servers != n { // servers came or went
			have.servers = n
			resize(have.requests, g.limits.Requests/float64(n), part(g.limits.Burst, n), now)
			resize(have.recipients, perDay(g.limits.Recipients)/float64(n), part(g.limits.Recipients, n), now)
		}
		return have
	}
	if len(g.of) >= manyQuotas {
		for id, old := range g.of {
			if old.full(now) {
				delete(g.of, id)
			}
		}
	}
	made := &clientQuota{
		requests:   limiter(g.limits.Requests/float64(n), part(g.limits.Burst, n)),
		recipients: limiter(perDay(g.limits.Recipients)/float64(n), part(g.limits.Recipients, n)),
		servers:    n,
	}
	g.of[client] = made
	return made
}

func perDay(n int) float64 { return float64(n) / (24 * time.Hour).Seconds() }

func resize(l *rate.Limiter, perSecond float64, burst int, now time.Time) {
	if l.Limit() != rate.Inf {
		l.SetLimitAt(now, rate.Limit(perSecond))
		l.SetBurstAt(now, burst)
	}
}

func limiter(perSecond float64, burst int) *rate.Limiter {
	if perSecond < 0 || burst < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), burst)
}

func (g *clientQuota) full(now time.Time) bool {
	for _, l := range []*rate.Limiter{g.requests, g.recipients} {
		if l.Limit() != rate.Inf && l.TokensAt(now) < float64(l.Burst()) {
			return false
		}
	}
	return true
}

// request takes one request from the client's rate.
func (g *quotas) request(client string, now time.Time) error {
	l := g.clientQuota(client, now).requests
	if l.AllowN(now, 1) {
		return nil
	}
	return fault.New(fault.RateLimited, "The client %q has sent more than %g requests per second: wait and try again",
		client, g.limits.Requests).
		After(until(l, 1, now))
}

// recipients takes n messages from the client's daily quota, or returns an
// error if not enough are left.
func (g *quotas) recipients(client string, n int, now time.Time) error {
	l := g.clientQuota(client, now).recipients
	if l.Limit() == rate.Inf || n == 0 {
		return nil
	}
	if l.AllowN(now, n) {
		return nil
	}
	most := g.limits.Recipients
	if n > most {
		return fault.New(fault.RateLimited,
			"The request has %d recipients, but the client %q may send to %d per day: nothing was sent", n, client, most).
			After(24 * time.Hour)
	}
	// A request that is larger than the part of this server takes what the client may send
	// here later.
	if n > l.Burst() && l.TokensAt(now) >= float64(l.Burst()) {
		g.spend(client, n, now)
		return nil
	}
	return fault.New(fault.RateLimited,
		"The client %q may send to %d recipients per day, and not enough are left for the %d of this request: nothing was "+
			"sent", client, most, n).
		After(until(l, min(n, l.Burst()), now))
}

// open rejects a send whose recipients are not known yet if the client's daily
// quota is used up.
func (g *quotas) open(client string, now time.Time) error {
	l := g.clientQuota(client, now).recipients
	if l.Limit() == rate.Inf || l.TokensAt(now) >= 1 {
		return nil
	}
	return fault.New(fault.RateLimited,
		"The client %q may send to %d recipients per day, and none are left: nothing was sent", client, g.limits.Recipients).
		After(until(l, 1, now))
}

// spend takes n messages that were found later from the quota, which may become
// negative.
func (g *quotas) spend(client string, n int, now time.Time) {
	l := g.clientQuota(client, now).recipients
	if l.Limit() == rate.Inf || l.Burst() == 0 {
		return
	}
	for n > 0 {
		part := min(n, l.Burst())
		l.ReserveN(now, part)
		n -= part
	}
}

func (g *quotas) state(client string, now time.Time) RateLimit {
	l := g.clientQuota(client, now).requests
	if l.Limit() == rate.Inf {
		return RateLimit{}
	}
	left := math.Max(0, math.Floor(l.TokensAt(now)))
	return RateLimit{Limit: l.Burst(), Remaining: int(left), Reset: until(l, l.Burst(), now)}
}

// until returns how long it takes, in whole seconds, until n tokens are
// available.
func until(l *rate.Limiter, n int, now time.Time) time.Duration {
	missing := float64(n) - l.TokensAt(now)
	if missing <= 0 || l.Limit() <= 0 {
		return 0
	}
	seconds := math.Ceil(missing / float64(l.Limit()))
	return time.Duration(math.Max(1, math.Min(seconds, 7*24*3600))) * time.Second
}

// giveBack returns the recipients of a send that was not accepted to the quota.
func (g *quotas) giveBack(client string, n int, now time.Time) {
	l := g.clientQuota(client, now).recipients
	if l.Limit() != rate.Inf && n > 0 {
		l.ReserveN(now, -n) // a negative number adds tokens
	}
}
