package ratelimit

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// Limits are the limits of the API. A limit of 0 means that there is none.
type Limits struct {
	General         int           // requests of a user or client in Interval
	Unauthenticated int           // requests without a valid token from an address in Interval
	Interval        time.Duration // 1 hour by default
	// BrokerRequests is how many requests of a user that change service instances and
	// bindings may run at the same time.
	BrokerRequests int
}

// Options configure a Limiter.
type Options struct {
	Limits
	// BrokerTimeout is how long a service broker may take; 0 means a minute. Callers over
	// BrokerRequests are told to wait about as long.
	BrokerTimeout time.Duration
	// Servers returns how many servers share the limits; nil means one.
	Servers func() int
	// Proxies name the addresses of clients.
	Proxies web.Proxies
	Now     func() time.Time
}

// maxCallers limits how many callers are remembered, of each kind.
const maxCallers = 100_000

// Limiter is a web.Limiter.
type Limiter struct {
	o         Options
	users     *otter.Cache[string, *count]
	addresses *otter.Cache[string, *count]

	mu      sync.Mutex // guards counts and waiting
	waiting map[string]int
}

var _ web.Limiter = (*Limiter)(nil)

// count is the number of requests until the interval of a caller ends.
type count struct {
	requests int
	until    time.Time
}

// New returns a limiter, or nil if there is no limit.
func New(o Options) *Limiter {
	if o.General == 0 && o.Unauthenticated == 0 && o.BrokerRequests == 0 {
		return nil
	}
	if o.Interval < time.Second {
		o.Interval = time.Hour
	}
	if o.BrokerTimeout == 0 {
		o.BrokerTimeout = time.Minute
	}
	if o.Servers == nil {
		o.Servers = func() int { return 1 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	counts := func() *otter.Cache[string, *count] {
		return otter.Must(&otter.Options[string, *count]{MaximumSize: maxCallers,
			ExpiryCalculator: otter.ExpiryAccessing[string, *count](o.Interval)})
	}
	return &Limiter{o: o, users: counts(), addresses: counts(), waiting: map[string]int{}}
}

// Enter implements web.Limiter. Administrators are not limited, nor are the paths by
// which clients find the API.
func (l *Limiter) Enter(h http.Header, r *http.Request, claims *token.Claims) (leave func(), err error) {
	if claims != nil && claims.HasAny(platform.ScopeAdmin, platform.ScopeAdminReadOnly) {
		return nil, nil
	}
	if !exempt(r) {
		if err := l.take(h, r, claims); err != nil {
			return nil, err
		}
	}
	return l.wait(r, claims)
}

// exempt reports whether a request does not count.
func exempt(r *http.Request) bool {
	switch strings.TrimRight(r.URL.Path, "/") {
	case "", "/v3", "/v2/info", "/healthz":
		return true
	}
	_, _, basic := r.BasicAuth()
	return basic || strings.HasPrefix(r.URL.Path, "/internal")
}

// take counts a request, and sets the headers that say how many are left.
func (l *Limiter) take(h http.Header, r *http.Request, claims *token.Claims) error {
	limit, counts := l.o.Unauthenticated, l.addresses
	var key string
	if claims != nil {
		limit, counts, key = l.o.General, l.users, claims.CallerID()
	} else {
		key = web.AddressKey(l.o.Proxies.Client(r))
	}
	if limit == 0 {
		return nil
	}
	servers := max(1, l.o.Servers())
	own := max(1, (limit+servers-1)/servers)
	now := l.o.Now()

	l.mu.Lock()
	c, _ := counts.ComputeIfAbsent(key, func() (*count, bool) { return &count{}, false })
	if !now.Before(c.until) {
		c.requests, c.until = 0, l.end(key, now)
	}
	allowed := c.requests < own
	if allowed {
		c.requests++
	}
	left, until := own-c.requests, c.until
	l.mu.Unlock()

	// As Cloud Controller writes them; Set would change the case.
	h["X-RateLimit-Limit"] = []string{strconv.Itoa(limit)}
	h["X-RateLimit-Remaining"] = []string{strconv.Itoa(remaining(limit, own, left))}
	h["X-RateLimit-Reset"] = []string{strconv.FormatInt(until.Unix(), 10)}
	switch {
	case allowed:
		return nil
	case claims == nil:
		return fault.New(fault.AddressRateLimited,
			"Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.").
			After(until.Sub(now))
	}
	return fault.New(fault.RateLimited, "Rate Limit Exceeded").After(until.Sub(now))
}

// remaining returns how many requests of all servers' limit are left. With several
// servers it is an estimate, in steps of a tenth as Cloud Controller's.
func remaining(limit, own, left int) int {
	if limit == own {
		return left
	}
	return left * 10 / own * limit / 10
}

// end returns the end of the caller's interval. Intervals of different callers end at
// different times, so that not all of them return at once.
func (l *Limiter) end(key string, now time.Time) time.Time {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(key))
	interval := int64(l.o.Interval / time.Second)
	offset := int64(sum.Sum64() % uint64(interval)) //nolint:gosec // less than interval
	return time.Unix(now.Unix()+interval-(now.Unix()-offset)%interval, 0)
}

// wait counts a request that waits for a service broker.
func (l *Limiter) wait(r *http.Request, claims *token.Claims) (leave func(), err error) {
	if l.o.BrokerRequests == 0 || claims == nil || !callsBroker(r) {
		return nil, nil
	}
	key := claims.CallerID()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting[key] >= l.o.BrokerRequests {
		half := l.o.BrokerTimeout / 2
		return nil, fault.New(fault.BrokerRateLimited, //nolint:gosec // not a secret
			"Service broker concurrent request limit exceeded").After(half + rand.N(2*half))
	}
	l.waiting[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waiting[key]--; l.waiting[key] == 0 {
			delete(l.waiting, key)
		}
	}, nil
}

// callsBroker reports whether a request may wait for a service broker.
func callsBroker(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	for _, prefix := range []string{"/v3/service_instances", "/v3/service_credential_bindings",
		"/v3/service_route_bindings"} {
		if strings.HasPrefix(r.URL.Path, prefix) {
			return true
		}
	}
	return false
}
