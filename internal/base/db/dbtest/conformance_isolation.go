//go:build unix

package dbtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"ingot/internal/base/db"
)

func testNoLostUpdate(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	const writers, each = 6, 10
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				err := s.db.Update(s.ctx, func(tx *db.Tx) error {
					n, err := db.One(tx, number, "SELECT count FROM items WHERE id = ?", "a")
					if err != nil {
						return err
					}
					_, err = tx.Exec("UPDATE items SET count = ? WHERE id = ?", n+1, "a")
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equal(t, "count", s.count(t, "SELECT count FROM items WHERE id = ?", "a"), writers*each)
}

// Two transactions read the same rows and each writes another one: a snapshot
// alone does not notice.
func testNoWriteSkew(t *testing.T, s *suite) {
	s.withItems(t)
	for round := range 5 {
		a, b := fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)
		s.insert(t, a)
		s.insert(t, b)
		s.must(t, func(tx *db.Tx) error {
			_, err := tx.Exec("UPDATE items SET enabled = TRUE WHERE id IN (?, ?)", a, b)
			return err
		})
		// Each may switch itself off only while the other is on.
		var both sync.WaitGroup
		both.Add(2)
		var wg sync.WaitGroup
		for _, id := range []string{a, b} {
			var once sync.Once
			wg.Go(func() {
				err := s.db.Update(s.ctx, func(tx *db.Tx) error {
					n, err := db.One(tx, number, "SELECT COUNT(*) FROM items WHERE enabled AND id IN (?, ?)", a, b)
					if err != nil {
						return err
					}
					once.Do(both.Done)
					if s.db.Dialect() == db.Postgres {
						both.Wait() // SQLite would wait for ever: it has one writer
					}
					if n < 2 {
						return errStop
					}
					_, err = tx.Exec("UPDATE items SET enabled = FALSE WHERE id = ?", id)
					return err
				})
				if err != nil && !errors.Is(err, errStop) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		equal(t, "left on", s.count(t, "SELECT COUNT(*) FROM items WHERE enabled AND id IN (?, ?)", a, b), 1)
	}
}

func testManyWriters(t *testing.T, s *suite) {
	s.withItems(t)
	const writers, each = 32, 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := s.db.Update(s.ctx, func(tx *db.Tx) error { return insert(tx, fmt.Sprintf("%d-%d", w, i)) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equal(t, "items", s.items(t), writers*each)
}

func testViewIsReadOnly(t *testing.T, s *suite) {
	s.withItems(t)
	for _, write := range []string{"INSERT INTO items (id, name) VALUES ('a', 'b')", "DELETE FROM items",
		"CREATE TABLE x (id TEXT)"} {
		for _, run := range []func(context.Context, func(*db.Tx) error) error{s.db.View, s.db.Read} {
			wantErr(t, run(s.ctx, func(tx *db.Tx) error {
				_, err := tx.Exec(write)
				return err
			}), db.ErrReadOnly)
		}
	}
	wantErr(t, s.db.Read(s.ctx, func(tx *db.Tx) error {
		_, err := db.All(tx, number, "INSERT INTO items (id, name) VALUES ('a', 'b') RETURNING 1")
		return err
	}), db.ErrReadOnly)
	equal(t, "items", s.items(t), 0)
}

// testRead reads much at once: each call returns its connection, also after an error, a panic or rows that
// were left open.
func testRead(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	for range 50 {
		n, err := db.Within(s.ctx, s.db.Read, func(tx *db.Tx) (int64, error) {
			return db.One(tx, number, "SELECT COUNT(*) FROM items WHERE id = ?", "a")
		})
		s.ok(t, err)
		equal(t, "items", n, int64(1))
		wantErr(t, s.db.Read(s.ctx, func(tx *db.Tx) error {
			_, err := db.One(tx, number, "SELECT COUNT(*) FROM items WHERE id = ? GROUP BY id", "none")
			return err
		}), db.ErrNotFound)
		wantErr(t, s.db.Read(s.ctx, func(tx *db.Tx) error {
			_, err := tx.Query("SELECT id FROM items") //nolint:rowserrcheck,sqlclosecheck,gocritic // the mistake
			return err
		}), db.ErrRowsOpen)
		func() {
			defer func() { equal(t, "panic", recover(), any("boom")) }()
			s.db.Read(s.ctx, func(*db.Tx) error { panic("boom") }) //nolint:errcheck // it panics
		}()
	}
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	wantErr(t, s.db.Read(gone, func(*db.Tx) error { return nil }), context.Canceled)
	s.stillWrites(t)
}

func testViewIsSnapshot(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		before, err := db.One(tx, number, "SELECT COUNT(*) FROM items")
		if err != nil {
			return err
		}
		s.insert(t, "b") // does not wait for us either
		after, err := db.One(tx, number, "SELECT COUNT(*) FROM items")
		equal(t, "items in the snapshot", after, before)
		return err
	}))
	equal(t, "items", s.items(t), 2)
}

func testConflict(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	for _, dup := range [][2]string{{"a", "other"}, {"b", "name of a"}} {
		err := s.db.Update(s.ctx, func(tx *db.Tx) error {
			_, err := tx.Exec("INSERT INTO items (id, name) VALUES (?, ?)", dup[0], dup[1])
			if err != nil {
				return fmt.Errorf("create: %w", err)
			}
			return nil
		})
		var conflict *db.ConflictError
		if !errors.As(err, &conflict) || !db.IsConflict(err) || conflict.Constraint == "" {
			t.Fatalf("%v (%+v), want a conflict with a name", err, conflict)
		}
	}
	if db.IsConflict(errStop) || db.IsConflict(nil) {
		t.Error("IsConflict is true for anything")
	}
	err := s.db.Update(s.ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO items (id, name) VALUES (?, ?)", "c", nil)
		return err
	})
	if err == nil || db.IsConflict(err) {
		t.Errorf("NULL in a NOT NULL column: %v", err)
	}
}

func testForeignKeys(t *testing.T, s *suite) {
	s.withItems(t)
	part := func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO parts (id, item) VALUES ('p', 'a')")
		return err
	}
	if err := s.db.Update(s.ctx, part); err == nil || db.IsConflict(err) {
		t.Fatalf("a part without its item: %v", err)
	}
	s.insert(t, "a")
	s.must(t, part)
	s.must(t, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM items")
		return err
	})
	equal(t, "parts", s.count(t, "SELECT COUNT(*) FROM parts"), 0)
}

func testNotFound(t *testing.T, s *suite) {
	s.withItems(t)
	s.must(t, func(tx *db.Tx) error {
		var id string
		wantErr(t, tx.QueryRow("SELECT id FROM items").Scan(&id), db.ErrNotFound)
		_, err := db.One(tx, text, "SELECT id FROM items")
		wantErr(t, err, db.ErrNotFound)
		list, err := db.All(tx, text, "SELECT id FROM items")
		if err != nil || list == nil || len(list) != 0 {
			return fmt.Errorf("All of nothing: %v, %w", list, err)
		}
		return insert(tx, "a") // not finding something is no failure
	})
	equal(t, "items", s.items(t), 1)
}
