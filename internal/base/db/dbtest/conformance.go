//go:build unix

package dbtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/testkit"
)

// Conformance is what every database must do. open returns a fresh empty
// database that lasts until the end of the test.
func Conformance(t *testing.T, open func(t *testing.T) *db.DB) {
	parts := []struct {
		name string
		run  func(t *testing.T, s *suite)
	}{
		{"Commit", testCommit},
		{"Rollback", testRollback},
		{"Panic", testPanic},
		{"Goexit", testGoexit},
		{"CancelInside", testCancelInside},
		{"CancelWhileWaiting", testCancelWhileWaiting},
		{"CancelStopsLongQuery", testCancelStopsLongQuery},
		{"NoNesting", testNoNesting},
		{"UsedAfterEnd", testUsedAfterEnd},
		{"RowsLeftOpen", testRowsLeftOpen},
		{"FailedStatementDooms", testFailedStatementDooms},
		{"Closed", testClosed},
		{"NoLostUpdate", testNoLostUpdate},
		{"NoWriteSkew", testNoWriteSkew},
		{"ManyWriters", testManyWriters},
		{"LockingCountsInPlace", testLockingCountsInPlace},
		{"LockingSeesCommitted", testLockingSeesCommitted},
		{"LockingRollsBack", testLockingRollsBack},
		{"ViewIsReadOnly", testViewIsReadOnly},
		{"ViewIsSnapshot", testViewIsSnapshot},
		{"Read", testRead},
		{"Conflict", testConflict},
		{"ForeignKeys", testForeignKeys},
		{"NotFound", testNotFound},
		{"Placeholders", testPlaceholders},
		{"Values", testValues},
		{"Text", testText},
		{"Like", testLike},
		{"Order", testOrder},
		{"BigValue", testBigValue},
		{"ManyStatements", testManyStatements},
		{"Seal", testSeal},
		{"Rotation", testRotation},
		{"ResealBesideWriters", testResealBesideWriters},
		{"MigrateUp", testMigrateUp},
		{"MigrateAtOnce", testMigrateAtOnce},
		{"MigrateNewer", testMigrateNewer},
		{"MigrateFails", testMigrateFails},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			p.run(t, &suite{db: open(t), ctx: ctx})
		})
	}
}

type suite struct {
	db  *db.DB
	ctx context.Context
}

const itemsSchema = `-- +goose Up
CREATE TABLE items (
	id TEXT COLLATE "C" PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	count BIGINT NOT NULL DEFAULT 0,
	small INTEGER NOT NULL DEFAULT 0,
	enabled BOOLEAN NOT NULL DEFAULT FALSE,
	ratio DOUBLE PRECISION NOT NULL DEFAULT 0,
	at BIGINT NOT NULL DEFAULT 0,
	data TEXT,
	secret TEXT
);
CREATE TABLE parts (
	id TEXT PRIMARY KEY,
	item TEXT NOT NULL REFERENCES items (id) ON DELETE CASCADE
);
`

// withItems creates the tables that most parts use.
func (s *suite) withItems(t *testing.T) {
	t.Helper()
	s.ok(t, s.db.Migrate(s.ctx, db.Migrations{Name: "items", Files: files("00001_items.sql", itemsSchema)}))
}

func files(nameAndText ...string) fstest.MapFS {
	all := fstest.MapFS{}
	for i := 0; i < len(nameAndText); i += 2 {
		all[nameAndText[i]] = &fstest.MapFile{Data: []byte(nameAndText[i+1])}
	}
	return all
}

func (s *suite) ok(t *testing.T, err error) {
	t.Helper()
	testkit.Must(t, err)
}

// must fails the test of an update that does not succeed.
func (s *suite) must(t *testing.T, fn func(tx *db.Tx) error) {
	t.Helper()
	s.ok(t, s.db.Update(s.ctx, fn))
}

func (s *suite) insert(t *testing.T, id string) {
	t.Helper()
	s.must(t, func(tx *db.Tx) error { return insert(tx, id) })
}

func insert(tx *db.Tx, id string) error {
	_, err := tx.Exec("INSERT INTO items (id, name) VALUES (?, ?)", id, "name of "+id)
	return err
}

func (s *suite) count(t *testing.T, query string, args ...any) int64 {
	t.Helper()
	var n int64
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }))
	return n
}

func (s *suite) items(t *testing.T) int64 {
	t.Helper()
	return s.count(t, "SELECT COUNT(*) FROM items")
}

// stillWrites proves that the writer is free.
func (s *suite) stillWrites(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	err := s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE items SET count = count")
		return err
	})
	if err != nil {
		t.Fatalf("the database does not take writes any more: %v", err)
	}
}

var errStop = errors.New("stop")

func text(sc db.Scanner) (v string, err error) {
	err = sc.Scan(&v)
	return v, err
}

func number(sc db.Scanner) (v int64, err error) {
	err = sc.Scan(&v)
	return v, err
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %s, want %s", what, short(got), short(want))
	}
}

func short(v any) string { return fmt.Sprintf("%.80q", fmt.Sprint(v)) }
