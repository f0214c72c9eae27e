package limit_test

import (
	"fmt"
	"testing"
	"time"

	"ingot/internal/base/limit"
)

func ExampleRate_Take() {
	var guesses limit.Bucket
	r, now := limit.Rate{Burst: 2, PerSecond: 0.1}, time.Unix(1000, 0)
	fmt.Println(r.Take(&guesses, now), r.Take(&guesses, now), r.Take(&guesses, now), r.Wait(&guesses, now))
	guesses.Give() // the second was right
	fmt.Println(r.Take(&guesses, now), r.Take(&guesses, now.Add(10*time.Second)))
	// Output:
	// true true false 10s
	// true true
}

// TestBucket has a bucket that is never over its burst, whatever is given back, and a clock that
// is set back.
func TestBucket(t *testing.T) {
	t.Parallel()
	var b limit.Bucket
	r, now := limit.Rate{Burst: 3, PerSecond: 1}, time.Unix(1000, 0)
	b.Give()
	for i := range 3 {
		if !r.Take(&b, now) {
			t.Fatalf("attempt %d was refused", i)
		}
	}
	if r.Take(&b, now.Add(-time.Hour)) || r.Take(&b, now.Add(999*time.Millisecond)) {
		t.Error("an attempt too many")
	}
	if !r.Has(&b, now.Add(time.Second)) || r.Used(&b, now.Add(time.Hour)) != 0 {
		t.Error("attempts do not come back")
	}
}
