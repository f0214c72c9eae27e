//go:build unix

package platformdb_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// sink notes what it is told, and whether the transaction could be seen by then.
type sink struct {
	store *platformdb.Store
	told  []platform.Changes
	seen  []int // organizations in the store
}

func (s *sink) Changed(ctx context.Context, c platform.Changes) {
	n := -1
	_ = s.store.View(ctx, func(tx platform.Tx) (err error) {
		n, err = tx.Organizations().Count(platform.Query{})
		return err
	})
	s.told, s.seen = append(s.told, c), append(s.seen, n)
}

// What a transaction announces reaches the sink once, after the commit; what was
// rolled back does not.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := open(t, d)
		to := &sink{store: store}
		store.Notify(to)
		insert := func(name string, fail error) error {
			return store.Update(t.Context(), func(tx platform.Tx) error {
				tx.Announce(platform.Changes{Routes: []string{"r-" + name}, Lines: []platform.LogLine{{App: name}}})
				tx.Announce(platform.Changes{Names: true})
				if err := tx.Organizations().Insert(&platform.Organization{Name: name}); err != nil {
					return err
				}
				return fail
			})
		}
		broken := errors.New("broken")
		if err := insert("a", broken); !errors.Is(err, broken) {
			t.Fatalf("got %v, want %v", err, broken)
		}
		if err := insert("b", nil); err != nil {
			t.Fatal(err)
		}
		if err := insert("b", nil); err == nil {
			t.Fatal("the same name was stored twice")
		}
		// The Sink is not called for a transaction that announces nothing.
		if err := store.Update(t.Context(), func(tx platform.Tx) error {
			return tx.Organizations().
				Insert(&platform.Organization{Name: "c"})
		}); err != nil {
			t.Fatal(err)
		}
		// A reader has nothing to announce.
		if err := store.View(t.Context(), func(tx platform.Tx) error {
			tx.Announce(platform.Changes{Names: true})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := []platform.Changes{{Routes: []string{"r-b"}, Lines: []platform.LogLine{{App: "b"}}, Names: true}}
		if !reflect.DeepEqual(to.told, want) {
			t.Errorf("got %+v, want %+v", to.told, want)
		}
		if want := []int{1}; !reflect.DeepEqual(to.seen, want) {
			t.Errorf("the sink saw %v organizations, want %v", to.seen, want)
		}
	})
}

// A transaction that the database runs again announces what its last run did.
func TestAnnounceAgain(t *testing.T) {
	t.Parallel()
	store := open(t, dbtest.New(t, db.SQLite))
	to := &sink{store: store}
	store.Notify(to)
	runs := 0
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		runs++
		tx.Announce(platform.Changes{Routes: []string{"r"}})
		if runs == 1 {
			return &pgconn.PgError{Code: "40001"} // serialization_failure
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Fatalf("got %v after %d runs, want nil after 2", err, runs)
	}
	if want := []platform.Changes{{Routes: []string{"r"}}}; !reflect.DeepEqual(to.told, want) {
		t.Errorf("got %+v, want %+v", to.told, want)
	}
}

// faultySink panics.
type faultySink struct{}

func (faultySink) Changed(context.Context, platform.Changes) { panic("a fault in the sink") }

// TestSinkPanics checks that a committed write succeeds even if its sink panics.
func TestSinkPanics(t *testing.T) {
	t.Parallel()
	store := platformdb.New(dbtest.Migrated(t, db.SQLite, platformdb.Migrations))
	store.Notify(faultySink{})
	org := &platform.Organization{Name: "a"}
	if err := store.Update(t.Context(), func(tx platform.Tx) error {
		tx.Announce(platform.Changes{Names: true})
		return tx.Organizations().Insert(org)
	}); err != nil {
		t.Errorf("the write returned %v, want success", err)
	}
	if err := store.View(t.Context(), func(tx platform.Tx) error {
		_, err := tx.Organizations().
			Get(org.GUID)
		return err
	}); err != nil {
		t.Errorf("the organization cannot be read: %v", err)
	}
}
