package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/seal"
)

// Dialect is the kind of database behind a DB.
type Dialect int

const (
	SQLite Dialect = iota + 1
	Postgres
)

func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "sqlite"
	case Postgres:
		return "postgres"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// Options configure Open.
type Options struct {
	// URL is sqlite:PATH, postgres://… or postgresql://…
	URL string
	// Keys seal and open secret columns. Seal and Unseal panic without them.
	Keys *seal.Keyring
	// Log receives messages about migrations and retries; nil discards them.
	Log *slog.Logger
	// MaxConns limits the connections; 0 means 16 for PostgreSQL, which gets at
	// least 2. SQLite has one writer and between 4 and 8 readers.
	MaxConns int
	// Observe, if set, is called after every transaction with its duration, its retries
	// included.
	Observe func(write bool, took time.Duration)
}

// DB is an open database. It may be used by many goroutines.
type DB struct {
	dialect Dialect
	writer  *sql.DB
	reader  *sql.DB // the same as writer for PostgreSQL
	path    string  // of the SQLite file
	url     string  // of PostgreSQL
	rebind  *rebinder
	keys    atomic.Pointer[seal.Keyring]
	log     *slog.Logger
	observe func(write bool, took time.Duration)
	closed  atomic.Bool
	// migrating is a semaphore for Migrate.
	migrating chan struct{}
}

// Open connects to the database and checks it. It creates the file of an SQLite
// database if it is missing. It does not migrate. Its errors never contain the
// password of the URL.
func Open(ctx context.Context, o Options) (*DB, error) {
	d := &DB{log: o.Log, observe: o.Observe, migrating: make(chan struct{}, 1)}
	d.SetKeys(o.Keys)
	d.log = cmp.Or(d.log, slog.New(slog.DiscardHandler))
	scheme, rest, _ := strings.Cut(o.URL, ":")
	var err error
	switch scheme {
	case "sqlite":
		d.dialect = SQLite
		err = d.openSQLite(ctx, rest, o.MaxConns)
	case "postgres", "postgresql":
		d.dialect = Postgres
		err = d.openPostgres(ctx, o.URL, o.MaxConns)
	default:
		return nil, errors.New("database URL must begin with sqlite:, postgres:// or postgresql://")
	}
	if err != nil {
		return nil, err
	}
	d.rebind = newRebinder(d.dialect)
	return d, nil
}

// Close waits for running statements and closes all connections. It is
// idempotent; afterwards every call fails with ErrClosed.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	err := d.reader.Close()
	// The writer is last: closing the last connection of all makes SQLite move
	// what is left in the WAL into the database file and remove the WAL.
	if d.writer != d.reader {
		err = errors.Join(err, d.writer.Close())
	}
	return err
}

// Dialect returns the kind of database.
func (d *DB) Dialect() Dialect { return d.dialect }

// Shared reports whether other server processes may use the same database at
// the same time, so that work must be claimed in it.
func (d *DB) Shared() bool { return d.dialect == Postgres }

// SetKeys replaces the keyring, for a server that rotates its keys while it
// runs. Transactions in progress may use either.
func (d *DB) SetKeys(keys *seal.Keyring) { d.keys.Store(keys) }

// Ping checks the connection to the database.
func (d *DB) Ping(ctx context.Context) error {
	if d.closed.Load() {
		return ErrClosed
	}
	return orContext(ctx, d.reader.PingContext(ctx))
}

// Update runs fn in a transaction that reads and writes, and commits when fn
// returns nil. Any error or panic in fn rolls back; the panic continues.
//
// fn MAY RUN MORE THAN ONCE: when the transaction fails because of another one,
// it is rolled back and retried, with growing random pauses. So fn must assign
// its results rather than add to them, and have no side effects outside the
// transaction (no mail, no HTTP call, no channel).
//
// Transactions do not nest, and a View inside an Update would wait for a second
// connection: both are rejected when they are given the transaction's context.
func (d *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return d.run(ctx, d.writer, d.updateOptions(), fn)
}

// View runs fn on one snapshot of the database. A write in it fails with
// ErrReadOnly. The snapshot is taken by the first query. Like Update, it may run
// fn more than once.
func (d *DB) View(ctx context.Context, fn func(tx *Tx) error) error {
	return d.run(ctx, d.reader, d.viewOptions(), fn)
}

// Read is like View without the snapshot: each query sees what was committed
// before it began. It is for lookups that consist of one query, which take one
// round trip to PostgreSQL instead of three. The queries are SELECTs.
func (d *DB) Read(ctx context.Context, fn func(tx *Tx) error) error {
	if d.dialect == SQLite {
		return d.View(ctx, fn)
	}
	return d.run(ctx, d.reader, noTransaction, fn)
}

// UpdateLocking is like Update, but without the guarantee that transactions
// behave as if they ran one after the other: on PostgreSQL it is READ
// COMMITTED, so each statement sees what was committed before it began. It is
// for queues, where many workers change rows concurrently all the time and
// serializable transactions would mostly be retried: they track each index page
// that they read, and every insert into one is a conflict.
//
// What was read may be stale by the time of the write, so "read, then write" is
// correct only for locked rows (FOR UPDATE, which SQLite neither has nor
// needs), for values changed in place (n = n + 1) and for conflicts that a
// unique index detects (ON CONFLICT). On SQLite it is Update. fn may run more
// than once, because of a deadlock.
func (d *DB) UpdateLocking(ctx context.Context, fn func(tx *Tx) error) error {
	opts := d.updateOptions()
	if d.dialect == Postgres {
		opts = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	return d.run(ctx, d.writer, opts, fn)
}

// checkKey is the context key of the check of a database's transactions.
type checkKey struct{ db *DB }

// WithCheck returns a context with which every Update and UpdateLocking of this
// database begins with check, in the same transaction. If check returns an error,
// the transaction is rolled back and returns it.
func (d *DB) WithCheck(ctx context.Context, check func(*Tx) error) context.Context {
	return context.WithValue(ctx, checkKey{d}, check)
}

func (d *DB) updateOptions() *sql.TxOptions {
	if d.dialect == Postgres {
		return &sql.TxOptions{Isolation: sql.LevelSerializable}
	}
	return nil // BEGIN IMMEDIATE, by the _txlock of the writer
}

func (d *DB) viewOptions() *sql.TxOptions {
	if d.dialect == Postgres {
		return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return &sql.TxOptions{ReadOnly: true}
}

// noTransaction are the options of Read.
var noTransaction = &sql.TxOptions{ReadOnly: true}

// begin begins a transaction, or takes a connection for Read.
func begin(ctx context.Context, pool *sql.DB, opts *sql.TxOptions) (transaction, error) {
	if opts != noTransaction {
		return pool.BeginTx(ctx, opts)
	}
	conn, err := pool.Conn(ctx)
	return lookups{conn}, err
}

// transaction is a *sql.Tx, or lookups.
type transaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// lookups runs each query of Read on its own. It is only ever rolled back.
type lookups struct{ *sql.Conn }

func (lookups) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, ErrReadOnly
}

func (l lookups) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if !strings.HasPrefix(query, "SELECT ") {
		return nil, ErrReadOnly
	}
	return l.Conn.QueryContext(ctx, query, args...)
}

func (lookups) Commit() error     { return ErrReadOnly }
func (l lookups) Rollback() error { return l.Close() }

const (
	maxAttempts = 50
	firstPause  = time.Millisecond
	longPause   = 100 * time.Millisecond
)

func (d *DB) run(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, fn func(tx *Tx) error) error {
	if ctx.Value(insideTx{}) == d {
		return errors.New("transactions do not nest: use the one this context belongs to")
	}
	if d.observe != nil {
		defer func(began time.Time) { d.observe(opts == nil || !opts.ReadOnly, time.Since(began)) }(time.Now())
	}
	for attempt := 1; ; attempt++ {
		if d.closed.Load() {
			return ErrClosed
		}
		again, err := d.attempt(ctx, pool, opts, fn)
		switch {
		case err == nil:
			return nil
		case !again:
			return err
		case attempt == maxAttempts:
			return fmt.Errorf("gave up after %d attempts: %w", attempt, err)
		}
		d.log.DebugContext(ctx, "transaction retried", "attempt", attempt, "error", err)
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// attempt runs fn in one transaction. again reports whether it failed only
// because of another transaction.
func (d *DB) attempt(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, fn func(tx *Tx) error) (again bool,
	err error) {
	begun, err := begin(ctx, pool, opts)
	if err != nil {
		if d.closed.Load() {
			return false, ErrClosed
		}
		return retryable(err), orContext(ctx, d.unavailable(fmt.Errorf("begin: %w", beginFault(err)), false))
	}
	tx := &Tx{db: d, sql: begun}
	tx.ctx = context.WithValue(ctx, insideTx{}, d)
	committed := false
	// Deferred and without recover, so that it also runs when fn panics (and the
	// panic keeps its stack) or ends its goroutine, as a failing test does.
	defer func() {
		tx.over = true
		tx.closeRows()
		if !committed {
			begun.Rollback() //nolint:errcheck // a broken connection is discarded by the pool
		}
	}()

	if check, ok := ctx.Value(checkKey{d}).(func(*Tx) error); ok && (opts == nil || !opts.ReadOnly) {
		err = check(tx)
	}
	if err == nil {
		err = fn(tx)
	}
	if leaked := tx.closeRows(); leaked && err == nil {
		err = fmt.Errorf("at the end of the transaction: %w", ErrRowsOpen)
	}
	if err == nil && tx.failed != nil {
		err = fmt.Errorf("a failed statement was ignored: %w", tx.failed)
	}
	if err != nil {
		if ctx.Err() != nil {
			return false, orContext(ctx, err)
		}
		// fn may have wrapped the reason in its own error.
		if unreachable(tx.failed) {
			return false, d.unavailable(tx.failed, false)
		}
		return retryable(err) || retryable(tx.failed), err
	}
	if opts != nil && opts.ReadOnly {
		return false, nil
	}
	committed = true
	if err := begun.Commit(); err != nil {
		return retryable(err), orContext(ctx, d.unavailable(fmt.Errorf("commit: %w", translate(err)), true))
	}
	return false, nil
}

// pause waits a random time, up to a limit that doubles with every attempt, so
// that colliding transactions do not collide again.
func pause(ctx context.Context, attempt int) error {
	limit := longPause
	if attempt < 10 {
		limit = min(limit, firstPause<<attempt)
	}
	background.Sleep(ctx, rand.N(limit))
	return context.Cause(ctx)
}
