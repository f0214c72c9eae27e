package usage

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Usage knows how many bytes of sends and lists are stored of the clients that send now, so that
// sending costs no statement for it. What this process stored is written to the database when it
// is much: a crash forgets usageStep of a client at most, and other servers learn of it late.
type Usage struct {
	db     *db.DB
	shard  func() int
	log    *slog.Logger
	bounds notify.Bounds

	mu sync.Mutex
	of map[string]*clientUsage
}

// New returns the usage of clients with these bounds. shard chooses the row of a counter.
func New(d *db.DB, shard func() int, log *slog.Logger, bounds notify.Bounds) *Usage {
	return &Usage{db: d, shard: shard, log: log, bounds: bounds, of: map[string]*clientUsage{}}
}

type clientUsage struct {
	// bytes is what the database had when it was read, with what this process stored and freed since.
	bytes int64
	// unsaved is the part of it that the database does not know.
	unsaved int64
	saving  bool // unsaved is being written
	read    time.Time
}

const (
	// SendOverhead is what a send takes in addition to its data: the row, an idempotency key and a list's row.
	// The migration has the same number.
	SendOverhead = 512
	usageStep    = 1 << 20
	// usageFor is how long the number is used while it is far from the limit.
	usageFor    = 10 * time.Second
	manyClients = 10_000
)

// ListBytes is the size of a list l.
const ListBytes = "SELECT COALESCE(SUM(octet_length(members)), 0) FROM notify_list_members WHERE list = l.id"

// SendSize is how many bytes a send with this data takes.
func SendSize(data string) int64 { return int64(len(data)) + SendOverhead }

// Storing runs store, which stores n bytes of a client or reports that it did not. It fails if the
// client has too much.
func (u *Usage) Storing(ctx context.Context, client string, n int64, store func() (bool, error)) error {
	if err := u.reserve(ctx, client, n); err != nil {
		return err
	}
	stored := false
	defer func() { // also after a panic
		if !stored {
			u.add(client, -n)
		}
	}()
	var err error
	if stored, err = store(); err != nil || !stored {
		return err
	}
	u.save(ctx, client)
	return nil
}

// reserve counts n bytes, unless that is too much.
func (u *Usage) reserve(ctx context.Context, client string, n int64) error {
	limit := u.bounds.Sends
	if limit < 0 {
		limit = 1<<63 - 1
	}
	for read := false; ; read = true {
		u.mu.Lock()
		have := u.of[client]
		fresh := have != nil && (read || time.Since(have.read) < usageFor && have.bytes+n <= limit/2)
		if fresh && have.bytes+n <= limit {
			have.bytes += n
			have.unsaved += n
			u.mu.Unlock()
			return nil
		}
		full := notify.Stored{Bounds: u.bounds}
		if fresh {
			full.Sends = have.bytes
		}
		u.mu.Unlock()
		if fresh {
			return full.SendsFull(client, n)
		}
		if _, err := u.Read(ctx, client); err != nil {
			return err
		}
	}
}

func (u *Usage) add(client string, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if have := u.of[client]; have != nil {
		have.bytes += n
		have.unsaved += n
	}
}

// Read reads how much is stored of a client.
func (u *Usage) Read(ctx context.Context, client string) (int64, error) {
	stored, err := query.Read(ctx, u.db, func(tx *db.Tx) (int64, error) {
		return query.One(tx, query.ScanNumber,
			"SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM notify_usage WHERE client_id = ?", client)
	})
	if err != nil {
		return 0, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	have := u.of[client]
	if have == nil {
		if len(u.of) >= manyClients {
			for id, other := range u.of {
				if other.unsaved == 0 && !other.saving {
					delete(u.of, id)
				}
			}
		}
		have = &clientUsage{}
		u.of[client] = have
	}
	// Clients of before a crash may have freed more than was counted.
	have.bytes, have.read = max(0, stored+have.unsaved), time.Now()
	return have.bytes, nil
}

// save writes what is not in the database if it is much. If that fails, the next one does it.
func (u *Usage) save(ctx context.Context, client string) {
	step := int64(usageStep)
	if b := u.bounds.Sends; b >= 0 {
		step = min(step, b/64)
	}
	u.mu.Lock()
	have := u.of[client]
	if have == nil || have.unsaved < step || have.saving {
		u.mu.Unlock()
		return
	}
	n := have.unsaved
	have.saving = true
	u.mu.Unlock()
	err := query.Lock(context.WithoutCancel(ctx), u.db, func(tx *db.Tx) error {
		return addUsage(tx, client, u.shard(), n)
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	have.saving = false
	if err != nil {
		u.log.WarnContext(ctx, "store the usage of a client failed, trying again later", "client", client, "error", err)
		return
	}
	have.unsaved -= n
}

func addUsage(tx *db.Tx, client string, shard int, n int64) error {
	_, err := tx.Exec(query.Insert("notify_usage", "client_id, shard, bytes")+
		" ON CONFLICT (client_id, shard) DO UPDATE SET bytes = notify_usage.bytes + excluded.bytes", client, shard, n)
	return err
}

// Freed is what a client has less.
type Freed struct {
	Client string
	Bytes  int64
}

// ScanFreed reads a row with a client and bytes.
func ScanFreed(row db.Scanner) (f Freed, err error) {
	err = row.Scan(&f.Client, &f.Bytes)
	return f, err
}

// Freeing runs a transaction that deletes sends or lists, and returns of whom and how much.
func (u *Usage) Freeing(ctx context.Context, remove func(*db.Tx) ([]Freed, error)) error {
	var total map[string]int64
	shard := u.shard()
	err := query.Lock(ctx, u.db, func(tx *db.Tx) error {
		all, err := remove(tx)
		if err != nil {
			return err
		}
		total = map[string]int64{}
		for _, f := range all {
			total[f.Client] += f.Bytes
		}
		for _, client := range slices.Sorted(maps.Keys(total)) { // the same order everywhere, to avoid deadlocks
			if err := addUsage(tx, client, shard, -total[client]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for client, n := range total {
		if have := u.of[client]; have != nil {
			have.bytes = max(0, have.bytes-n)
		}
	}
	return nil
}
