package steps

import (
	"context"
	"errors"
	"testing"
)

// What was opened ahead is closed if the start ends before it is used, and belongs to its user after that.
func TestAhead(t *testing.T) {
	t.Parallel()
	for _, joined := range []bool{false, true} {
		var s Stack
		closed := 0
		a := Begin(t.Context(), &s, "test", func(context.Context) (int, error) { return 7, nil }, func(int) { closed++ })
		if joined {
			if got, err := a.Join(); got != 7 || err != nil {
				t.Errorf("joined %d, %v", got, err)
			}
		}
		s.Unwind()
		if (closed == 1) == joined {
			t.Errorf("joined %v: closed %d times", joined, closed)
		}
	}
}

// A start that fails does not wait for what is still being opened, it ends it.
func TestAheadIsCancelled(t *testing.T) {
	t.Parallel()
	var s Stack
	ended := make(chan error, 1)
	Begin(t.Context(), &s, "test", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return 0, ctx.Err()
	}, func(int) { t.Error("closed what was not opened") })
	s.Unwind()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
