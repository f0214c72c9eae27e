package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The types here sit between database/sql and the SQLite driver. They cache
// prepared statements per connection, which saves about half of the time of a
// small query. The cache does not use *sql.Stmt because preparing one needs a
// second connection, and the writer has only one, held by the very transaction
// that needs the statement.

type liteConnector struct {
	driver.Connector
	statements int // kept by each connection
}

func (c liteConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(liteDriverConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("the SQLite driver's connection (%T) lacks a method that this package needs", conn)
	}
	statements, err := newStatements(c.statements)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &liteConn{liteDriverConn: full, stmts: statements}, nil
}

type liteDriverConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type liteDriverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// liteStmt is a prepared statement. A busy one that the cache evicts is not closed, because
// its rows are being read.
type liteStmt struct {
	liteDriverStmt
	busy, cached bool
}

// newStatements returns a cache that closes the statements it evicts. One for many goroutines,
// which a connection does not need, made accepted sends a tenth slower.
func newStatements(limit int) (*simplelru.LRU[string, *liteStmt], error) {
	return simplelru.NewLRU(limit, func(_ string, s *liteStmt) {
		s.cached = false
		if !s.busy {
			s.Close()
		}
	})
}

// liteConn is used by one goroutine at a time, as database/sql promises.
type liteConn struct {
	liteDriverConn
	stmts  *simplelru.LRU[string, *liteStmt]
	broken bool
}

func (c *liteConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !cacheable(query) {
		return c.liteDriverConn.ExecContext(ctx, forSQLite(query), args)
	}
	stmt, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.ExecContext(ctx, args)
	c.done(query, stmt, err)
	return result, err
}

func (c *liteConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !cacheable(query) {
		return c.liteDriverConn.QueryContext(ctx, forSQLite(query), args)
	}
	stmt, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.QueryContext(ctx, args)
	if err != nil {
		c.done(query, stmt, err)
		return nil, err
	}
	return &liteRows{Rows: rows, conn: c, query: query, stmt: stmt}, nil
}

// PrepareContext bypasses the cache: the caller keeps the statement.
func (c *liteConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.liteDriverConn.PrepareContext(ctx, forSQLite(query))
}

func (c *liteConn) statement(ctx context.Context, query string) (*liteStmt, error) {
	if stmt, ok := c.stmts.Get(query); ok && !stmt.busy {
		stmt.busy = true
		return stmt, nil
	}
	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &liteStmt{liteDriverStmt: stmt.(liteDriverStmt), busy: true}, nil
}

// done returns a statement to the cache. It closes one whose state is unknown after an error,
// and one that the cache has already, because its rows were read while it was needed again.
func (c *liteConn) done(query string, stmt *liteStmt, err error) {
	stmt.busy = false
	switch {
	case err != nil && stmt.cached:
		c.stmts.Remove(query) // closes it
	case err != nil || !stmt.cached && c.stmts.Contains(query):
		stmt.Close()
	case !stmt.cached:
		stmt.cached = true
		c.stmts.Add(query, stmt)
	}
}

func (c *liteConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.liteDriverConn.BeginTx(ctx, opts)
	if err != nil {
		// A connection that was opened on a read-only disk stays read-only: it is replaced, so
		// that writes work when the disk does.
		var lite *sqlite.Error
		if errors.As(err, &lite) {
			switch lite.Code() & 0xff {
			case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
				c.broken = true
			}
		}
		return nil, err
	}
	return liteTx{tx, c}, nil
}

// IsValid is called before the connection returns to the pool.
func (c *liteConn) IsValid() bool { return !c.broken && c.liteDriverConn.IsValid() }

func (c *liteConn) Close() error {
	c.stmts.Purge()
	return c.liteDriverConn.Close()
}

// liteTx marks a connection as broken when its transaction did not end cleanly.
// Otherwise the writer could return to the pool inside a transaction, and every
// later one would fail.
type liteTx struct {
	driver.Tx
	conn *liteConn
}

func (t liteTx) Commit() error   { return t.ended(t.Tx.Commit()) }
func (t liteTx) Rollback() error { return t.ended(t.Tx.Rollback()) }

func (t liteTx) ended(err error) error {
	if err != nil {
		t.conn.broken = true
	}
	return err
}

type liteRows struct {
	driver.Rows
	conn  *liteConn
	query string
	stmt  *liteStmt
}

func (r *liteRows) Close() error {
	err := r.Rows.Close()
	if r.stmt != nil {
		r.conn.done(r.query, r.stmt, err)
		r.stmt = nil
	}
	return err
}

// cacheable reports whether a statement is worth caching. Statements that run
// once, such as those of a migration, and multiple statements are not.
func cacheable(query string) bool {
	word := strings.TrimLeft(query, " \t\r\n")
	word = word[:span(word, isWord)]
	for _, w := range [...]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"} {
		if strings.EqualFold(word, w) {
			return true
		}
	}
	return false
}
