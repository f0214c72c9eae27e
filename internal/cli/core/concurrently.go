package core

import "sync"

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
