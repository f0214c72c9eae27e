package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Tx is a transaction. It is valid until the function it was passed to returns,
// and must not be used concurrently.
type Tx struct {
	db     *DB
	ctx    context.Context
	sql    transaction
	rows   *sql.Rows // of the latest Query
	failed error     // of the first statement that failed
	over   bool
}

// insideTx is the context key for the DB of the running transaction. It is used
// to reject nested transactions.
type insideTx struct{}

// Scanner is a row that can be read: Row or *sql.Rows.
type Scanner interface{ Scan(dest ...any) error }

// Context returns the context passed to Update or View.
func (t *Tx) Context() context.Context { return t.ctx }

// Dialect returns the kind of database.
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

// Query runs a statement that returns rows. They must be closed, or read to the
// end, before the next statement of this transaction.
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

// QueryRow returns the first row of a query. The query runs when the row is
// scanned.
func (t *Tx) QueryRow(query string, args ...any) Row { return Row{t, query, args} }

// Row is the first row of a query.
type Row struct {
	tx    *Tx
	query string
	args  []any
}

// Scan runs the query and copies the columns of its first row. It returns
// ErrNotFound if there is no row.
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

// Seal encrypts a secret for a column ("table.column") of the row with this
// key. It cannot be opened in any other column or row.
func (t *Tx) Seal(column, rowKey string, plain []byte) string {
	return t.db.keyring().Seal(plain, sealContext(column, rowKey))
}

// Unseal opens a value that Seal made for the same column and row.
func (t *Tx) Unseal(column, rowKey, sealed string) ([]byte, error) {
	plain, err := t.db.keyring().Open(sealed, sealContext(column, rowKey))
	if err != nil {
		return nil, fmt.Errorf("%s of %q: %w", column, rowKey, err)
	}
	return plain, nil
}

// ready checks and translates a statement before it is sent to the database, so
// that a mistake causes the same error on both.
func (t *Tx) ready(query string, args []any) (string, []any, error) {
	if t.over {
		return "", nil, errors.New("the transaction has ended")
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

// fail records the first database error, after which the transaction is aborted
// on PostgreSQL and therefore on both.
func (t *Tx) fail(err error) error {
	err = orContext(t.ctx, translate(err))
	if t.failed == nil {
		t.failed = err
	}
	return err
}

// closeRows closes rows that were left open and reports whether there were any.
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
