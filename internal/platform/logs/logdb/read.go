package logdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// piece is a chunk or a run of an app.
type piece struct {
	slot int64 // 0: a run
	span frame.Segment
	raw  int64
}

func (p *piece) first() uint64 { return p.span.Number }
func (p *piece) end() uint64   { return p.span.Number + p.span.Count }

// allPieces is a table of the chunks and runs of all apps.
const allPieces = `(
	SELECT CAST(0 AS BIGINT) AS slot, app, first, count, min_time, max_time, raw FROM log_runs
	UNION ALL
	SELECT slot, app, first, count, min_time, max_time, raw FROM log_chunks WHERE slot = ANY(ARRAY(SELECT slot FROM log_slots WHERE NOT merged))
) AS pieces`

const pieceColumns = "slot, first, count, min_time, max_time, raw"

func scanPiece(row db.Scanner) (piece, error) {
	var p piece
	err := row.Scan(&p.slot, &p.span.Number, &p.span.Count, &p.span.Min, &p.span.Max, &p.raw)
	return p, err
}

// value scans a row of one column.
func value[T any](row db.Scanner) (T, error) {
	var v T
	err := row.Scan(&v)
	return v, err
}

// each calls fn for each row of a query.
func each(tx *db.Tx, fn func(row db.Scanner) error, query string, args ...any) error {
	_, err := db.All(tx, func(row db.Scanner) (struct{}, error) { return struct{}{}, fn(row) }, query, args...)
	return err
}

// load reads and decompresses pieces of an app. Those that cannot be read are nil.
func (s *Store) load(tx *db.Tx, app string, pieces []piece) ([]*[]byte, error) {
	var runs, chunks []int64
	at := make(map[int64]int, len(pieces)) // first lines are unique
	for i, p := range pieces {
		at[int64(p.first())] = i
		if p.slot == 0 {
			runs = append(runs, int64(p.first()))
		} else {
			chunks = append(chunks, int64(p.first()))
		}
	}
	out := make([]*[]byte, len(pieces))
	add := func(row db.Scanner) error {
		var first int64
		var data []byte
		var object *string
		if err := row.Scan(&first, &data, &object); err != nil {
			return err
		}
		i := at[first]
		b, err := s.unpack(tx.Context(), data, object, pieces[i].raw)
		if err != nil {
			s.options.Log.Warn("log lines cannot be read", "app", app, "first", first, "error", err)
			return nil
		}
		out[i] = b
		return nil
	}
	if len(runs) > 0 {
		if err := each(tx, add, "SELECT first, data, object FROM log_runs WHERE app = ? AND first = ANY(?)", app,
			db.Raw{V: runs}); err != nil {
			return nil, err
		}
	}
	if len(chunks) > 0 {
		if err := each(tx, add, "SELECT first, data, CAST(NULL AS TEXT) FROM log_chunks WHERE app = ? AND first = ANY(?)",
			app, db.Raw{V: chunks}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unpack decompresses a piece, from the object store if it is there.
func (s *Store) unpack(ctx context.Context, data []byte, object *string, raw int64) (*[]byte, error) {
	if object != nil {
		if s.options.Objects == nil {
			return nil, fmt.Errorf("object %s: no object store is configured", *object)
		}
		var err error
		if data, err = s.options.Objects.Get(ctx, *object); err != nil {
			return nil, err
		}
	}
	b := frame.GetBuffer(int(raw))
	var err error
	*b, err = s.decoder.DecodeAll(data, (*b)[:0])
	return b, err
}

const (
	// readPieces is how many pieces are looked up at a time, and readBytes how much of them
	// is read at a time.
	readPieces = 256
	readBytes  = 1 << 20
)

// some returns how many of the pieces are read at once.
func some(pieces []piece) int {
	n, raw := 0, int64(0)
	for n < len(pieces) && (n == 0 || raw+pieces[n].raw <= readBytes) {
		raw += pieces[n].raw
		n++
	}
	return n
}

// steady is View for reads of chunks: no partition is dropped meanwhile. Its snapshot could
// otherwise be older than the runs that replace a partition, and see neither. LOCK takes no
// snapshot, so that of the transaction is taken afterwards.
func (s *Store) steady(ctx context.Context, fn func(tx *db.Tx) error) error {
	return s.db.View(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec("LOCK TABLE log_chunks IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Read implements logs.Store. It first stores lines of Tell that are queued.
func (s *Store) Read(ctx context.Context, app string, q logs.ReadQuery) ([]platform.LogLine, error) {
	if s.stopped() {
		return nil, logs.ErrStopped
	}
	if !q.HasLines() {
		return nil, nil
	}
	s.flushNow(ctx, app)
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.reads }()
	var lines []platform.LogLine
	err := s.steady(ctx, func(tx *db.Tx) error {
		page := frame.NewPage(q)
		defer page.Release()
		err := s.fill(tx, app, page)
		lines = page.Lines(app)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of app %s: %w", app, err)
	}
	return lines, nil
}

// fill adds the lines of a query to its page.
func (s *Store) fill(tx *db.Tx, app string, page *frame.Page) error {
	q := page.Query()
	order := "min_time, first"
	if q.Descending {
		order = "max_time DESC, first DESC"
	}
	for offset := 0; ; offset += readPieces {
		pieces, err := db.All(tx, scanPiece, "SELECT "+pieceColumns+" FROM "+allPieces+
			" WHERE app = ? AND max_time >= ? AND min_time < ? ORDER BY "+order+" LIMIT ? OFFSET ?", app, q.Start, q.End,
			readPieces, offset)
		if err != nil {
			return err
		}
		for rest := pieces; len(rest) > 0; {
			if page.Done(rest[0].span) {
				return nil
			}
			n := 1
			if page.Count() < q.Limit { // how many are needed is not known
				n = some(rest)
			}
			bufs, err := s.load(tx, app, rest[:n])
			if err != nil {
				return err
			}
			for i, b := range bufs {
				if b != nil {
					page.Add(b, rest[i].first()&(1<<32-1), true)
				}
			}
			rest = rest[n:]
		}
		if len(pieces) < readPieces {
			return nil
		}
	}
}

// Meta implements logs.Store.
func (s *Store) Meta(ctx context.Context) (map[string]logs.Meta, error) {
	if s.stopped() {
		return nil, logs.ErrStopped
	}
	var out map[string]logs.Meta
	err := s.db.View(ctx, func(tx *db.Tx) error {
		out = map[string]logs.Meta{}
		return each(tx, func(row db.Scanner) error {
			var app string
			var m logs.Meta
			var next, first uint64
			var oldest, newest int64
			if err := row.Scan(&app, &next, &m.Lost, &first, &oldest, &newest, &m.Bytes); err != nil {
				return err
			}
			if first > 0 {
				m.Count, m.Oldest, m.Newest = next-first, time.Unix(0, oldest).UTC(), time.Unix(0, newest).UTC()
			}
			m.Expired = next - 1 - m.Count
			if next > 1 || m.Lost > 0 {
				out[app] = m
			}
			return nil
		}, `SELECT log_apps.app, log_apps.next, log_apps.lost, COALESCE(p.first, 0), COALESCE(p.oldest, 0), COALESCE(p.newest, 0), COALESCE(p.raw, 0)
			FROM log_apps LEFT JOIN (
				SELECT app, MIN(first) AS first, MIN(min_time) AS oldest, MAX(max_time) AS newest, CAST(SUM(raw) AS BIGINT) AS raw FROM `+allPieces+` GROUP BY app
			) AS p ON p.app = log_apps.app`)
	})
	if err != nil {
		return nil, fmt.Errorf("read the metadata of logs: %w", err)
	}
	for app, n := range s.queue.unreportedLosses() {
		m := out[app]
		m.Lost += n
		out[app] = m
	}
	return out, nil
}

// Position implements logs.Store. While the database cannot be reached it waits.
func (s *Store) Position(stream string) uint64 {
	return s.marksOf(stream)[stream].seq
}

// Lost implements logs.Store.
func (s *Store) Lost(streams ...string) map[string]uint64 {
	out := map[string]uint64{}
	for name, m := range s.marksOf(streams...) {
		out[name] = m.lost
	}
	return out
}

func (s *Store) marksOf(streams ...string) (all map[string]mark) {
	// Before the rows are read: the flush that drops them may end in between.
	s.queue.mu.Lock()
	forgotten := slices.Concat(s.queue.forget, s.queue.going)
	s.queue.mu.Unlock()
	for began := time.Now(); ; background.Sleep(s.work, 250*time.Millisecond) {
		err := s.db.View(s.work, func(tx *db.Tx) (err error) {
			all, err = readMarks(tx, streams)
			return err
		})
		if err == nil {
			break
		}
		if s.stopped() || time.Since(began) > s.options.Patience {
			s.options.Log.Warn("positions of log streams cannot be read", "error", err)
			return nil
		}
	}
	for _, name := range forgotten {
		delete(all, name)
	}
	return all
}

// Forget implements logs.Store. The next flush drops the position.
func (s *Store) Forget(stream string) {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	if !s.queue.closed {
		s.queue.forget = append(s.queue.forget, stream)
		s.flushSoon()
	}
}

// DeleteApp implements logs.Store.
func (s *Store) DeleteApp(app string) error {
	s.flushNow(s.work, app)
	err := s.db.UpdateLocking(s.work, func(tx *db.Tx) error {
		// The row of the app is first: flushes and merges lock it too.
		n, err := tx.Exec("DELETE FROM log_apps WHERE app = ?", app)
		if err != nil || n == 0 {
			return err
		}
		for _, statement := range []string{
			"DELETE FROM log_streams WHERE app = ?",
			"DELETE FROM log_chunks WHERE app = ?",
			"WITH gone AS (DELETE FROM log_runs WHERE app = ? RETURNING object) " + keepObjects,
		} {
			if _, err := tx.Exec(statement, app); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case s.stopped():
		return logs.ErrStopped
	case err != nil:
		return fmt.Errorf("delete the log of app %s: %w", app, err)
	}
	s.queue.mu.Lock()
	delete(s.queue.unreported, app)
	s.queue.mu.Unlock()
	s.arrived(app, 0)
	if err := s.db.Notify(s.work, Channel, encodePayload(s.server, map[string]uint64{app: 0})); err != nil {
		s.options.Log.Warn("other servers were not notified of a deleted log; they notice it later", "error", err)
	}
	return nil
}
