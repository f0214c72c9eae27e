package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"ingot/internal/base/fault"
)

var (
	// ErrNotFound: the query has no row.
	ErrNotFound = errors.New("not found")
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("the database is closed")
	// ErrReadOnly: a write inside View.
	ErrReadOnly = errors.New("write in a read-only transaction")
	// ErrText: a text that cannot be stored: not UTF-8, or with a NUL byte.
	ErrText = errors.New("text must be valid UTF-8 without NUL bytes")
	// ErrRowsOpen: the rows of an earlier query of the transaction are open.
	ErrRowsOpen = errors.New("the rows of an earlier query are still open: close them first")
)

// ConflictError is a unique or primary key constraint that a write would break.
type ConflictError struct {
	// Constraint says which one as well as the engine knows: PostgreSQL gives the
	// constraint's name, SQLite the columns ("users.origin, users.name").
	Constraint string
	Err        error
}

func (e *ConflictError) Error() string { return "conflict on " + e.Constraint + ": " + e.Err.Error() }
func (e *ConflictError) Unwrap() error { return e.Err }

// IsConflict reports whether err is, or wraps, a ConflictError.
func IsConflict(err error) bool {
	var c *ConflictError
	return errors.As(err, &c)
}

// NewerSchemaError: the database was written by a newer ingot, which this one
// must not touch.
type NewerSchemaError struct {
	Name         string // of the Migrations
	Found, Known int64
}

func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("the %q tables are at version %d, this ingot knows up to %d: "+
		"a newer ingot has used this database; run that one, or restore a backup. Nothing was changed",
		e.Name, e.Found, e.Known)
}

const uniqueViolation = "23505"

// translate gives the errors of the two engines one shape.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	var lite *sqlite.Error
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	case errors.As(err, &pg):
		switch pg.Code {
		case uniqueViolation:
			return &ConflictError{Constraint: pg.ConstraintName, Err: err}
		case "53100": // disk_full
			return diskFull(err)
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
	case errors.As(err, &lite):
		switch lite.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
			return &ConflictError{Constraint: sqliteColumns(lite.Error()), Err: err}
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE:
			return diskFull(err)
		case sqlite3.SQLITE_READONLY:
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
	}
	return err
}

func diskFull(err error) error {
	return fault.Wrap(err, fault.InsufficientStorage,
		"The disk of the server's database is full, so nothing was changed. Try again when the operator has made room.").After(30 * time.Second)
}

// sqliteColumns takes the columns out of "… UNIQUE constraint failed: a.b, a.c (2067)".
func sqliteColumns(message string) string {
	_, columns, found := strings.Cut(message, "UNIQUE constraint failed: ")
	if !found {
		return "unknown columns"
	}
	columns, _, _ = strings.Cut(columns, " (")
	return columns
}

// retryable reports whether the transaction failed only because of another one,
// so that running it again is right. A unique violation is not: PostgreSQL
// reports a serialization failure in its place when the transaction had looked
// for the row before.
func retryable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01": // serialization_failure, deadlock_detected
			return true
		case "0A000":
			// Another process has migrated a table that a prepared statement reads;
			// pgx prepares it anew after the transaction.
			return strings.Contains(pg.Message, "cached plan")
		}
		return false
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return true
		}
	}
	return false
}

// orContext prefers the reason for which the context ended over the driver's
// many ways of saying that it did.
func orContext(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
