package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Tx is a transaction. It belongs to the function it was given to and must not
// be used after that returned, nor by two goroutines at once.
type Tx struct {
	db     *DB
	ctx    context.Context
	sql    *sql.Tx
	rows   *sql.Rows // of the latest Query
	failed error     // of the first statement that failed
	over   bool
}

// insideTx is the context key under which the DB of the running transaction is
// found, to refuse a second one inside it.
type insideTx struct{}

// Scanner is a row to read from: Row and *sql.Rows.
type Scanner interface{ Scan(dest ...any) error }

// Context is the one given to Update or View.
func (t *Tx) Context() context.Context { return t.ctx }

// Dialect says which engine this is.
func (t *Tx) Dialect() Dialect { return t.db.dialect }

// Exec runs a statement and returns how many rows it changed.
func (t *Tx) Exec(query string, args ...any) (rowsAffected int64, err error) {
	text, args, err := t.ready(query, args)
	if err != nil {
		return 0, err
	}
	result, err := t.sql.ExecContext(t.ctx, text, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	return result.RowsAffected()
}

// Query runs a statement that returns rows. They must be closed, or read to
// their end, before the next statement of this transaction.
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	text, args, err := t.ready(query, args)
	if err != nil {
		return nil, err
	}
	rows, err := t.sql.QueryContext(t.ctx, text, args...)
	if err != nil {
		return nil, t.fail(err)
	}
	t.rows = rows
	return rows, nil
}

// QueryRow prepares a query for one row. It runs when the row is scanned, and
// not at all otherwise.
func (t *Tx) QueryRow(query string, args ...any) Row { return Row{t, query, args} }

// Row is the first row of a query.
type Row struct {
	tx    *Tx
	query string
	args  []any
}

// Scan runs the query and copies the columns of its first row. Without a row it
// returns ErrNotFound.
func (r Row) Scan(dest ...any) error {
	_, err := One(r.tx, func(s Scanner) (struct{}, error) { return struct{}{}, s.Scan(dest...) }, r.query, r.args...)
	return err
}

// One returns the first row of a query, or ErrNotFound.
func One[T any](t *Tx, scan func(Scanner) (T, error), query string, args ...any) (T, error) {
	var none T
	rows, err := t.Query(query, args...)
	if err != nil {
		return none, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return none, t.fail(err)
		}
		return none, ErrNotFound
	}
	v, err := scan(rows)
	if err != nil {
		return none, err
	}
	if err := rows.Close(); err != nil {
		return none, t.fail(err)
	}
	return v, nil
}

// All returns all rows of a query. The list is never nil.
func All[T any](t *Tx, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, t.fail(err)
	}
	return list, nil
}

// Seal encrypts a secret for a column ("table.column") of the row with this key.
// It opens in no other place.
func (t *Tx) Seal(column, rowKey string, plain []byte) string {
	return t.db.keyring().Seal(plain, place(column, rowKey))
}

// Unseal opens what Seal made for the same place.
func (t *Tx) Unseal(column, rowKey, sealed string) ([]byte, error) {
	plain, err := t.db.keyring().Open(sealed, place(column, rowKey))
	if err != nil {
		return nil, fmt.Errorf("%s of %q: %w", column, rowKey, err)
	}
	return plain, nil
}

// ready checks and translates a statement before any of it reaches an engine,
// so that a mistake is the same mistake on both.
func (t *Tx) ready(query string, args []any) (string, []any, error) {
	if t.over {
		return "", nil, errors.New("the transaction is over")
	}
	if t.failed != nil {
		return "", nil, fmt.Errorf("the transaction has failed already: %w", t.failed)
	}
	if t.rows != nil {
		if _, err := t.rows.Columns(); err == nil { // it fails on closed rows
			return "", nil, ErrRowsOpen
		}
		t.rows = nil
	}
	s := t.db.rebind.rebind(query)
	if s.err != nil {
		return "", nil, fmt.Errorf("%w, in: %s", s.err, query)
	}
	if s.args != len(args) {
		return "", nil, fmt.Errorf("%d arguments for %d placeholders, in: %s", len(args), s.args, query)
	}
	args, err := arguments(args)
	if err != nil {
		return "", nil, fmt.Errorf("%w, in: %s", err, query)
	}
	return s.text, args, nil
}

// fail remembers the first error of an engine, after which the transaction is
// lost on PostgreSQL and therefore on both.
func (t *Tx) fail(err error) error {
	err = orContext(t.ctx, translate(err))
	if t.failed == nil {
		t.failed = err
	}
	return err
}

// closeRows closes what was left open and reports whether anything was.
func (t *Tx) closeRows() (leaked bool) {
	if t.rows == nil {
		return false
	}
	_, err := t.rows.Columns()
	leaked = err == nil
	t.rows.Close()
	t.rows = nil
	return leaked
}
