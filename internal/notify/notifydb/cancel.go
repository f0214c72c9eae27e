package notifydb

import (
	"context"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/figures"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/waits"
)

// cancelBatch limits the messages that are canceled in one transaction: claims wait for it.
const cancelBatch = 2000

const reasonCanceled = "the send was canceled"

// Cancel implements notify.Store. Claims and cancellations exclude each other, so what is not claimed
// when a message is canceled is never delivered. If it is interrupted, it can be repeated.
func (s *Store) Cancel(ctx context.Context, send int64) (notify.Send, error) {
	now := s.now()
	shard := s.shard()
	if err := s.lock(ctx, func(tx *db.Tx) error { return cancelSend(tx, send, now, shard) }); err != nil {
		return notify.Send{}, err
	}
	end := notify.MessageNumber(send+1, 0)
	for from := notify.MessageNumber(send, 0); from < end; {
		next, err := s.cancelMessages(ctx, from, end, now)
		if err != nil {
			return notify.Send{}, err
		}
		from = next
	}
	return s.Send(ctx, send)
}

// cancelSend marks a send, which then gets no more messages. One that is scheduled leaves the schedule.
func cancelSend(tx *db.Tx, number int64, now time.Time, shard int) error {
	row, err := query.One(tx, scanScheduled, "DELETE FROM notify_scheduled WHERE number = ? RETURNING "+scheduledColumns,
		number)
	switch {
	case query.IsNotFound(err):
		return query.Found(tx.Exec("UPDATE notify_sends SET canceled = CASE WHEN canceled = 0 THEN ? ELSE canceled END, "+
			"expanded = CASE WHEN expanded = 0 THEN ? ELSE expanded END WHERE number = ?", db.Nanos(now), db.Nanos(now), number))
	case err != nil:
		return err
	}
	data, err := encodeSend(&row.Send)
	if err != nil {
		return err
	}
	if err := store(tx, shard, []newSend{{Number: number, Client: row.ClientID, Kind: row.KindID,
		Received: db.Nanos(row.Received), Data: data, Audience: len(row.Audiences), Tally: true,
		Expanded: db.Nanos(now), Kept: keptHours(&row.Send)}}, []newMessage{}, nil); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE notify_sends SET canceled = ? WHERE number = ?", db.Nanos(now), number); err != nil {
		return err
	}
	if row.next > 0 {
		c := notify.Counts{Total: row.next, Canceled: row.next}
		if err := addCounts(tx, number, shard, c, db.Nanos(now)); err != nil {
			return err
		}
	}
	return unschedule(tx, map[string]int{row.ClientID: max(row.next, 1)})
}

// cancelMessages cancels some messages in a range of numbers, and returns where the rest begins.
func (s *Store) cancelMessages(ctx context.Context, from, end int64, now time.Time) (int64, error) {
	release, err := acquire(ctx, s.claiming)
	if err != nil {
		return 0, err
	}
	defer release()
	shard := s.shard()
	next := end
	var f figures.Changes
	err = s.lock(ctx, func(tx *db.Tx) error {
		if err := s.excludeClaims(tx); err != nil {
			return err
		}
		rows, err := db.All(tx, scanMessage, "SELECT "+messageColumns+
			" FROM notify_messages WHERE number >= ? AND number < ? "+
			"AND status < 2 ORDER BY number LIMIT ?"+query.ForUpdate(tx.Dialect()), from, end, cancelBatch)
		if err != nil || len(rows) == 0 {
			return err
		}
		if len(rows) == cancelBatch {
			next = rows[len(rows)-1].Number + 1
		}
		free, held, err := s.cancelable(tx, rows)
		if err != nil {
			return err
		}
		f, err = s.cancelRows(tx, free, held, now, shard)
		return err
	})
	if err == nil {
		s.figures.Committed(&f)
	}
	return next, err
}

// excludeClaims keeps other servers from claiming messages until the end of the transaction.
func (s *Store) excludeClaims(tx *db.Tx) error {
	if !s.Shared() {
		return nil
	}
	_, err := tx.Exec("SELECT pg_advisory_xact_lock(?), "+query.ByIndex, claimLock)
	return err
}

// cancelable divides waiting messages into those that can be canceled, and those that are claimed.
func (s *Store) cancelable(tx *db.Tx, rows []notify.Message) (free []notify.Message, held []int64, err error) {
	claimed, err := s.claimed(tx, rows)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range rows {
		if claimed[m.Number] {
			held = append(held, m.Number)
		} else {
			free = append(free, m)
		}
	}
	return free, held, nil
}

// claimed returns which of the messages are claimed.
func (s *Store) claimed(tx *db.Tx, rows []notify.Message) (map[int64]bool, error) {
	claimed := map[int64]bool{}
	if s.Shared() {
		list, err := db.All(tx, query.ScanNumber,
			"SELECT unnest(CAST(messages AS BIGINT[])) FROM notify_leases WHERE ends > ?", db.Nanos(s.steady()))
		for _, n := range list {
			claimed[n] = true
		}
		return claimed, err
	}
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	for _, m := range rows {
		if s.held.messages[m.Number] != nil {
			claimed[m.Number] = true
		}
	}
	return claimed, nil
}

// cancelRows cancels free messages of one send, and marks those that are held.
func (s *Store) cancelRows(tx *db.Tx, free []notify.Message, held []int64, now time.Time,
	shard int) (f figures.Changes, err error) {
	if len(held) > 0 {
		if _, err := tx.Exec("UPDATE notify_messages SET parked = TRUE WHERE "+query.NumbersIn(tx.Dialect(), "number"),
			query.NumberList(tx.Dialect(), held)); err != nil {
			return f, err
		}
	}
	if len(free) == 0 {
		return f, nil
	}
	send, err := query.One(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE number = ?",
		notify.SendOf(free[0].Number))
	if err != nil {
		return f, err
	}
	var c notify.Counts
	delays := waits.Counts{}
	numbers := make([]int64, len(free))
	for i, m := range free {
		numbers[i] = m.Number
		status, _ := statusNumber(m.Status)
		*counter(&c, status)--
		c.Canceled++
		delays.Change(&send.Send, m.Channel, -1)
		delays.Postpone(&send.Send, &m, false, false)
		f.Outcome(&send.Send, &m, &notify.Outcome{Status: notify.Canceled, At: now}, m.Email)
	}
	if _, err := tx.Exec("UPDATE notify_messages SET status = 6, due = 0, updated = ?, parked = FALSE, quiet = FALSE, "+
		"postponed = FALSE, reason = ? WHERE "+
		query.NumbersIn(tx.Dialect(), "number"), db.Nanos(now), reasonCanceled,
		query.NumberList(tx.Dialect(), numbers)); err != nil {
		return f, err
	}
	if send.tally {
		if err := addCounts(tx, send.Number, shard, c, db.Nanos(now)); err != nil {
			return f, err
		}
	}
	if err := delays.Store(tx, shard); err != nil {
		return f, err
	}
	if err := addWaiting(tx, shard, -len(free)); err != nil {
		return f, err
	}
	err = s.figures.Store(tx, &f, shard)
	return f, err
}
