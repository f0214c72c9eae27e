package notifydb

import (
	"context"
	"strconv"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const messageColumns = "number, status, attempts, due, updated, audience, parked, user_id, email, reason, lane, " +
	"digest, quiet, postponed"

func scanMessage(row db.Scanner) (m notify.Message, err error) {
	var status, lane int
	err = row.Scan(&m.Number, &status, &m.Attempts, query.Moment(&m.Due), query.Moment(&m.Updated), &m.Audience, &m.Parked,
		&m.UserID, &m.Email, &m.Reason, &lane, &m.Digest, &m.Quiet, &m.Postponed)
	if err != nil {
		return m, err
	}
	m.Status, m.Channel = statuses[status], channelOf(lane)
	if m.Status != notify.Digested { // the number of the digest that collects it is internal
		m.Digest, m.Collected = 0, m.Digest != 0 && !m.Status.Final()
	}
	if m.Parked && !m.Status.Final() {
		m.Parked, m.Canceled = false, true
	}
	return m, nil
}

// Message implements notify.Store.
func (s *Store) Message(ctx context.Context, number int64) (m notify.Message, clientID string, err error) {
	m, err = query.View(ctx, s.db, func(tx *db.Tx) (notify.Message, error) {
		clientID, err = query.One(tx, query.ScanText, "SELECT client_id FROM notify_sends WHERE number = ?",
			notify.SendOf(number))
		if err != nil {
			return notify.Message{}, err
		}
		return query.One(tx, scanMessage, "SELECT "+messageColumns+" FROM notify_messages WHERE number = ?", number)
	})
	if err != nil {
		return notify.Message{}, "", err
	}
	return m, clientID, nil
}

// MessagesOf implements notify.Store.
func (s *Store) MessagesOf(ctx context.Context, send, after int64, limit int) ([]notify.Message, error) {
	after = max(after, notify.MessageNumber(send, 0)-1)
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Message, error) {
		return db.All(tx, scanMessage, "SELECT "+messageColumns+
			" FROM notify_messages WHERE number > ? AND number < ? ORDER BY number LIMIT ?",
			after, notify.MessageNumber(send+1, 0), limit)
	})
}

// sendsAtOnce is the number of small sends that one query of FindMessages
// covers.
const sendsAtOnce = 200

// FindMessages implements notify.Store. It searches the sends, newest
// first: an index by user or address would slow down every message for a
// few searches.
func (s *Store) FindMessages(ctx context.Context, q notify.MessageQuery) ([]notify.Message, error) {
	conditions, args, ok := conditionsOf(q)
	if !ok || q.Limit <= 0 {
		return []notify.Message{}, nil
	}
	return s.search(ctx, q, conditions, args)
}

// search returns messages that match conditions besides those on the send.
func (s *Store) search(ctx context.Context, q notify.MessageQuery, conditions string, args []any) ([]notify.Message,
	error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Message, error) {
		found := []notify.Message{}
		if err := query.UseIndexes(tx); err != nil {
			return nil, err
		}
		next := int64(1<<63 - 1) // the send after the one to begin with
		if q.After > 0 {
			next = notify.SendOf(q.After) + 1
		}
		for len(found) < q.Limit {
			sends, err := findSends(tx, q, next)
			if err != nil || len(sends) == 0 {
				return found, err
			}
			for len(sends) > 0 && len(found) < q.Limit {
				n := smallRun(sends)
				list, err := findIn(tx, q, sends[:n], conditions, args, q.Limit-len(found))
				if err != nil {
					return nil, err
				}
				found = append(found, list...)
				next = sends[n-1].number
				sends = sends[n:]
			}
		}
		return found, nil
	})
}

type foundSend struct {
	number int64
	tally  bool
}

// findSends returns the next sends of the client that may have matching
// messages.
func findSends(tx *db.Tx, q notify.MessageQuery, below int64) ([]foundSend, error) {
	statement := "SELECT number, tally FROM notify_sends WHERE number < ?"
	args := []any{below}
	if !q.All {
		statement += " AND client_id = ?"
		args = append(args, q.ClientID)
	}
	if q.Send != 0 {
		statement += " AND number = ?"
		args = append(args, q.Send)
	}
	if q.KindID != "" {
		statement += " AND kind_id = ?"
		args = append(args, q.KindID)
	}
	if !q.Before.IsZero() { // a message is not older than its send
		statement += " AND received < ?"
		args = append(args, db.Nanos(q.Before))
	}
	return query.Matching(tx, func(row db.Scanner) (f foundSend, err error) {
		err = row.Scan(&f.number, &f.tally)
		return f, err
	},
		statement+" ORDER BY number DESC LIMIT ?", append(args, sendsAtOnce)...)
}

// smallRun returns how many of the sends to query at once: one large send, or
// the small ones before the next large one.
func smallRun(sends []foundSend) int {
	for i, f := range sends {
		if f.tally {
			return max(i, 1)
		}
	}
	return len(sends)
}

// findIn reads matching messages of some sends, newest first.
func findIn(tx *db.Tx, q notify.MessageQuery, sends []foundSend, conditions string, args []any,
	limit int) ([]notify.Message, error) {
	below := notify.MessageNumber(sends[0].number+1, 0)
	if q.After > 0 {
		below = min(below, q.After)
	}
	if len(sends) == 1 {
		return query.Matching(tx, scanMessage, "SELECT "+
			messageColumns+" FROM notify_messages WHERE number >= ? AND number < ?"+conditions+" ORDER BY number DESC LIMIT ?",
			append(append([]any{notify.MessageNumber(sends[0].number, 0), below}, args...), limit)...)
	}
	firsts := make([]int64, len(sends))
	for i, f := range sends {
		firsts[i] = notify.MessageNumber(f.number, 0)
	}
	from := "(SELECT unnest(CAST(CAST(? AS TEXT) AS BIGINT[])) AS value) AS s"
	if tx.Dialect() == db.SQLite {
		from = "json_each(?) AS s"
	}
	return query.Matching(tx, scanMessage, "SELECT "+messageColumns+" FROM "+from+
		" CROSS JOIN notify_messages WHERE number >= s.value AND number <= s.value + ? AND number < ?"+conditions+
		" ORDER BY number DESC LIMIT ?",
		append(append([]any{query.NumberList(tx.Dialect(), firsts), notify.MaxRecipients, below}, args...), limit)...)
}

// conditionsOf returns the conditions on the messages. ok is false when nothing
// can match.
func conditionsOf(q notify.MessageQuery) (conditions string, args []any, ok bool) {
	var b strings.Builder
	add := func(condition string, arg any) {
		b.WriteString(" AND " + condition)
		args = append(args, arg)
	}
	if q.Status != "" {
		n, ok := statusNumber(q.Status)
		if !ok {
			return "", nil, false
		}
		// A literal, so that the partial index of failed messages is used.
		b.WriteString(" AND status = " + strconv.Itoa(n))
	}
	if q.Parked {
		b.WriteString(" AND parked AND status = 3")
	}
	if q.OnChannel {
		add("(lane & 255) / 3 = ?", int(q.Channel))
	}
	if q.UserID != "" {
		add("user_id = ?", q.UserID)
	}
	if q.Email != "" {
		add("email = ?", q.Email)
	}
	if !q.Since.IsZero() {
		add("updated >= ?", db.Nanos(q.Since))
	}
	if !q.Before.IsZero() {
		add("updated < ?", db.Nanos(q.Before))
	}
	return b.String(), args, true
}
