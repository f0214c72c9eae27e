//go:build unix

package dbtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
)

const secretColumn = "items.secret"

var sealedItems = []db.SealedColumn{{Table: "items", Key: "id", Column: "secret"}}

func keyring(t *testing.T, keys ...string) *seal.Keyring {
	t.Helper()
	k, err := seal.Parse(strings.Join(keys, "\n"))
	testkit.Must(t, err)
	return k
}

func putSecret(tx *db.Tx, id, secret string) error {
	_, err := tx.Exec("UPDATE items SET secret = ? WHERE id = ?", tx.Seal(secretColumn, id, []byte(secret)), id)
	return err
}

func getSecret(tx *db.Tx, id string) (string, error) {
	sealed, err := db.One(tx, text, "SELECT secret FROM items WHERE id = ?", id)
	if err != nil {
		return "", err
	}
	plain, err := tx.Unseal(secretColumn, id, sealed)
	return string(plain), err
}

func testSeal(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	s.insert(t, "b")
	s.must(t, func(tx *db.Tx) error { return putSecret(tx, "a", "hunter2 ☃") })
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		stored, err := db.One(tx, text, "SELECT secret FROM items WHERE id = 'a'")
		if err != nil || strings.Contains(stored, "hunter2") {
			return fmt.Errorf("stored %q, %w", stored, err)
		}
		got, err := getSecret(tx, "a")
		equal(t, "secret", got, "hunter2 ☃")
		return err
	}))
	s.must(t, func(tx *db.Tx) error { // what a thief with write access would try
		_, err := tx.Exec("UPDATE items SET secret = (SELECT secret FROM items WHERE id = 'a') WHERE id = 'b'")
		return err
	})
	err := s.db.View(s.ctx, func(tx *db.Tx) error {
		_, err := getSecret(tx, "b")
		return err
	})
	wantErr(t, err, seal.ErrTampered)
}

func testRotation(t *testing.T, s *suite) {
	s.withItems(t)
	first, second := seal.NewKey(), seal.NewKey()
	s.db.SetKeys(keyring(t, first))
	const rows = 250 // more than two batches
	s.must(t, func(tx *db.Tx) error {
		for i := range rows {
			id := fmt.Sprintf("%04d", i)
			if err := errors.Join(insert(tx, id), putSecret(tx, id, "secret "+id)); err != nil {
				return err
			}
		}
		return errors.Join(insert(tx, "null"), insert(tx, "empty"))
	})
	s.must(t, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE items SET secret = '' WHERE id = 'empty'")
		return err
	})
	readAll := func() error {
		return s.db.View(s.ctx, func(tx *db.Tx) error {
			for i := range rows {
				id := fmt.Sprintf("%04d", i)
				got, err := getSecret(tx, id)
				if err != nil || got != "secret "+id {
					return fmt.Errorf("%s: %q, %w", id, got, err)
				}
			}
			return nil
		})
	}

	s.db.SetKeys(keyring(t, second, first))
	s.ok(t, readAll())
	n, err := s.db.Reseal(s.ctx, sealedItems)
	s.ok(t, err)
	equal(t, "resealed", n, rows)
	n, err = s.db.Reseal(s.ctx, sealedItems)
	s.ok(t, err)
	equal(t, "resealed again", n, 0)

	s.db.SetKeys(keyring(t, second)) // the old key is gone
	s.ok(t, readAll())

	// A key that is lost is named, and does not stop the rest.
	s.db.SetKeys(keyring(t, first))
	s.must(t, func(tx *db.Tx) error { return putSecret(tx, "0007", "lost") })
	s.db.SetKeys(keyring(t, seal.NewKey(), second))
	n, err = s.db.Reseal(s.ctx, sealedItems)
	wantErr(t, err, seal.ErrUnknownKey)
	equal(t, "resealed beside a lost one", n, rows-1)
	if !strings.Contains(err.Error(), "0007") {
		t.Errorf("%v does not name the row", err)
	}
	if _, err := s.db.Reseal(s.ctx, []db.SealedColumn{{Table: "items; DROP", Key: "id", Column: "secret"}}); err == nil {
		t.Error("a table name that is none was accepted")
	}
}

func testResealBesideWriters(t *testing.T, s *suite) {
	s.withItems(t)
	first, second := seal.NewKey(), seal.NewKey()
	s.db.SetKeys(keyring(t, first))
	const rows = 120
	s.must(t, func(tx *db.Tx) error {
		for i := range rows {
			id := fmt.Sprint(i)
			if err := errors.Join(insert(tx, id), putSecret(tx, id, "old")); err != nil {
				return err
			}
		}
		return nil
	})
	s.db.SetKeys(keyring(t, second, first))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range rows / 2 {
			if err := s.db.Update(s.ctx, func(tx *db.Tx) error { return putSecret(tx, fmt.Sprint(i*2), "new") }); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		if _, err := s.db.Reseal(s.ctx, sealedItems); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	s.db.SetKeys(keyring(t, second))
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		for i := range rows {
			want := "old"
			if i%2 == 0 {
				want = "new"
			}
			got, err := getSecret(tx, fmt.Sprint(i))
			if err != nil || got != want {
				return fmt.Errorf("row %d: %q, %w; want %q", i, got, err, want)
			}
		}
		return nil
	}))
}
