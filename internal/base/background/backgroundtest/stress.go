package backgroundtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"ingot/internal/base/background"
)

// Stress starts and stops services from many goroutines at once, in random
// order, and checks the contract: Start either succeeds or returns ErrStopped
// because Stop was called first, Stop returns after all work has ended, and
// both may be called repeatedly.
func Stress(t *testing.T, newService func(t *testing.T) background.Service) {
	t.Helper()

	t.Run("StopBeforeStart", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		s.Stop()
		s.Stop()
		if err := s.Start(context.Background()); !errors.Is(err, background.ErrStopped) {
			t.Errorf("Start after Stop = %v, want ErrStopped", err)
		}
		s.Stop()
	})

	t.Run("StartTwiceStopTwice", func(t *testing.T) {
		t.Parallel()
		s := newService(t)
		for range 2 {
			if err := s.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		s.Stop()
		s.Stop()
	})

	t.Run("Concurrent", func(t *testing.T) {
		t.Parallel()
		for range 8 {
			s := newService(t)
			var all sync.WaitGroup
			for range 12 {
				all.Add(1)
				stop := rand.IntN(3) == 0 //nolint:gosec // order of a test, not a secret
				go func() {
					defer all.Done()
					runtime.Gosched()
					if stop {
						s.Stop()
						return
					}
					if err := s.Start(context.Background()); err != nil && !errors.Is(err, background.ErrStopped) {
						t.Errorf("Start: %v", err)
					}
				}()
			}
			all.Wait()
			s.Stop()
		}
	})
}
