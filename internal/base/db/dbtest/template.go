//go:build unix

package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/db"
	"ingot/internal/base/testkit"
)

// templates are the migrated databases: the content of the SQLite files by the name
// of the migrations, and the PostgreSQL databases that are known to exist.
var templates struct {
	sync.Mutex
	files     map[string][]byte
	databases map[string]bool
}

// sqliteTemplate returns the file of a migrated database. It is made once per
// process.
func sqliteTemplate(t testing.TB, m db.Migrations) []byte {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	if content := templates.files[m.Name]; content != nil {
		return content
	}
	file := filepath.Join(t.TempDir(), "template.db")
	migrate(t, "sqlite:"+file, m) // Close writes everything into the one file
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	if templates.files == nil {
		templates.files = map[string][]byte{}
	}
	templates.files[m.Name] = content
	return content
}

// postgresTemplate returns the name of a migrated database. It is made once per
// server, so its name has a checksum of the migrations. Tests do not connect to it: a
// database that is in use cannot be copied.
func postgresTemplate(t testing.TB, server string, m db.Migrations) string {
	t.Helper()
	name := "template_" + m.Name + "_" + checksum(t, m)
	templates.Lock()
	defer templates.Unlock()
	if templates.databases[name] {
		return name
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	defer conn.Close(ctx)
	// Other processes need the same template. The lock ends with the connection.
	var exists bool
	_, err = conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name)
	if err == nil {
		err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	}
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	if !exists {
		// It gets its name when it is complete.
		unfinished := name + "_new"
		admin(t, server, "DROP DATABASE IF EXISTS "+unfinished+" WITH (FORCE)")
		createNamed(t, server, unfinished, "template0")
		migrate(t, databaseURL(t, server, unfinished), m)
		admin(t, server, "ALTER DATABASE "+unfinished+" RENAME TO "+name)
	}
	if templates.databases == nil {
		templates.databases = map[string]bool{}
	}
	templates.databases[name] = true
	return name
}

// checksum returns a short checksum of the files of migrations.
func checksum(t testing.TB, m db.Migrations) string {
	t.Helper()
	names, err := fs.Glob(m.Files, "*.sql")
	testkit.Must(t, err)
	sum := sha256.New()
	for _, name := range names {
		content, err := fs.ReadFile(m.Files, name)
		testkit.Must(t, err)
		sum.Write([]byte(name + "\x00"))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// migrate creates the tables of m in the database at a URL and closes it.
func migrate(t testing.TB, address string, m db.Migrations) {
	t.Helper()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{URL: address, Keys: Keys(t), MaxConns: 1})
	testkit.Must(t, err)
	testkit.Must(t, d.Migrate(ctx, m))
	testkit.Must(t, d.Close())
}
