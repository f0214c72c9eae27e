package logdb

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// tail implements logs.Tail.
type tail struct {
	store *Store
	app   string
	wake  chan struct{}

	cursor frame.Cursor
	epoch  int64  // of the log; 0: the app had none
	known  uint64 // number of the next line of the app, as far as known
	pieces []piece
	bufs   []*[]byte // of the pieces
	offset int       // in the first

	closed atomic.Bool
}

// Tail implements logs.Store.
func (s *Store) Tail(app string, from logs.Start) (logs.Tail, error) {
	if err := frame.CheckApp(app); err != nil {
		return nil, err
	}
	t := &tail{store: s, app: app, wake: make(chan struct{}, 1), cursor: frame.Cursor{Skip: math.MinInt64}}
	s.mu.Lock()
	if s.tails[app] == nil {
		s.tails[app] = map[*tail]struct{}{}
	}
	s.tails[app][t] = struct{}{} // before it looks, so that it misses no notification
	s.mu.Unlock()
	s.flushNow(s.work, app)
	err := s.steady(s.work, func(tx *db.Tx) error { return t.begin(tx, from) })
	if s.stopped() {
		err = logs.ErrStopped
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// begin determines the first line.
func (t *tail) begin(tx *db.Tx, from logs.Start) error {
	if err := t.look(tx); err != nil {
		return err
	}
	total := t.known - 1
	switch from.Kind {
	case logs.StartAfter:
		// A number from before a restored backup may be too high.
		t.cursor.Next = min(from.Lines, total) + 1
		return nil
	case logs.StartNewest:
		var oldest uint64
		err := tx.QueryRow("SELECT COALESCE(MIN(first), 0) FROM "+allPieces+" WHERE app = ?", t.app).Scan(&oldest)
		t.cursor.Next = max(total-min(total, from.Lines)+1, oldest)
		return err
	default:
		t.cursor.Skip = from.Time
		return tx.QueryRow("SELECT COALESCE(MIN(first), ?) FROM "+allPieces+" WHERE app = ? AND max_time > ?", t.known, t.app,
			from.Time).Scan(&t.cursor.Next)
	}
}

// look reads how far the log is. It returns ErrClosed if it is another one.
func (t *tail) look(tx *db.Tx) error {
	var epoch int64
	t.known = 1
	err := tx.QueryRow("SELECT epoch, next FROM log_apps WHERE app = ?", t.app).Scan(&epoch, &t.known)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	if t.epoch != 0 && t.epoch != epoch {
		return logs.ErrClosed
	}
	t.epoch = epoch
	return nil
}

// At implements logs.Tail.
func (t *tail) At() uint64 { return t.cursor.Next - 1 }

// Next implements logs.Tail.
func (t *tail) Next(ctx context.Context) (logs.Batch, error) {
	for {
		switch {
		case t.closed.Load():
			return logs.Batch{}, logs.ErrClosed
		case t.store.stopped():
			return logs.Batch{}, logs.ErrStopped
		}
		if b, ok := t.take(); ok {
			return b, nil
		}
		if err := ctx.Err(); err != nil {
			return logs.Batch{}, err
		}
		err := t.store.db.View(ctx, t.find)
		if err == nil && t.gap() {
			err = t.store.steady(ctx, t.find) // lines may just have been merged
		}
		switch {
		case t.store.stopped():
			return logs.Batch{}, logs.ErrStopped
		case err != nil:
			return logs.Batch{}, err
		case len(t.pieces) > 0:
			continue
		case t.cursor.Next < t.known: // the rest has been dropped
			b := logs.Batch{Missed: t.known - t.cursor.Next, First: t.known}
			t.cursor.Next = t.known
			return b, nil
		}
		select {
		case <-ctx.Done():
			return logs.Batch{}, ctx.Err()
		case <-t.wake:
		}
	}
}

// find reads the next pieces.
func (t *tail) find(tx *db.Tx) error {
	t.release()
	if err := t.look(tx); err != nil || t.known <= t.cursor.Next {
		return err
	}
	pieces, err := t.store.following(tx, t.app, t.cursor.Next)
	if err != nil || len(pieces) == 0 {
		return err
	}
	bufs, err := t.store.load(tx, t.app, pieces)
	if err != nil {
		return err
	}
	t.pieces, t.bufs = pieces, bufs
	t.cursor.Begin(pieces[0].first())
	return nil
}

// gap reports whether lines are missing before or between the pieces that were found.
func (t *tail) gap() bool {
	next := t.cursor.Next
	for i := range t.pieces {
		if t.pieces[i].first() > next {
			return true
		}
		next = t.pieces[i].end()
	}
	return len(t.pieces) == 0 && next < t.known
}

// following returns some of the pieces from the one on that has a line or the first line
// after it.
func (s *Store) following(tx *db.Tx, app string, line uint64) ([]piece, error) {
	pieces, err := db.All(tx, scanPiece, "SELECT "+pieceColumns+" FROM (SELECT "+pieceColumns+" FROM "+allPieces+
		" WHERE app = ? AND first < ? ORDER BY first DESC LIMIT 1) AS before WHERE first + count > ? UNION ALL (SELECT "+
		pieceColumns+" FROM "+allPieces+
		" WHERE app = ? AND first >= ? ORDER BY first LIMIT 32) ORDER BY first", app, line, line, app, line)
	if err != nil {
		return nil, err
	}
	return pieces[:some(pieces)], nil
}

// take returns lines of the pieces that were read.
func (t *tail) take() (logs.Batch, bool) {
	var missed uint64
	for len(t.pieces) > 0 {
		p := &t.pieces[0]
		if first := p.first(); t.cursor.Next < first {
			missed += first - t.cursor.Next
			t.cursor.Next = first
		}
		var b logs.Batch
		used := 0
		if t.bufs[0] != nil {
			b, used = t.cursor.Take(t.app, (*t.bufs[0])[t.offset:], true)
		}
		t.offset += used
		if t.cursor.Next >= p.end() || used == 0 {
			if used == 0 && t.cursor.Next < p.end() { // damaged
				missed += p.end() - t.cursor.Next
				t.cursor.Next = p.end()
				b.First = p.end()
			}
			t.drop()
		}
		if len(b.Entries) > 0 {
			b.Missed += missed
			return b, true
		}
	}
	if missed > 0 {
		return logs.Batch{Missed: missed, First: t.cursor.Next}, true
	}
	return logs.Batch{}, false
}

// drop ends the first piece.
func (t *tail) drop() {
	if t.bufs[0] != nil {
		frame.PutBuffer(t.bufs[0])
	}
	t.pieces, t.bufs, t.offset = t.pieces[1:], t.bufs[1:], 0
	if len(t.pieces) > 0 {
		t.cursor.Begin(t.pieces[0].first())
	}
}

func (t *tail) release() {
	for len(t.pieces) > 0 {
		t.drop()
	}
}

// Close implements logs.Tail.
func (t *tail) Close() {
	s := t.store
	s.mu.Lock()
	delete(s.tails[t.app], t)
	if len(s.tails[t.app]) == 0 {
		delete(s.tails, t.app)
	}
	s.mu.Unlock()
	t.closed.Store(true)
	t.signal()
}

func (t *tail) signal() { background.Kick(t.wake) }

// arrived wakes the readers of an app. first is its first new line, or 0 if its log was
// deleted.
func (s *Store) arrived(app string, first uint64) {
	s.mu.Lock()
	for t := range s.tails[app] {
		t.signal()
	}
	s.mu.Unlock()
	s.feed.add(app, first, s.readers.Hoses)
}

// wakeAll makes all readers look.
func (s *Store) wakeAll() {
	s.mu.Lock()
	for _, tails := range s.tails {
		for t := range tails {
			t.signal()
		}
	}
	s.mu.Unlock()
	s.feed.all()
}

// listen receives the notifications of other servers. When it is connected again after an
// error, all readers look.
func (s *Store) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.listenOnce(ctx)
		s.listening.Store(false)
		if ctx.Err() != nil {
			return
		}
		s.options.Log.WarnContext(ctx,
			"notifications of log lines are interrupted; new lines are looked for from time to time", "error", err)
		background.Sleep(ctx, time.Second)
	}
}

func (s *Store) listenOnce(ctx context.Context) error {
	l, err := s.db.Listen(ctx, s.options.ListenURL, Channel)
	if err != nil {
		return err
	}
	defer l.Close(context.WithoutCancel(ctx))
	s.connected(true)
	for {
		_, payload, err := l.Next(ctx)
		if err != nil {
			return err
		}
		s.received(payload)
	}
}

// connected notes whether notifications are received. After a gap all readers look.
func (s *Store) connected(now bool) {
	s.listening.Store(now)
	if now {
		s.wakeAll()
	}
}

// received processes a notification.
func (s *Store) received(payload string) {
	server, news, _ := strings.Cut(payload, "\n")
	if server == s.server {
		return
	}
	for line := range strings.SplitSeq(news, "\n") {
		app, number, _ := strings.Cut(line, " ")
		first, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			s.wakeAll()
			return
		}
		s.arrived(app, first)
	}
}

// pollTails makes readers look for new lines from time to time: often without
// notifications, otherwise rarely, in case one was lost.
func (s *Store) pollTails(ctx context.Context) {
	for n := 1; ; n++ {
		background.Sleep(ctx, s.options.PollEvery)
		if ctx.Err() != nil {
			return
		}
		if !s.listening.Load() || n%15 == 0 {
			s.wakeAll()
		}
	}
}
