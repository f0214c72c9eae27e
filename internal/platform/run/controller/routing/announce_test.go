package routing

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ingot/internal/platform"
)

// viewed is a store that counts its reads and lets a test hold them.
type viewed struct {
	platform.Store
	hold  chan struct{}
	views atomic.Int64
	fails atomic.Bool
}

func (v *viewed) View(ctx context.Context, _ func(platform.Tx) error) error {
	v.views.Add(1)
	select {
	case <-v.hold:
	case <-ctx.Done():
		return ctx.Err()
	}
	if v.fails.Load() {
		return errors.New("no answer")
	}
	return nil
}

// However many announce at once, all but the first share one look at the store;
// and when that fails, all are told.
func TestAnnouncementsAreGathered(t *testing.T) {
	t.Parallel()
	store := &viewed{hold: make(chan struct{})}
	p := New(Config{Store: store, Table: &crowd{T: t}})
	joined := func(n int) bool {
		p.announcing.mu.Lock()
		defer p.announcing.mu.Unlock()
		return p.announcing.next != nil && len(p.announcing.next.routes) == n
	}
	errs := make([]error, 10)
	var all sync.WaitGroup
	all.Go(func() { errs[0] = p.Announce("0") })
	for store.views.Load() != 1 {
		runtime.Gosched()
	}
	for i := 1; i < len(errs); i++ {
		all.Go(func() { errs[i] = p.Announce(fmt.Sprint(i)) })
	}
	for !joined(9) {
		runtime.Gosched()
	}
	store.hold <- struct{}{} // the first
	for store.views.Load() != 2 {
		runtime.Gosched()
	}
	store.fails.Store(true)
	store.hold <- struct{}{}
	all.Wait()
	if n := store.views.Load(); n != 2 {
		t.Errorf("%d looks", n)
	}
	if errs[0] != nil || slices.ContainsFunc(errs[1:], func(err error) bool {
		return err == nil ||
			!strings.Contains(err.Error(), "no answer")
	}) {
		t.Errorf("errors are %v, want none for the first and no answer for the others", errs)
	}
	if n := len(p.kicks.routes); n != 9 {
		t.Errorf("%d routes are tried again", n)
	}
}
