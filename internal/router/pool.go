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
	active atomic.Int64 // requests under way
	failed atomic.Int64 // until when, in Unix nanoseconds
}

type endpointKey struct{ address, instance string }

func newPool(route Route, old *pool) *pool {
	p := &pool{turn: new(atomic.Uint64), least: route.Options["loadbalancing"] == "least-connection"}
	known := map[endpointKey]*endpointState{}
	if old != nil {
		p.turn = old.turn
		for _, e := range old.endpoints {
			known[endpointKey{e.Address, e.InstanceGUID}] = e.state
		}
	}
	total, equal := 0, true
	for _, b := range route.Backends {
		state := known[endpointKey{b.Address, b.InstanceGUID}]
		if state == nil {
			state = new(endpointState)
		}
		p.endpoints = append(p.endpoints, &endpoint{b, state})
		total += max(b.Weight, 1)
		p.weights = append(p.weights, total)
		equal = equal && max(b.Weight, 1) == max(route.Backends[0].Weight, 1)
	}
	if equal {
		p.weights = nil
	} else {
		p.stride = strideOf(uint64(total))
	}
	return p
}

// strideOf returns a step that visits all of n places and spreads neighbours
// wide: near the golden ratio and without a common divisor.
func strideOf(n uint64) uint64 {
	for step := max(n*618/1000, 1); ; step++ {
		a, b := n, step
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return step
		}
	}
}

// next chooses a backend that is not among tried, or nil. One that failed
// lately comes only after all others.
func (p *pool) next(tried []*endpoint, now time.Time) *endpoint {
	n := len(p.endpoints)
	if n == 0 {
		return nil
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
