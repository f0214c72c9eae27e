package background

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrHung means that a call did not return although its context has ended. It is
// left to itself: what it holds is lost until it returns.
var ErrHung = errors.New("it does not answer")

// Call calls f and waits for its answer, but not for longer than grace after ctx
// has ended. A panic of f is an error. It is for calls of what may hang whatever
// its context says: file systems, kernels, code of others.
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

// Within is Call for a function that has nothing but an error to answer.
func Within(ctx context.Context, name string, grace time.Duration, f func() error) error {
	_, err := Call(ctx, name, grace, func() (struct{}, error) { return struct{}{}, f() })
	return err
}
