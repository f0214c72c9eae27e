package core

import (
	"context"
	"net/url"
	"sync"

	"ingot/internal/cli/client"
)

// Into returns a function for Concurrently that requests a list.
func Into[T any](ctx context.Context, s *Session, rows *[]T, path string, q url.Values) func() error {
	return func() (err error) {
		*rows, err = client.List[T](ctx, s.API, path, q)
		return err
	}
}

// Concurrently runs functions concurrently and returns the first error.
func Concurrently(work ...func() error) error {
	var all sync.WaitGroup
	errs := make([]error, len(work))
	for i, do := range work {
		all.Go(func() { errs[i] = do() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil { // the first is enough: the others tend to have the same cause
			return err
		}
	}
	return nil
}
