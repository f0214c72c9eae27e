package authdb

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations are the tables of the authorization server.
var Migrations = db.EmbeddedMigrations("auth", files)

// SealedColumns are the columns to reseal when the server's key is rotated.
var SealedColumns = []db.SealedColumn{{Table: "auth_keys", Key: "id", Column: "private_key"}}

// Store implements auth.Store. It is safe for concurrent use.
type Store struct{ db *db.DB }

var _ auth.Store = (*Store)(nil)

// New returns a store on a database that was migrated with Migrations.
func New(d *db.DB) *Store { return &Store{d} }

// view runs read in a read-only transaction.
func view[T any](ctx context.Context, s *Store, read func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, s.db.View, read)
	return v, conflict(err)
}

// read is like view for a single query.
func read[T any](ctx context.Context, s *Store, query func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, s.db.Read, query)
	return v, conflict(err)
}

// update runs change in a transaction and returns its result.
func update[T any](ctx context.Context, s *Store, change func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, s.db.Update, change)
	return v, conflict(err)
}

// write is like update for a change without a result.
func (s *Store) write(ctx context.Context, change func(*db.Tx) error) error {
	return conflict(s.db.Update(ctx, change))
}

// conflict converts a violated unique constraint to ErrConflict.
func conflict(err error) error {
	if db.IsConflict(err) {
		return fmt.Errorf("%w (%w)", auth.ErrConflict, err)
	}
	return err
}

// one reads a row. Text that cannot be stored matches no row.
func one[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, args ...any) (T, error) {
	v, err := db.One(tx, scan, query, args...)
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) {
		return v, auth.ErrNotFound
	}
	return v, err
}

// mustExist returns ErrNotFound when a table has no row with the id. The
// transaction is serializable, so the row cannot go before it commits.
func mustExist(tx *db.Tx, table, id string) error {
	_, err := one(tx, func(s db.Scanner) (n int, err error) { err = s.Scan(&n); return n, err },
		"SELECT 1 FROM "+table+" WHERE id = ?", id)
	return err
}

// exec runs statements that all take the same one argument.
func exec(tx *db.Tx, arg string, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(statement, arg); err != nil {
			return err
		}
	}
	return nil
}

// set turns "a, b" into "a = ?, b = ?".
func set(columns string) string {
	return strings.ReplaceAll(columns, ",", " = ?,") + " = ?"
}

// marks returns the placeholders of n values: "?, ?".
func marks(n int) string {
	return strings.TrimSuffix(strings.Repeat("?, ", n), ", ")
}

// insert returns a statement that inserts a row with the given columns.
func insert(table, columns string) string {
	return "INSERT INTO " + table + " (" + columns + ") VALUES (" + marks(strings.Count(columns, ",")+1) + ")"
}

// lower returns the form in which names are compared, as in filters.
func lower(s string) string { return db.Lower(s) }

// orNull returns the stored form of optional text: NULL if it is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// text is the inverse of orNull.
type text struct{ to *string }

func (t text) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*t.to = ""
	case string:
		*t.to = v
	case []byte:
		*t.to = string(v)
	default:
		return fmt.Errorf("text column holds %T", src)
	}
	return nil
}

// moment is the inverse of db.Nanos.
type moment struct{ to *time.Time }

func (m moment) Scan(src any) error {
	ns, ok := src.(int64)
	if !ok {
		return fmt.Errorf("time column holds %T", src)
	}
	*m.to = db.Time(ns)
	return nil
}

// stored returns the stored form of a list.
func stored(list []string) db.JSON[[]string] {
	if list == nil {
		list = []string{}
	}
	return db.JSON[[]string]{V: list}
}

// list is the inverse of stored: an empty one is nil.
type list struct{ to *[]string }

func (l list) Scan(src any) error {
	var j db.JSON[[]string]
	if err := j.Scan(src); err != nil {
		return err
	}
	*l.to = nil
	if len(j.V) > 0 {
		*l.to = j.V
	}
	return nil
}

// more decodes a map stored as db.JSON: an empty one is nil.
type more struct{ to *map[string]json.RawMessage }

func (m more) Scan(src any) error {
	var j db.JSON[map[string]json.RawMessage]
	if err := j.Scan(src); err != nil {
		return err
	}
	*m.to = nil
	if len(j.V) > 0 {
		*m.to = j.V
	}
	return nil
}
