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

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Options are what Open needs beside the database.
type Options struct {
	// QueueLimit is how many messages may wait before Accept refuses more; 0 is
	// no limit.
	QueueLimit int
	// Log takes notes about what was worked around; none are made without it.
	Log *slog.Logger
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Store implements notify.Store. It may be used by many goroutines.
type Store struct {
	db     *db.DB
	limit  int
	log    *slog.Logger
	now    func() time.Time
	shards atomic.Uint32

	accepting  group
	numbers    block
	sends      sendCache
	registered registered
	filters    filters
	held       held
	seen       seen
	// claiming lets one claim of this process run at a time: they would only
	// wait for each other in the database.
	claiming chan struct{}
	turn     atomic.Uint32
	purging  chan struct{}
}

var _ notify.Store = (*Store)(nil)

// SealedColumns are those to seal anew when the server's key is exchanged.
func SealedColumns() []db.SealedColumn {
	return []db.SealedColumn{
		{Table: "notify_webhooks", Key: "id", Column: "secret"},
		{Table: "notify_secrets", Key: "name", Column: "value"},
	}
}

// Open brings the tables to their newest version and makes a store of them. An
// SQLite file belongs to one store at a time: it ends what an earlier process
// left held.
func Open(ctx context.Context, d *db.DB, o Options) (*Store, error) {
	s := &Store{
		db: d, limit: o.QueueLimit, log: o.Log, now: o.Now,
		claiming: make(chan struct{}, 1), purging: make(chan struct{}, 1),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.shards.Store(rand.Uint32())
	s.held.init()
	m, err := migrations(d.Dialect())
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx, m); err != nil {
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

// view returns what read finds.
func view[T any](ctx context.Context, s *Store, read func(*db.Tx) (T, error)) (T, error) {
	return within(ctx, s.db.View, read)
}

// update returns what change returns, once that is stored.
func update[T any](ctx context.Context, s *Store, change func(*db.Tx) (T, error)) (T, error) {
	return within(ctx, s.db.Update, change)
}

func within[T any](ctx context.Context, run func(context.Context, func(*db.Tx) error) error, fn func(*db.Tx) (T, error)) (T, error) {
	var v, none T
	err := run(ctx, func(tx *db.Tx) (err error) {
		v, err = fn(tx)
		return err
	})
	if err != nil {
		return none, meaning(err)
	}
	return v, nil
}

// write is update for a change that has no result.
func (s *Store) write(ctx context.Context, change func(*db.Tx) error) error {
	defer s.registered.forget()()
	return meaning(s.db.Update(ctx, change))
}

// lock is write at the level of queues, see db.UpdateLocking.
func (s *Store) lock(ctx context.Context, change func(*db.Tx) error) error {
	return meaning(s.db.UpdateLocking(ctx, change))
}

// meaning puts the words of notify for errors of the database.
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

// unstorable is for callers who sent what no database can hold.
func unstorable(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return fault.Wrap(err, fault.Unprocessable,
		"A text of the request holds a NUL character or is not valid UTF-8, so it cannot be stored. Send it without such characters.")
}

// one looks a row up. Text that cannot be stored is the key of no row.
func one[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, args ...any) (T, error) {
	v, err := db.One(tx, scan, query, args...)
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) {
		return v, notify.ErrNotFound
	}
	return v, err
}

// changed is ErrNotFound when a statement found no row.
func changed(n int64, err error) error {
	if err == nil && n == 0 {
		return notify.ErrNotFound
	}
	return err
}

// found is changed for a statement whose keys may be text that cannot be stored.
func found(n int64, err error) error {
	if errors.Is(err, db.ErrText) {
		return notify.ErrNotFound
	}
	return changed(n, err)
}

// shardCount is how many rows a counter has.
const shardCount = 16

// shard chooses the row of a counter for one transaction.
func (s *Store) shard() int {
	if !s.Shared() {
		return 0 // there is one writer
	}
	return int(s.shards.Add(1) % shardCount)
}

// takeTurn waits until a channel with room for one has it.
func takeTurn(ctx context.Context, turn chan struct{}) (release func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// block is numbers that this process took for sends.
type block struct {
	mu         sync.Mutex
	next, end  int64
	takenUntil time.Time
}

const (
	blockSize = 1024
	// blockLife bounds how far the order of numbers can be from that of time
	// among processes that share a database.
	blockLife = time.Minute
)

// take returns the first of n numbers that nobody else has.
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
