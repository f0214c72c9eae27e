package background_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"ingot/internal/base/background"
)

func TestEach(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []int
	running, most := 0, 0
	if err := background.Each(t.Context(), "test", 3, []int{1, 2, 3, 4, 5, 6, 7, 8}, func(_ context.Context, n int) error {
		mu.Lock()
		seen = append(seen, n)
		running++
		most = max(most, running)
		mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		running--
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(seen)
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(seen, want) {
		t.Errorf("called for %v, want %v", seen, want)
	}
	if most > 3 {
		t.Errorf("%d calls at the same time, want at most 3", most)
	}
}

func TestEachResult(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	got := background.EachResult(t.Context(), "test", 2, []int{1, 2, 3, 4}, func(_ context.Context, n int) error {
		if n == 4 {
			panic("broken")
		}
		if n%2 == 1 {
			return odd
		}
		return nil
	})
	var panicked *background.PanicError
	if len(got) != 4 || !errors.Is(got[0], odd) || got[1] != nil || !errors.Is(got[2], odd) ||
		!errors.As(got[3], &panicked) {
		t.Errorf("got %v, want the result of each", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := background.EachResult(ended, "test", 2, []int{1},
		func(context.Context, int) error { return nil }); !errors.Is(got[0], context.Canceled) {
		t.Errorf("got %v after the end of the context", got)
	}
}

func TestEachStopsAfterAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	calls := 0
	err := background.Each(t.Context(), "test", 1, []int{1, 2, 3}, func(context.Context, int) error {
		calls++
		return broken
	})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("got %v after %d calls, want %v after 1", err, calls, broken)
	}
	// A running call notices.
	err = background.Each(t.Context(), "test", 2, []int{1, 2}, func(ctx context.Context, n int) error {
		if n == 1 {
			panic("broken")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	var panicked *background.PanicError
	if !errors.As(err, &panicked) {
		t.Errorf("got %v, want the panic", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := background.Each(ctx, "test", 2, []int{1}, func(context.Context, int) error { panic("called") }); !errors.Is(
		err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
