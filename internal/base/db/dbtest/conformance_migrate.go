//go:build unix

package dbtest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/db"
)

const (
	one = "-- +goose Up\nCREATE TABLE steps (id TEXT PRIMARY KEY, note TEXT COLLATE \"C\");\nINSERT INTO steps VALUES " +
		"('one', 'a;b');\n-- +goose Down\nDROP TABLE steps;\n"
	two = "-- +goose Up\nINSERT INTO steps (id) VALUES ('two');\nALTER TABLE steps ADD COLUMN extra BIGINT NOT NULL " +
		"DEFAULT 7;\n"
	wrong = "-- +goose Up\nCREATE TABLE half (id TEXT);\nINSERT INTO half VALUES ('x');\nINSERT INTO missing VALUES (1);\n"
)

func testMigrateUp(t *testing.T, s *suite) {
	v1 := db.Migrations{Name: "demo", Files: files("00001_one.sql", one)}
	v2 := db.Migrations{Name: "demo", Files: files("00001_one.sql", one, "00002_two.sql", two)}
	s.ok(t, s.db.Migrate(s.ctx, v1))
	equal(t, "steps", s.count(t, "SELECT COUNT(*) FROM steps"), 1)
	for range 3 {
		s.ok(t, s.db.Migrate(s.ctx, v2))
	}
	equal(t, "steps", s.count(t, "SELECT COUNT(*) FROM steps"), 2)
	equal(t, "extra", s.count(t, "SELECT SUM(CAST(extra AS INTEGER)) FROM steps"), 14)
	// Another service has its own versions.
	s.ok(t, s.db.Migrate(s.ctx, db.Migrations{Name: "other",
		Files: files("00001_x.sql", "-- +goose Up\nCREATE TABLE x (id TEXT);\n")}))
	equal(t, "x", s.count(t, "SELECT COUNT(*) FROM x"), 0)
	equal(t, "versions", s.count(t, "SELECT MAX(version_id) FROM demo_migrations"), 2)

	for name, bad := range map[string]db.Migrations{
		"a name with a space":   {Name: "a b", Files: v1.Files},
		"no files":              {Name: "none", Files: files()},
		"without a transaction": {Name: "notx", Files: files("00001_x.sql", "-- +goose NO TRANSACTION\n"+one)},
	} {
		if err := s.db.Migrate(s.ctx, bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func testMigrateAtOnce(t *testing.T, s *suite) {
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			err := s.db.Migrate(s.ctx, db.Migrations{Name: "demo", Files: files("00001_one.sql", one, "00002_two.sql", two)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, "steps", s.count(t, "SELECT COUNT(*) FROM steps"), 2)
}

func testMigrateNewer(t *testing.T, s *suite) {
	s.ok(t, s.db.Migrate(s.ctx, db.Migrations{Name: "demo", Files: files("00001_one.sql", one, "00002_two.sql", two)}))
	err := s.db.Migrate(s.ctx, db.Migrations{Name: "demo", Files: files("00001_one.sql", one)})
	var newer *db.NewerSchemaError
	if !errors.As(err, &newer) || newer.Name != "demo" || newer.Found != 2 || newer.Known != 1 {
		t.Fatalf("%v, want a NewerSchemaError", err)
	}
	for _, part := range []string{"demo", "2", "1", "newer ingot"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	// The lock was given back.
	s.ok(t, s.db.Migrate(s.ctx, db.Migrations{Name: "demo", Files: files("00001_one.sql", one, "00002_two.sql", two)}))
}

func testMigrateFails(t *testing.T, s *suite) {
	err := s.db.Migrate(s.ctx, db.Migrations{Name: "demo", Files: files("00001_one.sql", one, "00002_wrong.sql", wrong)})
	if err == nil || !strings.Contains(err.Error(), "00002_wrong.sql") {
		t.Fatalf("%v, want an error that names the file", err)
	}
	equal(t, "steps", s.count(t, "SELECT COUNT(*) FROM steps"), 1)
	err = s.db.View(s.ctx, func(tx *db.Tx) error {
		_, err := db.One(tx, number, "SELECT COUNT(*) FROM half")
		return err
	})
	if err == nil {
		t.Error("a failed migration left a table behind")
	}
	// Repaired, it continues where it stopped.
	s.ok(t, s.db.Migrate(s.ctx, db.Migrations{Name: "demo", Files: files("00001_one.sql", one, "00002_two.sql", two)}))
	equal(t, "steps", s.count(t, "SELECT COUNT(*) FROM steps"), 2)
}
