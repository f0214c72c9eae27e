package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits. It is long, because machines are slow at
// times, and only a test that fails anyway waits until its end.
const patience = 6 * time.Minute

// Eventually waits until a condition is true, and fails the test if it does not
// come true. It is for conditions that have no event to wait for. It looks more
// and more rarely, because the work it waits for needs the processor.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(pause)
	}
}

// Must fails the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
