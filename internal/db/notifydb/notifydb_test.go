//go:build unix

package notifydb_test

import (
	"testing"

	"ingot/internal/db"
	"ingot/internal/db/dbtest"
	"ingot/internal/db/notifydb"
	"ingot/internal/notify"
	"ingot/internal/notify/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			storetest.Conformance(t, func(t *testing.T) storetest.Open {
				t.Helper()
				return opener(t, dbtest.New(t, dialect))
			})
		})
	}
}

// opener opens stores on one database.
func opener(t testing.TB, d *db.DB) storetest.Open {
	return func(o storetest.Options) notify.Store {
		t.Helper()
		s, err := notifydb.Open(t.Context(), d, notifydb.Options{QueueLimit: o.QueueLimit, Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
