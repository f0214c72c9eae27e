package background

import (
	"context"
	"sync"
)

// EachResult calls f for every item, for at most n of them at the same time, and returns the
// error of each: context.Canceled for those that were not begun because ctx ended.
func EachResult[T any](ctx context.Context, name string, n int, items []T, f func(context.Context, T) error) []error {
	results, indexes := make([]error, len(items)), make([]int, len(items))
	for i := range items {
		results[i], indexes[i] = context.Canceled, i
	}
	_ = Each(ctx, name, n, indexes, func(ctx context.Context, i int) error {
		results[i] = Do(name, func() error { return f(ctx, items[i]) })
		return nil
	})
	return results
}

// Each calls f for every item, for at most n of them at the same time, and waits.
// After an error it calls f for no other item, cancels the context of the running
// calls, and returns that error.
func Each[T any](ctx context.Context, name string, n int, items []T, f func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := 0
	take := func() (item T, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(items) || ctx.Err() != nil {
			return item, false
		}
		next++
		return items[next-1], true
	}
	var group WaitGroup
	for range min(n, len(items)) {
		group.Go(name, func() {
			for item, ok := take(); ok; item, ok = take() {
				if err := Do(name, func() error { return f(ctx, item) }); err != nil {
					cancel(err) // only the first counts
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
