package notifydb

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// usage knows how many bytes of sends and lists are stored of the clients that send now, so that
// sending costs no statement for it. What this process stored is written to the database when it
// is much: a crash forgets usageStep of a client at most, and other servers learn of it late.
type usage struct {
	bounds notify.Bounds

	mu sync.Mutex
	of map[string]*clientUsage
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
	// sendOverhead is what a send takes in addition to its data: the row, an idempotency key and a list's row.
	// The migration has the same number.
	sendOverhead = 512
	usageStep    = 1 << 20
	// usageFor is how long the number is used while it is far from the limit.
	usageFor    = 10 * time.Second
	manyClients = 10_000
)

// listBytes is the size of a list l.
const listBytes = "SELECT COALESCE(SUM(octet_length(members)), 0) FROM notify_list_members WHERE list = l.id"

func sendSize(data string) int64 { return int64(len(data)) + sendOverhead }

// storing runs store, which stores n bytes of a client or reports that it did not. It fails if the
// client has too much.
func (s *Store) storing(ctx context.Context, client string, n int64, store func() (bool, error)) error {
	if err := s.reserve(ctx, client, n); err != nil {
		return err
	}
	stored := false
	defer func() { // also after a panic
		if !stored {
			s.usage.add(client, -n)
		}
	}()
	var err error
	if stored, err = store(); err != nil || !stored {
		return err
	}
	s.saveUsage(ctx, client)
	return nil
}

// reserve counts n bytes, unless that is too much.
func (s *Store) reserve(ctx context.Context, client string, n int64) error {
	u, limit := &s.usage, s.usage.bounds.Sends
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
		if _, err := s.readUsage(ctx, client); err != nil {
			return err
		}
	}
}

func (u *usage) add(client string, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if have := u.of[client]; have != nil {
		have.bytes += n
		have.unsaved += n
	}
}

// readUsage reads how much is stored of a client.
func (s *Store) readUsage(ctx context.Context, client string) (int64, error) {
	stored, err := read(ctx, s, func(tx *db.Tx) (int64, error) {
		return one(tx, scanNumber,
			"SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM notify_usage WHERE client_id = ?", client)
	})
	if err != nil {
		return 0, err
	}
	u := &s.usage
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

// saveUsage writes what is not in the database if it is much. If that fails, the next one does it.
func (s *Store) saveUsage(ctx context.Context, client string) {
	u := &s.usage
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
	err := s.lock(context.WithoutCancel(ctx), func(tx *db.Tx) error { return addUsage(tx, client, s.shard(), n) })
	u.mu.Lock()
	defer u.mu.Unlock()
	have.saving = false
	if err != nil {
		s.log.WarnContext(ctx, "store the usage of a client failed, trying again later", "client", client, "error", err)
		return
	}
	have.unsaved -= n
}

func addUsage(tx *db.Tx, client string, shard int, n int64) error {
	_, err := tx.Exec(insert("notify_usage", "client_id, shard, bytes")+
		" ON CONFLICT (client_id, shard) DO UPDATE SET bytes = notify_usage.bytes + excluded.bytes", client, shard, n)
	return err
}

// freed is what a client has less.
type freed struct {
	client string
	bytes  int64
}

func scanFreed(row db.Scanner) (f freed, err error) {
	err = row.Scan(&f.client, &f.bytes)
	return f, err
}

// freeing runs a transaction that deletes sends or lists, and returns of whom and how much.
func (s *Store) freeing(ctx context.Context, remove func(*db.Tx) ([]freed, error)) error {
	var total map[string]int64
	shard := s.shard()
	err := s.lock(ctx, func(tx *db.Tx) error {
		all, err := remove(tx)
		if err != nil {
			return err
		}
		total = map[string]int64{}
		for _, f := range all {
			total[f.client] += f.bytes
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
	u := &s.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	for client, n := range total {
		if have := u.of[client]; have != nil {
			have.bytes = max(0, have.bytes-n)
		}
	}
	return nil
}

// definitionTables are where the definitions of clients are: the columns that are counted, and which
// rows are a client's. Rows cost something even if they are empty.
var definitionTables = []struct{ table, columns, where string }{
	{"notify_clients", "octet_length(description)", "id = ?"},
	{"notify_kinds", "octet_length(id) + octet_length(description) + octet_length(workflow) + octet_length(digest)",
		"client_id = ?"},
	{"notify_schemas", "octet_length(content)", "client_id = ?"},
	{"notify_templates", templateBytes, "creator = ?"},
	{"notify_templates", templateBytes, "owner = ?"},
	{"notify_partials", "octet_length(name) + octet_length(text) + octet_length(html) + octet_length(variants)",
		"owner = ?"},
	{"notify_template_versions", versionBytes, "client = ?"},
	{"notify_senders", "octet_length(name)", "client_id = ?"},
	{"notify_destinations", "octet_length(url) + octet_length(secret)", "client_id = ?"},
	{"notify_providers", "octet_length(definition) + octet_length(secrets)", "owner = ?"},
	{"notify_recurring", "octet_length(name) + octet_length(message)", "client_id = ?"},
	{"notify_origins", "octet_length(origin)", "client_id = ?"},
	{"notify_campaign_types", "octet_length(name) + octet_length(description)", "client_id = ?"},
}

const (
	templateBytes = "octet_length(name) + octet_length(subject) + octet_length(text) + octet_length(html) + " +
		"octet_length(metadata) + octet_length(variants)"
	versionBytes = "octet_length(name) + octet_length(subject) + octet_length(text) + octet_length(html) + " +
		"octet_length(metadata) + octet_length(variants)"
	// definitionOverhead is what a row takes.
	definitionOverhead = 256
)

// definitions returns the bytes that a client defined.
func definitions(tx *db.Tx, client string) (int64, error) {
	if client == "" { // nobody's, such as the default templates
		return 0, nil
	}
	query, args := "", []any{}
	for i, of := range definitionTables {
		if i > 0 {
			query += " UNION ALL "
		}
		query += "SELECT CAST(COALESCE(SUM(" + of.columns + " + ?), 0) AS BIGINT) AS n FROM " + of.table +
			" WHERE " + of.where
		args = append(args, definitionOverhead, client)
	}
	return one(tx, scanNumber, "SELECT CAST(SUM(n) AS BIGINT) FROM ("+query+") AS sizes", args...)
}

// define runs a change of the definitions of a client, and undoes it if they become too large.
func (s *Store) define(ctx context.Context, client string, change func(*db.Tx) error) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		return s.checkDefinitions(tx, client)
	})
}

func (s *Store) checkDefinitions(tx *db.Tx, client string) error {
	limit := s.usage.bounds.Definitions
	if limit < 0 {
		return nil
	}
	n, err := definitions(tx, client)
	if err == nil && n > limit {
		if err = forgetVersions(tx, client, n-limit); err == nil {
			n, err = definitions(tx, client)
		}
	}
	if err == nil && n > limit {
		return notify.Stored{Definitions: n, Bounds: s.usage.bounds}.DefinitionsFull(client)
	}
	return err
}

// Stored implements notify.Store.
func (s *Store) Stored(ctx context.Context, clientID string) (notify.Stored, error) {
	sends, err := s.readUsage(ctx, clientID)
	if err != nil {
		return notify.Stored{}, err
	}
	defined, err := read(ctx, s, func(tx *db.Tx) (int64, error) { return definitions(tx, clientID) })
	return notify.Stored{Sends: sends, Definitions: defined, Bounds: s.usage.bounds}, err
}
