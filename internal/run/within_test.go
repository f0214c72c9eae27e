package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ingot/internal/run"
)

func TestCall(t *testing.T) {
	t.Parallel()
	if n, err := run.Call(t.Context(), "test", 0, func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := run.Call(t.Context(), "test", 0, func() (int, error) { return 0, errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	var p *run.PanicError
	if _, err := run.Call(t.Context(), "test", 0, func() (int, error) { panic("here") }); !errors.As(err, &p) {
		t.Errorf("%v", err)
	}
	// One that heeds its context has time to say so; one that does not is left.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run.Within(ctx, "test", time.Hour, func() error { <-ctx.Done(); return errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
	release, left := make(chan struct{}), make(chan struct{})
	err := run.Within(ctx, "test", time.Millisecond, func() error { defer close(left); <-release; return nil })
	if !errors.Is(err, run.ErrHung) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	<-left
}
