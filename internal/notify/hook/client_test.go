package hook

import (
	"testing"
	"time"
)

// TestLater: messages without room come back one after another, and not later than the latest, however often they had
// no room; soon after, those of another send wait no longer than the first did.
func TestLater(t *testing.T) {
	t.Parallel()
	c, now := &client{pace: 20 * time.Millisecond}, time.Unix(1000, 0)
	if first, second := c.later(now).RetryAfter, c.later(now).RetryAfter; first != soonest || second != soonest+c.pace {
		t.Errorf("the first two wait %v and %v, want %v and a pace more", first, second, soonest)
	}
	for range 1_000_000 {
		if r := c.later(now); r.RetryAfter > latest || !r.Untried {
			t.Fatalf("one waits %v, want at most %v", r.RetryAfter, latest)
		}
	}
	if got := c.later(now.Add(latest)).RetryAfter; got != soonest {
		t.Errorf("after all came back one waits %v, want %v", got, soonest)
	}
}
