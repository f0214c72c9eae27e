package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits. It is long, because machines are slow at
// times, and only a test that fails anyway waits until its end.
const patience = 2 * time.Minute

// Eventually waits until a condition is true, and fails the test if it does not
// come true. It is for conditions that have no event to wait for.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
