//go:build unix

package dbcopy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/server/dbcopy"
)

// toy returns the tables of two services, up to a version of the first.
func toy(version int) []db.Migrations {
	first := fstest.MapFS{"00001_init.sql": {Data: []byte(`-- +goose Up
CREATE TABLE toy_things (id TEXT COLLATE "C" NOT NULL PRIMARY KEY, n BIGINT NOT NULL, small INTEGER, ok BOOLEAN NOT NULL, x DOUBLE PRECISION, secret TEXT NOT NULL DEFAULT '');
CREATE TABLE toy_empty (id TEXT NOT NULL PRIMARY KEY);
CREATE TABLE toy_numbers (name TEXT NOT NULL PRIMARY KEY, next BIGINT NOT NULL);
INSERT INTO toy_numbers (name, next) VALUES ('send', 1);
CREATE TABLE toy_servers (id TEXT NOT NULL PRIMARY KEY);
`)}}
	if version > 1 {
		first["00002_more.sql"] = &fstest.MapFile{
			Data: []byte("-- +goose Up\nALTER TABLE toy_things ADD COLUMN later TEXT NOT NULL DEFAULT 'new';\n")}
	}
	return []db.Migrations{
		{Name: "toy", Files: first},
		{Name: "mail", Files: fstest.MapFS{
			"00001_init.sql": {Data: []byte(
				"-- +goose Up\nCREATE TABLE mail_messages (id BIGINT NOT NULL PRIMARY KEY, text TEXT);\n")}}},
	}
}

func migrated(t *testing.T, d *db.DB, all ...db.Migrations) *db.DB {
	t.Helper()
	for _, m := range all {
		if err := d.Migrate(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func exec(t *testing.T, d *db.DB, query string, args ...any) {
	t.Helper()
	if err := d.Update(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(query, args...); return err }); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, d *db.DB, query string) (n int) {
	t.Helper()
	if err := d.View(t.Context(), func(tx *db.Tx) error { return tx.QueryRow(query).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

const messages = 12_345 // more than one statement inserts

// filled is a source of two databases with keys.
func filled(t *testing.T, dialect db.Dialect) []*db.DB {
	t.Helper()
	one := migrated(t, dbtest.New(t, dialect), toy(1)[0])
	two := one
	from := []*db.DB{one}
	if dialect == db.SQLite {
		two = dbtest.New(t, dialect)
		from = append(from, two)
	}
	migrated(t, two, toy(1)[1])
	err := one.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(
			"INSERT INTO toy_things (id, n, small, ok, x, secret) VALUES (?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?)",
			"a", int64(-1<<63), nil, true, nil, tx.Seal("toy_things.secret", "a", []byte("s")),
			"ü€𝄞\n'\"", int64(1<<63-1), -1, false, 0.1, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, one, "UPDATE toy_numbers SET next = 4711")
	exec(t, one, "INSERT INTO toy_servers (id) VALUES ('running')")
	err = two.Update(t.Context(), func(tx *db.Tx) error {
		for i := range messages {
			if _, err := tx.Exec("INSERT INTO mail_messages (id, text) VALUES (?, ?)", i,
				strings.Repeat("x", i%1000)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return from
}

func options(from []*db.DB, to *db.DB) dbcopy.Options {
	return dbcopy.Options{
		From: from, To: to,
		Tables: dbcopy.Tables{Schemas: func(db.Dialect) []db.Migrations { return toy(2) },
			Seeded: []string{"toy_numbers"}},
		Transient: func(table string) bool { return table == "toy_servers" }, Report: func(dbcopy.Progress) {},
	}
}

// TestCopy copies all types of values, and the tables of an older version.
func TestCopy(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			from := filled(t, dialect)
			to := dbtest.New(t, db.Postgres)
			exec(t, migrated(t, to, toy(1)[0]), "INSERT INTO toy_servers (id) VALUES ('mine')")
			done := map[string]int64{}
			o := options(from, to)
			o.Report = func(p dbcopy.Progress) {
				if p.Done {
					done[p.Table] = p.Rows
				}
			}
			if err := dbcopy.Copy(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(done), fmt.Sprintf("map[mail_messages:%d toy_empty:0 toy_numbers:1 toy_things:2]",
				messages); got != want {
				t.Errorf("copied %s, want %s", got, want)
			}
			for query, want := range map[string]int{
				"SELECT COUNT(*) FROM mail_messages WHERE LENGTH(text) = id % 1000":                    messages,
				"SELECT COUNT(*) FROM toy_things WHERE id = 'a' AND n < 0 AND ok AND small IS NULL":    1,
				"SELECT COUNT(*) FROM toy_things WHERE n = 9223372036854775807 AND NOT ok AND x = 0.1": 1,
				"SELECT COUNT(*) FROM toy_things WHERE later = 'new'":                                  2,
				"SELECT COUNT(*) FROM toy_numbers WHERE next = 4711":                                   1,
				"SELECT COUNT(*) FROM toy_servers WHERE id = 'mine'":                                   1,
				"SELECT COUNT(*) FROM toy_servers":                                                     1,
				"SELECT COUNT(*) FROM toy_things WHERE id = 'ü€𝄞\n''\"'":                               1,
				"SELECT CAST(MAX(version_id) AS INTEGER) FROM toy_migrations":                          2,
			} {
				if got := count(t, to, query); got != want {
					t.Errorf("%s is %d, want %d", query, got, want)
				}
			}
			if got := count(t, from[0], "SELECT MAX(version_id) FROM toy_migrations"); got != 1 {
				t.Errorf("the source has version %d, want 1 as before", got)
			}

			var full *dbcopy.NotEmptyError
			if err := dbcopy.Copy(t.Context(), options(from, to)); !errors.As(err, &full) || full.Table != "mail_messages" {
				t.Errorf("copying again: %v, want that mail_messages has rows", err)
			}
		})
	}
}

// TestKeys: keys that do not open the secrets are refused.
func TestKeys(t *testing.T) {
	t.Parallel()
	from := filled(t, db.Postgres)
	sealed := []db.SealedColumn{{Table: "toy_things", Key: "id", Column: "secret"}}
	to := dbtest.New(t, db.Postgres) // with other keys
	o := options(from, to)
	o.Sealed, o.Keys = sealed, true
	if err := dbcopy.Copy(t.Context(), o); err == nil ||
		!strings.Contains(err.Error(),
			"nothing was copied: table toy_things: the encryption keys do not belong to this database") {
		t.Errorf("with other keys: %v, want a refusal", err)
	}
	if got := count(t, to, "SELECT COUNT(*) FROM mail_messages"); got != 0 {
		t.Errorf("%d rows are left, want none", got)
	}
}

// TestRefused: a copy that fails leaves no rows, and says where.
func TestRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage string // a statement on the source
		to     int    // version of the target; 0 is none
		want   string
	}{
		"number": {"UPDATE toy_things SET n = 'many' WHERE id = 'a'", 0,
			"table toy_things: row 1, column n: it holds string, want bigint"},
		"large": {"UPDATE toy_things SET small = 4294967296 WHERE id = 'a'", 0,
			"column small: 4294967296 does not fit into 32 bits"},
		"boolean": {"UPDATE toy_things SET ok = 7 WHERE id = 'a'", 0, "want boolean"},
		"blob":    {"UPDATE toy_things SET id = CAST(x'ff00' AS TEXT) WHERE id = 'a'", 0, "text must be valid UTF-8"},
		"column":  {"ALTER TABLE toy_things ADD COLUMN extra TEXT", 0, "table toy_things: it has the columns"},
		"table":   {"DROP TABLE toy_empty", 0, "the source has no table toy_empty"},
		"newer":   {"UPDATE toy_migrations SET version_id = 99", 0, "a newer ingot has used this database"},
		"target":  {"SELECT 1", 2, "the \"toy\" tables have version 2 in the target and 1 in the source"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := migrated(t, dbtest.New(t, db.SQLite), toy(1)...)
			exec(t, from, "INSERT INTO toy_things (id, n, ok) VALUES ('a', 1, TRUE)")
			exec(t, from, "INSERT INTO mail_messages (id, text) VALUES (1, 'x')")
			exec(t, from, tc.damage)
			to := dbtest.New(t, db.Postgres)
			if tc.to > 0 {
				migrated(t, to, toy(tc.to)...)
			}
			if err := dbcopy.Copy(t.Context(), options([]*db.DB{from}, to)); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if got := count(t, to, "SELECT COUNT(*) FROM pg_catalog.pg_class WHERE relname = 'mail_messages'"); got > 0 {
				if got := count(t, to, "SELECT COUNT(*) FROM mail_messages"); got != 0 {
					t.Errorf("%d rows are left, want none", got)
				}
			}
		})
	}
}
