//go:build unix

package db_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
)

// warnings is a log handler that passes on the messages of warnings.
type warnings struct {
	slog.Handler
	messages chan<- string
}

func (w warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
		w.messages <- text
	}
	return nil
}

// TestMigrateBesideTransactions: while servers use the database, a migration that locks two tables fails because of
// transactions that lock them in the other order, or hold a lock for long. It is repeated, and succeeds when they are
// over.
func TestMigrateBesideTransactions(t *testing.T) {
	t.Parallel()
	const (
		tables = "-- +goose Up\nCREATE TABLE one (id TEXT);\nCREATE TABLE two (id TEXT);\n"
		change = "ALTER TABLE one ADD COLUMN extra TEXT;\nALTER TABLE two ADD COLUMN extra TEXT;\n"
		// waiting is how many statements wait for a lock of a table.
		waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass($1)"
	)
	for name, test := range map[string]struct {
		set    string // what the migration begins with
		second string // the table that the transaction reads while the migration waits for it to end
		want   string // in the log
	}{
		"deadlock": {set: "SET LOCAL deadlock_timeout = '50ms';\n", second: "one", want: "40P01"},
		"lock":     {set: "SET LOCAL lock_timeout = '50ms';\n", want: "55P03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, address, messages := t.Context(), dbtest.URL(t, db.Postgres), make(chan string, 100)
			d, err := db.Open(ctx, db.Options{URL: address, Log: slog.New(warnings{messages: messages})})
			testkit.Must(t, err)
			defer d.Close()
			files := fstest.MapFS{"00001_tables.sql": {Data: []byte(tables)}}
			m := db.Migrations{Name: "demo", Files: files}
			testkit.Must(t, d.Migrate(ctx, m))
			// The file waits between its tables for a lock of the test, so that its second one completes the deadlock: whose
			// lock does fails.
			head, tail, _ := strings.Cut(change, "\n")
			files["00002_change.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + test.set + head +
				"\nSELECT pg_advisory_xact_lock(7);\n" + tail)}
			if test.second == "" {
				files["00002_change.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + test.set + change)}
			}

			connect := func() *pgx.Conn {
				conn, err := pgx.Connect(ctx, address)
				testkit.Must(t, err)
				t.Cleanup(func() { testkit.Must(t, conn.Close(context.WithoutCancel(ctx))) })
				return conn
			}
			watch, server := connect(), connect()
			exec := func(conn *pgx.Conn, statement string) {
				t.Helper()
				if _, err := conn.Exec(ctx, statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			number := func(query string, args ...any) (n int) {
				t.Helper()
				testkit.Must(t, watch.QueryRow(ctx, query, args...).Scan(&n))
				return n
			}
			exec(watch, "SELECT pg_advisory_lock(7)")
			exec(server, "SET deadlock_timeout = '1h'") // the migration notices it
			exec(server, "BEGIN")
			exec(server, "SELECT * FROM two")
			migrated := make(chan error, 1)
			go func() { migrated <- d.Migrate(ctx, m) }()
			if test.second != "" {
				testkit.Eventually(t, "the migration to lock its first table", func() bool {
					return number("SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND objid = 7") == 1
				})
				read := make(chan error, 1)
				go func() {
					_, err := server.Exec(ctx, "SELECT * FROM "+test.second)
					read <- err
				}()
				testkit.Eventually(t, "the transaction to wait for the migration",
					func() bool { return number(waiting, test.second) == 1 })
				exec(watch, "SELECT pg_advisory_unlock(7)")
				testkit.Must(t, <-read)
			}
			var message string
			select {
			case message = <-messages:
			case err := <-migrated:
				t.Fatalf("the migration is not repeated: %v", err)
			}
			for _, part := range []string{"migration is repeated", "00002_change.sql", test.want} {
				if !strings.Contains(message, part) {
					t.Errorf("the log says %q, want %q", message, part)
				}
			}
			exec(server, "COMMIT")
			if err := <-migrated; err != nil {
				t.Fatal(err)
			}
			if n := number("SELECT COUNT(*) FROM information_schema.columns WHERE column_name = 'extra'"); n != 2 {
				t.Errorf("%d of 2 tables are migrated", n)
			}
			if n := number("SELECT COUNT(*) FROM demo_migrations WHERE version_id = 2"); n != 1 {
				t.Errorf("the file is recorded %d times, want once", n)
			}
		})
	}
}
