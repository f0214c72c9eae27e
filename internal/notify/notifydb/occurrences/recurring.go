package occurrences

import (
	"context"
	"math"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/catalog"
	"ingot/internal/notify/notifydb/query"
)

// Occurrences implements the part of notify.Store that is about sends that recur. It is safe for concurrent use.
type Occurrences struct {
	db      *db.DB
	catalog *catalog.Catalog
	now     func() time.Time
}

// New returns the sends that recur in a database with the tables of notifydb.
func New(d *db.DB, c *catalog.Catalog, now func() time.Time) *Occurrences {
	return &Occurrences{db: d, catalog: c, now: now}
}

// RecurringColumns are what ScanRecurring reads.
const RecurringColumns = "client_id, name, cron, zone, starts, ends, most, message, state, next, due, turn, runs, " +
	"failures, last_due, last_run, last_send, problem, created, updated"

// recurringStates are the states by the number that is stored.
var recurringStates = []notify.RecurringState{notify.RecurringActive, notify.RecurringPaused, notify.RecurringEnded}

// Numbers of recurringStates.
const (
	recurringActive = 0
	recurringEnded  = 2
)

// ScanRecurring reads a send that recurs.
func ScanRecurring(row db.Scanner) (r notify.Recurring, err error) {
	var message db.JSON[notify.RecurringMessage]
	var state int
	var due, turn int64
	err = row.Scan(&r.ClientID, &r.Name, &r.Cron, &r.Zone, query.Moment(&r.Starts), query.Moment(&r.Ends), &r.Count,
		&message, &state,
		query.Moment(&r.Next), &due, &turn, &r.Runs, &r.Failures, query.Moment(&r.LastDue), query.Moment(&r.LastRun),
		&r.LastSend, &r.Problem, query.Moment(&r.Created), query.Moment(&r.Updated))
	r.Message = message.V
	if err == nil {
		r.State = recurringStates[state]
	}
	return r, err
}

// dueOf returns the column due of a recurring send.
func dueOf(next time.Time) int64 {
	if next.IsZero() {
		return math.MaxInt64
	}
	return db.Nanos(next)
}

// SetRecurring implements notify.Store.
func (s *Occurrences) SetRecurring(ctx context.Context, r notify.Recurring) error {
	if err := query.AllStorable(r.ClientID, r.Name, r.Cron, r.Zone); err != nil {
		return err
	}
	return s.catalog.Define(ctx, r.ClientID, func(tx *db.Tx) error {
		// Those that are created at the same time do not count each other: a few more are possible.
		n, err := query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_recurring WHERE client_id = ? AND name <> ?",
			r.ClientID, r.Name)
		if err != nil {
			return err
		}
		if n >= notify.MaxRecurring {
			return notify.ErrTooMany
		}
		changed, err := tx.Exec(query.Insert("notify_recurring", RecurringColumns)+` ON CONFLICT (client_id, name) DO UPDATE SET
			cron = excluded.cron, zone = excluded.zone, starts = excluded.starts, ends = excluded.ends, most = excluded.most,
			message = excluded.message, state = excluded.state, next = excluded.next, due = excluded.due, problem = '',
			updated = excluded.updated WHERE notify_recurring.last_due = excluded.last_due`,
			r.ClientID, r.Name, r.Cron, r.Zone, db.Nanos(r.Starts), db.Nanos(r.Ends), r.Count,
			db.JSON[notify.RecurringMessage]{V: r.Message}, slices.Index(recurringStates, r.State), db.Nanos(r.Next),
			dueOf(r.Next), n, r.Runs, r.Failures, db.Nanos(r.LastDue), db.Nanos(r.LastRun), r.LastSend, r.Problem,
			db.Nanos(r.Created), db.Nanos(r.Updated))
		if err == nil && changed == 0 {
			return notify.ErrSuperseded
		}
		return err
	})
}

// Recurring implements notify.Store.
func (s *Occurrences) Recurring(ctx context.Context, ref notify.RecurringRef) (notify.Recurring, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) (notify.Recurring, error) {
		return query.One(tx, ScanRecurring, "SELECT "+
			RecurringColumns+" FROM notify_recurring WHERE client_id = ? AND name = ?", ref.ClientID, ref.Name)
	})
}

// ListRecurring implements notify.Store.
func (s *Occurrences) ListRecurring(ctx context.Context, q notify.RecurringQuery) ([]notify.Recurring, error) {
	where, args := "client_id = ? AND name > ?", []any{q.ClientID, q.After.Name}
	if q.All {
		where, args = "(client_id, name) > (?, ?)", []any{q.After.ClientID, q.After.Name}
	}
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Recurring, error) {
		return query.Matching(tx, ScanRecurring, "SELECT "+RecurringColumns+" FROM notify_recurring WHERE "+where+
			" ORDER BY client_id, name LIMIT ?", append(args, q.Limit)...)
	})
}

// DeleteRecurring implements notify.Store.
func (s *Occurrences) DeleteRecurring(ctx context.Context, ref notify.RecurringRef) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		return query.Found(tx.Exec("DELETE FROM notify_recurring WHERE client_id = ? AND name = ?", ref.ClientID, ref.Name))
	})
}

// SetRecurringState implements notify.Store.
func (s *Occurrences) SetRecurringState(ctx context.Context, ref notify.RecurringRef, state notify.RecurringState,
	next, now time.Time) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		return query.Found(tx.Exec(`UPDATE notify_recurring SET state = ?, next = ?, due = ?, problem = '', updated = ?
			WHERE client_id = ? AND name = ?`, slices.Index(recurringStates, state), db.Nanos(next), dueOf(next),
			db.Nanos(now), ref.ClientID, ref.Name))
	})
}

// Queries for the sends that are due.
const (
	FirstRecurring = "SELECT due FROM notify_recurring WHERE due < ? ORDER BY due LIMIT 1"
	DueRecurring   = "SELECT " + RecurringColumns + " FROM notify_recurring WHERE due <= ? ORDER BY due, turn LIMIT ?"
)

// nextRecurring returns when the first is due; math.MaxInt64 if none is.
func nextRecurring(tx *db.Tx) (int64, error) {
	if err := query.UseIndexes(tx); err != nil {
		return 0, err
	}
	list, err := db.All(tx, query.ScanNumber, FirstRecurring, int64(math.MaxInt64))
	if err != nil || len(list) == 0 {
		return math.MaxInt64, err
	}
	return list[0], nil
}

// DueRecurring implements notify.Store. They follow the machine's clock, as scheduled sends do.
func (s *Occurrences) DueRecurring(ctx context.Context, limit int, lease time.Duration) (due []notify.Recurring,
	at time.Time, err error) {
	now := s.now()
	next, err := query.View(ctx, s.db, nextRecurring)
	if err != nil || next > db.Nanos(now) {
		return nil, query.MomentOf(next), err
	}
	err = query.Lock(ctx, s.db, func(tx *db.Tx) (err error) {
		if err := query.UseIndexes(tx); err != nil {
			return err
		}
		due, err = db.All(tx, ScanRecurring, DueRecurring+query.SkipLocked(tx.Dialect()), db.Nanos(now), limit)
		if err != nil {
			return err
		}
		for i := range due {
			if _, err := tx.Exec("UPDATE notify_recurring SET due = ? WHERE client_id = ? AND name = ?",
				db.Nanos(now.Add(lease)), due[i].ClientID, due[i].Name); err != nil {
				return err
			}
		}
		next, err = nextRecurring(tx)
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return due, query.MomentOf(next), nil
}

// ReleaseRecurring ends the leases of a process that was killed, and the waits after errors.
func ReleaseRecurring(tx *db.Tx) error {
	_, err := tx.Exec("UPDATE notify_recurring SET due = next WHERE next > 0 AND due > next")
	return err
}

// stillDue is the condition for an occurrence, with the arguments of occurrenceOf.
const stillDue = " WHERE client_id = ? AND name = ? AND next = ? AND updated = ? AND state = 0"

func occurrenceOf(o notify.Occurrence) []any {
	return []any{o.ClientID, o.Name, db.Nanos(o.At), db.Nanos(o.Updated)}
}

// PostponeOccurrence implements notify.Store.
func (s *Occurrences) PostponeOccurrence(ctx context.Context, o notify.Occurrence, until time.Time,
	problem string) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE notify_recurring SET due = ?, problem = ?"+stillDue,
			append([]any{db.Nanos(until), problem}, occurrenceOf(o)...)...)
		return err
	})
}

// SkipOccurrence implements notify.Store.
func (s *Occurrences) SkipOccurrence(ctx context.Context, o notify.Occurrence, problem string) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE notify_recurring SET next = ?, due = ?, state = ?, failures = failures + 1, "+
			"last_due = next, last_run = ?, problem = ?"+stillDue,
			append([]any{db.Nanos(o.Next), dueOf(o.Next), stateAfter(o), db.Nanos(o.Sent), problem}, occurrenceOf(o)...)...)
		return err
	})
}

// MoveOccurrence implements notify.Store.
func (s *Occurrences) MoveOccurrence(ctx context.Context, o notify.Occurrence) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE notify_recurring SET next = ?, due = ?, state = ?"+stillDue,
			append([]any{db.Nanos(o.Next), dueOf(o.Next), stateAfter(o)}, occurrenceOf(o)...)...)
		return err
	})
}

// stateAfter returns the column state after an occurrence.
func stateAfter(o notify.Occurrence) int {
	if o.Next.IsZero() {
		return recurringEnded
	}
	return recurringActive
}

// Admit moves a recurring send on, of which a send is accepted, and reports whether the occurrence was still due.
func Admit(tx *db.Tx, o notify.Occurrence, send int64) (bool, error) {
	n, err := tx.Exec("UPDATE notify_recurring SET next = ?, due = ?, state = ?, runs = runs + 1, last_due = next, "+
		"last_run = ?, last_send = ?, problem = ''"+stillDue,
		append([]any{db.Nanos(o.Next), dueOf(o.Next), stateAfter(o), db.Nanos(o.Sent), send}, occurrenceOf(o)...)...)
	return n > 0, err
}
