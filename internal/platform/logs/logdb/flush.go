package logdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// maxKnown limits the apps and streams that the flusher remembers.
const maxKnown = 50_000

// errNotOwner means that the lines of an instance are stored by another server.
var errNotOwner = errors.New("another server follows the instances of the app")

// mark is the position of a stream.
type mark struct {
	app  string
	seq  uint64
	last int64
	lost uint64
}

// chunk is compressed lines of an app.
type chunk struct {
	span frame.Segment // without a number
	raw  int
	data []byte
}

// group is the lines of one app in a flush.
type group struct {
	app     string
	lines   []*platform.LogLine
	from    []*write         // of the lines
	before  map[string]mark  // positions of its streams that the chunks continue
	after   map[string]*mark // positions after the chunks
	refused bool             // lines of streams must not be stored
	own     int64
	lost    uint64
	chunks  []chunk
	first   uint64 // number of the first line, once it is known
	bad     map[*write][]error
}

// flush stores a batch in one transaction.
func (s *Store) flush(ctx context.Context, b *batch) error {
	now := time.Now()
	groups := s.group(b, now)
	apps := make([]string, len(groups))
	var fenced, streams []string
	for i, g := range groups {
		apps[i] = g.app
		if len(g.before) > 0 {
			fenced = append(fenced, g.app)
			streams = slices.AppendSeq(streams, maps.Keys(g.before))
		}
		s.encode(g, now)
	}
	if err := s.register(ctx, apps); err != nil {
		return err
	}
	payload := ""
	err := s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		if len(groups) == 0 {
			payload = s.payload(groups, now)
			return s.finish(tx, b, payload)
		}
		slot, refused, err := s.enter(tx, fenced)
		if err != nil {
			return err
		}
		next, err := lockApps(tx, apps)
		if err != nil {
			return err
		}
		positions, err := readMarks(tx, streams)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if g.adjust(positions, slices.Contains(refused, g.app)) {
				s.encode(g, now)
			}
			g.first = next[g.app]
		}
		if err := insert(tx, slot, groups); err != nil {
			return err
		}
		payload = s.payload(groups, now)
		return s.finish(tx, b, payload)
	})
	if err != nil {
		return err
	}
	s.remember(groups, b)
	if payload != "" {
		s.told = now
		clear(s.news)
	}
	return nil
}

// group sorts the lines of a batch by app. Reports of losses come first.
func (s *Store) group(b *batch, now time.Time) []*group {
	byApp := map[string]*group{}
	get := func(app string) *group {
		g := byApp[app]
		if g == nil {
			g = &group{app: app, before: map[string]mark{}}
			byApp[app] = g
		}
		return g
	}
	for app, n := range b.unreported {
		g := get(app)
		g.lines, g.from = append(g.lines, &platform.LogLine{
			App: app, Time: now, Source: logs.SourceLogs, Instance: "0", Stderr: true, Lost: n,
			Text: fmt.Appendf(nil, "%d lines about this app were lost: they could not be written to its log", n),
		}), append(g.from, nil)
	}
	for _, w := range b.writes {
		for i := range w.lines {
			g := get(w.lines[i].App)
			g.lines, g.from = append(g.lines, &w.lines[i]), append(g.from, w)
			if name := w.lines[i].Stream; name != "" {
				g.before[name] = s.marks[name] // usually right: it is compared in the transaction
			}
		}
	}
	groups := make([]*group, 0, len(byApp))
	for _, app := range slices.Sorted(maps.Keys(byApp)) {
		groups = append(groups, byApp[app])
	}
	return groups
}

// adjust takes the positions in the database, and reports whether the lines have to be
// encoded again.
func (g *group) adjust(stored map[string]mark, refused bool) bool {
	same := g.refused == refused
	g.refused = refused
	for name, assumed := range g.before {
		if stored[name] != assumed {
			g.before[name] = stored[name]
			same = false
		}
	}
	return !same
}

// encode makes the chunks of a group: of the lines that are not stored yet.
func (s *Store) encode(g *group, now time.Time) {
	g.chunks, g.after, g.lost, g.own, g.bad = nil, map[string]*mark{}, 0, s.own[g.app], nil
	for name, m := range g.before {
		g.after[name] = &m
	}
	latest := now.Add(logs.MaxSkew)
	var c chunk
	var e frame.Encoder
	var buf []byte
	end := func() {
		if c.span.Count > 0 {
			c.raw, c.data = len(buf), s.encoder.EncodeAll(buf, nil)
			g.chunks = append(g.chunks, c)
		}
		c, buf = chunk{}, buf[:0]
	}
	refuse := func(w *write, err error) {
		if g.bad == nil {
			g.bad = map[*write][]error{}
		}
		if !slices.ContainsFunc(g.bad[w], func(known error) bool { return known.Error() == err.Error() }) {
			g.bad[w] = append(g.bad[w], err)
		}
	}
	for i, l := range g.lines {
		m := &mark{last: g.own}
		if l.Stream != "" {
			m = g.after[l.Stream]
			switch {
			case g.refused:
				refuse(g.from[i], fmt.Errorf("app %s: %w", g.app, errNotOwner))
				continue
			case m.app != "" && m.app != g.app:
				refuse(g.from[i], fmt.Errorf("stream %s belongs to app %s, not to %s", l.Stream, m.app, g.app))
				continue
			case l.Seq <= m.seq:
				continue // already stored
			}
		}
		at := now.UnixNano()
		if !l.Time.IsZero() && l.Time.Before(latest) {
			at = l.Time.UnixNano()
		}
		at = max(at, m.last+1)
		if len(buf) == 0 {
			e.Reset()
			buf = frame.AppendReset(buf) // so that chunks can be joined
		}
		buf, _, _ = e.Append(buf, l, at, &s.scratch)
		c.span.Add(at)
		g.lost += l.Lost
		if l.Stream == "" {
			g.own = at
		}
		m.app, m.seq, m.last, m.lost = g.app, l.Seq, at, m.lost+l.Lost
		if len(buf) >= s.runBytes() {
			end()
		}
	}
	end()
}

// runBytes is the size from which chunks and runs are not merged further, before
// compression.
func (s *Store) runBytes() int {
	return int(max(4<<10, min(256<<10, s.options.PerAppBytes/8, s.options.TotalBytes/64)))
}

// register inserts the rows of apps that this process does not know, so that a flush need
// not insert any.
func (s *Store) register(ctx context.Context, apps []string) error {
	var unknown []string
	for _, app := range apps {
		if _, known := s.own[app]; !known {
			unknown = append(unknown, app)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return s.db.UpdateLocking(ctx, func(tx *db.Tx) error { return insertApps(tx, unknown) })
}

func insertApps(tx *db.Tx, apps []string) error {
	_, err := tx.Exec(`INSERT INTO log_apps (app, epoch) SELECT a, ? FROM unnest(CAST(? AS TEXT[])) AS a ON CONFLICT DO NOTHING`,
		time.Now().UnixNano(), db.Raw{V: apps})
	return err
}

// enter locks what must not change before the commit: the open partition, and the leases of
// apps.
func (s *Store) enter(tx *db.Tx, fenced []string) (slot int64, refused []string, err error) {
	if err := tx.QueryRow("SELECT slot FROM log_slots WHERE open FOR SHARE").Scan(&slot); err != nil {
		return 0, nil, fmt.Errorf("find the open partition: %w", err)
	}
	if s.options.Fence != nil && len(fenced) > 0 {
		refused, err = s.options.Fence.Hold(tx, fenced)
	}
	return slot, refused, err
}

// lockApps locks the rows of apps in sorted order, and returns the number of the next line
// of each.
func lockApps(tx *db.Tx, apps []string) (map[string]uint64, error) {
	for {
		next := make(map[string]uint64, len(apps))
		err := each(tx, func(row db.Scanner) error {
			var app string
			var n uint64
			err := row.Scan(&app, &n)
			next[app] = n
			return err
		}, "SELECT app, next FROM log_apps WHERE app = ANY(?) ORDER BY app FOR NO KEY UPDATE", db.Raw{V: apps})
		if err != nil || len(next) == len(apps) {
			return next, err
		}
		if err := insertApps(tx, apps); err != nil { // deleted meanwhile
			return nil, err
		}
	}
}

func readMarks(tx *db.Tx, streams []string) (map[string]mark, error) {
	all := make(map[string]mark, len(streams))
	if len(streams) == 0 {
		return all, nil
	}
	err := each(tx, func(row db.Scanner) error {
		var name string
		var m mark
		err := row.Scan(&name, &m.app, &m.seq, &m.last, &m.lost)
		all[name] = m
		return err
	}, "SELECT stream, app, seq, last, lost FROM log_streams WHERE stream = ANY(?)", db.Raw{V: streams})
	return all, err
}

const insertLines = `
WITH chunks AS (
	INSERT INTO log_chunks (slot, app, first, count, min_time, max_time, raw, data)
	SELECT CAST(? AS BIGINT), c.* FROM unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BYTEA[])) AS c
), apps AS (
	UPDATE log_apps SET next = a.next, lost = log_apps.lost + a.lost
	FROM unnest(CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[])) AS a (app, next, lost)
	WHERE log_apps.app = a.app
)
INSERT INTO log_streams (stream, app, seq, last, lost)
SELECT s.* FROM unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[]), CAST(? AS BIGINT[])) AS s
ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, last = excluded.last, lost = excluded.lost`

// insert stores the chunks of all groups, with the positions of their streams.
func insert(tx *db.Tx, slot int64, groups []*group) error {
	var app, stream, owner []string
	var first, count, minTime, maxTime, raw, next, lost, seq, last, streamLost []int64
	var data [][]byte
	var apps []string
	for _, g := range groups {
		n := g.first
		for _, c := range g.chunks {
			app, data = append(app, g.app), append(data, c.data)
			first, count, raw = append(first, int64(n)), append(count, int64(c.span.Count)), append(raw, int64(c.raw))
			minTime, maxTime = append(minTime, c.span.Min), append(maxTime, c.span.Max)
			n += c.span.Count
		}
		if n == g.first {
			continue
		}
		apps, next, lost = append(apps, g.app), append(next, int64(n)), append(lost, int64(g.lost))
		for name, m := range g.after {
			if *m != g.before[name] {
				stream, owner = append(stream, name), append(owner, m.app)
				seq, last, streamLost = append(seq, int64(m.seq)), append(last, m.last), append(streamLost, int64(m.lost))
			}
		}
	}
	if len(apps) == 0 {
		return nil
	}
	args := []any{slot}
	for _, v := range []any{app, first, count, minTime, maxTime, raw, data, apps, next, lost, stream, owner, seq, last,
		streamLost} {
		args = append(args, db.Raw{V: v})
	}
	_, err := tx.Exec(insertLines, args...)
	return err
}

// finish drops the positions of forgotten streams, and notifies other servers.
func (s *Store) finish(tx *db.Tx, b *batch, payload string) error {
	if len(b.forget) > 0 {
		if _, err := tx.Exec("DELETE FROM log_streams WHERE stream = ANY(?)", db.Raw{V: b.forget}); err != nil {
			return err
		}
	}
	if payload == "" {
		return nil
	}
	_, err := tx.Exec("SELECT pg_notify(?, ?)", Channel, payload)
	return err
}

// remember takes over the state after a flush, and wakes readers.
func (s *Store) remember(groups []*group, b *batch) {
	if len(s.own) > maxKnown {
		clear(s.own)
	}
	if len(s.marks) > maxKnown {
		clear(s.marks)
	}
	for _, g := range groups {
		s.own[g.app] = g.own
		for name, m := range g.after {
			s.marks[name] = *m
		}
		s.lost.Add(g.lost)
		for w, errs := range g.bad {
			b.problems[w] = append(b.problems[w], errs...)
		}
		if len(g.chunks) > 0 {
			if _, known := s.news[g.app]; !known && !s.options.Alone {
				s.news[g.app] = g.first
			}
			s.arrived(g.app, g.first)
		}
	}
	for _, name := range b.forget {
		delete(s.marks, name)
	}
}

// Channel is where servers notify each other. The payload is the sender, and on each further
// line an app and the number of its first new line, or 0 if its log was deleted. Just "*"
// means that there are too many.
const (
	Channel    = "ingot_logs"
	maxPayload = 7500
)

// payload returns the notification of new lines, or "" if it has to wait, because servers
// are notified at most once per FlushEvery.
func (s *Store) payload(groups []*group, now time.Time) string {
	if s.options.Alone || now.Sub(s.told) < s.options.FlushEvery {
		return ""
	}
	all := maps.Clone(s.news)
	for _, g := range groups {
		if _, known := all[g.app]; !known && len(g.chunks) > 0 {
			all[g.app] = g.first
		}
	}
	if len(all) == 0 {
		return ""
	}
	return encodePayload(s.server, all)
}

func encodePayload(server string, news map[string]uint64) string {
	var b strings.Builder
	b.WriteString(server)
	for app, first := range news {
		b.WriteString("\n" + app + " " + strconv.FormatUint(first, 10))
		if b.Len() > maxPayload {
			return server + "\n*"
		}
	}
	return b.String()
}
