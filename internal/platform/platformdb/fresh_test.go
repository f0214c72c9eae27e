package platformdb_test

import (
	"flag"
	"testing"

	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform/platformdb"
)

var update = flag.Bool("update", false, "write migrations/fresh.sqlite anew")

// TestFresh checks the file that makes the tables of a new database at once.
func TestFresh(t *testing.T) {
	t.Parallel()
	dbtest.Fresh(t, platformdb.Migrations, "migrations/fresh.sqlite", *update)
}
