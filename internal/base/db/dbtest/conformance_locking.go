//go:build unix

package dbtest

import (
	"fmt"
	"sync"
	"testing"

	"ingot/internal/base/db"
)

// Values that are changed in place, and rows that only one may insert, need no
// serializable transaction.
func testLockingCountsInPlace(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	const writers, each = 6, 10
	var won sync.Map
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				var n int64
				err := s.db.UpdateLocking(s.ctx, func(tx *db.Tx) (err error) {
					if _, err = tx.Exec("UPDATE items SET count = count + 1 WHERE id = ?", "a"); err != nil {
						return err
					}
					id := fmt.Sprint("key-", i)
					n, err = tx.Exec("INSERT INTO items (id, name) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", id, id)
					return err
				})
				if err != nil {
					t.Error(err)
				}
				if n == 1 {
					if other, taken := won.LoadOrStore(i, w); taken {
						t.Errorf("writers %v and %d both inserted key %d", other, w, i)
					}
				}
			}
		})
	}
	wg.Wait()
	equal(t, "count", s.count(t, "SELECT count FROM items WHERE id = ?", "a"), writers*each)
	equal(t, "items", s.items(t), 1+each)
}

// A statement sees what others committed since the transaction began, which is
// the difference to Update. SQLite has one writer, so no other transaction can.
func testLockingSeesCommitted(t *testing.T, s *suite) {
	s.withItems(t)
	if s.db.Dialect() == db.SQLite {
		s.ok(t, s.db.UpdateLocking(s.ctx, func(tx *db.Tx) error { return insert(tx, "a") }))
		equal(t, "items", s.items(t), 1)
		return
	}
	runs := 0
	s.ok(t, s.db.UpdateLocking(s.ctx, func(tx *db.Tx) error {
		runs++
		before, err := db.One(tx, number, "SELECT COUNT(*) FROM items")
		if err != nil {
			return err
		}
		s.insert(t, fmt.Sprint("other-", runs))
		after, err := db.One(tx, number, "SELECT COUNT(*) FROM items")
		if err != nil {
			return err
		}
		equal(t, "items seen", after, before+1)
		return nil
	}))
	equal(t, "runs", runs, 1)
}

func testLockingRollsBack(t *testing.T, s *suite) {
	s.withItems(t)
	err := s.db.UpdateLocking(s.ctx, func(tx *db.Tx) error {
		if err := insert(tx, "a"); err != nil {
			return err
		}
		return errStop
	})
	wantErr(t, err, errStop)
	equal(t, "items", s.items(t), 0)
}
