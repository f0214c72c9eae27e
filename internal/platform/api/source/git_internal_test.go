package source

import (
	"fmt"
	"testing"

	"ingot/internal/base/fault"
)

// TestFetches: an organization has its second fetch only if fewer than half of them are in progress, so there is room
// for the first one of others.
func TestFetches(t *testing.T) {
	t.Parallel()
	var f fetches
	enter := func(org string, want bool) (leave func()) {
		t.Helper()
		leave, err := f.enter(org)
		if (err == nil) != want || err != nil && !fault.Is(err, fault.RateLimited) {
			t.Fatalf("a fetch of %s: %v, want it allowed: %t", org, err, want)
		}
		return leave
	}
	all := []func(){enter("a", true), enter("a", true)}
	enter("a", false)
	for i := len(all); i < fetchesOfAll; i++ {
		org := fmt.Sprint(i)
		all = append(all, enter(org, true))
		enter(org, false)
	}
	enter("late", false)
	for _, leave := range all {
		leave()
	}
	if f.all != 0 || len(f.orgs) != 0 {
		t.Errorf("left after all: %d, %v", f.all, f.orgs)
	}
}
