package router

import (
	"sync/atomic"
	"time"
)

// failedFor is how long a backend that could not be reached is only used when
// there is no other.
const failedFor = 30 * time.Second

// pool chooses among the backends of a route.
type pool struct {
	endpoints []*endpoint
	turn      *atomic.Uint64
	least     bool
	hash      *hashing // nil unless the route is balanced so
	http1     bool     // all of them
	// Cumulative weights, when they differ.
	weights []int
	stride  uint64
}

// endpoint is a backend with what we know of it. It is the same in the pools
// before and after a change, as long as the instance and its address are.
type endpoint struct {
	Backend
	state *endpointState
}

type endpointState struct {
	uses   int          // how many endpoints of the table have it; guarded by the table
	active atomic.Int64 // requests under way
	failed atomic.Int64 // until when, in Unix nanoseconds
	stats  atomic.Pointer[instanceStats]
	idle   idleConns
}

// eject has requests go elsewhere for a while, if there is an elsewhere.
func (s *endpointState) eject(now time.Time) { s.failed.Store(now.Add(failedFor).UnixNano()) }

// restore ends that. It is asked after every answer, so it does not write
// what is so already.
func (s *endpointState) restore() {
	if s.failed.Load() != 0 {
		s.failed.Store(0)
	}
}

type endpointKey struct{ address, instance string }

func (b Backend) key() endpointKey { return endpointKey{b.Address, b.InstanceGUID} }

func newPool(route Route, old *pool, stateOf func(endpointKey) *endpointState) *pool {
	// In one piece, as far as that goes: a route that was not asked for lately
	// is in no cache.
	var whole struct {
		pool
		first endpoint
		room  [1]*endpoint
	}
	p := &whole.pool
	p.endpoints, p.turn, p.least = whole.room[:0], new(atomic.Uint64), route.Options[optionBalancing] == balanceLeast
	p.hash = hashingOf(route)
	p.http1 = true
	if old != nil {
		p.turn = old.turn
	}
	shares, equal := sharesOf(route.Backends)
	total := 0
	for i, b := range route.Backends {
		e := &whole.first
		if i > 0 {
			e = new(endpoint)
		}
		*e = endpoint{b, stateOf(b.key())}
		p.endpoints = append(p.endpoints, e)
		p.http1 = p.http1 && b.Protocol != HTTP2
		total += shares[i]
		p.weights = append(p.weights, total)
	}
	if equal {
		p.weights = nil
	} else {
		p.stride = strideOf(uint64(total))
	}
	return p
}

// retain counts that the table has the pool.
func (p *pool) retain() {
	for _, e := range p.endpoints {
		e.state.uses++
	}
}

// sharesOf divides the weight of each destination among its backends, in whole
// numbers: all are multiplied by something that the sizes divide.
func sharesOf(backends []Backend) (shares []int, equal bool) {
	const most = 1 << 20 // beyond that the shares are rounded
	sizes := map[string]int{}
	for _, b := range backends {
		sizes[b.Destination]++
	}
	common := 1
	for destination, n := range sizes {
		if destination != "" && common < most {
			common = common / gcd(common, n) * n
		}
	}
	equal = true
	for _, b := range backends {
		share := max(b.Weight, 1) * common
		if b.Destination != "" && b.Weight > 0 {
			share = max(share/sizes[b.Destination], 1)
		}
		shares = append(shares, share)
		equal = equal && share == shares[0]
	}
	return shares, equal
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// strideOf returns a step that visits all of n places and spreads neighbours
// wide: near the golden ratio and without a common divisor.
func strideOf(n uint64) uint64 {
	for step := max(n*618/1000, 1); ; step++ {
		if gcd(int(n), int(step)) == 1 {
			return step
		}
	}
}

// next chooses a backend that is not among tried, or nil. One that failed
// lately comes only after all others; the wanted instance, if any, before them;
// then that of the key, if there is one and the route has it hashed.
func (p *pool) next(tried []*endpoint, now time.Time, wanted, key string) *endpoint {
	n := len(p.endpoints)
	if n == 0 {
		return nil
	}
	if wanted != "" {
		for _, e := range p.endpoints {
			if e.InstanceGUID == wanted && !contains(tried, e) && e.state.failed.Load() <= now.UnixNano() {
				return e
			}
		}
	}
	if n == 1 {
		// Nobody else's turn: it comes also when it failed lately.
		if e := p.endpoints[0]; !contains(tried, e) {
			return e
		}
		return nil
	}
	if p.hash != nil && key != "" {
		return p.hash.next(p, key, tried, now)
	}
	turn := p.turn.Add(1) - 1
	start := p.start(turn)
	var best, failed *endpoint
	for i := range n {
		e := p.endpoints[(start+i)%n]
		switch {
		case contains(tried, e):
		case e.state.failed.Load() > now.UnixNano():
			if failed == nil {
				failed = e
			}
		case !p.least:
			return e
		case best == nil || e.state.active.Load() < best.state.active.Load():
			best = e
		}
	}
	if best != nil {
		return best
	}
	return failed
}

// start is the index of the backend whose turn it is.
func (p *pool) start(turn uint64) int {
	if p.weights == nil {
		return int(turn % uint64(len(p.endpoints)))
	}
	total := uint64(p.weights[len(p.weights)-1])
	place := int(turn % total * p.stride % total)
	for i, w := range p.weights {
		if place < w {
			return i
		}
	}
	return 0
}

func contains(tried []*endpoint, e *endpoint) bool {
	for _, t := range tried {
		if t.state == e.state {
			return true
		}
	}
	return false
}

// only returns the pool of the backends that keep says yes to.
func (p *pool) only(keep func(Backend) bool) *pool {
	c := &pool{turn: p.turn, least: p.least}
	for _, e := range p.endpoints {
		if keep(e.Backend) {
			c.endpoints = append(c.endpoints, e)
		}
	}
	return c
}
