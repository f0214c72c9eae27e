//go:build unix

package cluster_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/server/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The times of tests. A row expires soon only where a test waits for that: a busy machine may
// stand still for longer.
const (
	beat  = 200 * time.Millisecond
	valid = 4 * time.Second
	long  = time.Minute
)

// world is one database and the servers on it.
type world struct {
	t   *testing.T
	ctx context.Context
	url string
	db  *db.DB // of the test

	mu     sync.Mutex
	owners map[cluster.Shards]string // by shard, as the handlers are told
	wrong  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	url := dbtest.URL(t, db.Postgres)
	return &world{t: t, ctx: ctx, url: url, db: dbtest.Open(t, url), owners: map[cluster.Shards]string{}}
}

// options are those of a server with a data directory.
func (w *world) options(directory string) cluster.Options {
	return cluster.Options{DB: dbtest.Open(w.t, w.url), Directory: directory, Beat: beat, Valid: long}
}

// start starts a server, until the end of the test.
func (w *world) start(o cluster.Options) *cluster.Cluster {
	w.t.Helper()
	c := cluster.New(o)
	if err := c.Start(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Stop)
	return c
}

// work lets a server take shards, and records what its handler is told.
func (w *world) work(c *cluster.Cluster) background.Service {
	w.t.Helper()
	working := c.Working(cluster.Handler{
		Gained: func(s cluster.Shards) {
			s.Each(func(one cluster.Shards) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if other := w.owners[one]; other != "" {
					w.wrong = append(w.wrong, "a shard of "+other+" was given to "+c.ID())
				}
				w.owners[one] = c.ID()
			})
		},
		Lost: func(s cluster.Shards) {
			s.Each(func(one cluster.Shards) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.owners[one] == c.ID() {
					delete(w.owners, one)
				}
			})
		},
	})
	if err := working.Start(w.ctx); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(working.Stop)
	return working
}

// killed forgets the shards of a server that was killed.
func (w *world) killed(c *cluster.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one, owner := range w.owners {
		if owner == c.ID() {
			delete(w.owners, one)
		}
	}
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for !ok() {
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("got no %s in time, want it", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	err := w.db.UpdateLocking(w.ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(query string, args ...any) (n int) {
	w.t.Helper()
	err := w.db.View(w.ctx, func(tx *db.Tx) error { return tx.QueryRow(query, args...).Scan(&n) })
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// divided reports whether the servers have all shards, none more than its share,
// and no shard twice.
func (w *world) divided(servers ...*cluster.Cluster) bool {
	share := (64 + len(servers) - 1) / len(servers)
	var all cluster.Shards
	sum := 0
	for _, c := range servers {
		s := c.Shards()
		if s.Len() > share {
			return false
		}
		all |= s
		sum += s.Len()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return all == cluster.AllShards && sum == 64 && len(w.owners) == 64
}

func (w *world) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrong := range w.wrong {
		w.t.Error(wrong)
	}
}

func TestLifecycle(t *testing.T) { //nolint:tparallel // see below
	t.Parallel()
	w := newWorld(t)
	t.Run("stress", func(t *testing.T) { //nolint:paralleltest // its rows are counted afterwards
		var n atomic.Int32
		backgroundtest.Stress(t, func(*testing.T) background.Service {
			return cluster.New(w.options(strconv.Itoa(int(n.Add(1)))))
		})
	})
	if n := w.count("SELECT COUNT(*) FROM cluster_servers"); n != 0 {
		t.Errorf("got %d rows of servers after all were stopped, want 0", n)
	}
}

// On SQLite everything is owned, and the database is not touched.
func TestSingle(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	c := cluster.New(cluster.Options{DB: d})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if !c.Owns("an app") || !c.Lead(t.Context(), "purge") || c.Shards() != cluster.AllShards {
		t.Errorf("got Owns %v, Lead %v, Shards %x, want all", c.Owns("an app"), c.Lead(t.Context(), "purge"), c.Shards())
	}
	c.Tell("app 1")
	if !c.Ask("app 1")(t.Context()) {
		t.Error("Ask: got false, want true: there is no other server")
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("got Ready %v, want nil", err)
	}
	l, ok := c.Lease("an app")
	err := d.Update(c.Fence(t.Context(), "an app"), func(tx *db.Tx) error { return cluster.Check(tx, l) })
	if err != nil || !ok {
		t.Errorf("fence: got %v, held %v, want nil, true", err, ok)
	}
}

// A server whose apps run on its machine has the database for itself.
func TestExclusive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alone := w.options("a")
	alone.Exclusive = true
	one := w.start(alone)
	if !one.Owns("an app") || !one.Lead(w.ctx, "purge") {
		t.Errorf("got Owns %v, Lead %v, want both", one.Owns("an app"), one.Lead(w.ctx, "purge"))
	}
	host, _ := os.Hostname()
	for _, exclusive := range []bool{true, false} {
		o := w.options("b")
		o.Exclusive = exclusive
		err := cluster.New(o).Start(w.ctx)
		var refused *cluster.RefusedError
		if !errors.As(err, &refused) || refused.Server.ID != one.ID() || refused.Server.PID != os.Getpid() ||
			!strings.Contains(err.Error(), host) {
			t.Errorf("exclusive %v: got %v, want a refusal that names %s", exclusive, err, host)
		}
	}
	one.Stop()
	second := w.options("b")
	second.Exclusive = true
	w.start(second).Stop()

	// Beside servers that share their apps it is refused too.
	w.start(w.options("c"))
	var refused *cluster.RefusedError
	if err := cluster.New(alone).Start(w.ctx); !errors.As(err, &refused) {
		t.Errorf("beside a shared server: got %v, want a refusal", err)
	}
}

// A server that was killed is replaced at once with its own data directory, and
// with another when it has expired.
func TestKilledExclusive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("a")
	o.Exclusive, o.Valid = true, time.Hour
	w.start(o).Die()
	w.start(o).Die()
	o.Valid = valid
	w.start(o).Die()
	o.Directory = "b"
	w.start(o)
	if n := w.count("SELECT COUNT(*) FROM cluster_servers"); n != 1 {
		t.Errorf("got %d rows of servers, want 1", n)
	}
}

// A server that could not renew its row owns nothing while another uses the
// database, and starts anew when that one is gone.
func TestExclusiveIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("a")
	o.Exclusive = true
	one := w.start(o)
	told := make(chan string, 10)
	working := one.Working(cluster.Handler{
		Gained: func(cluster.Shards) { told <- "gained" },
		Lost:   func(cluster.Shards) { told <- "lost" },
	})
	if err := working.Start(w.ctx); err != nil {
		t.Fatal(err)
	}
	defer working.Stop()
	w.exec("UPDATE cluster_servers SET id = 'other', directory = 'other', expires = expires + 3600000000000")
	w.until("loss", func() bool { return !one.Owns("an app") && one.Ready(w.ctx) != nil })
	if err := w.db.Update(one.Fence(w.ctx, "an app"), func(*db.Tx) error { return nil }); err != nil {
		t.Errorf("another database: got %v, want nil: the fence is that of the server's own", err)
	}
	if err := o.DB.Update(one.Fence(w.ctx, "an app"), func(*db.Tx) error { return nil }); !errors.Is(err,
		cluster.ErrNotHeld) {
		t.Errorf("a transaction: got %v, want %v", err, cluster.ErrNotHeld)
	}
	w.exec("DELETE FROM cluster_servers")
	for _, want := range []string{"lost", "gained"} {
		select {
		case got := <-told:
			if got != want {
				t.Errorf("the handler was told %s, want %s", got, want)
			}
		case <-w.ctx.Done():
			t.Fatalf("the handler was not told %s", want)
		}
	}
	if !one.Owns("an app") || one.Ready(w.ctx) != nil {
		t.Errorf("got Owns %v, Ready %v, want true, nil", one.Owns("an app"), one.Ready(w.ctx))
	}
}

// The trust in leases ends before the row does, without a word of the database.
func TestTrustEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options("a")
	o.Valid = valid
	one := w.start(o)
	w.work(one)
	w.until("shards", func() bool { return w.divided(one) })
	if err := o.DB.Close(); err != nil {
		t.Fatal(err)
	}
	w.until("end of the trust", func() bool { return !one.Owns("an app") })
	// The row ends no earlier than that long after this look at the clock.
	now := time.Now()
	left := w.count("SELECT expires - CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000000 AS BIGINT) FROM " +
		"cluster_servers")
	if trust, row := one.Trust(), now.Add(time.Duration(left)); !trust.Before(row) {
		t.Errorf("got an end of the trust at %s, and of the row at %s, want the trust to end first", trust, row)
	}
}
