//go:build unix

package system

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/auth/authdb"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify/notifydb"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/platformdb"
	"ingot/internal/server/databases"
	"ingot/internal/server/dbcopy"
)

// TestCopyDatabase moves a server with an app, a user and a notification from SQLite to
// PostgreSQL, and from there to another PostgreSQL.
func TestCopyDatabase(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.DataDir = passableDir(t)
	f := &faultySite{T: t, System: startSystem(t, c)}
	f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
	org := f.create("/v3/organizations", map[string]any{"name": "org"})
	f.space = f.create("/v3/spaces", map[string]any{"name": "space", "relationships": to("organization", org)})
	app, pkg := f.app("app")
	if !f.build(app, pkg) {
		t.Fatal("the build failed")
	}
	if a := f.ask(http.MethodPatch, "/v3/apps/"+app+"/environment_variables",
		map[string]any{"var": map[string]any{"COLOR": "green"}}); a.status != http.StatusOK {
		t.Fatalf("environment: %d %s", a.status, a.body)
	}
	if a := call(t, http.MethodPost, f.api+"/Users", f.token, map[string]any{"userName": "joe", "password": "p",
		"emails": []map[string]any{{"value": "joe@example.org"}}}); a.status != http.StatusCreated {
		t.Fatalf("user: %d %s", a.status, a.body)
	}
	f.openMail()
	message := f.send()

	first, second := dbtest.URL(t, db.Postgres), dbtest.URL(t, db.Postgres)
	move := func(from, to string) string {
		t.Helper()
		var lines []string
		if err := Tables().CopyServer(t.Context(), dbcopy.ServerCopy{From: from, To: to, KeysDir: c.DataDir, Log: discard},
			func(line string) { lines = append(lines, line) }); err != nil {
			t.Fatalf("copying: %v\n%s", err, strings.Join(lines, "\n"))
		}
		return strings.Join(lines, "\n")
	}
	refused := func(from, to, want string) {
		t.Helper()
		err := Tables().CopyServer(t.Context(), dbcopy.ServerCopy{From: from, To: to, Log: discard}, func(string) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("from %s: %v, want %q", from, err, want)
		}
	}
	refused(c.DataDir, first, "uses "+c.DataDir+": stop it first, with 'ingot down")
	f.Stop()
	refused(t.TempDir(), first, "is not the data directory of a server")
	refused(c.DataDir, "sqlite:x", "--to: it must be postgres://")
	refused("sqlite:"+filepath.Join(t.TempDir(), "none.db"), first, "has no database")

	said := move(c.DataDir, first)
	for _, want := range []string{"platform_apps", "auth_users", "notify_messages",
		"number and checksum of each table are the same"} {
		if !strings.Contains(said, want) {
			t.Errorf("said\n%s\nwant %q", said, want)
		}
	}
	refused(c.DataDir, first, "already has rows")

	c.DatabaseURL, c.LogStore = first, logStorePostgres
	check := func() {
		t.Helper()
		f.System = startSystem(t, c)
		f.api, f.token = f.Endpoints().API, adminToken(t, f.System)
		a := call(t, http.MethodPost, f.Endpoints().Auth+"/oauth/token", "", url.Values{
			"grant_type": {"password"}, "client_id": {"cf"}, "client_secret": {""}, "username": {"joe"}, "password": {"p"},
		})
		if a.status != http.StatusOK {
			t.Errorf("login of a user: %d %s", a.status, a.body)
		}
		if a := f.ask(http.MethodGet, "/v3/apps/"+app+"/environment_variables", nil); !strings.Contains(a.body, "green") {
			t.Errorf("environment %s, want the one from before", a.body)
		}
		if a := f.ask(http.MethodGet, "/v3/apps/"+app+"/droplets/current", nil); a.status != http.StatusOK {
			t.Errorf("droplet: %d %s", a.status, a.body)
		}
		if a := call(t, http.MethodGet, f.Endpoints().Notifications+"/messages/"+message, clientToken(t, f.System, "mailer",
			"a long enough secret"), nil); a.status != http.StatusOK {
			t.Errorf("notification %s: %d %s, want it", message, a.status, a.body)
		}
		f.act(app, "start")
		testkit.Eventually(t, "the app runs", func() bool { return f.running(app) != "" })
		f.end(app)
	}
	check()
	refused(first, second, "(pid ")
	f.Stop()

	// From PostgreSQL the lines of logs come along.
	said = move(first, second)
	if !strings.Contains(said, "log_chunks") {
		t.Errorf("said\n%s\nwant the tables of logs", said)
	}
	d := dbtest.Open(t, second)
	lines := 0
	if err := d.View(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRow("SELECT COUNT(*) FROM log_chunks").Scan(&lines)
	}); err != nil || lines == 0 {
		t.Errorf("%d chunks of logs, %v, want some", lines, err)
	}
	if found, _, err := d.SchemaVersion(t.Context(), logdb.Migrations); err != nil || found == 0 {
		t.Errorf("log tables have version %d, %v", found, err)
	}
	c.DatabaseURL = second
	check()
	f.Stop()
}

// TestCopyDatabaseWithoutLogs: a server on PostgreSQL may have its log lines in files.
func TestCopyDatabaseWithoutLogs(t *testing.T) {
	t.Parallel()
	from, to := dbtest.URL(t, db.Postgres), dbtest.URL(t, db.Postgres)
	d := dbtest.Open(t, from)
	for _, m := range []db.Migrations{authdb.Migrations, platformdb.Migrations, notifydb.Migrations(db.Postgres)} {
		if err := d.Migrate(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	var said string
	if err := Tables().CopyServer(t.Context(), dbcopy.ServerCopy{From: from, To: to, Log: discard},
		func(line string) { said += line + "\n" }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, "Copied 1 rows of ") || !strings.Contains(said, "no keys were given (--keys-dir)") {
		t.Errorf("said %s, want one row (notify_numbers), and that secrets were not checked", said)
	}
}

// TestMigrateDatabase: all tables are migrated, and none if some are newer.
func TestMigrateDatabase(t *testing.T) {
	t.Parallel()
	address := dbtest.URL(t, db.Postgres)
	var lines []string
	tell := func(line string) { lines = append(lines, line) }
	if err := Tables().MigrateServer(t.Context(), "", address, discard, tell); err != nil || len(lines) != 6 ||
		!strings.Contains(lines[0], "(was 0)") {
		t.Fatalf("got %v, %q, want six services", err, lines)
	}
	d := dbtest.Open(t, address)
	change := func(query string) {
		t.Helper()
		if err := d.Update(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(query); return err }); err != nil {
			t.Fatal(err)
		}
	}
	change("DROP TABLE auth_migrations, auth_users") // auth would be migrated first
	change("INSERT INTO notify_migrations (version_id, is_applied, tstamp) VALUES (99, TRUE, now())")
	err := Tables().MigrateServer(t.Context(), "", address, discard, tell)
	if err == nil || !strings.Contains(err.Error(), `the "notify" tables are at version 99`) ||
		!strings.Contains(err.Error(), "Nothing was changed") {
		t.Errorf("got %v, want a refusal", err)
	}
	var tables int
	if err := d.View(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRow("SELECT COUNT(*) FROM pg_catalog.pg_class WHERE relname = 'auth_migrations'").Scan(&tables)
	}); err != nil || tables != 0 {
		t.Errorf("%d tables of auth, %v, want that it was not migrated", tables, err)
	}

	c := testConfig(t)
	s := startSystem(t, c)
	if err := Tables().MigrateServer(t.Context(), c.DataDir, "", discard, tell); err == nil ||
		!strings.Contains(err.Error(), "ingot down") {
		t.Errorf("while the server runs: %v, want a refusal", err)
	}
	s.Stop()
	lines = nil
	if err := Tables().MigrateServer(t.Context(), c.DataDir, "", discard, tell); err != nil || len(lines) != 4 {
		t.Errorf("got %v, %q, want four services", err, lines)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, databases.PlatformFile)); err != nil {
		t.Error(err)
	}
}
