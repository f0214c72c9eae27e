package outbound

import (
	"testing"
	"time"
)

// TestLater: messages without room come back one after another, and not later than the latest, however often they had
// no room; soon after, those of another send wait no longer than the first did.
func TestLater(t *testing.T) {
	t.Parallel()
	c, now := &queued{pace: 20 * time.Millisecond}, time.Unix(1000, 0)
	first, second := c.later(now, 0, "full").RetryAfter, c.later(now, 0, "full").RetryAfter
	if first != soonest || second != soonest+c.pace {
		t.Errorf("the first two wait %v and %v, want %v and a pace more", first, second, soonest)
	}
	for range 1_000_000 {
		if r := c.later(now, 0, "full"); r.RetryAfter > latest || !r.Untried {
			t.Fatalf("one waits %v, want at most %v", r.RetryAfter, latest)
		}
	}
	if got := c.later(now.Add(latest), 0, "full").RetryAfter; got != soonest {
		t.Errorf("after all came back one waits %v, want %v", got, soonest)
	}
}
