package logdb_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/logs/logstest"
)

const writerEnv = "INGOT_TEST_LOG_WRITER"

func TestMain(m *testing.M) {
	if url := os.Getenv(writerEnv); url != "" {
		logstest.WriteForever(func(o logstest.Options) (logs.Store, error) {
			d, err := db.Open(context.Background(), db.Options{URL: url})
			if err != nil {
				return nil, err
			}
			return logdb.Open(context.Background(), d, options(o))
		})
	}
	goleak.VerifyTestMain(m)
}

func options(o logstest.Options) logdb.Options {
	return logdb.Options{PerAppBytes: o.PerAppBytes, TotalBytes: o.TotalBytes, FlushEvery: time.Millisecond,
		PollEvery: 50 * time.Millisecond}
}

func TestStore(t *testing.T) {
	t.Parallel()
	logstest.Run(t, func(t *testing.T) logstest.Location {
		t.Helper()
		url := dbtest.URL(t, db.Postgres)
		d := dbtest.Open(t, url)
		return logstest.Location{
			Open:   func(o logstest.Options) (logs.Store, error) { return logdb.Open(t.Context(), d, options(o)) },
			Settle: func(s logs.Store) error { return s.(*logdb.Store).Maintain(context.WithoutCancel(t.Context())) },
			Break: func() (func(), error) {
				mend := func() { _ = exec(d, "ALTER TABLE log_apps DROP CONSTRAINT broken") }
				return mend, exec(d, "ALTER TABLE log_apps ADD CONSTRAINT broken CHECK (app <> 'a') NOT VALID")
			},
			Environment: []string{writerEnv + "=" + url},
		}
	})
}

func exec(d *db.DB, statement string) error {
	return d.UpdateLocking(context.Background(), func(tx *db.Tx) error {
		if _, err := tx.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
		return nil
	})
}
