package controller

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/platform"
	"ingot/internal/platform/run/controller/routing"
)

// frozen is a clock whose time never passes.
type frozen struct{ clock clock.Clock }

func (f frozen) Now() time.Time                              { return f.clock.Now() }
func (frozen) AfterFunc(time.Duration, func()) (stop func()) { return func() {} }

// addRoute creates a route of the app without announcing it.
func (w *world) addRoute(guid string) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		return errors.Join(
			tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: guid}, SpaceGUID: "space", DomainGUID: "domain",
				Host: guid}),
			tx.Destinations().Insert(&platform.Destination{Resource: platform.Resource{GUID: guid + "-destination"},
				RouteGUID: guid, AppGUID: "app", ProcessType: "web", Protocol: "http1"}))
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
	p := routing.New(routing.Config{Store: w.store, Backends: c, Table: tab, Clock: frozen{w.clock}})
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
