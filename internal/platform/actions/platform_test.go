package actions_test

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/platformdb"
)

// A second start with --demo changes nothing: no second organization, no further
// roles, no further audit events.
func TestDefaultsAndDemoTwice(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	store, p := platformdb.New(d), actions.New()
	count := func() (counts [6]int) {
		t.Helper()
		err := store.View(t.Context(), func(tx platform.Tx) error {
			for i, of := range []func(platform.Query) (int, error){
				tx.Organizations().Count, tx.Spaces().Count, tx.Roles().Count, tx.Domains().Count, tx.Stacks().Count,
				tx.AuditEvents().Count,
			} {
				n, err := of(platform.Query{})
				if err != nil {
					return err
				}
				counts[i] = n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	start := func() {
		t.Helper()
		for _, f := range []func(platform.Tx) error{
			func(tx platform.Tx) error { return p.EnsureDefaults(tx, "localhost") },
			func(tx platform.Tx) error { return p.EnsureDemo(tx, "admin-guid") },
		} {
			if err := store.Update(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
	}
	start()
	first := count()
	if first[0] != 1 || first[1] != 1 || first[2] == 0 || first[3] != 2 || first[4] != 1 {
		t.Errorf("got %v organizations, spaces, roles, domains, stacks and events, want 1, 1, some, 2, 1, some", first)
	}
	start()
	if again := count(); again != first {
		t.Errorf("after a second start got %v, want %v", again, first)
	}
}
