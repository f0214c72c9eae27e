package broker

import (
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/cgroup"
	"ingot/internal/base/testkit"
)

// pooled opens a database with the credentials of a binding.
func pooled(t testing.TB, name string, c creds) *sql.DB {
	t.Helper()
	driver, dsn := "pgx", c.URI
	if name == MySQL {
		driver, dsn = "mysql", c.Username+":"+c.Password+"@tcp("+c.address()+")/"+c.Database
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// ownDB returns the administrator's access to the server of an instance, which runs until the end
// of the test.
func ownDB[T ownDatabase](t testing.TB, b *Broker, id string) T {
	t.Helper()
	s, err := b.own.hold(context.Background(), b.state.get(id))
	if err == nil {
		t.Cleanup(func() { b.own.release(s) })
		err = s.db.server().Ensure(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.db.(T)
}

// TestOwnServerSleeps: a server of an instance stops when it has no connections and starts with the
// next one, with its data.
func TestOwnServerSleeps(t *testing.T) {
	t.Parallel()
	for _, name := range []string{Postgres, MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := started(t, Config{Idle: 100 * time.Millisecond, Without: []string{Redis}})
			need(t, b, name)
			c := clientOf(t, b)
			id := c.made(name, "small")
			_, got := c.bound(name, id)
			for round := range 3 {
				began := time.Now()
				db := pooled(t, name, got)
				if _, err := db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS kept (n INT)"); err != nil {
					t.Fatal(err)
				}
				t.Logf("round %d: %v", round, time.Since(began))
				if _, err := db.ExecContext(t.Context(), "INSERT INTO kept VALUES (1)"); err != nil {
					t.Fatal(err)
				}
				var n int
				if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&n); err != nil || n != round+1 {
					t.Fatalf("%d rows, %v; want %d", n, err, round+1)
				}
				if !b.own.up(b.state.get(id)) {
					t.Fatal("the server does not run while it has a connection")
				}
				db.Close()
				testkit.Eventually(t, "the idle server stops", func() bool { return len(b.own.list()) == 0 })
			}
			c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(name, "small"), nil)
			left, err := filepath.Glob(filepath.Join(b.config.Dir, own, (&instance{ID: id}).hash()+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			// A platform may try again with the id of an instance that it gave up.
			c.do(http.StatusCreated, http.MethodPut, "/v2/service_instances/"+id, instanceBody(name, "small"))
			c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(name, "small"), nil)
		})
	}
}

// TestOwnServersAreHandedOver: another process continues to supervise a server. It does not stop it
// while the first still has a connection of an app.
func TestOwnServersAreHandedOver(t *testing.T) {
	t.Parallel()
	for _, name := range []string{Postgres, MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Config{Dir: tempDir(t), Keys: testKeys(t), Idle: 100 * time.Millisecond, Without: []string{Redis}}
			first := started(t, c)
			need(t, first, name)
			id := clientOf(t, first).made(name, "small")
			_, got := clientOf(t, first).bound(name, id)
			db := pooled(t, name, got)
			db.SetMaxOpenConns(1)
			var before, after int
			ask := func(n *int) {
				t.Helper()
				query := "SELECT CONNECTION_ID()"
				if name == Postgres {
					query = "SELECT pg_backend_pid()"
				}
				if err := db.QueryRowContext(t.Context(), query).Scan(n); err != nil {
					t.Fatal(err)
				}
			}
			ask(&before)
			first.Leave()
			second := started(t, c)
			testkit.Eventually(t, "the server is adopted", func() bool { return second.own.up(second.state.get(id)) })
			var since time.Time
			for range 3 { // it is found to be in use
				testkit.Eventually(t, "the watcher looks", func() bool {
					second.own.mu.Lock()
					defer second.own.mu.Unlock()
					s := second.own.running[id]
					if s == nil {
						t.Fatal("the server was stopped while it had a connection")
					}
					changed := s.since.After(since)
					since = s.since
					return changed
				})
			}
			if ask(&after); after != before {
				t.Errorf("session %d has become %d", before, after)
			}
			first.Stop()
			testkit.Eventually(t, "the idle server stops", func() bool { return len(second.own.list()) == 0 })
			if err := pooled(t, name, got).PingContext(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRoomForServers: when the memory for servers is used up, the one that was idle longest is stopped;
// if all are in use, it says so.
func TestRoomForServers(t *testing.T) {
	t.Parallel()
	_, small := ids(Postgres, "small")
	room := 2 * planOf(&instance{Offering: Postgres, PlanID: small}).memory
	b := started(t, Config{Room: room, Without: []string{MySQL, Redis}})
	need(t, b, Postgres)
	c := clientOf(t, b)
	var got [3]creds
	var id [3]string
	for n := range got {
		id[n] = c.made(Postgres, "small")
		_, got[n] = c.bound(Postgres, id[n])
	}
	var held [2]*sql.DB
	for n := range held {
		held[n] = pooled(t, Postgres, got[n])
		if err := held[n].PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := pooled(t, Postgres, got[2]).PingContext(t.Context()); err == nil {
		t.Error("there are more servers than memory for them")
	}
	answer := c.do(http.StatusServiceUnavailable, http.MethodPut, bindingPath(id[2], "more"),
		bindBody(Postgres, "small", "a"))
	if why, _ := answer["description"].(string); !strings.Contains(why, "memory") {
		t.Errorf("said: %v", answer)
	}
	held[0].Close()
	testkit.Eventually(t, "an idle server makes room", func() bool {
		return pooled(t, Postgres, got[2]).
			PingContext(t.Context()) == nil
	})
	if b.own.up(b.state.get(id[0])) {
		t.Error("the idle server runs")
	}
	if err := held[1].PingContext(t.Context()); err != nil {
		t.Errorf("a server in use: %v", err)
	}
}

// TestServersWithoutDisks: where servers cannot have their own disks, those that write too much
// lose their connections, and get no new ones before there is room.
func TestServersWithoutDisks(t *testing.T) {
	t.Parallel()
	var limit atomic.Int64
	limit.Store(120 * mib)
	b := started(t, Config{Without: []string{MySQL, Redis}, disk: func(*instance) int64 { return limit.Load() }})
	need(t, b, Postgres)
	b.own.probed.Do(func() { b.own.noGroups = cgroup.ErrNone })
	c := clientOf(t, b)
	_, got := c.bound(Postgres, c.made(Postgres, "small"))
	db := pooled(t, Postgres, got)
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "SET work_mem = '1GB'"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(),
		"SELECT count(*) FROM (SELECT repeat(md5(i::text), 300) s FROM generate_series(1, 30000) i ORDER BY 1 "+
			"OFFSET 1) x"); err == nil {
		t.Error("a session has more memory than its plan")
	}
	testkit.Eventually(t, "it is cut", func() bool {
		_, err := db.ExecContext(t.Context(), "CREATE TABLE t"+newNonce()+
			" AS SELECT repeat(md5(i::text), 60) s FROM generate_series(1, 20000) i")
		return err != nil
	})
	testkit.Eventually(t, "no connection is accepted", func() bool {
		if query1(Postgres, got) != nil {
			return true
		}
		// What was cut is undone, and may be what was too much.
		_, _ = db.ExecContext(t.Context(), "CREATE TABLE t"+newNonce()+
			" AS SELECT repeat(md5(i::text), 60) s FROM generate_series(1, 1000) i")
		return false
	})
	limit.Store(gib) // of a larger plan
	testkit.Eventually(t, "connections are accepted", func() bool { return query1(Postgres, got) == nil })
}
