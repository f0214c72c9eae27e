package notifydb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/figures"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/receipts"
	"ingot/internal/notify/notifydb/throttles"
	"ingot/internal/notify/notifydb/waits"
)

// Finish implements notify.Store.
func (s *Store) Finish(ctx context.Context, outcomes []notify.Outcome,
	makeCallbacks notify.CallbackMaker) ([]notify.Claimed, error) {
	if len(outcomes) == 0 {
		return []notify.Claimed{}, nil
	}
	numbers := make([]int64, 0, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		if n, ok := statusNumber(o.Status); !ok || (n == 0) != (o.Entry != nil) || o.Status == notify.Digested {
			return nil, fmt.Errorf("%q is not a valid outcome of message %d", o.Status, o.Number)
		}
		if err := query.AllStorable(o.Reason, o.Email); err != nil {
			return nil, err
		}
		numbers = append(numbers, o.Number)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	shard, began := s.shard(), s.steady()
	var f finish
	err := s.lock(ctx, func(tx *db.Tx) error {
		f = finish{counts: map[int64]*tallied{}, delays: waits.Counts{}}
		if err := s.finish(tx, &f, outcomes, numbers, shard); err != nil || makeCallbacks == nil {
			return err
		}
		return s.AddCallbacks(tx, f.final, makeCallbacks)
	})
	if err != nil {
		return nil, err
	}
	s.figures.Committed(&f.figures)
	s.seen.Add(f.receipts, began)
	ended := s.held.finished(outcomes)
	if s.Shared() && len(ended) > len(f.ended) {
		// Two calls finished the rest of a lease concurrently, and neither
		// deleted it.
		err := s.lock(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec("DELETE FROM notify_leases WHERE "+query.NumbersIn(tx.Dialect(), "id"),
				query.NumberList(tx.Dialect(), ended))
			return err
		})
		if err != nil {
			s.log.WarnContext(ctx, "delete lease failed, it expires later", "error", err)
		}
	}
	return f.final, nil
}

// finish is one run of Finish.
type finish struct {
	final    []notify.Claimed
	counts   map[int64]*tallied
	waiting  int
	delays   waits.Counts
	receipts []receipts.Receipt
	ended    []int64
	figures  figures.Changes
}

type tallied struct {
	notify.Counts
	latest int64
}

func (s *Store) finish(tx *db.Tx, f *finish, outcomes []notify.Outcome, numbers []int64, shard int) error {
	// The planner's statistics may be from before a send to everyone; it would
	// scan the table for each outcome.
	if err := query.UseIndexes(tx); err != nil {
		return err
	}
	rows, err := db.All(tx, scanMessage, "SELECT "+messageColumns+" FROM notify_messages WHERE "+
		query.NumbersIn(tx.Dialect(), "number")+
		" ORDER BY number"+query.ForUpdate(tx.Dialect()), query.NumberList(tx.Dialect(), numbers))
	if err != nil {
		return err
	}
	messages := make(map[int64]*notify.Message, len(rows))
	var sends []int64
	known := map[int64]*notify.Send{}
	for i := range rows {
		m := &rows[i]
		messages[m.Number] = m
		send := notify.SendOf(m.Number)
		if known[send] == nil {
			if held := s.held.sendOf(m.Number); held != nil {
				known[send] = held
			} else {
				sends = append(sends, send)
			}
		}
	}
	if len(sends) > 0 {
		slices.Sort(sends)
		more, err := s.sendsOf(tx, slices.Compact(sends))
		if err != nil {
			return err
		}
		maps.Copy(known, more)
	}

	var changes []change
	changed := map[int64]int{}
	for _, o := range outcomes {
		m := messages[o.Number]
		if m == nil || m.Status.Final() || m.Collected { // by another server, after the lease of this one ended
			continue
		}
		send := known[notify.SendOf(o.Number)]
		if send == nil {
			continue // purged meanwhile
		}
		c := f.apply(m, o, send)
		if i, twice := changed[m.Number]; twice {
			changes[i] = c
		} else {
			changed[m.Number] = len(changes)
			changes = append(changes, c)
		}
		if m.UserID != "" {
			f.receipts = append(f.receipts, receipts.Receipt{User: m.UserID, Client: send.ClientID})
		}
		if m.Status.Final() {
			f.final = append(f.final, notify.Claimed{Message: *m, Send: send})
			f.delays.Change(send, m.Channel, -1)
		}
	}
	if err := s.collect(tx, changes, func(c *change) *notify.Send { return known[notify.SendOf(c.Number)] }); err != nil {
		return err
	}
	return s.storeFinish(tx, f, outcomes, changes, shard)
}

// storeFinish stores what a run of Finish changes.
func (s *Store) storeFinish(tx *db.Tx, f *finish, outcomes []notify.Outcome, changes []change, shard int) error {
	if err := storeChanges(tx, changes); err != nil {
		return err
	}
	if err := storeEntries(tx, changes); err != nil {
		return err
	}
	if err := storeAttempts(tx, changes); err != nil {
		return err
	}
	if err := throttles.TakeBack(tx, unusedPermits(outcomes)); err != nil {
		return err
	}
	f.receipts = s.seen.Missing(f.receipts, s.steady())
	if err := receipts.Store(tx, f.receipts); err != nil {
		return err
	}
	if s.Shared() {
		if err := s.changeLeases(tx, f, outcomes); err != nil {
			return err
		}
	}
	if err := f.storeCounts(tx, shard); err != nil {
		return err
	}
	if err := f.delays.Store(tx, shard); err != nil {
		return err
	}
	if err := addWaiting(tx, shard, f.waiting); err != nil {
		return err
	}
	return s.figures.Store(tx, &f.figures, shard)
}

// unusedPermits returns those of messages that were not attempted.
func unusedPermits(outcomes []notify.Outcome) (unused []notify.Permit) {
	for i := range outcomes {
		if o := &outcomes[i]; !o.Attempted && o.Permit.Limit != "" {
			unused = append(unused, o.Permit)
		}
	}
	return unused
}

// apply applies an outcome to a message and counts it.
func (f *finish) apply(m *notify.Message, o notify.Outcome, of *notify.Send) change {
	if m.Canceled && (o.Status == notify.Retry || o.Entry != nil) {
		o.Status, o.Reason, o.Due, o.Entry = notify.Canceled, reasonCanceled, time.Time{}, nil
	}
	m.Canceled = false
	if m.Email == "" {
		m.Email = o.Email
	}
	f.figures.Outcome(of, m, &o, m.Email)
	old, _ := statusNumber(m.Status)
	status, _ := statusNumber(o.Status)
	send := notify.SendOf(m.Number)
	t := f.counts[send]
	if t == nil {
		t = &tallied{}
		f.counts[send] = t
	}
	*counter(&t.Counts, old)--
	*counter(&t.Counts, status)++
	t.latest = max(t.latest, db.Nanos(o.At))

	f.delays.Postpone(of, m, o.Quiet && o.Status == notify.Retry || o.Entry != nil && o.Entry.Chosen,
		!o.Quiet && o.Status == notify.Retry)
	m.Status, m.Reason, m.Parked = o.Status, o.Reason, o.Parked
	m.Updated = db.Time(db.Nanos(o.At))
	m.Due = time.Time{}
	switch {
	case o.Status == notify.Retry:
		m.Due = db.Time(db.Nanos(o.Due))
	case o.Entry == nil:
		f.waiting--
	}
	if o.Attempted {
		m.Attempts++
	}
	return change{Message: *m, status: status, attempted: o.Attempted, entry: o.Entry}
}

// storeCounts updates the counters of large sends; small ones are counted on
// demand. Sends are updated in order, to avoid deadlocks.
func (f *finish) storeCounts(tx *db.Tx, shard int) error {
	sends := slices.Sorted(maps.Keys(f.counts))
	if len(sends) == 0 {
		return nil
	}
	tallied, err := db.All(tx, query.ScanNumber, "SELECT number FROM notify_sends WHERE "+
		query.NumbersIn(tx.Dialect(), "number")+
		" AND tally ORDER BY number",
		query.NumberList(tx.Dialect(), sends))
	if err != nil {
		return err
	}
	for _, send := range tallied {
		t := f.counts[send]
		if err := addCounts(tx, send, shard, t.Counts, t.latest); err != nil {
			return err
		}
	}
	return nil
}

// freeMessages removes messages from a lease, in the database, because another call may free
// others at the same time.
const freeMessages = `UPDATE notify_leases SET messages = CAST(ARRAY(SELECT n FROM unnest(CAST(messages AS BIGINT[])) AS n
	WHERE n <> ALL(CAST(CAST(? AS TEXT) AS BIGINT[]))) AS TEXT) WHERE id = ?`

// changeLeases deletes empty leases, and removes messages that may be claimed again from the others.
func (s *Store) changeLeases(tx *db.Tx, f *finish, outcomes []notify.Outcome) error {
	for _, c := range s.held.changes(outcomes) {
		if c.ended {
			f.ended = append(f.ended, c.id)
			continue
		}
		if _, err := tx.Exec(freeMessages, query.NumberList(tx.Dialect(), c.freed), c.id); err != nil {
			return err
		}
	}
	if len(f.ended) == 0 {
		return nil
	}
	_, err := tx.Exec("DELETE FROM notify_leases WHERE "+query.NumbersIn(tx.Dialect(), "id"),
		query.NumberList(tx.Dialect(), f.ended))
	return err
}

// change is a changed message.
type change struct {
	notify.Message
	status    int
	attempted bool
	entry     *notify.Entry // it is collected
	digest    int64         // in this digest
}

// changedRows updates many messages at once, for SQLite: a statement for each took an eighth of the processor
// time of a delivery.
var changedRows = query.NewRowwise(`UPDATE notify_messages SET status = v.column2, lane = CASE WHEN v.column2 = 1 THEN lane / 3 * 3 + 2 ELSE lane END,
	attempts = v.column3, due = v.column4, updated = v.column5, parked = v.column6, email = v.column7, reason = v.column8,
	quiet = v.column9, postponed = v.column10 FROM (VALUES `, 10, ") AS v WHERE number = v.column1")

// changeMessages updates all messages from one JSON text, for PostgreSQL, where
// each statement is a round trip.
const changeMessages = `UPDATE notify_messages AS m SET status = v.s, lane = CASE WHEN v.s = 1 THEN m.lane / 3 * 3 + 2 ELSE m.lane END,
	attempts = v.a, due = v.d, updated = v.u, parked = v.p, email = v.e, reason = v.r, quiet = v.q,
	postponed = v.c
	FROM json_to_recordset(CAST(CAST(? AS TEXT) AS JSON)) AS v (n BIGINT, s INTEGER, a INTEGER, d BIGINT, u BIGINT, p BOOLEAN, e TEXT, r TEXT, q BOOLEAN,
	c BOOLEAN)
	WHERE m.number = v.n`

type changeJSON struct {
	N int64  `json:"n"`
	S int    `json:"s"`
	A int    `json:"a"`
	D int64  `json:"d"`
	U int64  `json:"u"`
	P bool   `json:"p"`
	E string `json:"e"`
	R string `json:"r"`
	Q bool   `json:"q"`
	C bool   `json:"c"`
}

func storeChanges(tx *db.Tx, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	if tx.Dialect() == db.Postgres {
		list := make([]changeJSON, len(changes))
		for i, c := range changes {
			list[i] = changeJSON{c.Number, c.status, c.Attempts, db.Nanos(c.Due), db.Nanos(c.Updated), c.Parked,
				c.Email, c.Reason, c.Quiet, c.Postponed}
		}
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		_, err = tx.Exec(changeMessages, string(text))
		return err
	}
	args := make([]any, 0, 10*len(changes))
	for _, c := range changes {
		args = append(args, c.Number, c.status, c.Attempts, db.Nanos(c.Due), db.Nanos(c.Updated), c.Parked, c.Email, c.Reason,
			c.Quiet, c.Postponed)
	}
	return changedRows.All(tx, args)
}

// Replay implements notify.Store.
func (s *Store) Replay(ctx context.Context, clientID string, number int64) error {
	now, due := s.now(), s.steady()
	shard := s.shard()
	err := s.lock(ctx, func(tx *db.Tx) error {
		send, err := query.One(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE number = ?",
			notify.SendOf(number))
		if err != nil {
			return err
		}
		if send.ClientID != clientID {
			return notify.ErrNotFound
		}
		m, err := query.One(tx, scanMessage, "SELECT "+messageColumns+" FROM notify_messages WHERE number = ?"+
			query.ForUpdate(tx.Dialect()), number)
		if err != nil {
			return err
		}
		if m.Status != notify.Failed {
			return fmt.Errorf("message %d is %s: %w", number, m.Status, notify.ErrConflict)
		}
		_, err = tx.Exec("UPDATE notify_messages SET status = 0, lane = lane / 3 * 3, attempts = 0, due = ?, updated = ?, "+
			"parked = FALSE, reason = '' WHERE number = ?",
			db.Nanos(due), db.Nanos(now), number)
		if err != nil {
			return err
		}
		if send.tally {
			if err := addCounts(tx, send.Number, shard, notify.Counts{Queued: 1, Failed: -1}, db.Nanos(now)); err != nil {
				return err
			}
		}
		delays := waits.Counts{}
		delays.Change(&send.Send, m.Channel, 1)
		if err := delays.Store(tx, shard); err != nil {
			return err
		}
		return addWaiting(tx, shard, 1)
	})
	if err == nil {
		s.held.queued(notify.PrioritySingle, due)
	}
	return err
}
