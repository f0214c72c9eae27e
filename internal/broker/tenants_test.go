package broker

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"ingot/internal/base/testkit"
)

// abuse is what a tenant does to use up a resource of its server.
type abuse struct {
	resource string
	// setup may fail, and is not required to.
	setup []string
	// run is repeated by as many sessions at the same time, which stay open.
	run      []string
	sessions int
	// times is how often run is repeated by each session; more in soak tests.
	times int
	// bites means that it must fail: the limit is reached.
	bites bool
	// says is what the broker's log has to contain then, on machines where Ingot can set limits.
	says string
}

// The resources that a server shares among all its clients.
var abuses = map[string][]abuse{
	Postgres: {
		{resource: "locks", run: []string{
			"SELECT count(*) FROM (SELECT pg_advisory_lock(i) FROM generate_series(1, 500000) i) x"}, bites: true},
		{resource: "prepared statements",
			run: []string{"DO $$ BEGIN FOR i IN 1..3000 LOOP EXECUTE format('PREPARE p%s_%s AS SELECT %s', i, " +
				"(random()*1e9)::bigint, i); END LOOP; END $$"}},
		{
			resource: "memory", setup: []string{"SET work_mem = '2GB'"}, says: "needed more memory", bites: true,
			run: []string{"SELECT count(*) FROM (SELECT repeat(md5(i::text), 150) s FROM generate_series(1, 150000) i ORDER " +
				"BY 1 OFFSET 1) x"},
		},
		{
			resource: "temporary disk", setup: []string{"SET work_mem = '64kB'"}, bites: true,
			run: []string{"SELECT count(*) FROM (SELECT repeat(md5(i::text), 150) s FROM generate_series(1, 100000) i ORDER " +
				"BY 1 OFFSET 1) x"},
		},
		{resource: "processor", setup: []string{"SET statement_timeout = '1s'"}, sessions: 4,
			run: []string{"SELECT count(*) FROM generate_series(1, 1000000000) i"}, bites: true},
		{resource: "connections", sessions: 60, run: []string{"SELECT 1"}, bites: true},
		{resource: "log of transactions", setup: []string{"CREATE TABLE IF NOT EXISTS w AS SELECT 1 n"}, times: 2,
			run: []string{"INSERT INTO w SELECT generate_series(1, 10000)", "UPDATE w SET n = n + 1", "DELETE FROM w"}},
		{resource: "tables", run: []string{
			"DO $$ BEGIN FOR i IN 1..200 LOOP EXECUTE format('CREATE TABLE IF NOT EXISTS many%s (n int)', i); END " +
				"LOOP; END $$"}},
		{resource: "notifications", setup: []string{"LISTEN c", "BEGIN"},
			run: []string{"SELECT count(pg_notify('c', repeat('x', 7900) || i)) FROM generate_series(1, 500) i"}},
		{resource: "large objects", run: []string{
			"SELECT count(lo_from_bytea(0, b)) FROM (SELECT convert_to(string_agg(md5(random()::text), ''), 'UTF8') b FROM " +
				"generate_series(1, 60000)) x, generate_series(1, 60)"}, bites: true},
	},
	MySQL: {
		{resource: "prepared statements", bites: true, run: []string{prepares(0), prepares(1), prepares(2), prepares(3),
			prepares(4), prepares(5), prepares(6), prepares(7), prepares(8)}},
		{resource: "locks", run: []string{"SELECT COUNT(GET_LOCK(CONCAT('l', seq), 0)) FROM seq_1_to_300"}},
		{resource: "memory", setup: []string{"SET sort_buffer_size = 8589934592", "SET tmp_table_size = 8589934592",
			"SET max_heap_table_size = 8589934592"}, says: "needed more memory", bites: true,
			run: []string{
				"CREATE TEMPORARY TABLE m (s CHAR(250)) ENGINE=MEMORY AS SELECT REPEAT('x', 250) s FROM seq_1_to_30000"}},
		{resource: "temporary disk", bites: true,
			run: []string{"CREATE TEMPORARY TABLE d ENGINE=InnoDB AS SELECT REPEAT(MD5(seq), 150) s FROM seq_1_to_100000"}},
		{resource: "processor", setup: []string{"SET max_statement_time = 1"}, sessions: 4,
			run: []string{"SELECT BENCHMARK(1000000000, MD5('x'))"}},
		{resource: "connections", sessions: 60, run: []string{"SELECT 1"}, bites: true},
		{resource: "log of transactions", setup: []string{"CREATE TABLE IF NOT EXISTS w (n INT)"}, times: 2,
			run: []string{"INSERT INTO w SELECT seq FROM seq_1_to_2000", "DELETE FROM w"}},
		{resource: "tables", run: []string{
			"BEGIN NOT ATOMIC FOR i IN 1..50 DO EXECUTE IMMEDIATE CONCAT('CREATE TABLE IF NOT EXISTS many', i, ' (n INT)'); " +
				"END FOR; END"}},
		{resource: "data", bites: true,
			run: []string{"CREATE TABLE big AS SELECT REPEAT(MD5(seq), 150) s FROM seq_1_to_100000"}},
	},
}

// prepares returns a block of statements.
func prepares(block int) string {
	var s strings.Builder
	for n := range 2000 {
		fmt.Fprintf(&s, "PREPARE p%d_%d FROM 'SELECT 1';", block, n)
	}
	return s.String()
}

// TestTenantsHaveTheirOwn has a tenant use up every resource of its server in turn. Another tenant
// connects and queries all the time, without an error, and new instances can be created.
func TestTenantsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	tenants(t, 1)
}

// TestSoakTenantsHaveTheirOwn does the same for longer, and without smaller disks.
func TestSoakTenantsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") != "1" {
		t.Skip("INGOT_SOAK is not set")
	}
	tenants(t, 20)
}

func tenants(t *testing.T, factor int) {
	t.Helper()
	for name, list := range abuses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, said := newLog()
			b := started(t, Config{Without: []string{Redis}, Log: log,
				disk: func(*instance) int64 { return int64(min(factor, 8)) * 160 * mib }})
			need(t, b, name)
			c := clientOf(t, b)
			id := c.made(name, "small")
			_, evil := c.bound(name, id)
			_, good := c.bound(name, c.made(name, "small"))
			for _, a := range list {
				t.Run(strings.ReplaceAll(a.resource, " ", "-"), func(t *testing.T) {
					before := strings.Count(said.String(), a.says)
					calm := bystander(t, name, good)
					failed := a.commit(t, name, evil, factor)
					calm()
					if a.bites && !failed {
						t.Error("the tenant reached no limit")
					}
					if a.says != "" && b.own.noGroups == nil {
						testkit.Eventually(t, "the log says why", func() bool { return strings.Count(said.String(), a.says) > before })
					}
					comesBack(t, name, evil)
					b.own.mu.Lock()
					clear(b.own.cut) // as if minutes had passed
					b.own.mu.Unlock()
				})
			}
			other := c.made(name, "small")
			c.deprovision(name, "small", other)
			c.deprovision(name, "small", id)
		})
	}
}

// commit reports whether any statement failed. The sessions are closed at its end.
func (a abuse) commit(t *testing.T, name string, c creds, factor int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dsn := c.URI
	driver := "pgx"
	if name == MySQL {
		driver, dsn = "mysql", c.Username+":"+c.Password+"@tcp("+c.address()+")/"+c.Database+"?multiStatements=true"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(0)
	var failed atomic.Bool
	var wait sync.WaitGroup
	var taken []*sql.Conn
	for range max(1, a.sessions) {
		conn, err := db.Conn(ctx)
		if err != nil {
			failed.Store(true)
			t.Logf("%s: %.200v", a.resource, err)
			break
		}
		taken = append(taken, conn)
		wait.Go(func() {
			for _, s := range a.setup {
				if _, err := conn.ExecContext(ctx, s); err != nil {
					t.Logf("%s: %.100s: %.200v", a.resource, s, err)
				}
			}
			for range max(1, a.times) * factor {
				for _, s := range a.run {
					if _, err := conn.ExecContext(ctx, s); err != nil {
						if !failed.Swap(true) {
							t.Logf("%s: %.200v", a.resource, err)
						}
						return
					}
				}
			}
		})
	}
	wait.Wait()
	for _, conn := range taken {
		conn.Close() // given back, and so closed with the database
	}
	return failed.Load()
}

// bystander connects and queries until the function it returns is called: at least once after each
// call, and without an error.
func bystander(t *testing.T, name string, c creds) (end func()) {
	t.Helper()
	done := make(chan struct{})
	var wait sync.WaitGroup
	var slowest time.Duration
	count := 0
	wait.Go(func() {
		for last := false; !last; count++ {
			select {
			case <-done:
				last = true
			case <-time.After(20 * time.Millisecond):
			}
			began := time.Now()
			if err := query1(name, c); err != nil {
				t.Errorf("the other tenant: %v", err)
				return
			}
			slowest = max(slowest, time.Since(began))
		}
	})
	return func() {
		close(done)
		wait.Wait()
		t.Logf("the other tenant connected %d times, at most in %v", count, slowest.Round(time.Millisecond))
	}
}

func query1(name string, c creds) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	driver, dsn := "pgx", c.URI
	if name == MySQL {
		driver, dsn = "mysql", c.Username+":"+c.Password+"@tcp("+c.address()+")/"+c.Database
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var n int
	return db.QueryRowContext(ctx, "SELECT 41 + 1").Scan(&n)
}

// comesBack waits until the tenant that used up its own server can use it again.
func comesBack(t *testing.T, name string, c creds) {
	t.Helper()
	testkit.Eventually(t, "the tenant's own server works again", func() bool { return query1(name, c) == nil })
}

// TestRedisTenantsHaveTheirOwn is the same for Redis.
//
//nolint:tparallel // one resource after the other
func TestRedisTenantsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	log, said := newLog()
	b := started(t, Config{Without: []string{Postgres, MySQL}, Log: log})
	need(t, b, Redis)
	c := clientOf(t, b)
	_, evil := c.bound(Redis, c.made(Redis, "small"))
	_, good := c.bound(Redis, c.made(Redis, "small"))
	script := func(text string) func() error {
		return func() error { return rd(t, evil).Eval(t.Context(), text, nil).Err() }
	}
	for _, a := range []struct { //nolint:paralleltest // the same
		resource string
		run      func() error
	}{
		{"data", script("for i = 1, 1000 do redis.call('SET', 'k' .. i, string.rep('x', 100000)) end")},
		{"memory", script("local t = {} for i = 1, 400 do t[i] = string.rep(tostring(i), 400000) end return #t")},
		{"connections", func() error {
			var all []*redis.Client
			defer func() {
				for _, one := range all {
					one.Close() //nolint:errcheck // nothing is left to lose
				}
			}()
			for range 130 {
				one := rd(t, evil)
				all = append(all, one)
				if err := one.Ping(t.Context()).Err(); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		t.Run(a.resource, func(t *testing.T) {
			done := make(chan struct{})
			var wait sync.WaitGroup
			wait.Go(func() {
				for last := false; !last; {
					select {
					case <-done:
						last = true
					case <-time.After(20 * time.Millisecond):
					}
					conn := rd(t, good)
					if err := conn.Set(context.Background(), "k", "v", 0).Err(); err != nil {
						t.Errorf("the other tenant: %v", err)
						last = true
					}
					conn.Close()
				}
			})
			if err := a.run(); err == nil && (a.resource != "memory" || os.Geteuid() == 0) {
				t.Error("the tenant reached no limit")
			}
			close(done)
			wait.Wait()
			testkit.Eventually(t, "the tenant's own server works again", func() bool {
				return rd(t, evil).Ping(t.Context()).
					Err() == nil
			})
		})
	}
	if strings.Contains(said.String(), "no control group") {
		t.Log("this machine has no control groups")
	}
}
