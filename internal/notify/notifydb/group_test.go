//go:build unix

package notifydb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/storetest"
)

// acceptAll accepts n sends at once, and returns the error of each.
func acceptAll(ctx context.Context, s notify.Store, n int, send func(i int) notify.NewSend) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, _, errs[i] = s.Accept(ctx, send(i)) })
	}
	wg.Wait()
	return errs
}

// TestGroupFailure sees that a send that the database refuses fails alone: those that share its commit are
// stored, and nothing is left of it.
func TestGroupFailure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := opener(t, d)(storetest.Options{})
		if err := d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("CREATE UNIQUE INDEX once ON notify_sends (client_id) WHERE client_id = 'once'")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		const n = 60
		bad := func(i int) bool { return i%7 == 0 }
		errs := acceptAll(t.Context(), s, n, func(i int) notify.NewSend {
			send := single(int64(i))
			if bad(i) {
				send.ClientID = "once"
			}
			return send
		})
		stored, once := 0, 0
		for i, err := range errs {
			switch {
			case err == nil && bad(i):
				once++
			case err == nil:
			case !bad(i):
				t.Errorf("send %d: %v", i, err)
			case !errors.Is(err, notify.ErrConflict):
				t.Errorf("send %d: %v, want a conflict", i, err)
			}
			if err == nil {
				stored++
			}
		}
		if once != 1 {
			t.Errorf("%d sends of the client were stored, want 1", once)
		}
		expect(t, d, s, stored)
	})
}

// expect checks how many sends there are, each with its message, and that all of them wait.
func expect(t *testing.T, d *db.DB, s notify.Store, want int) {
	t.Helper()
	var sends, messages int
	if err := d.View(t.Context(), func(tx *db.Tx) error {
		if err := tx.QueryRow("SELECT COUNT(*) FROM notify_sends").Scan(&sends); err != nil {
			return err
		}
		return tx.QueryRow("SELECT COUNT(*) FROM notify_messages m JOIN notify_sends s ON s.number = m.number / ?",
			notify.MessageNumber(1, 0)).Scan(&messages)
	}); err != nil {
		t.Fatal(err)
	}
	waiting, err := s.Waiting(t.Context())
	if err != nil || sends != want || messages != want || waiting != want {
		t.Errorf("%d sends, %d messages, %d waiting, error %v; want %d of each", sends, messages, waiting, err, want)
	}
}

// TestGroupOnFullDisk sees that a full disk loses no send that was acknowledged and keeps none that was
// refused, and that sends are accepted again when there is space.
func TestGroupOnFullDisk(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	s := opener(t, d)(storetest.Options{})
	limit := func(pages string) {
		t.Helper()
		if err := d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("PRAGMA max_page_count = " + pages)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var pages int
	if err := d.View(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRow("SELECT page_count FROM pragma_page_count").Scan(&pages)
	}); err != nil {
		t.Fatal(err)
	}
	limit(fmt.Sprint(pages + 20))
	stored, refused := 0, 0
	for range 5 {
		for _, err := range acceptAll(t.Context(), s, 100, func(i int) notify.NewSend { return single(int64(i)) }) {
			switch {
			case err == nil:
				stored++
			case fault.Is(err, fault.InsufficientStorage):
				refused++
			default:
				t.Fatal(err)
			}
		}
	}
	if stored == 0 || refused == 0 {
		t.Errorf("%d stored, %d refused, want some of each", stored, refused)
	}
	expect(t, d, s, stored)
	limit("1000000")
	for _, err := range acceptAll(t.Context(), s, 50, func(i int) notify.NewSend { return single(int64(i)) }) {
		if err != nil {
			t.Fatal(err)
		}
		stored++
	}
	expect(t, d, s, stored)
}
