package logdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the tables of this store. Only PostgreSQL gets them.
var Migrations = func() db.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // they are embedded
	}
	return db.Migrations{Name: "logs", Files: files}
}()

// Fence keeps a server from writing lines of instances that another server has taken over.
type Fence interface {
	// Hold locks, until tx ends, the leases under which this server follows the instances of
	// these apps, so that none moves before the commit. It returns the apps whose lease this
	// server does not hold.
	Hold(tx *db.Tx, apps []string) (refused []string, err error)
}

// Objects is an object store for lines that no longer change.
type Objects interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete deletes an object. It is not an error if that does not exist.
	Delete(ctx context.Context, name string) error
}

// Options of a store. Zero fields mean the default.
type Options struct {
	// PerAppBytes is what an app may keep, before compression; 8 MiB. Until the newest lines
	// are merged it has more.
	PerAppBytes int64
	// TotalBytes limits what all apps keep together, after compression; 2 GiB. When it is
	// reached, the apps with the most lose their oldest lines first.
	TotalBytes int64
	// MemoryBytes limits the memory of concurrent reads; 64 MiB.
	MemoryBytes int64
	// QueueBytes limits the lines in memory that are not stored yet; 16 MiB.
	QueueBytes int
	// FlushEvery is the longest time between flushes while there are lines, and the shortest
	// between notifications of other servers; 60 ms.
	FlushEvery time.Duration
	// Patience is how long lines are kept while the database cannot be reached; 1 min.
	Patience time.Duration
	// PollEvery is how often a server looks for new lines of its tails if it misses
	// notifications; 2 s.
	PollEvery time.Duration
	// ListenURL is for a database behind a pooler that cannot LISTEN; empty means the URL of
	// the database.
	ListenURL string
	// Fence, unless nil, is asked before lines of instances are stored.
	Fence Fence
	// Subscribe, unless nil, passes on the notifications of Channel, so that the store needs
	// no connection for them. connected reports whether any are received.
	Subscribe func(received func(payload string), connected func(now bool))
	// Alone means that no other server uses the database: there is no one to notify.
	Alone bool
	// Lead reports whether this server does the housekeeping for all; nil means yes.
	Lead func(ctx context.Context) bool
	// Objects, unless nil, keeps runs of the final size.
	Objects Objects
	// ObjectGrace is how long unused objects are kept, for reads in progress; 1 h.
	ObjectGrace time.Duration
	Log         *slog.Logger
}

func (o Options) withDefaults() Options {
	positive := func(v *int64, otherwise int64) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	duration := func(v *time.Duration, otherwise time.Duration) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	positive(&o.PerAppBytes, logs.DefaultShare)
	positive(&o.TotalBytes, logs.DefaultTotal)
	positive(&o.MemoryBytes, 64<<20)
	if o.QueueBytes <= 0 {
		o.QueueBytes = 16 << 20
	}
	duration(&o.FlushEvery, 60*time.Millisecond)
	duration(&o.Patience, time.Minute)
	duration(&o.PollEvery, 2*time.Second)
	duration(&o.ObjectGrace, time.Hour)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Store keeps the logs of all apps in PostgreSQL. It can be used once it is open; Start
// also listens to other servers, and applies the limits.
type Store struct {
	background.Part
	db      *db.DB
	options Options
	server  string // names this process in notifications
	work    context.Context
	cancel  context.CancelFunc
	encoder *zstd.Encoder // of flushes
	decoder *zstd.Decoder
	reads   chan struct{}
	readers logs.Readers
	feed    feed
	queue   queue

	listening atomic.Bool // notifications of other servers are received
	lost      atomic.Uint64
	apps      atomic.Int64
	bytes     atomic.Int64
	measured  atomic.Int64 // steady time at which apps and bytes were counted, in nanoseconds

	// State of the flusher, of which there is at most one.
	flushed time.Time         // when the last flush started
	told    time.Time         // when other servers were notified
	news    map[string]uint64 // first new line by app, of which they do not know yet
	marks   map[string]mark   // positions of streams, as far as known
	own     map[string]int64  // known apps, and the time of the last line without a stream
	scratch []byte

	mu    sync.Mutex
	tails map[string]map[*tail]struct{} // by app
}

var _ logs.Store = (*Store)(nil)

// Open opens the store and migrates its tables.
func Open(ctx context.Context, d *db.DB, o Options) (*Store, error) {
	if d.Dialect() != db.Postgres {
		return nil, errors.New("open the log store: it needs PostgreSQL")
	}
	if err := d.Migrate(ctx, Migrations); err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	o = o.withDefaults()
	s := &Store{db: d, options: o, server: rand.Text(), tails: map[string]map[*tail]struct{}{},
		news: map[string]uint64{}, marks: map[string]mark{}, own: map[string]int64{}}
	s.queue.init(o.QueueBytes)
	s.feed.wake = make(chan struct{}, 1)
	s.reads = make(chan struct{}, max(2, o.MemoryBytes/(o.PerAppBytes+frame.PageBytes)))
	var err error
	if s.encoder, err = newEncoder(); err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	// One line may be as long as a run, and a run has several chunks.
	if s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2),
		zstd.WithDecoderMaxMemory(64<<20)); err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	if err := s.rotateIfNeeded(ctx); err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	s.work, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// newEncoder returns an encoder whose window fits a chunk.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
}

// maintainEvery is the interval of housekeeping.
const maintainEvery = 5 * time.Second

// Start starts listening for lines of other servers, and the housekeeping.
func (s *Store) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		switch {
		case s.options.Alone:
			s.listening.Store(true)
		case s.options.Subscribe != nil:
			s.options.Subscribe(s.received, s.connected)
		default:
			spawn(func() { background.Loop(work, "log notifications", func() { s.listen(work) }) })
		}
		spawn(func() { background.Loop(work, "log polling", func() { s.pollTails(work) }) })
		spawn(func() { background.Loop(work, "log streams of many apps", func() { s.feedHoses(work) }) })
		spawn(func() {
			for range background.Ticks(work, maintainEvery, nil) {
				s.reportLosses()
				if err := background.Do("log housekeeping", func() error { return s.maintain(work, false) }); err != nil &&
					work.Err() == nil {
					s.options.Log.WarnContext(work, "the housekeeping of the log store failed; this is tried again", "error", err)
				}
			}
		})
		return nil
	})
}

// stopPatience is how long Stop waits for lines to be stored.
const stopPatience = 5 * time.Second

// Stop stores what is queued, and closes all tails. Appends after it fail.
func (s *Store) Stop() {
	s.Halt(nil)
	s.queue.close(stopPatience, s.cancel)
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tails := range s.tails {
		for t := range tails {
			t.signal()
		}
	}
}

// stopped reports whether Stop was called.
func (s *Store) stopped() bool { return s.work.Err() != nil }

// Readers implements logs.Store.
func (s *Store) Readers() *logs.Readers { return &s.readers }

// Totals implements logs.Store. The numbers of apps and bytes are those of the last
// housekeeping.
func (s *Store) Totals() logs.Totals {
	return logs.Totals{Apps: s.apps.Load(), Bytes: s.bytes.Load(), Lost: s.lost.Load()}
}
