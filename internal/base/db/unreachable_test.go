//go:build unix

package db_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/db/dbtest/pgproc"
	"ingot/internal/base/fault"
)

// ownPostgres is a server for one test, which may stop it.
func ownPostgres(t *testing.T) *pgproc.Server {
	t.Helper()
	if os.Getenv("INGOT_TEST_NO_POSTGRES") == "1" {
		t.Skip("INGOT_TEST_NO_POSTGRES is set")
	}
	s, err := pgproc.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// An unreachable database is distinguished from a wrong statement, and is
// used again when it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	server := ownPostgres(t)
	d := dbtest.Open(t, server.URL)
	ctx := t.Context()
	write := func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO away VALUES (1)")
		return err
	}
	read := func(tx *db.Tx) error {
		var n int
		return tx.QueryRow("SELECT count(*) FROM away").Scan(&n)
	}
	if err := d.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("CREATE TABLE away (n BIGINT)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// A wrong statement does not mean that the database is unreachable.
	if err := d.View(ctx, func(tx *db.Tx) error {
		var n int
		return tx.QueryRow("SELECT count(*) FROM no_such_table").Scan(&n)
	}); fault.CodeOf(err) != fault.Internal {
		t.Errorf("a wrong statement: %v", err)
	}
	wantAway := func(what string, err error) {
		t.Helper()
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.Unavailable || f.RetryAfter < time.Second {
			t.Errorf("%s: %v, want Unavailable with a time to try again", what, err)
		}
	}
	// Away in the middle of a transaction, also when the caller hides the reason.
	err := d.Update(ctx, func(tx *db.Tx) error {
		if tx.Context().Err() == nil {
			if err := write(tx); err != nil {
				return err
			}
			if err := server.Pause(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if read(tx) == nil {
			t.Error("a statement succeeded without a server")
		}
		return errors.New("something of the caller's own")
	})
	wantAway("in a transaction", err)
	for range 3 {
		wantAway("update", d.Update(ctx, write))
		wantAway("view", d.View(ctx, read))
		wantAway("locking", d.UpdateLocking(ctx, write))
	}
	if d.Ping(ctx) == nil {
		t.Error("ping answers without a server")
	}
	if err := server.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Ping(ctx), d.Update(ctx, write), d.View(ctx, read)); err != nil {
		t.Errorf("it is back: %v", err)
	}
	// Away at the commit: whether it was stored is not known.
	err = d.Update(ctx, func(tx *db.Tx) error {
		if err := write(tx); err != nil {
			return err
		}
		return server.Pause(ctx)
	})
	wantAway("at the commit", err)
	if err := server.Resume(ctx); err != nil {
		t.Fatal(err)
	}
}
