//go:build unix

package dbtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"ingot/internal/base/db"
)

func testCommit(t *testing.T, s *suite) {
	s.withItems(t)
	s.must(t, func(tx *db.Tx) error {
		if err := insert(tx, "a"); err != nil {
			return err
		}
		n, err := db.One(tx, number, "SELECT COUNT(*) FROM items")
		if err != nil || n != 1 {
			return fmt.Errorf("own write not seen: %d, %w", n, err)
		}
		changed, err := tx.Exec("UPDATE items SET count = 5 WHERE id IN (?, ?)", "a", "b")
		if err != nil || changed != 1 {
			return fmt.Errorf("%d rows changed, %w", changed, err)
		}
		equal(t, "dialect", tx.Dialect(), s.db.Dialect())
		return nil
	})
	equal(t, "count", s.count(t, "SELECT count FROM items WHERE id = ?", "a"), 5)
	s.ok(t, s.db.Ping(s.ctx))
}

func testRollback(t *testing.T, s *suite) {
	s.withItems(t)
	err := s.db.Update(s.ctx, func(tx *db.Tx) error {
		if err := insert(tx, "a"); err != nil {
			return err
		}
		return errStop
	})
	wantErr(t, err, errStop)
	equal(t, "items", s.items(t), 0)
	s.stillWrites(t)
}

func testPanic(t *testing.T, s *suite) {
	s.withItems(t)
	func() {
		defer func() { equal(t, "panic", recover(), any("boom")) }()
		s.db.Update(s.ctx, func(tx *db.Tx) error { //nolint:errcheck // it panics
			if err := insert(tx, "a"); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	equal(t, "items", s.items(t), 0)
	s.stillWrites(t)
}

func testGoexit(t *testing.T, s *suite) {
	s.withItems(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		s.db.Update(s.ctx, func(tx *db.Tx) error { //nolint:errcheck // it does not return
			if err := insert(tx, "a"); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
	})
	wg.Wait()
	equal(t, "items", s.items(t), 0)
	s.stillWrites(t)
}

func testCancelInside(t *testing.T, s *suite) {
	s.withItems(t)
	cause := errors.New("the client went away")
	for range 20 { // the driver's watcher and ours race: let both win sometimes
		ctx, cancel := context.WithCancelCause(s.ctx)
		err := s.db.Update(ctx, func(tx *db.Tx) error {
			if err := insert(tx, "a"); err != nil {
				return err
			}
			cancel(cause)
			return insert(tx, "b")
		})
		wantErr(t, err, cause)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	err := s.db.Update(ctx, func(tx *db.Tx) error { // the cancellation is ignored
		defer cancel(cause)
		return insert(tx, "a")
	})
	wantErr(t, err, cause)
	equal(t, "items", s.items(t), 0)
	s.stillWrites(t)
}

func testCancelWhileWaiting(t *testing.T, s *suite) {
	s.withItems(t)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	ran := false
	err := s.db.Update(ctx, func(*db.Tx) error { ran = true; return nil })
	wantErr(t, err, context.Canceled)
	equal(t, "ran", ran, false)

	// One holds the writer, another waits for it and gives up.
	ctx, cancel = context.WithCancel(s.ctx)
	defer cancel()
	s.must(t, func(tx *db.Tx) error {
		if err := insert(tx, "a"); err != nil {
			return err
		}
		done := make(chan error)
		go func() {
			done <- s.db.Update(ctx, func(tx *db.Tx) error { return insert(tx, "a") })
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the waiting one ended with %w", err)
		}
		return nil
	})
	equal(t, "items", s.items(t), 1)
	s.stillWrites(t)
}

func testCancelStopsLongQuery(t *testing.T, s *suite) {
	s.withItems(t)
	const endless = `WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n)
		SELECT COUNT(*) FROM n WHERE i < 0`
	for name, run := range map[string]func(context.Context, func(*db.Tx) error) error{"update": s.db.Update,
		"view": s.db.View} {
		ctx, cancel := context.WithCancel(s.ctx)
		started := make(chan struct{})
		go func() { <-started; cancel() }()
		err := run(ctx, func(tx *db.Tx) error {
			close(started)
			var n int64
			return tx.QueryRow(endless).Scan(&n)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want canceled", name, err)
		}
	}
	s.stillWrites(t)
}

func testNoNesting(t *testing.T, s *suite) {
	s.withItems(t)
	s.must(t, func(tx *db.Tx) error {
		if err := s.db.Update(tx.Context(), func(*db.Tx) error { return nil }); err == nil {
			t.Error("an Update inside an Update was let through")
		}
		if err := s.db.View(tx.Context(), func(*db.Tx) error { return nil }); err == nil {
			t.Error("a View inside an Update was let through")
		}
		return nil
	})
}

func testUsedAfterEnd(t *testing.T, s *suite) {
	s.withItems(t)
	var kept *db.Tx
	s.must(t, func(tx *db.Tx) error { kept = tx; return nil })
	if err := insert(kept, "a"); err == nil {
		t.Error("a statement ran after the end of its transaction")
	}
}

func testRowsLeftOpen(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	s.insert(t, "b")
	err := s.db.Update(s.ctx, func(tx *db.Tx) error {
		rows, err := tx.Query("SELECT id FROM items") //nolint:sqlclosecheck // left open on purpose
		if err != nil {
			return err
		}
		rows.Next()
		return rows.Err()
	})
	wantErr(t, err, db.ErrRowsOpen)
	err = s.db.Update(s.ctx, func(tx *db.Tx) error {
		rows, err := tx.Query("SELECT id FROM items")
		if err != nil {
			return err
		}
		defer rows.Close()
		rows.Next()
		return errors.Join(rows.Err(), insert(tx, "c"))
	})
	wantErr(t, err, db.ErrRowsOpen)
	func() {
		defer func() { _ = recover() }()
		s.db.View(s.ctx, func(tx *db.Tx) error { //nolint:errcheck // it panics
			rows, err := tx.Query("SELECT id FROM items") //nolint:sqlclosecheck // left open on purpose
			if err != nil {
				return err
			}
			panic(fmt.Sprint("with rows open ", rows.Err()))
		})
	}()
	s.stillWrites(t)
	s.must(t, func(tx *db.Tx) error {
		rows, err := tx.Query("SELECT id FROM items") //nolint:sqlclosecheck // rows read to their end need no Close
		if err != nil {
			return err
		}
		for rows.Next() { //nolint:revive // only to its end
		}
		return errors.Join(rows.Err(), insert(tx, "d"))
	})
}

func testFailedStatementDooms(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	err := s.db.Update(s.ctx, func(tx *db.Tx) error {
		if err := insert(tx, "b"); err != nil {
			return err
		}
		if err := insert(tx, "a"); !db.IsConflict(err) {
			return fmt.Errorf("no conflict but %w", err)
		}
		if err := insert(tx, "c"); err == nil {
			return errors.New("a statement ran after a failed one")
		}
		return nil // the failure is ignored
	})
	if !db.IsConflict(err) {
		t.Fatalf("%v, want the ignored conflict", err)
	}
	equal(t, "items", s.items(t), 1)
	s.must(t, func(tx *db.Tx) error { // the way to live with a conflict
		n, err := tx.Exec("INSERT INTO items (id, name) VALUES (?, ?) ON CONFLICT DO NOTHING", "a", "x")
		equal(t, "inserted", n, 0)
		return errors.Join(err, insert(tx, "c"))
	})
}

func testClosed(t *testing.T, s *suite) {
	s.withItems(t)
	s.ok(t, s.db.Close())
	s.ok(t, s.db.Close())
	nothing := func(*db.Tx) error { return nil }
	wantErr(t, s.db.Update(s.ctx, nothing), db.ErrClosed)
	wantErr(t, s.db.View(s.ctx, nothing), db.ErrClosed)
	wantErr(t, s.db.Ping(s.ctx), db.ErrClosed)
	wantErr(t, s.db.Migrate(s.ctx, db.Migrations{Name: "x", Files: files()}), db.ErrClosed)
}
