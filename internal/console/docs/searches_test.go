package docs

import (
	"fmt"
	"testing"
	"time"

	"ingot/internal/base/fault"
)

// TestLimits counts searches: of one address, at once, and of many addresses.
func TestLimits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := searches{now: func() time.Time { return now }, slots: make(chan struct{}, atOnce)}
	for i := range rate.Burst {
		leave, err := s.enter("a")
		if err != nil {
			t.Fatalf("search %d: %v", i, err)
		}
		leave()
	}
	if _, err := s.enter("a"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a search too many: %v", err)
	}
	for range atOnce {
		if _, err := s.enter("b"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.enter("c"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a search too many at once: %v", err)
	}
	now = now.Add(time.Second)
	<-s.slots
	if _, err := s.enter("a"); err != nil {
		t.Errorf("after a second: %v", err)
	}
	for i := range 2 * maxAddresses {
		s.take(fmt.Sprint(i))
	}
	if len(s.by) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(s.by))
	}
}
