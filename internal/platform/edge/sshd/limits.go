package sshd

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/limit"
)

// Limits limit the server. Zero values mean the defaults.
type Limits struct {
	// Sessions is the largest number of open connections; the others limit those to one
	// instance and by one user.
	Sessions         int // 1000
	InstanceSessions int // 50
	UserSessions     int // 50
	// Channels is the largest number of shells, commands and forwarded connections of one
	// connection.
	Channels int // 128
	// Handshakes is the largest number of clients that are not authenticated yet; one
	// address may have a quarter of them. When there are more, the oldest client of the
	// address with the most is disconnected.
	Handshakes int // 128
	// HandshakeTimeout limits the handshake, including authentication.
	HandshakeTimeout time.Duration // 20 s
	// IdleTimeout closes a connection that has been idle for so long.
	IdleTimeout time.Duration // 15 min
	// StartTimeout limits the start of a process and of a forwarded connection.
	StartTimeout time.Duration // 30 s
	// AddressBurst is the number of wrong passwords that an address may send at once, and
	// AddressEvery the time after which it gets another try; likewise for a process, from
	// all addresses without a successful login to it.
	AddressBurst int           // 20
	AddressEvery time.Duration // 6 s
	ProcessBurst int           // 60
	ProcessEvery time.Duration // 2 s
}

// authTries is the number of passwords that may be tried on one connection.
const authTries = 3

func (l Limits) withDefaults() Limits {
	number := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	duration := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	number(&l.Sessions, 1000)
	number(&l.InstanceSessions, 50)
	number(&l.UserSessions, 50)
	number(&l.Channels, 128)
	number(&l.Handshakes, 128)
	duration(&l.HandshakeTimeout, 20*time.Second)
	duration(&l.IdleTimeout, 15*time.Minute)
	duration(&l.StartTimeout, 30*time.Second)
	number(&l.AddressBurst, 20)
	duration(&l.AddressEvery, 6*time.Second)
	number(&l.ProcessBurst, 60)
	duration(&l.ProcessEvery, 2*time.Second)
	return l
}

// addressKey returns the part of a remote address that a client cannot change at will: an
// IPv6 client has a whole /64.
func addressKey(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.Network()
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// counters count uses by name, up to a limit each.
type counters struct {
	mu    sync.Mutex
	count map[string]int
}

// take adds one to the name unless it has reached the limit.
func (c *counters) take(name string, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[name] >= limit {
		return false
	}
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[name]++
	return true
}

func (c *counters) give(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[name]--; c.count[name] <= 0 {
		delete(c.count, name)
	}
}

// visits are the addresses of successful logins to a process, for a day. The oldest are
// dropped when there are too many.
type visits struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const visitsKept = 24 * time.Hour

func visitKey(process, address string) string { return process + "\x00" + address }

func (v *visits) note(process, address string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == nil {
		v.last = map[string]time.Time{}
	}
	if _, known := v.last[visitKey(process, address)]; !known && len(v.last) >= maxBuckets {
		var oldest string
		for key, at := range v.last {
			if now.Sub(at) > visitsKept {
				delete(v.last, key)
			} else if oldest == "" || at.Before(v.last[oldest]) {
				oldest = key
			}
		}
		if len(v.last) >= maxBuckets {
			delete(v.last, oldest)
		}
	}
	v.last[visitKey(process, address)] = now
}

func (v *visits) known(process, address string, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, ok := v.last[visitKey(process, address)]
	return ok && now.Sub(at) <= visitsKept
}

// arrivals are the clients that are not authenticated yet.
type arrivals struct {
	mu        sync.Mutex
	size      int
	byAddress map[string][]*arrival // oldest first
}

// arrival is one such client.
type arrival struct {
	all     *arrivals
	address string
	evict   func() // closes its connection
	gone    bool
}

// take adds a client, at most each per address. When all are in use, the oldest client of
// the address with the most is evicted, unless the new client's address has as many: a
// legitimate client needs a moment, one that only occupies a slot stays for long.
func (a *arrivals) take(address string, all, each int, evict func()) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := len(a.byAddress[address])
	if own >= each {
		return nil
	}
	if a.size >= all {
		longest := address
		for other, list := range a.byAddress {
			if len(list) > len(a.byAddress[longest]) {
				longest = other
			}
		}
		if longest == address {
			return nil
		}
		oldest := a.byAddress[longest][0]
		a.remove(oldest)
		oldest.evict()
	}
	if a.byAddress == nil {
		a.byAddress = map[string][]*arrival{}
	}
	one := &arrival{all: a, address: address, evict: evict}
	a.byAddress[address] = append(a.byAddress[address], one)
	a.size++
	return one
}

func (a *arrivals) remove(one *arrival) {
	if one.gone {
		return
	}
	one.gone = true
	a.size--
	list := a.byAddress[one.address]
	if i := slices.Index(list, one); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(a.byAddress, one.address)
		return
	}
	a.byAddress[one.address] = list
}

// release frees the client's slot; it may be called more than once.
func (one *arrival) release() {
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	one.all.remove(one)
}

// slots is a set of counts that are taken together or not at all.
type slots struct {
	counters *counters
	taken    []string
}

// take adds one to the name; it returns false if the limit is reached.
func (s *slots) take(name string, limit int) bool {
	if !s.counters.take(name, limit) {
		return false
	}
	s.taken = append(s.taken, name)
	return true
}

// release releases all counts.
func (s *slots) release() {
	for _, name := range s.taken {
		s.counters.give(name)
	}
	s.taken = nil
}

// maxBuckets limits the memory of a guessLimit. Further names share a bucket.
const maxBuckets = 16384

// guessLimit slows down guessing: each name has a bucket of tries that refills slowly. Names
// with a full bucket are dropped.
type guessLimit struct {
	rate  limit.Rate
	clock clock.Clock

	mu      sync.Mutex
	buckets map[string]*limit.Bucket
	swept   time.Time
}

func newGuessLimit(burst int, every time.Duration, clock clock.Clock) *guessLimit {
	return &guessLimit{rate: limit.Rate{Burst: burst, PerSecond: 1 / every.Seconds()}, clock: clock,
		buckets: map[string]*limit.Bucket{}}
}

// take uses a try of the name, if there is one.
func (g *guessLimit) take(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	return g.rate.Take(g.bucket(name, now), now)
}

// give returns a try that was not a guess.
func (g *guessLimit) give(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bucket(name, g.clock.Now()).Give()
}

func (g *guessLimit) bucket(name string, now time.Time) *limit.Bucket {
	b := g.buckets[name]
	if b == nil && len(g.buckets) >= maxBuckets {
		g.sweep(now)
		if len(g.buckets) >= maxBuckets {
			name = ""
			b = g.buckets[name]
		}
	}
	if b == nil {
		b = &limit.Bucket{}
		g.buckets[name] = b
	}
	return b
}

// sweep drops full buckets, at most once per refill interval.
func (g *guessLimit) sweep(now time.Time) {
	if now.Sub(g.swept).Seconds()*g.rate.PerSecond < 1 {
		return
	}
	g.swept = now
	maps.DeleteFunc(g.buckets, func(_ string, b *limit.Bucket) bool { return g.rate.Used(b, now) == 0 })
}
