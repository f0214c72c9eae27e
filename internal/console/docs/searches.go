package docs

import (
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/limit"
)

// Limits of searches. The number at once bounds what all of them cost; the rate keeps one address from using
// all of that.
const (
	atOnce = 2
	// maxAddresses is how many addresses are remembered. When there are more, all start anew.
	maxAddresses = 4096
)

// rate is how often an address may search.
var rate = limit.Rate{Burst: 20, PerSecond: 2}

// searches counts searches.
type searches struct {
	now   func() time.Time
	slots chan struct{}

	mu sync.Mutex
	by map[string]*limit.Bucket
}

// enter begins a search of an address. The caller calls leave at its end.
func (s *searches) enter(address string) (leave func(), err error) {
	if !s.take(address) {
		return nil, fault.New(fault.RateLimited, "Too many searches from your address. Wait a moment and try again.")
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	default:
		return nil, fault.New(fault.RateLimited, "Too many searches at once. Wait a moment and try again.")
	}
}

// take uses one of the address's searches.
func (s *searches) take(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil || len(s.by) >= maxAddresses && s.by[address] == nil {
		s.by = map[string]*limit.Bucket{}
	}
	b := s.by[address]
	if b == nil {
		b = &limit.Bucket{}
		s.by[address] = b
	}
	return rate.Take(b, s.now())
}
