package controller

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
	"time"

	"ingot/internal/platform"
)

// frozen is a clock whose time never passes.
type frozen struct{ clock Clock }

func (f frozen) Now() time.Time                              { return f.clock.Now() }
func (frozen) AfterFunc(time.Duration, func()) (stop func()) { return func() {} }

// addRoute creates a route of the app without announcing it.
func (w *world) addRoute(guid string) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		return errors.Join(
			tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: guid}, SpaceGUID: "space", DomainGUID: "domain", Host: guid}),
			tx.Destinations().Insert(&platform.Destination{Resource: platform.Resource{GUID: guid + "-destination"}, RouteGUID: guid, AppGUID: "app", ProcessType: "web", Protocol: "http1"}))
	})
}

func (t *table) backends(guid string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.routes[guid]; ok {
		return len(r.Backends)
	}
	return -1
}

// A change of a route is in the table when Announce returns, and soon after a
// kick: no time has to pass.
func TestRouteChangesDoNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	c := New(w.config())
	tab := newTable()
	p := NewRoutePublisher(PublisherConfig{Store: w.store, Backends: c, Table: tab, Clock: frozen{w.clock}})
	c.Notify(p)
	w.run(c)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	w.awaitRunning(1)
	w.expectTable(tab, "shop.apps.example.org app:8080#0")

	announce := func(guids ...string) {
		t.Helper()
		if err := p.Announce(guids...); err != nil {
			t.Fatal(err)
		}
	}
	w.addRoute("new")
	announce("new")
	if n := tab.backends("new"); n != 1 {
		t.Fatalf("%d backends when the answer comes", n)
	}
	w.update(func(tx platform.Tx) error { return tx.Destinations().Delete("new-destination") })
	announce("new", "nonsense")
	if n := tab.backends("new"); n != 0 {
		t.Fatalf("%d backends of a route that was unmapped", n)
	}
	w.update(func(tx platform.Tx) error { return tx.Routes().Delete("new") })
	announce("new")
	if n := tab.backends("new"); n != -1 {
		t.Fatalf("%d backends of a route that was deleted", n)
	}
	w.addRoute("kicked")
	p.Kick("kicked")
	w.expectTable(tab, "kicked.apps.example.org app:8080#0\nshop.apps.example.org app:8080#0")

	// Many at once.
	var all sync.WaitGroup
	for i := range 20 {
		guid := fmt.Sprintf("many-%d", i)
		w.addRoute(guid)
		all.Go(func() {
			if err := p.Announce(guid); err != nil || tab.backends(guid) != 1 {
				t.Errorf("%s has %d backends, %v", guid, tab.backends(guid), err)
			}
		})
	}
	all.Wait()
}

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
	p := NewRoutePublisher(PublisherConfig{Store: store, Table: newTable()})
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
	if errs[0] != nil || slices.ContainsFunc(errs[1:], func(err error) bool { return err == nil || !strings.Contains(err.Error(), "no answer") }) {
		t.Errorf("errors are %v, want none for the first and no answer for the others", errs)
	}
	if n := len(p.kicks.routes); n != 9 {
		t.Errorf("%d routes are tried again", n)
	}
}
