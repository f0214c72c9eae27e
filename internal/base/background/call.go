package background

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHung means that a call did not return although its context is done. The
// call is abandoned: its resources are not released until it returns.
var ErrHung = errors.New("no response")

// Call calls f and waits for its result, but at most for grace after ctx is
// done. A panic in f is returned as an error. It is for calls that may ignore
// their context: file systems, the kernel, third-party code.
func Call[T any](ctx context.Context, name string, grace time.Duration, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = Do(name, func() (err error) { a.value, err = f(); return err })
		answers <- a
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		var none T
		return none, fmt.Errorf("%s: %w: %w", name, ErrHung, context.Cause(ctx))
	}
}

// Within is like Call for a function that returns only an error.
func Within(ctx context.Context, name string, grace time.Duration, f func() error) error {
	_, err := Call(ctx, name, grace, func() (struct{}, error) { return struct{}{}, f() })
	return err
}
