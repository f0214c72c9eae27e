package clock

import (
	"testing"
	"time"
)

// Steady has no reading of the monotonic clock, so that it can be stored and compared, and
// it passes as that does.
func TestSteady(t *testing.T) {
	t.Parallel()
	first := Steady()
	if first != first.Round(0) { //nolint:revive // == compares the monotonic reading too
		t.Error("the time contains the monotonic clock")
	}
	start := time.Now()
	for time.Since(start) < time.Millisecond {
	}
	if passed := Steady().Sub(first); passed < time.Millisecond {
		t.Errorf("%v passed, want at least 1ms", passed)
	}
}
