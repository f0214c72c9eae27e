//go:build unix

package notifydb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/occurrences"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/topics"
)

// TestPlans sees that the engines find the index made for each query of the
// queue when there is much that is done, and much that is not due.
func TestPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := populate(t, d)
		sqlite := d.Dialect() == db.SQLite
		primary := func(table string) string {
			if sqlite {
				return "USING INTEGER PRIMARY KEY"
			}
			return table + "_pkey"
		}
		now := db.Nanos(time.Now())
		recurringKey := "notify_recurring_pkey"
		if sqlite {
			recurringKey = "sqlite_autoindex_notify_recurring_1"
		}
		membersKey := "notify_topic_members_pkey"
		if sqlite {
			membersKey = "USING PRIMARY KEY"
		}
		pick := "SELECT " + messageColumns + " FROM notify_messages WHERE " + queueAfter + inOrder
		pickArgs := []any{1, now, 0, 0, 500}
		if !sqlite {
			pick = "SELECT " + messageColumns + " FROM notify_messages WHERE " + queueAfter + notLeased + inOrder
			pickArgs = []any{1, now, 0, 0, now, 500}
		}
		list := query.NumberList(d.Dialect(), []int64{1, 2, 3})
		for name, test := range map[string]struct {
			query string
			args  []any
			index string
		}{
			"Claim": {pick, pickArgs, "notify_messages_queue"},
			"NextDue": {"SELECT due, number FROM notify_messages WHERE " + queueAfter + inOrder, []any{2, farthest.due, 0, 0, 1},
				"notify_messages_queue"},
			"Finish": {"SELECT " + messageColumns + " FROM notify_messages WHERE " + query.NumbersIn(d.Dialect(), "number"),
				[]any{list}, primary("notify_messages")},
			"Sends": {"SELECT " + sendColumns + " FROM notify_sends WHERE " + query.NumbersIn(d.Dialect(), "number"),
				[]any{list}, primary("notify_sends")},
			"Listed": {"SELECT number FROM notify_sends WHERE client_id = ? AND number < ? ORDER BY number DESC LIMIT ?",
				[]any{"c7", farthest.due, 10}, "notify_sends_client"},
			"Unread": {
				"SELECT number FROM notify_sends WHERE expanded = 0 AND lease_until <= ? ORDER BY number LIMIT ?", []any{now, 1},
				"notify_sends_unexpanded",
			},
			"Found": {
				"SELECT number FROM notify_messages WHERE number >= ? AND number < ? AND user_id = ? ORDER BY number DESC LIMIT ?",
				[]any{notify.MessageNumber(7, 0), notify.MessageNumber(8, 0), "u", 10}, primary("notify_messages"),
			},
			"Keys": {"SELECT client_id FROM notify_idempotency WHERE ends <= ? ORDER BY ends LIMIT ?", []any{now, 1000},
				"notify_idempotency_ends"},
			"Waiting": {waitingOf("number >= ? AND number < ?"),
				[]any{notify.MessageNumber(7, 0), notify.MessageNumber(8, 0)}, primary("notify_messages")},
			"NextKept":   {nextKept, []any{-1}, "notify_sends_kept"},
			"OldestKept": {oldestKept, []any{0, 7, 0, 1000}, "notify_sends_kept"},
			"Scheduled":  {firstScheduled, nil, "notify_scheduled_due"},
			"Due":        {dueScheduled, []any{now, 100}, "notify_scheduled_due"},
			"ScheduledListed": {
				"SELECT number FROM notify_scheduled WHERE client_id = ? AND number < ? ORDER BY number DESC LIMIT ?",
				[]any{"c7", farthest.due, 10}, "notify_scheduled_client",
			},
			"Recurring":    {occurrences.FirstRecurring, []any{farthest.due}, "notify_recurring_due"},
			"RecurringDue": {occurrences.DueRecurring, []any{now, 100}, "notify_recurring_due"},
			"RecurringListed": {
				"SELECT name FROM notify_recurring WHERE (client_id, name) > (?, ?) ORDER BY client_id, name LIMIT ?",
				[]any{"c", "n", 10}, recurringKey,
			},
			"TopicMembers":  {topics.MembersPage, []any{"t", "a", 10}, membersKey},
			"ActiveMembers": {topics.ActiveMembers(d.Dialect()), []any{"t", `["a","b"]`}, membersKey},
			"DigestFirst":   {firstDigest, nil, "notify_digests_due"},
			"DigestClient":  {nextClient, []any{"c"}, "notify_digests_"},
			"DigestDue":     {dueDigests, []any{"c", now, 100}, "notify_digests_client"},
			"DigestEntries": {"SELECT number FROM notify_messages WHERE " + query.NumbersIn(d.Dialect(), "digest") +
				waitingEntries, []any{list}, "notify_messages_digest"},
			"QuietOfUser":    {quietOfUser + quietDue, []any{"u", now, 10}, "notify_messages_quiet"},
			"QuietOfAddress": {quietOfAddress + quietDue, []any{"e", now, 10}, "notify_messages_quiet"},
			"Callbacks": {"SELECT id FROM notify_callbacks WHERE due <= ? ORDER BY due, id LIMIT ?", []any{now, 10},
				"notify_callbacks_due"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				plan := explain(t, s.db, test.query, test.args...)
				if !strings.Contains(plan, test.index) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Sort ") {
					t.Errorf("%s\ndoes not use %s, or sorts:\n%s", test.query, test.index, plan)
				}
			})
		}
	})
}

// Messages that wait for a retry must not cost a claim anything, however many:
// the index ends at what is due.
func TestClaimsEndAtWhatIsDue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := populate(t, d)
		now := db.Nanos(time.Now())
		query, args, bound := "SELECT "+messageColumns+" FROM notify_messages WHERE "+queueAfter+inOrder,
			[]any{int(notify.PriorityRetry), now, 0, 0, 500}, "(lane=? AND due>? AND due<?)"
		if d.Dialect() == db.Postgres {
			query = "SELECT " + messageColumns + " FROM notify_messages WHERE " + queueAfter + notLeased + inOrder
			args = []any{int(notify.PriorityRetry), now, 0, 0, now, 500}
			bound = "Index Cond: ((lane = 2) AND (due <= "
		}
		if plan := explain(t, s.db, query, args...); !strings.Contains(plan, bound) {
			t.Errorf("it reads what is not due:\n%s", plan)
		}
	})
}

// A first send to everyone comes to tables that the planner knows as empty, or
// nearly: what reads messages must not be planned for that.
func TestPlansOfSmallTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, err := Open(t.Context(), d, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Accept(t.Context(), notify.NewSend{
			Send: notify.Send{ClientID: "c", Expanded: true}, Recipients: []notify.Recipient{{Email: "a@x.org"},
				{Email: "b@x.org"}},
		}); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"notify_sends", "notify_messages"} {
			if err := d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("ANALYZE " +
					table)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if d.Dialect() != db.Postgres {
			return // it has no other plan
		}
		var scans, plan string
		err = d.UpdateLocking(t.Context(), func(tx *db.Tx) error {
			f := finish{counts: map[int64]*tallied{}}
			number := notify.MessageNumber(1, 0)
			if err := s.finish(tx, &f, []notify.Outcome{{Number: number, Status: notify.Delivered, At: time.Now()}},
				[]int64{number}, 0); err != nil {
				return err
			}
			if err := tx.QueryRow("SELECT current_setting('enable_seqscan')").Scan(&scans); err != nil {
				return err
			}
			lines, err := db.All(tx, query.ScanText, "EXPLAIN "+changeMessages, `[{"n":1,"s":2,"a":1,"d":0,"u":0,"p":false,"e":"","r":"","q":false}]`)
			plan = strings.Join(lines, "\n")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if scans != "off" || strings.Contains(plan, "Seq Scan on notify_messages") {
			t.Errorf("Finish may read whole tables (%s):\n%s", scans, plan)
		}
	})
}

// populate stores many messages that are done, many that are not due and some
// that are, and makes the planner know them.
func populate(t testing.TB, d *db.DB) *Store {
	t.Helper()
	s, err := Open(t.Context(), d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const sends, each = 2500, 6
	now := db.Nanos(time.Now())
	err = d.Update(t.Context(), func(tx *db.Tx) error {
		var rows, messages, keys, calls, later, repeated []any
		for i := range int64(sends) {
			rows = append(rows, i+1, fmt.Sprint("c", i%100), "k", now, "{}", 0, "", each, false, now, i%3*24, "", 0)
			later = append(later, sends+i+1, fmt.Sprint("c", i%100), "k", now, "{}", 1, now+int64(time.Hour)+i)
			repeated = append(repeated, fmt.Sprint("c", i%100), fmt.Sprint(i), "0 9 * * *", "UTC", 0, 0, 0, "{}", 0,
				now+int64(time.Hour)+i, now+int64(time.Hour)+i, i/100, 0, 0, 0, 0, 0, "", now, now)
			keys = append(keys, "c", fmt.Sprint(i), "h", i, now+i)
			calls = append(calls, fmt.Sprint(i), "h", "{}", 0, now+i, "")
			for j := range each {
				status, priority, due := 2, 1, int64(0)
				switch {
				case j == 0:
					status, due = 0, now-i
				case j%2 == 0:
					status, priority, due = 1, 2, now+int64(time.Hour)+i
				}
				messages = append(messages, notify.MessageNumber(i+1, j), priority, status, due, now, 0, "u", "e")
			}
		}
		for _, in := range []struct {
			query.Rowwise
			args []any
		}{
			{newSends, rows},
			{query.NewInsertion("notify_messages", "number, lane, status, due, updated, audience, user_id, email", ""),
				messages},
			{query.NewInsertion("notify_idempotency", "client_id, name, hash, send, ends", ""), keys},
			{query.NewInsertion("notify_callbacks", "id, webhook_id, payload, attempts, due, lease_owner", ""), calls},
			{newScheduled, later},
			{query.NewInsertion("notify_recurring", occurrences.RecurringColumns, ""), repeated},
		} {
			if err := in.All(tx, in.args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"notify_sends", "notify_messages", "notify_idempotency", "notify_callbacks",
		"notify_scheduled"} {
		if err := d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("ANALYZE " +
				table)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// explain returns how an engine means to run a query.
func explain(t testing.TB, d *db.DB, statement string, args ...any) string {
	t.Helper()
	var lines []string
	err := d.View(t.Context(), func(tx *db.Tx) (err error) {
		if d.Dialect() == db.Postgres {
			if strings.Contains(statement, "lane") || strings.Contains(statement, "kept") { // as UseIndexes does
				if _, err := tx.Exec("SELECT " + query.ByIndex); err != nil {
					return err
				}
			}
			lines, err = db.All(tx, query.ScanText, "EXPLAIN "+statement, args...)
			return err
		}
		lines, err = db.All(tx, func(row db.Scanner) (line string, err error) {
			var ignored int
			err = row.Scan(&ignored, &ignored, &ignored, &line)
			return line, err
		}, "EXPLAIN QUERY PLAN "+statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
