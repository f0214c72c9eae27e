package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"ingot/internal/base/background"
	"ingot/internal/platform"
)

// elsewhere is the owner of a server that works on no app.
type elsewhere struct{}

func (elsewhere) Shard(string) uint64                                 { return 1 }
func (elsewhere) Shards() uint64                                      { return 0 }
func (elsewhere) Owns(string) bool                                    { return false }
func (elsewhere) Fence(ctx context.Context, _ string) context.Context { return ctx }

// gatedStore counts reads, and each waits for the gate.
type gatedStore struct {
	platform.Store
	reads atomic.Int64
	began chan struct{}
	gate  chan error
}

func (s *gatedStore) View(ctx context.Context, f func(platform.Tx) error) error {
	s.reads.Add(1)
	s.began <- struct{}{}
	if err := <-s.gate; err != nil {
		return err
	}
	return s.Store.View(ctx, f)
}

// Calls that come while rows are read share the next read: an app of a thousand instances that
// start is announced a thousand times.
func TestBackendsAreReadTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.begin()
	instance := w.awaitRunning(1)[0]
	store := &gatedStore{Store: w.store, began: make(chan struct{}, 10), gate: make(chan error)}
	config := w.config()
	config.Store, config.Owner = store, elsewhere{}
	c := New(config)

	const calls = 50
	results := make(chan error, calls+1)
	call := func(ctx context.Context, apps ...string) {
		background.Go("load", func() { results <- c.LoadBackends(ctx, apps...) })
	}
	ended, cancel := context.WithCancel(t.Context())
	call(ended, "app")
	<-store.began
	cancel() // others may wait for it
	for n := range calls {
		call(t.Context(), fmt.Sprint("app-", n))
	}
	w.await("all have joined", func() bool {
		c.loads.mu.Lock()
		defer c.loads.mu.Unlock()
		return c.loads.next != nil && len(c.loads.next.apps) == calls
	})
	store.gate <- nil
	<-store.began
	if got := c.Backends("app", "web"); len(got) != 1 || got[0].InstanceGUID != instance {
		t.Errorf("backends are %v, want that of %s", got, instance)
	}
	broken := errors.New("broken")
	store.gate <- broken
	failed := 0
	for range calls + 1 {
		if err := <-results; errors.Is(err, broken) {
			failed++
		} else if err != nil {
			t.Error(err)
		}
	}
	if failed != calls || store.reads.Load() != 2 {
		t.Errorf("%d of %d calls failed with the store, after %d reads", failed, calls, store.reads.Load())
	}
}
