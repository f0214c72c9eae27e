//go:build unix

package dbtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest/pgproc"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
)

// Dialects are the databases that Each uses.
var Dialects = []db.Dialect{db.SQLite, db.Postgres}

// Each runs f as parallel sub-tests "sqlite" and "postgres", each with its own
// empty database.
func Each(t *testing.T, f func(t *testing.T, d *db.DB)) {
	t.Helper()
	for _, dialect := range Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			f(t, New(t, dialect))
		})
	}
}

// New opens a fresh empty database with a random keyring. It is closed and
// removed at the end of the test.
func New(t testing.TB, dialect db.Dialect) *db.DB {
	t.Helper()
	return Open(t, URL(t, dialect))
}

// Migrated opens a fresh database that has the tables of m. It is a copy of a
// template, for migrations take longer than most tests.
func Migrated(t testing.TB, dialect db.Dialect, m db.Migrations) *db.DB {
	t.Helper()
	if dialect != db.SQLite {
		server := postgres(t)
		return Open(t, create(t, server, postgresTemplate(t, server, m)))
	}
	content := sqliteTemplate(t, m)
	file := filepath.Join(t.TempDir(), "test.db")
	testkit.Must(t, os.WriteFile(file, content, 0o600))
	return Open(t, "sqlite:"+file)
}

// Open opens the database at a URL, with a random keyring, until the end of the
// test.
func Open(t testing.TB, address string) *db.DB {
	t.Helper()
	d, err := db.Open(context.Background(), db.Options{URL: address, Keys: Keys(t), MaxConns: 8})
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return d
}

// Keys returns a keyring of one random key.
func Keys(t testing.TB) *seal.Keyring {
	t.Helper()
	keys, err := seal.Parse(seal.NewKey())
	testkit.Must(t, err)
	return keys
}

// URL returns the URL of a fresh empty database, which is removed at the end of
// the test.
func URL(t testing.TB, dialect db.Dialect) string {
	t.Helper()
	if dialect == db.SQLite {
		return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	}
	return create(t, postgres(t), "template0")
}

// create returns the URL of a fresh copy of a PostgreSQL database, which is removed
// at the end of the test.
func create(t testing.TB, server, template string) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:16])
	createNamed(t, server, name, template)
	t.Cleanup(func() { admin(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return databaseURL(t, server, name)
}

// createNamed copies template0, never template1, because any connection to that would
// make it fail; C, because text is compared byte by byte.
func createNamed(t testing.TB, server, name, template string) {
	t.Helper()
	admin(t, server, "CREATE DATABASE "+name+" TEMPLATE "+template+" ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
}

func databaseURL(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s is not a URL", pgproc.URLVariable)
	}
	u.Path = "/" + name
	return u.String()
}

// admin opens a new connection: one that is kept would look like a leak
// to tests that count goroutines.
func admin(t testing.TB, server, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("PostgreSQL for tests: %s: %v", statement, err)
	}
}

// started is the private server of this process. It is not stopped explicitly:
// it exits with the process.
var started = sync.OnceValues(func() (*pgproc.Server, error) { return pgproc.Start(context.Background()) })

func postgres(t testing.TB) string {
	t.Helper()
	if os.Getenv("INGOT_TEST_NO_POSTGRES") == "1" {
		t.Skip("INGOT_TEST_NO_POSTGRES is set")
	}
	if address := os.Getenv(pgproc.URLVariable); address != "" {
		return address
	}
	server, err := started()
	if err != nil {
		t.Fatal(fmt.Errorf("%w\n(or set %s to a server's URL, or INGOT_TEST_NO_POSTGRES=1 to skip)", err, pgproc.URLVariable))
	}
	return server.URL
}

// Load runs the statements of a dump on a PostgreSQL database.
func Load(t testing.TB, address, statements string) {
	t.Helper()
	admin(t, address, statements)
}
