package notifydb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/reactions"
	"ingot/internal/notify/notifydb/usage"
)

// purgeBatch limits the rows per transaction, so that others do not wait long
// for it.
const purgeBatch = 1000

// Purge implements notify.Store. For each retention that sends have, it visits
// these sends, oldest first, and stops when they are too recent: numbers follow
// time closely enough. If it is interrupted, completed steps are kept.
func (s *Store) Purge(ctx context.Context, before time.Time) (int, error) {
	release, err := acquire(ctx, s.purging)
	if err != nil {
		return 0, err
	}
	defer release()
	purged, now := 0, s.now()
	for hours := int64(-1); ; {
		next, err := query.View(ctx, s.db, func(tx *db.Tx) ([]int64, error) {
			if err := query.UseIndexes(tx); err != nil {
				return nil, err
			}
			return db.All(tx, query.ScanNumber, nextKept, hours)
		})
		if err != nil {
			return purged, fmt.Errorf("purge: %w", err)
		}
		if len(next) == 0 {
			break
		}
		hours = next[0]
		gone, err := s.purgeKept(ctx, hours, s.keptSince(hours, before, now))
		purged += gone
		if err != nil {
			return purged, fmt.Errorf("purge: %w", err)
		}
	}
	return purged, errors.Join(s.purgeKeys(ctx), s.purgeLists(ctx), s.PurgeInboxes(ctx), s.ForgetInboxes(ctx),
		s.purgeErasures(ctx), s.PurgeFiles(ctx), s.PurgeThrottles(ctx), s.figures.Purge(ctx, s.lock),
		s.PurgeMailDays(ctx, s.now()), s.PurgeTopics(ctx))
}

// nextKept returns the next retention that any send has; there are at most as many as hours that kinds may say.
const nextKept = "SELECT kept FROM notify_sends WHERE kept > ? ORDER BY kept LIMIT 1"

// keptSince returns since when messages must be final that Purge deletes.
func (s *Store) keptSince(hours int64, before, now time.Time) time.Time {
	if hours == 0 {
		return before
	}
	kept := time.Duration(hours) * time.Hour
	if s.kept > 0 {
		kept = min(kept, s.kept)
	}
	return now.Add(-kept)
}

// oldestKept does not compare kept for equality: planners would then also read by number, past all that is kept longer.
const oldestKept = "SELECT number, received, tally, expanded, next FROM notify_sends WHERE (kept, number) > (?, ?) " +
	"AND kept <= ? ORDER BY kept, number LIMIT ?"

// purgeKept purges the sends that are kept for some hours.
func (s *Store) purgeKept(ctx context.Context, hours int64, before time.Time) (int, error) {
	purged := 0
	for last := int64(0); ; {
		sends, err := query.View(ctx, s.db, func(tx *db.Tx) ([]oldSend, error) {
			if err := query.UseIndexes(tx); err != nil {
				return nil, err
			}
			return db.All(tx, func(row db.Scanner) (o oldSend, err error) {
				err = row.Scan(&o.number, &o.received, &o.tally, &o.expanded, &o.next)
				return o, err
			}, oldestKept, hours, last, hours, purgeBatch)
		})
		if err != nil {
			return purged, err
		}
		full, young := len(sends) == purgeBatch, 0
		for len(sends) > 0 {
			last = sends[0].number
			if sends[0].received >= db.Nanos(before) {
				young++
				sends = sends[1:]
				continue
			}
			n := oldRun(sends, db.Nanos(before))
			gone, err := s.purgeSends(ctx, sends[:n], before)
			purged += gone
			if err != nil {
				return purged, err
			}
			last = sends[n-1].number
			sends = sends[n:]
		}
		if !full || young == purgeBatch {
			return purged, nil
		}
	}
}

// oldSend is a send that may have messages to delete.
type oldSend struct {
	number, received, expanded int64
	tally                      bool
	next                       int
}

// large reports whether the send's messages are purged in steps, and not together with those of others.
func (o *oldSend) large() bool { return o.tally || o.next > purgeBatch }

// oldRun returns how many of the sends to process together: one large send, or
// small ones with at most as many messages as one step may have.
func oldRun(sends []oldSend, before int64) int {
	messages := 0
	for i := range sends {
		o := &sends[i]
		messages += o.next
		if i > 0 && (o.large() || messages > purgeBatch || o.received >= before) {
			return i
		}
		if o.large() {
			return 1
		}
	}
	return len(sends)
}

// purgeSends purges one large send, or a few small ones: between these may be others that are kept longer, so their
// messages are named one by one.
func (s *Store) purgeSends(ctx context.Context, sends []oldSend, before time.Time) (int, error) {
	if !sends[0].large() {
		var numbers []int64
		for _, o := range sends {
			for i := range o.next {
				numbers = append(numbers, notify.MessageNumber(o.number, i))
			}
		}
		in := func(d db.Dialect) (string, []any) {
			return query.NumbersIn(d, "number"), []any{query.NumberList(d, numbers)}
		}
		purged, err := s.purgeMessages(ctx, sends, selection{in, in}, before)
		if err != nil {
			return purged, err
		}
		return purged, s.purgeEmpty(ctx, sends)
	}
	purged := 0
	end := notify.MessageNumber(sends[0].number+1, 0)
	for from := notify.MessageNumber(sends[0].number, 0); from < end; {
		to, err := s.stepEnd(ctx, from, end)
		if err != nil {
			return purged, err
		}
		n, err := s.purgeMessages(ctx, sends, selection{between(from, to), between(from-int64(around), to+int64(around))},
			before)
		purged += n
		if err != nil {
			return purged, err
		}
		from = to
	}
	return purged, s.purgeEmpty(ctx, sends)
}

// selection selects the messages of one step, and those whose conditions may ask about them.
type selection struct {
	these, beside func(db.Dialect) (where string, args []any)
}

// between selects messages by their numbers.
func between(from, to int64) func(db.Dialect) (string, []any) {
	return func(db.Dialect) (string, []any) { return "number >= ? AND number < ?", []any{from, to} }
}

// stepEnd returns the number after the last message of one step.
func (s *Store) stepEnd(ctx context.Context, from, end int64) (int64, error) {
	list, err := query.View(ctx, s.db, func(tx *db.Tx) ([]int64, error) {
		return db.All(tx, query.ScanNumber,
			"SELECT number FROM notify_messages WHERE number >= ? AND number < ? ORDER BY number LIMIT 1 OFFSET ?",
			from, end, purgeBatch)
	})
	if err != nil || len(list) == 0 {
		return end, err
	}
	return list[0], nil
}

// purgeMessages deletes selected messages, and stores the counts of small
// sends, which are otherwise counted on demand.
func (s *Store) purgeMessages(ctx context.Context, sends []oldSend, of selection, before time.Time) (int, error) {
	type gone struct {
		number, updated int64
		status          int
	}
	var all []gone
	err := s.lock(ctx, func(tx *db.Tx) (err error) {
		if err := query.UseIndexes(tx); err != nil {
			return err
		}
		needed, err := s.needed(tx, of)
		if err != nil {
			return err
		}
		where, args := of.these(tx.Dialect())
		all, err = db.All(tx, func(row db.Scanner) (g gone, err error) {
			err = row.Scan(&g.number, &g.status,
				&g.updated)
			return g, err
		}, "DELETE FROM notify_messages WHERE "+where+" AND status >= 2 AND updated < ? AND NOT ("+
			query.NumbersIn(tx.Dialect(), "number")+") RETURNING number, status, updated",
			append(args, db.Nanos(before), query.NumberList(tx.Dialect(), needed))...)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		numbers := make([]int64, len(all))
		counts := map[int64]*tallied{}
		for i, g := range all {
			numbers[i] = g.number
			t := counts[notify.SendOf(g.number)]
			if t == nil {
				t = &tallied{}
				counts[notify.SendOf(g.number)] = t
			}
			t.Total++
			*counter(&t.Counts, g.status)++
			t.latest = max(t.latest, g.updated)
		}
		for _, o := range sends {
			t := counts[o.number]
			// A send that is deleted completely needs no counts.
			if t == nil || o.tally || t.Total == o.next {
				continue
			}
			if err := addCounts(tx, o.number, 0, t.Counts, t.latest); err != nil {
				return err
			}
		}
		if err := reactions.Forget(tx, numbers); err != nil {
			return err
		}
		_, err = tx.Exec("DELETE FROM notify_attempts WHERE "+query.NumbersIn(tx.Dialect(), "number"),
			query.NumberList(tx.Dialect(), numbers))
		return err
	})
	return len(all), err
}

// waitingOf selects those of messages that wait.
func waitingOf(where string) string {
	return "SELECT " + messageColumns + " FROM notify_messages WHERE " + where + " AND status < 2 ORDER BY number"
}

// needed returns the messages that a condition may still ask about: those beside a waiting message whose step asks
// about others.
func (s *Store) needed(tx *db.Tx, of selection) ([]int64, error) {
	where, args := of.beside(tx.Dialect())
	waiting, err := db.All(tx, scanMessage, waitingOf(where), args...)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	sends := make([]int64, len(waiting))
	for i, m := range waiting {
		sends[i] = notify.SendOf(m.Number)
	}
	known, err := s.sendsOf(tx, slices.Compact(sends))
	if err != nil {
		return nil, err
	}
	var asking []notify.Message
	for _, m := range waiting {
		send := known[notify.SendOf(m.Number)]
		if send == nil {
			continue
		}
		if step := send.Workflow.Step(m.Channel); step != nil && step.If != nil && step.AsksOthers() {
			asking = append(asking, m)
		}
	}
	return neighbours(asking), nil
}

// purgeEmpty deletes the sends that have no messages left, with their content.
func (s *Store) purgeEmpty(ctx context.Context, sends []oldSend) error {
	var numbers []int64
	for _, o := range sends {
		if o.expanded != 0 {
			numbers = append(numbers, o.number)
		}
	}
	for step := range slices.Chunk(numbers, purgeBatch) {
		err := s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
			if err := query.UseIndexes(tx); err != nil {
				return nil, err
			}
			list := query.NumberList(tx.Dialect(), step)
			empty, err := db.All(tx, query.ScanNumber, "SELECT number FROM notify_sends AS s WHERE "+
				query.NumbersIn(tx.Dialect(), "number")+
				" AND NOT EXISTS (SELECT 1 FROM notify_messages AS m WHERE m.number >= s.number * ? AND m.number < (s.number + "+
				"1) * ?) ORDER BY number"+forUpdateOf(tx.Dialect(), "s"), // another server frees what they take only once
				list, notify.MaxRecipients+1, notify.MaxRecipients+1)
			if err != nil || len(empty) == 0 {
				return nil, err
			}
			list = query.NumberList(tx.Dialect(), empty)
			free, err := db.All(tx, usage.ScanFreed, "SELECT client_id, SUM(octet_length(data) + ?) FROM notify_sends WHERE "+
				query.NumbersIn(tx.Dialect(), "number")+" GROUP BY client_id", usage.SendOverhead, list)
			if err != nil {
				return nil, err
			}
			lists, err := db.All(tx, usage.ScanFreed, "SELECT client_id, ("+usage.ListBytes+") FROM notify_lists AS l WHERE "+
				query.NumbersIn(tx.Dialect(), "send"), list)
			if err != nil {
				return nil, err
			}
			for _, statement := range []string{
				"DELETE FROM notify_list_members WHERE list IN (SELECT id FROM notify_lists WHERE " +
					query.NumbersIn(tx.Dialect(), "send") + ")",
				"DELETE FROM notify_lists WHERE " + query.NumbersIn(tx.Dialect(), "send"),
				"DELETE FROM notify_sends WHERE " + query.NumbersIn(tx.Dialect(), "number"),
				"DELETE FROM notify_counts WHERE " + query.NumbersIn(tx.Dialect(), "send"),
				"DELETE FROM notify_members WHERE " + query.NumbersIn(tx.Dialect(), "send"),
				"DELETE FROM notify_file_uses WHERE " + query.NumbersIn(tx.Dialect(), "send"),
			} {
				if _, err := tx.Exec(statement, list); err != nil {
					return nil, err
				}
			}
			return append(free, lists...), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// purgeKeys deletes idempotency keys that have ended.
func (s *Store) purgeKeys(ctx context.Context) error {
	now := db.Nanos(s.now())
	for {
		var n int64
		err := s.lock(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(`DELETE FROM notify_idempotency WHERE (client_id, name) IN
				(SELECT client_id, name FROM notify_idempotency WHERE ends <= ? ORDER BY ends LIMIT ?)`, now, purgeBatch)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
