package notifydb

import (
	"context"
	"fmt"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
	"ingot/internal/notify/notifydb/waits"
)

var newMembers = query.NewInsertion("notify_members", "send, member", " ON CONFLICT (send, member) DO NOTHING")

// Extend implements notify.Store.
func (s *Store) Extend(ctx context.Context, send int64, from notify.Cursor, more []notify.Recipient, to notify.Cursor,
	expanded bool) error {
	if err := query.AllStorable(to.Page); err != nil {
		return err
	}
	for _, r := range more {
		if err := query.AllStorable(r.UserID, r.Email); err != nil {
			return err
		}
	}
	more = repeats.Distinct(more)
	now, due := s.now(), s.steady()
	shard := s.shard()
	known := s.filters.Take(send)
	var row sendRow
	var priority notify.Priority
	var fresh []notify.Recipient
	err := s.lock(ctx, func(tx *db.Tx) (err error) {
		if err := query.UseIndexes(tx); err != nil {
			return err
		}
		row, err = query.One(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE number = ?"+
			query.ForUpdate(tx.Dialect()), send)
		if err != nil {
			return err
		}
		if row.Cursor != from || row.Expanded {
			return fmt.Errorf("send %d is at %+v, expanded %v: %w", send, row.Cursor, row.Expanded, notify.ErrConflict)
		}
		if len(row.Audiences) > 1 {
			fresh, err = withoutMembers(tx, send, more)
		} else {
			fresh, err = known.LeaveOut(tx, send, row.next, more)
		}
		if err != nil {
			return err
		}
		if row.next+len(fresh) > notify.MaxRecipients {
			return fmt.Errorf("send %d: %w, at most %d are allowed", send, notify.ErrTooMany, notify.MaxRecipients)
		}
		priority = notify.PriorityBulk
		if expanded && row.next+len(fresh) <= notify.SingleLimit {
			priority = notify.PrioritySingle
		}
		if err := storeMessages(tx, appendMessages(nil, &row.Send, row.next, priority, due, fresh)); err != nil {
			return err
		}
		return extend(tx, &row, fresh, to, expanded, now, shard)
	})
	if err != nil {
		s.filters.Put(send, known)
		return err
	}
	s.held.queued(priority, due)
	if row.Workflow.Delays() {
		s.held.queued(notify.PriorityRetry, due)
	}
	if !expanded {
		known.Add(row.next, fresh)
		s.filters.Put(send, known)
		return nil
	}
	if len(row.Audiences) > 1 {
		return s.forgetMembers(ctx, send)
	}
	return nil
}

// extend records that a send has more recipients.
func extend(tx *db.Tx, row *sendRow, fresh []notify.Recipient, to notify.Cursor, expanded bool, now time.Time,
	shard int) error {
	var end time.Time
	if expanded {
		end = now
	}
	_, err := tx.Exec("UPDATE notify_sends SET cursor_audience = ?, cursor_page = ?, next = ?, expanded = ? WHERE "+
		"number = ?",
		to.Audience, to.Page, row.next+len(fresh), db.Nanos(end), row.Number)
	if err != nil || len(fresh) == 0 {
		return err
	}
	if err := addCounts(tx, row.Number, shard, notify.Counts{Total: len(fresh), Queued: len(fresh)}, 0); err != nil {
		return err
	}
	delays := waits.Counts{}
	delays.Made(&row.Send, fresh)
	if err := delays.Store(tx, shard); err != nil {
		return err
	}
	return addWaiting(tx, shard, len(fresh))
}

// withoutMembers returns the recipients that are not in notify_members, and
// adds them there. Audiences of one send may overlap anywhere, so this needs an
// index.
func withoutMembers(tx *db.Tx, send int64, more []notify.Recipient) ([]notify.Recipient, error) {
	names := make([]string, len(more))
	for i, r := range more {
		names[i] = repeats.MemberOf(r)
	}
	list, err := query.TextList(names)
	if err != nil {
		return nil, err
	}
	there, err := db.All(tx, query.ScanText, "SELECT member FROM notify_members WHERE send = ? AND "+
		query.TextsIn(tx.Dialect(), "member"), send, list)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(there))
	for _, m := range there {
		known[m] = true
	}
	var fresh []notify.Recipient
	var args []any
	for i, r := range more {
		if !known[names[i]] {
			fresh = append(fresh, r)
			args = append(args, send, names[i])
		}
	}
	return fresh, newMembers.All(tx, args)
}

// forgetMembers deletes the members of an expanded send, in small steps. If it
// is interrupted, the rest is purged with the send.
func (s *Store) forgetMembers(ctx context.Context, send int64) error {
	for {
		var n int64
		err := s.lock(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(`DELETE FROM notify_members WHERE send = ? AND member IN
				(SELECT member FROM notify_members WHERE send = ? ORDER BY member LIMIT ?)`, send, send, purgeBatch)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}

// ClaimExpansions implements notify.Store. The oldest come first.
func (s *Store) ClaimExpansions(ctx context.Context, owner string, limit int,
	lease time.Duration) ([]notify.Send, error) {
	const free = " FROM notify_sends WHERE expanded = 0 AND lease_until <= ? ORDER BY number LIMIT ?"
	now := s.steady()
	// Most of the time there is nothing to expand, which costs no write.
	any, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]int64, error) {
		return db.All(tx, query.ScanNumber, "SELECT number"+free, db.Nanos(now), min(limit, 1))
	})
	if err != nil || len(any) == 0 {
		return []notify.Send{}, err
	}
	var sends []notify.Send
	err = s.lock(ctx, func(tx *db.Tx) error {
		sends = []notify.Send{}
		rows, err := db.All(tx, scanSend, "SELECT "+sendColumns+free+query.SkipLocked(tx.Dialect()), db.Nanos(now), limit)
		if err != nil {
			return err
		}
		for i := range rows {
			if _, err := tx.Exec("UPDATE notify_sends SET lease_owner = ?, lease_until = ? WHERE number = ?",
				owner, db.Nanos(now.Add(lease)), rows[i].Number); err != nil {
				return err
			}
			sends = append(sends, rows[i].Send)
		}
		for i := range rows {
			if err := count(tx, &rows[i]); err != nil {
				return err
			}
			sends[i] = rows[i].Send
		}
		return nil
	})
	return sends, err
}
