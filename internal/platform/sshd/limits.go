package sshd

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits bound the server. Zero values mean the defaults.
type Limits struct {
	// Sessions is how many connections may be open in all; the others how many
	// of them into one instance and by one user.
	Sessions         int // 1000
	InstanceSessions int // 50
	UserSessions     int // 50
	// Channels is how many shells, commands and forwarded connections one
	// connection may have at a time.
	Channels int // 128
	// Handshakes is how many clients may be on their way in; one address may
	// have a quarter of them. When there are more, those that wait for longest
	// at the address with the most make room.
	Handshakes int // 128
	// HandshakeTimeout is how long that may take, with authentication.
	HandshakeTimeout time.Duration // 20 s
	// IdleTimeout ends a connection over which nothing passed for so long.
	IdleTimeout time.Duration // 15 min
	// StartTimeout bounds the start of a process and a forwarded connection.
	StartTimeout time.Duration // 30 s
	// AddressBurst is how many wrong passwords an address may send at once,
	// and AddressEvery the time after which it gets another try; likewise for
	// a process, from all addresses that nobody was let into it from.
	AddressBurst int           // 20
	AddressEvery time.Duration // 6 s
	ProcessBurst int           // 60
	ProcessEvery time.Duration // 2 s
}

// authTries is how many passwords may be tried over one connection.
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

// addressKey is the part of a remote address that one client cannot change at
// will: of IPv6 he has a whole /64.
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

// counters count what is in use by name, up to a limit each.
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

// visits are the addresses from which somebody was let into a process, for a
// day. Of too many the oldest are forgotten.
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

// arrivals are the clients that are on their way in.
type arrivals struct {
	mu        sync.Mutex
	size      int
	byAddress map[string][]*arrival // oldest first
}

// arrival is one of them.
type arrival struct {
	all     *arrivals
	address string
	turnOut func() // closes its connection
	gone    bool
}

// take adds a client. An address has at most each of the places. When all are
// taken, the oldest client of the address that has the most is turned out,
// unless the new one's own address has as many: a client that gets in needs a
// moment, one that only holds a place stays for long.
func (a *arrivals) take(address string, all, each int, turnOut func()) *arrival {
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
		oldest.turnOut()
	}
	if a.byAddress == nil {
		a.byAddress = map[string][]*arrival{}
	}
	one := &arrival{all: a, address: address, turnOut: turnOut}
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

// release gives the place back; it may be called more than once.
func (one *arrival) release() {
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	one.all.remove(one)
}

// slots are a set of counts that are taken together or not at all.
type slots struct {
	counters *counters
	taken    []string
}

// take adds one to the name; when it is full, false.
func (s *slots) take(name string, limit int) bool {
	if !s.counters.take(name, limit) {
		return false
	}
	s.taken = append(s.taken, name)
	return true
}

// release gives back all.
func (s *slots) release() {
	for _, name := range s.taken {
		s.counters.give(name)
	}
	s.taken = nil
}

// maxBuckets bounds the memory of a guard. Names beyond that share a bucket.
const maxBuckets = 16384

// guard slows down guessing: each name has a bucket of tries that fills up
// slowly. Names whose bucket is full again are forgotten.
type guard struct {
	burst int
	every time.Duration
	clock Clock

	mu      sync.Mutex
	buckets map[string]*bucket
	swept   time.Time
}

type bucket struct {
	used float64 // tries that are missing
	at   time.Time
}

func newGuard(burst int, every time.Duration, clock Clock) *guard {
	return &guard{burst: burst, every: every, clock: clock, buckets: map[string]*bucket{}}
}

// take uses up a try of the name, if there is one.
func (g *guard) take(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bucket(name)
	if b.used > float64(g.burst)-1 {
		return false
	}
	b.used++
	return true
}

// give returns a try that was not a guess.
func (g *guard) give(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bucket(name)
	b.used = max(b.used-1, 0)
}

func (g *guard) bucket(name string) *bucket {
	now := g.clock.Now()
	b := g.buckets[name]
	if b == nil && len(g.buckets) >= maxBuckets {
		g.sweep(now)
		if len(g.buckets) >= maxBuckets {
			name = ""
			b = g.buckets[name]
		}
	}
	if b == nil {
		b = &bucket{at: now}
		g.buckets[name] = b
	}
	b.refill(now, g.every)
	return b
}

func (b *bucket) refill(now time.Time, every time.Duration) {
	if passed := now.Sub(b.at); passed > 0 {
		b.used = max(b.used-float64(passed)/float64(every), 0)
		b.at = now
	}
}

// sweep forgets full buckets, not more often than once in the time of a try.
func (g *guard) sweep(now time.Time) {
	if now.Sub(g.swept) < g.every {
		return
	}
	g.swept = now
	for name, b := range g.buckets {
		if b.refill(now, g.every); b.used == 0 {
			delete(g.buckets, name)
		}
	}
}
