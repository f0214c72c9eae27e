package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/broker"
)

// What a tenant does with its database while the platform stores data on the same machine.
var neighbours = []struct {
	name     string
	sessions int
	setup    string
	run      string
}{
	{"computes in 8 sessions", 8, "SELECT 1", "SELECT count(*) FROM generate_series(1, 2000000) i"},
	{"sorts in temporary files", 2, "SET work_mem = '64kB'",
		"SELECT count(*) FROM (SELECT repeat(md5(i::text), 60) s FROM generate_series(1, 100000) i ORDER BY 1 OFFSET 1) x"},
	{"writes rows", 4, "CREATE TABLE IF NOT EXISTS t (s text)",
		"INSERT INTO t SELECT repeat(md5(i::text), 30) FROM generate_series(1, 100) i"},
}

// measureNeighbours compares how many transactions the platform's own database commits alone, and
// beside a tenant that uses up its plan.
func measureNeighbours(ctx context.Context, r *Report, b *broker.Broker) (err error) {
	c, err := newBrokerClient(ctx, b, broker.Postgres)
	if err != nil {
		return err
	}
	const path = "/v2/service_instances/neighbour"
	if _, err := c.do(ctx, http.MethodPut, path, c.ids); err != nil {
		return err
	}
	answer, err := c.do(ctx, http.MethodPut, path+"/service_bindings/b", c.ids)
	if err != nil {
		return err
	}
	platform, err := db.Open(ctx, db.Options{URL: "sqlite:" + filepath.Join(r.Scratch, "neighbour.db")})
	if err != nil {
		return err
	}
	defer platform.Close() //nolint:errcheck // it is deleted
	if err := commit(ctx, platform, "CREATE TABLE t (n BIGINT)"); err != nil {
		return err
	}
	long := 5 * time.Second
	if r.Short {
		long = 500 * time.Millisecond
	}
	for _, n := range neighbours {
		var alone, beside float64
		for range 3 { // in turn, because the machine is not always the same
			a, err := rate(ctx, platform, long)
			if err != nil {
				return err
			}
			stop := abuse(ctx, answer.Credentials.URI, n.sessions, n.setup, n.run)
			with, err := rate(ctx, platform, long)
			stop()
			if err != nil {
				return err
			}
			alone, beside = alone+a/3, beside+with/3
		}
		r.Add(Figure{
			Name: "transactions of the platform while a tenant " + n.name, Value: beside, Unit: "/s",
			Beside: &Beside{"alone", alone}, Goal: ShareOf(0.8),
			Detail: fmt.Sprintf("%.0f %% of alone", 100*beside/alone),
		})
	}
	return nil
}

func commit(ctx context.Context, d *db.DB, statement string) error {
	return d.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(statement)
		return err
	})
}

// rate returns the transactions in a second.
func rate(ctx context.Context, d *db.DB, long time.Duration) (float64, error) {
	began, n := time.Now(), 0
	for time.Since(began) < long {
		if err := commit(ctx, d, "INSERT INTO t VALUES (1)"); err != nil {
			return 0, err
		}
		n++
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// abuse repeats a statement in sessions until the function it returns is called.
func abuse(ctx context.Context, uri string, sessions int, setup, run string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range sessions {
		all.Go(func() {
			pool, err := sql.Open("pgx", uri)
			if err != nil {
				return
			}
			defer pool.Close()
			pool.SetMaxOpenConns(1)
			_, _ = pool.ExecContext(ctx, setup) // the tenant may have reached a limit
			for ctx.Err() == nil {
				_, _ = pool.ExecContext(ctx, run) // the same
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}
