package router

import (
	"sync/atomic"
	"time"
)

// failedFor is how long a backend that could not be reached is used only if there is no
// other.
const failedFor = 30 * time.Second

// pool chooses among the backends of a route.
type pool struct {
	endpoints []*endpoint
	turn      *atomic.Uint64
	least     bool
	hash      *hashing // nil unless the route uses hash load balancing
	http1     bool     // all backends use HTTP/1
	// Cumulative weights, if they differ.
	weights []int
	stride  uint64
}

// endpoint is a backend with its state. A changed pool keeps the endpoints whose instance
// and address did not change.
type endpoint struct {
	Backend
	state *endpointState
}

type endpointState struct {
	uses   int          // number of endpoints of the table that share it; guarded by the table
	active atomic.Int64 // requests in progress
	failed atomic.Int64 // Unix nanoseconds until which the backend counts as failed
	stats  atomic.Pointer[instanceStats]
	idle   idleConns
}

// eject makes requests avoid the backend for a while, unless it is the only one.
func (s *endpointState) eject(now time.Time) { s.failed.Store(now.Add(failedFor).UnixNano()) }

// restore undoes eject. It is called after every response, so it does not write unless
// needed.
func (s *endpointState) restore() {
	if s.failed.Load() != 0 {
		s.failed.Store(0)
	}
}

type endpointKey struct{ address, instance string }

func (b Backend) key() endpointKey { return endpointKey{b.Address, b.InstanceGUID} }

func newPool(route Route, old *pool, stateOf func(endpointKey) *endpointState) *pool {
	// One allocation where possible: a route that was not used recently is not in the CPU
	// cache.
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

// retain counts the table's use of the pool.
func (p *pool) retain() {
	for _, e := range p.endpoints {
		e.state.uses++
	}
}

// sharesOf divides the weight of each destination among its backends, in whole numbers: all
// weights are multiplied by a common multiple of the destinations' sizes.
func sharesOf(backends []Backend) (shares []int, equal bool) {
	const most = 1 << 20 // above this the shares are rounded
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

// strideOf returns a step that visits all n positions and spreads neighbours widely: near
// the golden ratio and coprime to n.
func strideOf(n uint64) uint64 {
	for step := max(n*618/1000, 1); ; step++ {
		if gcd(int(n), int(step)) == 1 {
			return step
		}
	}
}

// next chooses a backend that is not among tried, or nil. The wanted instance comes first,
// then the backend of key if the route is hashed. A backend that failed recently is used
// only after all others.
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
		// The only backend is used even if it failed recently.
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

// start returns the index of the backend whose turn it is.
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

// only returns a pool of the backends for which keep returns true.
func (p *pool) only(keep func(Backend) bool) *pool {
	c := &pool{turn: p.turn, least: p.least}
	for _, e := range p.endpoints {
		if keep(e.Backend) {
			c.endpoints = append(c.endpoints, e)
		}
	}
	return c
}
