package notifydb

import (
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// TestWithoutRecipient: an address may be written in any case, and in the reason too; calls about others stay.
func TestWithoutRecipient(t *testing.T) {
	t.Parallel()
	e := &erasure{Erasure: notify.Erasure{Person: notify.Person{UserID: "u-1", Email: "ann@example.com"}}}
	for payload, want := range map[string]string{
		`{"recipient":"Ann@Example.com","reason":"550 <Ann@example.com> unknown","status":"failed"}`: `{"recipient":"","status":"failed"}`,
		`{"recipient":"u-1","status":"delivered"}`:                                                   `{"recipient":"","status":"delivered"}`,
		`{"recipient":"eve@example.com","reason":"ann@example.com?"}`:                                "",
		`{"recipient":"U-1"}`: "",
		`{"status":"x"}`:      "",
		`not JSON`:            "",
	} {
		if got, about := e.withoutRecipient(payload); got != want || about != (want != "") {
			t.Errorf("%s: %q %v, want %q", payload, got, about, want)
		}
	}
}

// TestErasuresInTurn: a client with many erasures does not delay those of another, not even while one of its own is in
// progress.
func TestErasuresInTurn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, err := Open(t.Context(), d, Options{})
		testkit.Must(t, err)
		testkit.Must(t, s.lock(t.Context(), func(tx *db.Tx) error {
			for i, id := range []string{"many-1", "many-2", "many-3", "few-1", "all-1"} {
				client, _, _ := strings.Cut(id, "-")
				if client == "all" {
					client = everyone
				}
				if _, err := tx.Exec(query.Insert("notify_erasures", "id, client_id, user_id, email, addresses, created, finished"),
					id, client, "u", "", "", i, 0); err != nil {
					return err
				}
			}
			return nil
		}))
		order, err := query.Read(t.Context(), d, func(tx *db.Tx) ([]string, error) {
			return db.All(tx, query.ScanText, openErasures, 4)
		})
		testkit.Must(t, err)
		if want := []string{"all-1", "few-1", "many-1", "many-2"}; !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
		unlock, err := s.erasers.Lock(t.Context(), "many")
		testkit.Must(t, err)
		if left, err := s.ContinueErasures(t.Context()); err != nil || left != 3 {
			t.Errorf("%d erasures are left while a client's turn is taken (%v), want its 3", left, err)
		}
		unlock()
		if left, err := s.ContinueErasures(t.Context()); err != nil || left != 0 {
			t.Errorf("%d erasures are left (%v), want none", left, err)
		}
	})
}
