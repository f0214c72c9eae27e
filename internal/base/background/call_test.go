package background_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ingot/internal/base/background"
)

func TestCall(t *testing.T) {
	t.Parallel()
	if n, err := background.Call(t.Context(), "test", 0, func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("got %d, %v, want 7", n, err)
	}
	if _, err := background.Call(t.Context(), "test", 0, func() (int, error) { return 0, errBroken }); !errors.Is(err,
		errBroken) {
		t.Errorf("error is %v, want %v", err, errBroken)
	}
	var p *background.PanicError
	if _, err := background.Call(t.Context(), "test", 0, func() (int, error) { panic("here") }); !errors.As(err, &p) {
		t.Errorf("error is %v, want a %T", err, p)
	}
	// One that heeds its context has time to say so; one that does not is left.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := background.Within(ctx, "test", time.Hour, func() error { <-ctx.Done(); return errBroken }); !errors.Is(err,
		errBroken) {
		t.Errorf("error is %v, want %v", err, errBroken)
	}
	release, left := make(chan struct{}), make(chan struct{})
	err := background.Within(ctx, "test", time.Millisecond, func() error { defer close(left); <-release; return nil })
	if !errors.Is(err, background.ErrHung) || !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v and %v", err, background.ErrHung, context.Canceled)
	}
	close(release)
	<-left
}
