package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/controller/routing"
)

// table is a route table in memory.
type table struct {
	mu      sync.Mutex
	routes  map[string]routing.Route
	touched int // entries that updates named
}

func newTable() *table { return &table{routes: map[string]routing.Route{}} }

func (t *table) Update(set []routing.Route, gone []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, guid := range gone {
		delete(t.routes, guid)
	}
	for _, r := range set {
		t.routes[r.GUID] = r
	}
	t.touched += len(set) + len(gone)
}

func (t *table) Replace(all []routing.Route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.routes = map[string]routing.Route{}
	for _, r := range all {
		t.routes[r.GUID] = r
	}
}

// show writes the table as text: route, and app:port#index of each backend.
func (t *table) show() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, r := range t.routes {
		var backends []string
		for _, b := range r.Backends {
			backends = append(backends, fmt.Sprintf("%s:%d#%d", b.App, b.Port, b.Index))
		}
		slices.Sort(backends)
		kind := ""
		if r.Internal {
			kind = "internal:"
		}
		lines = append(lines, strings.TrimSpace(kind+r.Host+r.Path+" "+strings.Join(backends, " ")))
	}
	slices.SortFunc(lines, cmp.Compare)
	return strings.Join(lines, "\n")
}

func (w *world) expectTable(t *table, want string) {
	w.Helper()
	got := ""
	w.await("the table is right", func() bool {
		got = t.show()
		return got == want || w.Failed()
	})
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	c := New(w.config())
	tab := newTable()
	p := routing.New(routing.Config{Store: w.store, Backends: c, Table: tab, Clock: w.clock})
	c.Notify(p)
	w.fake.onSignal = func(in2 engine.Instance) {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, r := range tab.routes {
			if slices.ContainsFunc(r.Backends, func(b routing.RouteBackend) bool { return b.Instance == in2.ID }) {
				t.Errorf("%s is told to go and in the table", in2.ID)
			}
		}
	}
	w.run(c)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	w.awaitRunning(2)
	w.expectTable(tab, "shop.apps.example.org app:8080#0 app:8080#1")
	tab.mu.Lock()
	b := tab.routes["route"].Backends[0]
	tab.mu.Unlock()
	if b.Protocol != "http1" || b.Destination != "destination" || b.ProcessType != "web" ||
		b.Address != w.c.Backends("app", "web")[0].Ports[0].Address {
		t.Errorf("backend is %+v, want the first web instance over http1", b)
	}

	// A port that instances did not open when they were started gets nothing
	// until they are replaced.
	w.update(func(tx platform.Tx) error {
		for _, err := range []error{
			tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: "side"}, SpaceGUID: "space",
				DomainGUID: "domain", Host: "side", Path: "/x", Options: map[string]string{"loadbalancing": "least-connection"}}),
			tx.Destinations().Insert(&platform.Destination{RouteGUID: "side", AppGUID: "app", ProcessType: "web", Port: 9000,
				Weight: 100}),
			tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: "empty"}, SpaceGUID: "space",
				DomainGUID: "domain", Host: "*"}),
			tx.Domains().Insert(&platform.Domain{Resource: platform.Resource{GUID: "hidden"}, Name: "apps.internal",
				Internal: true}),
			tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: "inside"}, SpaceGUID: "space",
				DomainGUID: "hidden", Host: "shop"}),
			tx.Destinations().Insert(&platform.Destination{RouteGUID: "inside", AppGUID: "app", ProcessType: "web", Port: 9000}),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	p.Kick("side", "empty", "inside", "nonsense")
	w.expectTable(tab, "*.apps.example.org\ninternal:shop.apps.internal app:9000#0 app:9000#1\nshop.apps.example.org "+
		"app:8080#0 app:8080#1\nside.apps.example.org/x")
	w.restart("v2")
	w.awaitRunning(2)
	w.expectTable(tab, "*.apps.example.org\ninternal:shop.apps.internal app:9000#0 app:9000#1\nshop.apps.example.org "+
		"app:8080#0 app:8080#1\nside.apps.example.org/x app:9000#0 app:9000#1")
	tab.mu.Lock()
	side := tab.routes["side"]
	tab.mu.Unlock()
	if side.Options["loadbalancing"] == "" || side.Backends[0].Weight != 100 {
		t.Errorf("route is %+v, want a loadbalancing option and weight 100", side)
	}

	// An unmapped route loses its backends at once, a deleted one is gone.
	w.update(func(tx platform.Tx) error { return tx.Destinations().Delete("destination") })
	if err := p.Refresh(t.Context(), "route"); err != nil {
		t.Fatal(err)
	}
	if got := tab.show(); !strings.Contains(got, "shop.apps.example.org\n") {
		t.Errorf("table is %q, want shop.apps.example.org without backends", got)
	}
	w.update(func(tx platform.Tx) error { return tx.Routes().Delete("route") })
	if err := p.Refresh(t.Context(), "route"); err != nil {
		t.Fatal(err)
	}
	w.scale(1)
	w.expectTable(tab, "*.apps.example.org\ninternal:shop.apps.internal app:9000#0\nside.apps.example.org/x app:9000#0")
	// What was not announced is found.
	w.update(func(tx platform.Tx) error { return tx.Routes().Delete("empty") })
	w.clock.Advance(p.Interval)
	w.expectTable(tab, "internal:shop.apps.internal app:9000#0\nside.apps.example.org/x app:9000#0")
}

// Who reads in the store that an instance runs can send requests to it.
func TestBackendsComeBeforeRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	var looked int
	w.store.written = func() {
		for _, row := range w.rows() {
			if row.State != platform.InstanceRunning || !row.Ready {
				continue
			}
			looked++
			if !slices.ContainsFunc(w.c.Backends("app", "web"),
				func(b routing.Backend) bool { return b.InstanceGUID == row.GUID }) {
				t.Errorf("instance %s is running in its row and takes no requests", row.GUID)
			}
		}
	}
	w.begin()
	w.awaitRunning(3)
	w.c.Stop()
	if looked == 0 {
		t.Error("no row was looked at")
	}
}
