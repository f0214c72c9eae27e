package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// countingStore counts the rows that are read through it, and can be told to
// fail.
type countingStore struct {
	platform.Store
	rows atomic.Int64
	fail atomic.Bool
}

var errFlaky = errors.New("the store is away")

func (s *countingStore) View(ctx context.Context, f func(platform.Tx) error) error {
	if s.fail.Load() {
		return errFlaky
	}
	return s.Store.View(ctx, func(tx platform.Tx) error { return f(countingTx{tx, &s.rows}) })
}

type countingTx struct {
	platform.Tx
	rows *atomic.Int64
}

func (t countingTx) Routes() platform.Repo[platform.Route] {
	return countingRepo[platform.Route]{t.Tx.Routes(), t.rows}
}

func (t countingTx) Destinations() platform.Repo[platform.Destination] {
	return countingRepo[platform.Destination]{t.Tx.Destinations(), t.rows}
}

func (t countingTx) Domains() platform.Repo[platform.Domain] {
	return countingRepo[platform.Domain]{t.Tx.Domains(), t.rows}
}

func (t countingTx) ServiceBindings() platform.Repo[platform.ServiceBinding] {
	return countingRepo[platform.ServiceBinding]{t.Tx.ServiceBindings(), t.rows}
}

type countingRepo[T any] struct {
	platform.Repo[T]
	rows *atomic.Int64
}

func (r countingRepo[T]) List(q platform.Query) ([]*T, int, error) {
	page, total, err := r.Repo.List(q)
	r.rows.Add(int64(len(page)))
	return page, total, err
}

func (r countingRepo[T]) Get(guid string) (*T, error) {
	r.rows.Add(1)
	return r.Repo.Get(guid)
}

// readyApps has one instance of every app, that of its name, unless it is away.
type readyApps struct{ away sync.Map }

func (r *readyApps) Backends(app, _ string) []Backend {
	if _, away := r.away.Load(app); away {
		return nil
	}
	return []Backend{{InstanceGUID: "i-" + app, Ready: true,
		Ports: []platform.InstancePort{{Inside: platform.DefaultPort, Address: app + ":1"}}}}
}

// crowd is a publisher with many routes, each to one of two apps, and one.
type crowd struct {
	*testing.T
	store *countingStore
	apps  *readyApps
	clock *testkit.Clock
	p     *Publisher
	now   chan struct{} // the table was updated

	mu      sync.Mutex
	table   map[string]Route
	touched int // entries that updates named
}

const patience = 90 * time.Second // on a busy machine

const fewer = 2000 // under the race detector, which slows SQLite down most

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	c := &crowd{T: t, store: &countingStore{Store: platformdb.New(d)}, apps: &readyApps{},
		clock: testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), now: make(chan struct{}, 1)}
	c.update(c.store.Store, func(tx platform.Tx) error {
		if err := tx.Domains().Insert(&platform.Domain{Resource: platform.Resource{GUID: "domain"},
			Name: "test"}); err != nil {
			return err
		}
		for i := range n {
			if err := insertRoute(tx, fmt.Sprintf("r%05d", i), fmt.Sprintf("host%d", i), fmt.Sprintf("app%d", i%2)); err != nil {
				return err
			}
		}
		return insertRoute(tx, "single", "single", "one")
	})
	c.p = New(Config{Store: c.store, Backends: c.apps, Table: c, Clock: c.clock})
	if err := c.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.p.Stop)
	return c
}

func insertRoute(tx platform.Tx, guid, host, app string) error {
	if err := tx.Routes().Insert(&platform.Route{Resource: platform.Resource{GUID: guid}, SpaceGUID: "space",
		DomainGUID: "domain", Host: host}); err != nil {
		return err
	}
	return tx.Destinations().Insert(&platform.Destination{Resource: platform.Resource{GUID: "d-" + guid}, RouteGUID: guid,
		AppGUID: app, ProcessType: "web"})
}

// Replace and Update make it a route table.
func (c *crowd) Replace(all []Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table = map[string]Route{}
	for _, r := range all {
		c.table[r.GUID] = r
	}
}

func (c *crowd) Update(set []Route, gone []string) {
	c.mu.Lock()
	for _, guid := range gone {
		delete(c.table, guid)
	}
	for _, r := range set {
		c.table[r.GUID] = r
	}
	c.touched += len(set) + len(gone)
	c.mu.Unlock()
	select {
	case c.now <- struct{}{}:
	default:
	}
}

func (c *crowd) update(s platform.Store, f func(platform.Tx) error) {
	c.Helper()
	if err := s.Update(c.Context(), f); err != nil {
		c.Fatal(err)
	}
}

func (c *crowd) routes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.table)
}

// leadsTo is the app of a route, "-" for a route without, "" for none.
func (c *crowd) leadsTo(guid string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.table[guid]
	switch {
	case !ok:
		return ""
	case len(r.Backends) == 0:
		return "-"
	}
	return r.Backends[0].App
}

func (c *crowd) await(guid, want string) {
	c.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for c.leadsTo(guid) != want {
		select {
		case <-c.now:
		case <-late.C:
			c.Fatalf("%s leads to %q, want %q", guid, c.leadsTo(guid), want)
		}
	}
}

// cost does something and returns how many rows were read and entries of the
// table named meanwhile.
func (c *crowd) cost(f func()) (rows int64, entries int) {
	c.mu.Lock()
	before := c.touched
	c.mu.Unlock()
	c.store.rows.Store(0)
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.rows.Load(), c.touched - before
}

// tick lets an interval pass and waits until the publisher has done its part.
func (c *crowd) tick() {
	c.p.loading.Lock()
	before := c.p.walked
	c.p.loading.Unlock()
	c.clock.Advance(c.p.Interval)
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		c.p.loading.Lock()
		now := c.p.walked
		c.p.loading.Unlock()
		if now != before {
			return
		}
		select {
		case <-c.now:
		case <-late.C:
			c.Fatal("no page was read")
		}
	}
}

// A change of one route among many costs as much as among few, whatever makes it.
func TestChangeAmongManyRoutes(t *testing.T) {
	t.Parallel()
	n := 20000
	if slow {
		n = fewer
	}
	c := newCrowd(t, n)
	if got := c.routes(); got != n+1 {
		t.Fatalf("%d routes were published, want %d", got, n+1)
	}
	for _, change := range []struct {
		name, guid, want string
		do               func(platform.Tx) error
	}{
		{"added", "new", "one", func(tx platform.Tx) error { return insertRoute(tx, "new", "new", "one") }},
		{"moved", "new", "two", func(tx platform.Tx) error {
			d, err := tx.Destinations().Get("d-new")
			if err != nil {
				return err
			}
			d.AppGUID = "two"
			return tx.Destinations().Update(d)
		}},
		{"unmapped with its app", "new", "-", func(tx platform.Tx) error {
			_, err := tx.Destinations().DeleteAll(platform.Where("app_guid", "two"))
			return err
		}},
		{"removed", "new", "", func(tx platform.Tx) error { return tx.Routes().Delete("new") }},
		{"removed with others", "r00007", "", func(tx platform.Tx) error {
			_, err := tx.Routes().DeleteAll(platform.Where("host", "host7"))
			return err
		}},
	} {
		rows, entries := c.cost(func() {
			c.update(c.store.Store, change.do)
			c.p.Kick(change.guid)
			c.await(change.guid, change.want)
		})
		if rows > 3 || entries > 1 {
			t.Errorf("a route was %s: %d rows were read, %d entries changed", change.name, rows, entries)
		}
	}
	rows, entries := c.cost(func() {
		c.apps.away.Store("one", true)
		c.p.AppChanged("one")
	})
	if rows != 0 || entries != 1 || c.leadsTo("single") != "-" {
		t.Errorf("an app lost its instance: %d rows were read, %d entries changed, its route leads to %q", rows, entries,
			c.leadsTo("single"))
	}

	// What was not announced is found in the end, in steps that are no longer
	// than with fewer routes.
	c.update(c.store.Store, func(tx platform.Tx) error {
		if err := tx.Routes().Delete("r00003"); err != nil {
			return err
		}
		return insertRoute(tx, "s", "late", "two")
	})
	for ticks := 0; c.leadsTo("r00003") != "" || c.leadsTo("s") != "two"; ticks++ {
		if rows, entries := c.cost(c.tick); rows > 2*pageRoutes+10 || entries > pageRoutes+10 {
			t.Fatalf("a look at some routes read %d rows and named %d entries", rows, entries)
		}
		if ticks > n/pageRoutes+2 {
			t.Fatal("what was not announced was not found")
		}
	}
	if err := c.p.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.routes(); got != n {
		t.Errorf("%d routes after all changes, want %d", got, n)
	}
}

// A route that took the address of another stays, also when the other's app
// changes before its end was heard of.
func TestAddressTakenOver(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.update(c.store.Store, func(tx platform.Tx) error {
		if err := tx.Routes().Delete("single"); err != nil {
			return err
		}
		return insertRoute(tx, "heir", "SINGLE", "two")
	})
	if err := c.p.Refresh(t.Context(), "heir"); err != nil {
		t.Fatal(err)
	}
	_, entries := c.cost(func() { c.p.AppChanged("one") })
	if entries != 0 {
		t.Error("the route that is gone was published again")
	}
	if err := c.p.Refresh(t.Context(), "single"); err != nil {
		t.Fatal(err)
	}
	if got := c.leadsTo("heir"); got != "two" || c.leadsTo("single") != "" {
		t.Errorf("heir leads to %q, single to %q", got, c.leadsTo("single"))
	}
}

// What could not be read is published later, without being asked again.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, 0)
	c.store.fail.Store(true)
	c.update(c.store.Store, func(tx platform.Tx) error { return insertRoute(tx, "new", "new", "one") })
	c.p.Kick("new")
	if err := c.p.Refresh(t.Context(), "new"); !errors.Is(err, errFlaky) {
		t.Errorf("it read from a store that is away: %v", err)
	}
	c.p.Kick()
	c.p.work(t.Context())
	c.store.fail.Store(false)
	c.clock.Advance(c.p.Interval)
	c.await("new", "one")
}
