package cli

import (
	"errors"
	"sync"
)

// together does several things side by side and returns what went wrong.
func together(work ...func() error) error {
	var all sync.WaitGroup
	errs := make([]error, len(work))
	for i, do := range work {
		all.Go(func() { errs[i] = do() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil { // the first is enough: the others tend to say the same
			return err
		}
	}
	return errors.Join()
}
