//go:build unix

package dbtest_test

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

func TestEach(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := t.Name() == "TestEach/postgres"; d.Shared() != want {
			t.Errorf("%s: Shared is %v", t.Name(), d.Shared())
		}
	})
}
