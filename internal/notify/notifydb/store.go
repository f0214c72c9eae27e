package notifydb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Options configure Open.
type Options struct {
	// QueueLimit is the number of waiting messages at which Accept returns
	// ErrQueueFull; 0 means no limit.
	QueueLimit int
	// Bounds limit what is stored of each client.
	Bounds notify.Bounds
	// Log receives messages about recovered problems; nil discards them.
	Log *slog.Logger
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Store implements notify.Store. It is safe for concurrent use.
type Store struct {
	db     *db.DB
	limit  int
	log    *slog.Logger
	now    func() time.Time
	steady func() time.Time // for due times and leases
	shards atomic.Uint32

	accepting  group
	backlog    backlog // used by the leader of accepting
	numbers    block
	schedule   schedule
	sends      sendCache
	registered registered
	filters    filters
	usage      usage
	held       held
	seen       seen
	// claiming allows one claim of this process at a time: concurrent ones
	// would only wait for each other in the database.
	claiming chan struct{}
	turn     atomic.Uint32
	purging  chan struct{}
	// erasing allows one erasure of this process at a time.
	erasing chan struct{}
	hashes  hashes
	digests digestTurn
}

var _ notify.Store = (*Store)(nil)

// SealedColumns returns the columns to reseal when the server's key is rotated.
func SealedColumns() []db.SealedColumn {
	return []db.SealedColumn{
		{Table: "notify_webhooks", Key: "id", Column: "secret"},
		{Table: "notify_secrets", Key: "name", Column: "value"},
		{Table: "notify_destinations", Key: "id", Column: "url"},
		{Table: "notify_destinations", Key: "id", Column: "secret"},
		{Table: "notify_providers", Key: "id", Column: "secrets"},
	}
}

// Open migrates the tables and returns a store. An SQLite file belongs to one
// store at a time: Open releases the leases of an earlier process.
func Open(ctx context.Context, d *db.DB, o Options) (*Store, error) {
	s := &Store{
		db: d, limit: o.QueueLimit, log: o.Log, now: o.Now, steady: o.Now,
		usage:    usage{bounds: o.Bounds.WithDefaults(), of: map[string]*clientUsage{}},
		claiming: make(chan struct{}, 1), purging: make(chan struct{}, 1),
		erasing: make(chan struct{}, 1),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
		s.steady = clock.Steady
	}
	s.shards.Store(rand.Uint32())
	s.held.init()
	if err := d.Migrate(ctx, Migrations(d.Dialect())); err != nil {
		return nil, err
	}
	if !d.Shared() {
		if err := s.releaseAll(ctx); err != nil {
			return nil, fmt.Errorf("notification store: %w", err)
		}
	}
	return s, nil
}

// Shared implements notify.Store.
func (s *Store) Shared() bool { return s.db.Shared() }

// view runs read in a read-only transaction.
func view[T any](ctx context.Context, s *Store, read func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, s.db.View, read)
	return v, meaning(err)
}

// read is like view for a single query.
func read[T any](ctx context.Context, s *Store, query func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, s.db.Read, query)
	return v, meaning(err)
}

// update runs change in a transaction and returns its result.
func update[T any](ctx context.Context, s *Store, change func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, s.db.Update, change)
	return v, meaning(err)
}

// write is like update for a change without a result.
func (s *Store) write(ctx context.Context, change func(*db.Tx) error) error {
	defer s.registered.forget()()
	return meaning(s.db.Update(ctx, change))
}

// lock is like write with db.UpdateLocking.
func (s *Store) lock(ctx context.Context, change func(*db.Tx) error) error {
	return meaning(s.db.UpdateLocking(ctx, change))
}

// meaning converts errors of package db to those of notify.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case db.IsConflict(err):
		return fmt.Errorf("%w (%w)", notify.ErrConflict, err)
	case errors.Is(err, db.ErrText):
		return unstorable(err)
	}
	return err
}

// unstorable is the error for text that no database can store.
func unstorable(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return fault.Wrap(err, fault.Unprocessable,
		"The request contains a NUL character or invalid UTF-8, which cannot be stored. Send it without such characters.")
}

// one reads a row. Text that cannot be stored matches no row.
func one[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, args ...any) (T, error) {
	v, err := db.One(tx, scan, query, args...)
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) {
		return v, notify.ErrNotFound
	}
	return v, err
}

// changed returns ErrNotFound when a statement changed no row.
func changed(n int64, err error) error {
	if err == nil && n == 0 {
		return notify.ErrNotFound
	}
	return err
}

// found is like changed for statements whose keys may be text that cannot be
// stored.
func found(n int64, err error) error {
	if errors.Is(err, db.ErrText) {
		return notify.ErrNotFound
	}
	return changed(n, err)
}

// shardCount is the number of rows of a counter.
const shardCount = 16

// shard chooses the row of a counter for one transaction.
func (s *Store) shard() int {
	if !s.Shared() {
		return 0 // there is one writer
	}
	return int(s.shards.Add(1) % shardCount)
}

// acquire acquires a semaphore.
func acquire(ctx context.Context, turn chan struct{}) (release func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// block is a range of send numbers reserved by this process.
type block struct {
	mu         sync.Mutex
	next, end  int64
	takenUntil time.Time
}

const (
	blockSize = 1024
	// blockLife limits how far the order of numbers can deviate from that of
	// time among processes that share a database.
	blockLife = time.Minute
)

// take returns the first of n unused numbers.
func (s *Store) take(ctx context.Context, n int) (int64, error) {
	b := &s.numbers
	b.mu.Lock()
	defer b.mu.Unlock()
	now := s.now()
	if b.end-b.next < int64(n) || now.After(b.takenUntil) {
		size := int64(max(blockSize, n))
		next, err := update(ctx, s, func(tx *db.Tx) (next int64, err error) {
			err = tx.QueryRow("UPDATE notify_numbers SET next = next + ? WHERE name = 'send' RETURNING next", size).Scan(&next)
			return next, err
		})
		if err != nil {
			return 0, err
		}
		b.next, b.end, b.takenUntil = next-size, next, now.Add(blockLife)
	}
	first := b.next
	b.next += int64(n)
	return first, nil
}
