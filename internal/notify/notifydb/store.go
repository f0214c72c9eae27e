package notifydb

import (
	"context"
	cryptorand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/clock"
	"ingot/internal/base/db"
	"ingot/internal/base/keyed"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/browsers"
	"ingot/internal/notify/notifydb/catalog"
	"ingot/internal/notify/notifydb/figures"
	"ingot/internal/notify/notifydb/files"
	"ingot/internal/notify/notifydb/inboxes"
	"ingot/internal/notify/notifydb/occurrences"
	"ingot/internal/notify/notifydb/preferences"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/reactions"
	"ingot/internal/notify/notifydb/receipts"
	"ingot/internal/notify/notifydb/repeats"
	"ingot/internal/notify/notifydb/throttles"
	"ingot/internal/notify/notifydb/topics"
	"ingot/internal/notify/notifydb/usage"
	"ingot/internal/notify/notifydb/webhooks"
)

// Options configure Open.
type Options struct {
	// QueueLimit is the number of waiting messages at which Accept returns
	// ErrQueueFull; 0 means no limit.
	QueueLimit int
	// Bounds limit what is stored of each client.
	Bounds notify.Bounds
	// KeptLimit is how long Purge keeps messages at most, whatever their sends say; 0 means no limit.
	KeptLimit time.Duration
	// Log receives messages about recovered problems; nil discards them.
	Log *slog.Logger
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Store implements notify.Store. It is safe for concurrent use.
type Store struct {
	*browsers.Browsers
	*catalog.Catalog
	*files.Files
	*inboxes.Inboxes
	*occurrences.Occurrences
	*preferences.Choices
	*reactions.Reactions
	*throttles.Throttles
	*topics.Topics
	*webhooks.Hooks

	db     *db.DB
	bounds notify.Bounds
	limit  int
	kept   time.Duration // Options.KeptLimit
	log    *slog.Logger
	now    func() time.Time
	steady func() time.Time // for due times and leases
	shards atomic.Uint32

	accepting group
	backlog   backlog // used by the leader of accepting
	load      waitLoad
	numbers   block
	schedule  schedule
	sends     sendCache
	filters   repeats.Filters
	usage     *usage.Usage
	held      held
	seen      receipts.Seen
	// claiming allows one claim of this process at a time: concurrent ones
	// would only wait for each other in the database.
	claiming chan struct{}
	turn     atomic.Uint32
	purging  chan struct{}
	// erasing allows one erasure of this process at a time, and erasers one of each client to wait for that.
	erasing chan struct{}
	erasers keyed.Mutex
	figures figures.Keeper
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
		{Table: "notify_push", Key: "id", Column: "target"},
	}
}

// Open migrates the tables and returns a store. An SQLite file belongs to one
// store at a time: Open releases the leases of an earlier process.
func Open(ctx context.Context, d *db.DB, o Options) (*Store, error) {
	s := &Store{
		db: d, Catalog: catalog.New(d, o.Bounds.WithDefaults()), bounds: o.Bounds.WithDefaults(),
		limit: o.QueueLimit, kept: o.KeptLimit,
		log: o.Log, now: o.Now, steady: o.Now,
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
	s.figures.Now = s.now
	s.Reactions = reactions.New(d, &s.figures, s.shard)
	s.usage = usage.New(d, s.shard, s.log, s.bounds)
	s.Files = files.New(d, s.usage, s.now)
	s.Browsers = browsers.New(d, s.usage)
	s.Inboxes = inboxes.New(d, s.usage, s.now, s.log)
	hasher := query.NewHasher(s.IDKey)
	s.Topics = topics.New(d, s.Catalog, hasher, s.now)
	s.Choices = preferences.New(d, s.now, hasher, s.Topics)
	s.Throttles = throttles.New(d, s.steady, hasher)
	s.Occurrences = occurrences.New(d, s.Catalog, s.now)
	s.Hooks = webhooks.New(d, s.steady)
	s.filters.ChannelOf = channelOf
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

// lock runs a change in a transaction of db.UpdateLocking.
func (s *Store) lock(ctx context.Context, change func(*db.Tx) error) error {
	return query.Lock(ctx, s.db, change)
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
		next, err := query.Update(ctx, s.db, func(tx *db.Tx) (next int64, err error) {
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

// Stored implements notify.Store.
func (s *Store) Stored(ctx context.Context, clientID string) (notify.Stored, error) {
	sends, err := s.usage.Read(ctx, clientID)
	if err != nil {
		return notify.Stored{}, err
	}
	defined, err := s.Definitions(ctx, clientID)
	return notify.Stored{Sends: sends, Definitions: defined, Bounds: s.bounds}, err
}

const (
	sealedSecret = "notify_secrets.value"
	idKey        = "id-key"
)

// IDKey implements notify.Store.
func (s *Store) IDKey(ctx context.Context) ([]byte, error) {
	fresh := make([]byte, 32)
	cryptorand.Read(fresh) //nolint:errcheck // it never fails
	return query.Update(ctx, s.db, func(tx *db.Tx) ([]byte, error) {
		_, err := tx.Exec("INSERT INTO notify_secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
			idKey, tx.Seal(sealedSecret, idKey, fresh))
		if err != nil {
			return nil, err
		}
		sealed, err := query.One(tx, query.ScanText, "SELECT value FROM notify_secrets WHERE name = ?", idKey)
		if err != nil {
			return nil, err
		}
		return tx.Unseal(sealedSecret, idKey, sealed)
	})
}
