package db_test

import (
	"path/filepath"
	"testing"
	"testing/fstest"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
)

// TestCreateFresh walks the databases that a service may find: the file that makes all tables at once is used only
// in one without any of them, and only if it is of the newest version.
func TestCreateFresh(t *testing.T) {
	t.Parallel()
	const (
		table = "CREATE TABLE demo_things (id TEXT, note TEXT);\n" +
			"CREATE TABLE demo_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, " +
			"is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')));\n" +
			"INSERT INTO demo_migrations (version_id, is_applied) VALUES (0, 1);\n" +
			"INSERT INTO demo_migrations (version_id, is_applied) VALUES (1, 1);\n"
		second = "INSERT INTO demo_migrations (version_id, is_applied) VALUES (2, 1);\n" +
			"INSERT INTO demo_things VALUES ('fresh', '');\n"
		add = "-- +goose Up\nALTER TABLE demo_things ADD COLUMN note TEXT NOT NULL DEFAULT '';\n" +
			"INSERT INTO demo_things (id) VALUES ('migrated');\n"
	)
	create := &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE demo_things (id TEXT);\n")}
	migrations := func(fresh string) db.Migrations {
		files := fstest.MapFS{"00001_things.sql": create, "00002_note.sql": {Data: []byte(add)}}
		if fresh != "" {
			files[db.FreshFile] = &fstest.MapFile{Data: []byte(fresh)}
		}
		return db.Migrations{Name: "demo", Files: files}
	}
	for name, test := range map[string]struct {
		before *db.Migrations // applied first
		fresh  string
		want   string // the id of the only row
		fails  bool
	}{
		"empty":                 {fresh: table + second, want: "fresh"},
		"no file":               {want: "migrated"},
		"file of a version ago": {fresh: table, want: "migrated"},
		"an earlier version": {before: &db.Migrations{Name: "demo", Files: fstest.MapFS{"00001_things.sql": create}},
			fresh: table + second, want: "migrated"},
		"another service": {before: &db.Migrations{Name: "demolition", Files: fstest.MapFS{"00001_x.sql": {
			Data: []byte("-- +goose Up\nCREATE TABLE demolition_x (id TEXT);\n")}}}, fresh: table + second, want: "fresh"},
		"a table without a version": {before: &db.Migrations{Name: "other", Files: fstest.MapFS{"00001_x.sql": {
			Data: []byte("-- +goose Up\nCREATE TABLE demo_rest (id TEXT);\n")}}}, fresh: table + second, want: "migrated"},
		"broken file": {fresh: table + "CREATE TABLE;", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Open(t, "sqlite:"+filepath.Join(t.TempDir(), "fresh.db"))
			if test.before != nil {
				testkit.Must(t, d.Migrate(t.Context(), *test.before))
			}
			m := migrations(test.fresh)
			if err := d.Migrate(t.Context(), m); (err != nil) != test.fails {
				t.Fatalf("Migrate: %v, want an error: %t", err, test.fails)
			}
			if test.fails { // nothing is left of it
				m = migrations("")
				test.want = "migrated"
			}
			testkit.Must(t, d.Migrate(t.Context(), m)) // a second time, nothing is done
			var got string
			testkit.Must(t, d.View(t.Context(), func(tx *db.Tx) error {
				return tx.QueryRow("SELECT id FROM demo_things WHERE note = ''").Scan(&got)
			}))
			if got != test.want {
				t.Errorf("the row is %q, want %q", got, test.want)
			}
		})
	}
}
