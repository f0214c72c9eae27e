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
	// ErrNotFound means that a query returned no row.
	ErrNotFound = errors.New("not found")
	// ErrClosed means that the database was closed.
	ErrClosed = errors.New("the database is closed")
	// ErrReadOnly means that a statement inside View tried to write.
	ErrReadOnly = errors.New("write in a read-only transaction")
	// ErrText means that text is not valid UTF-8 or contains a NUL byte.
	ErrText = errors.New("text must be valid UTF-8 without NUL bytes")
	// ErrRowsOpen means that the rows of an earlier query were not closed.
	ErrRowsOpen = errors.New("the rows of an earlier query are still open: close them first")
)

// ConflictError means that a write would violate a unique or primary key
// constraint.
type ConflictError struct {
	// Constraint identifies the constraint as far as the database reports it:
	// PostgreSQL gives its name, SQLite the columns ("users.origin,
	// users.name").
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

// NewerSchemaError means that the database was written by a newer Ingot, and
// that this one must not change it.
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

// translate converts the errors of both databases to a common form.
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
		case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC,
			sqlite3.SQLITE_IOERR_TRUNCATE,
			sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMMAP, sqlite3.SQLITE_IOERR_DELETE,
			sqlite3.SQLITE_READONLY_DIRECTORY:
			return diskBroken(err, "does not accept writes")
		case sqlite3.SQLITE_CANTOPEN:
			return diskBroken(err, "cannot be opened, perhaps because the server has too many files open")
		}
	}
	return err
}

// beginFault is translate for the beginning of a transaction, where a read-only database means
// that its disk is: SQLite opens it so if it cannot be written to.
func beginFault(err error) error {
	err = translate(err)
	if errors.Is(err, ErrReadOnly) {
		return diskBroken(err, "does not accept writes")
	}
	return err
}

func diskFull(err error) error {
	return fault.Wrap(err, fault.InsufficientStorage,
		"The disk of the server's database is full. Nothing was changed. Try again after the operator has freed disk space.").
		After(30 * time.Second)
}

// diskBroken is the error for a disk that has become read-only or fails, and for a process
// without file descriptors.
func diskBroken(err error, why string) error {
	return fault.Wrap(err, fault.Unavailable,
		"The disk of the server's database %s. The request was not carried out. Try again after the operator "+
			"has repaired it.", why).After(30 * time.Second)
}

// sqliteColumns extracts the columns from "… UNIQUE constraint failed: a.b, a.c
// (2067)".
func sqliteColumns(message string) string {
	_, columns, found := strings.Cut(message, "UNIQUE constraint failed: ")
	if !found {
		return "unknown columns"
	}
	columns, _, _ = strings.Cut(columns, " (")
	return columns
}

// retryable reports whether the transaction failed only because of another one
// and may be retried. A unique violation is not retryable: PostgreSQL reports a
// serialization failure instead when the transaction had looked for the row
// before.
func retryable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01": // serialization_failure, deadlock_detected
			return true
		case "0A000":
			// Another process has migrated a table that a prepared statement
			// reads; pgx prepares it again after the transaction.
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

// lockTimeout reports whether a statement waited for a lock for longer than the lock_timeout that the role or the
// database has been given: it may succeed when it is repeated.
func lockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// orContext returns the cause of a done context instead of the driver's error.
func orContext(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
