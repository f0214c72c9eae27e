package notifydb

import (
	"context"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

var newAttempts = query.NewInsertion("notify_attempts", "number, attempt, at, reason",
	" ON CONFLICT (number, attempt) DO UPDATE SET at = excluded.at, reason = excluded.reason")

// storeAttempts stores the attempts that failed and are to be repeated. A message that is replayed counts them anew.
func storeAttempts(tx *db.Tx, changes []change) error {
	var args []any
	for _, c := range changes {
		if c.attempted && c.Status == notify.Retry {
			args = append(args, c.Number, c.Attempts, db.Nanos(c.Updated), c.Reason)
		}
	}
	return newAttempts.All(tx, args)
}

// around is how far apart the numbers of a recipient's messages may be: they are made together, one for each channel.
const around = notify.ChannelCount - 1

// neighbours are the numbers that other messages of the recipients may have.
func neighbours(of []notify.Message) []int64 {
	var numbers []int64
	for _, m := range of {
		for n := m.Number - int64(around); n <= m.Number+int64(around); n++ {
			if n >= 0 && notify.SendOf(n) == notify.SendOf(m.Number) {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// sameRecipient reports whether two messages of a send have the same recipient. The address of a user may be known to
// one of them only.
func sameRecipient(a, b *notify.Message) bool {
	if a.UserID != "" || b.UserID != "" {
		return a.UserID == b.UserID
	}
	return a.Email == b.Email && a.Email != ""
}

// marks of a notification in an inbox.
type inboxMarks struct {
	number         int64
	read, archived time.Time
}

func marksOf(tx *db.Tx, numbers []int64) (map[int64]inboxMarks, error) {
	list, err := db.All(tx, func(row db.Scanner) (m inboxMarks, err error) {
		err = row.Scan(&m.number, query.Moment(&m.read), query.Moment(&m.archived))
		return m, err
	}, "SELECT number, read_at, archived_at FROM notify_inbox WHERE "+query.NumbersIn(tx.Dialect(), "number"),
		query.NumberList(tx.Dialect(), numbers))
	all := make(map[int64]inboxMarks, len(list))
	for _, m := range list {
		all[m.number] = m
	}
	return all, err
}

func messagesIn(tx *db.Tx, numbers []int64) ([]notify.Message, error) {
	return db.All(tx, scanMessage, "SELECT "+messageColumns+" FROM notify_messages WHERE "+
		query.NumbersIn(tx.Dialect(), "number")+" ORDER BY number", query.NumberList(tx.Dialect(), numbers))
}

// Progress implements notify.Store.
func (s *Store) Progress(ctx context.Context, of []notify.Message) (map[int64]map[notify.ChannelID]notify.Progress,
	error) {
	all := make(map[int64]map[notify.ChannelID]notify.Progress, len(of))
	if len(of) == 0 {
		return all, nil
	}
	return query.View(ctx, s.db, func(tx *db.Tx) (map[int64]map[notify.ChannelID]notify.Progress, error) {
		clear(all)
		if err := query.UseIndexes(tx); err != nil {
			return nil, err
		}
		numbers := neighbours(of)
		rows, err := messagesIn(tx, numbers)
		if err != nil {
			return nil, err
		}
		marks, err := marksOf(tx, numbers)
		if err != nil {
			return nil, err
		}
		if err := followDigests(tx, rows); err != nil {
			return nil, err
		}
		known := make(map[int64]*notify.Message, len(rows))
		for i := range rows {
			known[rows[i].Number] = &rows[i]
		}
		for i := range of {
			all[of[i].Number] = progressOf(&of[i], known, marks)
		}
		return all, nil
	})
}

func progressOf(m *notify.Message, known map[int64]*notify.Message,
	marks map[int64]inboxMarks) map[notify.ChannelID]notify.Progress {
	found := map[notify.ChannelID]notify.Progress{}
	for n := m.Number - int64(around); n <= m.Number+int64(around); n++ {
		other := known[n]
		if n == m.Number || other == nil || notify.SendOf(n) != notify.SendOf(m.Number) || !sameRecipient(m, other) {
			continue
		}
		p := notify.Progress{Status: other.Status}
		if other.Channel == notify.Inbox {
			in, there := marks[n]
			p.Read = !in.read.IsZero() || !in.archived.IsZero() || !there && other.Status == notify.Delivered
		}
		found[other.Channel] = p
	}
	return found
}

// Timeline implements notify.Store.
func (s *Store) Timeline(ctx context.Context, number int64) (notify.Timeline, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (t notify.Timeline, err error) {
		row, err := query.One(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE number = ?",
			notify.SendOf(number))
		if err != nil {
			return t, err
		}
		t.Send = row.Send
		m, err := query.One(tx, scanMessage, "SELECT "+messageColumns+" FROM notify_messages WHERE number = ?", number)
		if err != nil {
			return t, err
		}
		numbers := neighbours([]notify.Message{m})
		if !row.tally { // so few that the one to a chat can be looked for
			for i := range row.next {
				numbers = append(numbers, notify.MessageNumber(row.Number, i))
			}
			slices.Sort(numbers)
			numbers = slices.Compact(numbers)
		}
		rows, err := messagesIn(tx, numbers)
		if err != nil {
			return t, err
		}
		rows = slices.DeleteFunc(rows, func(o notify.Message) bool {
			return o.Number != number && o.Channel != notify.Chat && !sameRecipient(&m, &o)
		})
		digests, err := digestsOf(tx, rows)
		if err != nil {
			return t, err
		}
		t.Passages, err = passages(tx, append(rows, digests...))
		return t, err
	})
}

func passages(tx *db.Tx, rows []notify.Message) ([]notify.Passage, error) {
	numbers := make([]int64, len(rows))
	for i := range rows {
		numbers[i] = rows[i].Number
	}
	marks, err := marksOf(tx, numbers)
	if err != nil {
		return nil, err
	}
	attempts := map[int64][]notify.Attempt{}
	_, err = db.All(tx, func(row db.Scanner) (n int64, err error) {
		var a notify.Attempt
		err = row.Scan(&n, &a.Number, query.Moment(&a.At), &a.Reason)
		attempts[n] = append(attempts[n], a)
		return n, err
	}, "SELECT number, attempt, at, reason FROM notify_attempts WHERE "+query.NumbersIn(tx.Dialect(), "number")+
		" ORDER BY number, at, attempt", query.NumberList(tx.Dialect(), numbers))
	all := make([]notify.Passage, len(rows))
	for i, m := range rows {
		in := marks[m.Number]
		all[i] = notify.Passage{Message: m, Attempts: attempts[m.Number], Read: in.read, Archived: in.archived}
	}
	return all, err
}

// digestsOf returns the messages of the digests that messages became part of.
func digestsOf(tx *db.Tx, rows []notify.Message) ([]notify.Message, error) {
	var numbers []int64
	for _, m := range rows {
		if m.Digest != 0 {
			numbers = append(numbers, m.Digest)
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	slices.Sort(numbers)
	return messagesIn(tx, slices.Compact(numbers))
}

// followDigests gives messages that became part of a digest its status.
func followDigests(tx *db.Tx, rows []notify.Message) error {
	digests, err := digestsOf(tx, rows)
	status := make(map[int64]notify.Status, len(digests))
	for _, m := range digests {
		status[m.Number] = m.Status
	}
	for i := range rows {
		if s, known := status[rows[i].Digest]; known {
			rows[i].Status = s
		}
	}
	return err
}
