package logdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"ingot/internal/base/clock"
	"ingot/internal/base/db"
	"ingot/internal/platform/logs/frame"
)

const (
	// slotAge is when a partition is closed.
	slotAge = 10 * time.Minute
	// smallRuns is how many runs below the final size an app may have.
	smallRuns = 8
	// maxStreams is how many positions of streams an app may have.
	maxStreams = 1000
	// mergeBytes is how much is merged at a time, before compression.
	mergeBytes = 8 << 20
	// measureEvery is how often the sizes of all logs are added up.
	measureEvery = time.Minute
	// housekeeping is the key of the advisory lock that one server has at a time.
	housekeeping int64 = 0x696e676f74_02
)

// errBusy means that another server does the housekeeping.
var errBusy = errors.New("another server is at it")

// alone runs fn in a transaction that no other server runs at the same time. Without wait,
// it does nothing while another one does. The lock ends with the transaction, so it cannot
// be lost before.
func (s *Store) alone(ctx context.Context, wait bool, fn func(tx *db.Tx) error) error {
	err := s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		if wait {
			if _, err := tx.Exec("SELECT pg_advisory_xact_lock(?)", housekeeping); err != nil {
				return err
			}
			return fn(tx)
		}
		var got bool
		if err := tx.QueryRow("SELECT pg_try_advisory_xact_lock(?)", housekeeping).Scan(&got); err != nil {
			return err
		}
		if !got {
			return errBusy
		}
		return fn(tx)
	})
	if errors.Is(err, errBusy) {
		return nil
	}
	return err
}

// maintain closes the open partition if it is old or large, or with now in any case, merges
// closed ones, drops merged ones, and applies the limits.
func (s *Store) maintain(ctx context.Context, now bool) error {
	if !now && s.options.Lead != nil && !s.options.Lead(ctx) {
		if clock.Steady().UnixNano()-s.measured.Load() > int64(measureEvery) {
			return s.measure(ctx)
		}
		return nil
	}
	if err := s.alone(ctx, now, func(tx *db.Tx) error { return s.rotate(tx, now) }); err != nil {
		return err
	}
	slots, err := s.slots(ctx, "SELECT slot FROM log_slots WHERE NOT open AND NOT merged ORDER BY slot")
	if err != nil {
		return err
	}
	for _, slot := range slots {
		if err := s.alone(ctx, now, func(tx *db.Tx) error { return s.merge(tx, slot) }); err != nil {
			return err
		}
	}
	merged, err := s.slots(ctx, "SELECT slot FROM log_slots WHERE merged ORDER BY slot")
	if err != nil {
		return err
	}
	for _, slot := range merged {
		if err := s.alone(ctx, now, func(tx *db.Tx) error { return dropSlot(tx, slot) }); err != nil {
			return err
		}
	}
	if len(slots) > 0 || now {
		if err := s.alone(ctx, now, s.limit); err != nil {
			return err
		}
	}
	if err := s.deleteObjects(ctx); err != nil {
		return err
	}
	if len(slots) > 0 || now || clock.Steady().UnixNano()-s.measured.Load() > int64(measureEvery) {
		return s.measure(ctx)
	}
	return nil
}

func (s *Store) slots(ctx context.Context, query string) ([]int64, error) {
	return db.Within(ctx, s.db.View, func(tx *db.Tx) ([]int64, error) { return db.All(tx, value[int64], query) })
}

func partition(slot int64) string { return "log_chunks_" + strconv.FormatInt(slot, 10) }

// rotateIfNeeded makes the first partition.
func (s *Store) rotateIfNeeded(ctx context.Context) error {
	return s.alone(ctx, true, func(tx *db.Tx) error { return s.rotate(tx, false) })
}

// rotate opens another partition if there is none, or if the open one has lines and is old
// or large. Flushes hold a share lock on the row of the open partition, so that a closed
// one has all its lines.
func (s *Store) rotate(tx *db.Tx, now bool) error {
	var slot, age, size int64
	err := tx.QueryRow(`SELECT slot, CAST(EXTRACT(EPOCH FROM now()) * 1000000000 AS BIGINT) - created FROM log_slots WHERE open`).Scan(&slot, &age)
	switch {
	case errors.Is(err, db.ErrNotFound):
	case err != nil:
		return err
	default:
		if err := tx.QueryRow("SELECT pg_total_relation_size(CAST(? AS regclass))", partition(slot)).Scan(&size); err != nil {
			return err
		}
		due := now || age > int64(slotAge) || size > max(8<<20, s.options.TotalBytes/8)
		if !due {
			return nil
		}
		var any bool
		if err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM log_chunks WHERE slot = ?)", slot).
			Scan(&any); err != nil || !any {
			return err
		}
		if _, err := tx.Exec("UPDATE log_slots SET open = FALSE WHERE slot = ?", slot); err != nil {
			return err
		}
	}
	slot++
	if err := createPartition(tx, slot); err != nil {
		return err
	}
	_, err = tx.Exec("INSERT INTO log_slots (slot, created, open, merged) VALUES (?, CAST(EXTRACT(EPOCH FROM now()) * "+
		"1000000000 AS BIGINT), TRUE, FALSE)", slot)
	return err
}

func createPartition(tx *db.Tx, slot int64) error {
	// Attached afterwards, because that does not lock out readers and writers.
	if _, err := tx.Exec(fmt.Sprintf("CREATE TABLE %s (LIKE log_chunks INCLUDING ALL)", partition(slot))); err != nil {
		return err
	}
	_, err := tx.Exec(fmt.Sprintf("ALTER TABLE log_chunks ATTACH PARTITION %s FOR VALUES IN (%d)", partition(slot), slot))
	return err
}

// CopyPartitions creates the partitions of one database in another, whose tables are
// empty. It does nothing if the first has no tables of logs.
func CopyPartitions(from, to *db.Tx) error {
	var has bool
	if err := from.QueryRow("SELECT to_regclass('log_slots') IS NOT NULL").Scan(&has); err != nil || !has {
		return err
	}
	slots, err := db.All(from, value[int64], "SELECT slot FROM log_slots")
	for _, slot := range slots {
		if err == nil {
			err = createPartition(to, slot)
		}
	}
	return err
}

// dropSlot drops a merged partition. It needs a moment without readers and writers; if
// there is none, the next housekeeping tries again.
func dropSlot(tx *db.Tx, slot int64) error {
	for _, statement := range []string{
		"SET LOCAL lock_timeout = '500ms'",
		"DROP TABLE IF EXISTS " + partition(slot),
		"DELETE FROM log_slots WHERE slot = " + strconv.FormatInt(slot, 10),
	} {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}

// share is how much an app has in a partition.
type share struct {
	app string
	raw int64
}

func scanShare(row db.Scanner) (share, error) {
	var s share
	err := row.Scan(&s.app, &s.raw)
	return s, err
}

// merge makes runs of the chunks in a closed partition.
func (s *Store) merge(tx *db.Tx, slot int64) error {
	var open, merged bool
	err := tx.QueryRow("SELECT open, merged FROM log_slots WHERE slot = ?", slot).Scan(&open, &merged)
	if errors.Is(err, db.ErrNotFound) || err == nil && (open || merged) {
		return nil
	}
	if err != nil {
		return err
	}
	shares, err := db.All(tx, scanShare,
		"SELECT app, CAST(SUM(raw) AS BIGINT) FROM log_chunks WHERE slot = ? GROUP BY app ORDER BY app", slot)
	if err != nil {
		return err
	}
	m, err := newMerger(s, tx, slot)
	if err != nil {
		return err
	}
	for len(shares) > 0 {
		var apps []string
		raw := int64(0)
		for len(shares) > 0 && (len(apps) == 0 || raw+shares[0].raw <= mergeBytes && len(apps) < 1000) {
			apps, raw, shares = append(apps, shares[0].app), raw+shares[0].raw, shares[1:]
		}
		if err := m.merge(apps); err != nil {
			return err
		}
	}
	_, err = tx.Exec("UPDATE log_slots SET merged = TRUE WHERE slot = ?", slot)
	return err
}

// merger merges the chunks of one partition.
type merger struct {
	store   *Store
	tx      *db.Tx
	slot    int64
	encoder *zstd.Encoder
	away    bool // the object store does not work

	app, object                               []string
	first, count, minTime, maxTime, raw, size []int64
	data                                      [][]byte
}

func newMerger(s *Store, tx *db.Tx, slot int64) (*merger, error) {
	e, err := newEncoder()
	return &merger{store: s, tx: tx, slot: slot, encoder: e}, err
}

// part is a stored piece, compressed.
type part struct {
	app string
	piece
	data []byte
}

func scanPart(row db.Scanner) (part, error) {
	var p part
	err := row.Scan(&p.app, &p.span.Number, &p.span.Count, &p.span.Min, &p.span.Max, &p.raw, &p.data)
	return p, err
}

const partColumns = "app, first, count, min_time, max_time, raw, data"

// merge makes runs of the chunks of apps. Small runs are merged with them, but not each
// time.
func (m *merger) merge(apps []string) error {
	// DeleteApp waits until these runs can be seen, and a flush does not.
	apps, err := db.All(m.tx, value[string], "SELECT app FROM log_apps WHERE app = ANY(?) ORDER BY app FOR KEY SHARE",
		db.Raw{V: apps})
	if err != nil {
		return err
	}
	small, err := db.All(m.tx, scanPart, "SELECT "+partColumns+
		" FROM log_runs WHERE app = ANY(?) AND object IS NULL AND raw < ? ORDER BY app, first",
		db.Raw{V: apps}, m.store.runBytes())
	if err != nil {
		return err
	}
	var whole, old []string // apps whose runs are all replaced, or the small ones
	for _, app := range apps {
		chunks, full, err := m.chunksOf(app)
		if err != nil {
			return err
		}
		runs := slices.DeleteFunc(slices.Clone(small), func(p part) bool { return p.app != app })
		total := int64(0)
		for _, p := range slices.Concat(runs, chunks) {
			total += p.raw
		}
		switch {
		case full:
			whole = append(whole, app)
		case len(runs) >= smallRuns-1 || total >= int64(m.store.runBytes()):
			old, chunks = append(old, app), append(runs, chunks...)
		}
		if err := m.join(app, chunks); err != nil {
			return err
		}
	}
	if _, err := m.tx.Exec("WITH gone AS (DELETE FROM log_runs WHERE app = ANY(?) OR app = ANY(?) AND object IS NULL "+
		"AND raw < ? RETURNING object) "+keepObjects,
		db.Raw{V: whole}, db.Raw{V: old}, m.store.runBytes()); err != nil {
		return err
	}
	if err := m.insert(); err != nil {
		return err
	}
	_, err = m.tx.Exec(dropRuns("raw", "app = ANY(?)"), db.Raw{V: apps}, m.store.options.PerAppBytes)
	return err
}

// chunksOf returns the newest chunks of an app within its share. full is true if there are
// more: then its runs are too old.
func (m *merger) chunksOf(app string) (chunks []part, full bool, err error) {
	var oldest int64
	err = m.tx.QueryRow(`SELECT COALESCE(MIN(first), 0) FROM (
			SELECT first, SUM(raw) OVER (ORDER BY first DESC) AS above FROM log_chunks WHERE slot = ? AND app = ?
		) AS c WHERE above <= ?`, m.slot, app, m.store.options.PerAppBytes).Scan(&oldest)
	if err != nil {
		return nil, false, err
	}
	if oldest == 0 { // even the newest is larger
		if err := m.tx.QueryRow("SELECT COALESCE(MAX(first), 0) FROM log_chunks WHERE slot = ? AND app = ?", m.slot, app).
			Scan(&oldest); err != nil {
			return nil, false, err
		}
	}
	if err := m.tx.QueryRow("SELECT EXISTS (SELECT 1 FROM log_chunks WHERE slot = ? AND app = ? AND first < ?)", m.slot,
		app, oldest).Scan(&full); err != nil {
		return nil, false, err
	}
	chunks, err = db.All(m.tx, scanPart, "SELECT "+partColumns+
		" FROM log_chunks WHERE slot = ? AND app = ? AND first >= ? ORDER BY first", m.slot, app, oldest)
	return chunks, full, err
}

// join makes runs of consecutive parts.
func (m *merger) join(app string, parts []part) error {
	var raw []byte
	var span frame.Segment
	for i, p := range parts {
		before := len(raw)
		var err error
		if raw, err = m.store.decoder.DecodeAll(p.data, raw); err != nil {
			m.store.options.Log.Warn("log lines cannot be read and are dropped", "app", app, "first", p.first(), "lines",
				p.span.Count, "error", err)
			raw = raw[:before]
		}
		if span.Count == 0 {
			span = p.span
		} else {
			span.Min, span.Max, span.Count = min(span.Min, p.span.Min), max(span.Max, p.span.Max), span.Count+p.span.Count
		}
		if len(raw) >= m.store.runBytes() || i == len(parts)-1 {
			if err := m.add(app, span, raw); err != nil {
				return err
			}
			raw, span = raw[:0], frame.Segment{}
		}
	}
	return nil
}

// add keeps a run for insert. It is put into the object store if it has its final size.
func (m *merger) add(app string, span frame.Segment, raw []byte) error {
	data := m.encoder.EncodeAll(raw, nil)
	object := ""
	size := int64(len(data))
	if m.store.options.Objects != nil && !m.away && len(raw) >= m.store.runBytes() {
		object = app + "/" + strconv.FormatUint(span.Number, 10) + "-" + rand.Text()
		if err := m.store.putObject(object, data); err != nil {
			// It stays in the database.
			m.store.options.Log.Warn("log lines could not be moved to the object store", "app", app, "error", err)
			object, m.away = "", true
		} else {
			data = nil
		}
	}
	m.app, m.object, m.data = append(m.app, app), append(m.object, object), append(m.data, data)
	m.first, m.count, m.raw, m.size = append(m.first, int64(span.Number)), append(m.count, int64(span.Count)),
		append(m.raw, int64(len(raw))), append(m.size, size)
	m.minTime, m.maxTime = append(m.minTime, span.Min), append(m.maxTime, span.Max)
	return nil
}

func (m *merger) insert() error {
	if len(m.app) == 0 {
		return nil
	}
	var args []any
	for _, v := range []any{m.app, m.first, m.count, m.minTime, m.maxTime, m.raw, m.size, m.data, m.object} {
		args = append(args, db.Raw{V: v})
	}
	_, err := m.tx.Exec(`INSERT INTO log_runs (app, first, count, min_time, max_time, raw, size, data, object)
		SELECT app, first, count, min_time, max_time, raw, size, CASE object WHEN '' THEN data END, NULLIF(object, '')
		FROM unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BYTEA[]), CAST(? AS TEXT[]))
		AS r (app, first, count, min_time, max_time, raw, size, data, object)`, args...)
	if err == nil && m.store.options.Objects != nil {
		_, err = m.tx.Exec("DELETE FROM log_objects WHERE object = ANY(?)", db.Raw{V: m.object})
	}
	*m = merger{store: m.store, tx: m.tx, slot: m.slot, encoder: m.encoder, away: m.away}
	return err
}

// keepObjects is the end of a statement that deletes runs: their objects are deleted later.
const keepObjects = "INSERT INTO log_objects (object, since) SELECT object, CAST(EXTRACT(EPOCH FROM now()) * " +
	"1000000000 AS BIGINT) FROM gone WHERE object IS NOT NULL ON CONFLICT DO NOTHING"

// dropRuns is the statement that drops the oldest runs of apps above a limit. It always
// keeps the newest.
func dropRuns(column, where string) string {
	return `WITH gone AS (
			DELETE FROM log_runs USING (
				SELECT app, first, SUM(` + column + `) OVER newer AS above, ROW_NUMBER() OVER newer AS n FROM log_runs WHERE ` + where + `
				WINDOW newer AS (PARTITION BY app ORDER BY first DESC)
			) AS r WHERE log_runs.app = r.app AND log_runs.first = r.first AND r.n > 1 AND r.above > ? RETURNING object
		) ` + keepObjects
}

// limit drops the positions of too many streams, and old runs until all apps are within
// the total limit: each may keep the same, so those with the most lose lines first.
func (s *Store) limit(tx *db.Tx) error {
	if _, err := tx.Exec(`DELETE FROM log_streams USING (
			SELECT stream, ROW_NUMBER() OVER (PARTITION BY app ORDER BY last DESC) AS n FROM log_streams
		) AS s WHERE log_streams.stream = s.stream AND s.n > ?`, maxStreams); err != nil {
		return err
	}
	for level := s.options.PerAppBytes; ; level = level / 4 * 3 {
		runs, chunks, err := sizes(tx)
		if err != nil || runs+chunks <= s.options.TotalBytes/16*15 || level < 1<<10 {
			return err
		}
		if _, err := tx.Exec(dropRuns("size", "TRUE"), level); err != nil {
			return err
		}
	}
}

// sizes returns what runs and chunks take.
func sizes(tx *db.Tx) (runs, chunks int64, err error) {
	err = tx.QueryRow(`SELECT (SELECT COALESCE(CAST(SUM(size) AS BIGINT), 0) FROM log_runs),
		(SELECT COALESCE(CAST(SUM(pg_total_relation_size(inhrelid)) AS BIGINT), 0) FROM pg_inherits WHERE inhparent = CAST('log_chunks' AS regclass))`).Scan(&runs, &chunks)
	return runs, chunks, err
}

// measure updates the figures of Totals.
func (s *Store) measure(ctx context.Context) error {
	return s.db.View(ctx, func(tx *db.Tx) error {
		runs, chunks, err := sizes(tx)
		if err != nil {
			return err
		}
		var apps int64
		if err := tx.QueryRow("SELECT COUNT(*) FROM log_apps").Scan(&apps); err != nil {
			return err
		}
		s.bytes.Store(runs + chunks)
		s.apps.Store(apps)
		s.measured.Store(clock.Steady().UnixNano())
		return nil
	})
}
