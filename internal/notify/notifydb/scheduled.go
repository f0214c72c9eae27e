package notifydb

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/occurrences"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
	"ingot/internal/notify/notifydb/waits"
)

const scheduledColumns = "number, client_id, kind_id, received, data, recipients, due"

var newScheduled = query.NewInsertion("notify_scheduled", scheduledColumns, "")

// scanScheduled reads a send that waits for its time. next is the number of its recipients.
func scanScheduled(row db.Scanner) (r sendRow, err error) {
	var data db.JSON[sendData]
	var due int64
	err = row.Scan(&r.Number, &r.ClientID, &r.KindID, query.Moment(&r.Received), &data, &r.next, &due)
	r.set(&data.V)
	r.Scheduled = true
	return r, err
}

// later reports whether the send is scheduled.
func (a *acceptance) later() bool { return !a.SendAt.IsZero() }

// admitScheduled counts the scheduled sends of a group, and refuses those of clients that have too many.
func admitScheduled(tx *db.Tx, batch []*acceptance) error {
	var all []*acceptance
	for _, a := range batch {
		if a.err == nil && !a.replayed && a.later() {
			all = append(all, a)
		}
	}
	// All processes change the rows in the same order, to avoid deadlocks.
	slices.SortStableFunc(all, func(a, b *acceptance) int { return strings.Compare(a.ClientID, b.ClientID) })
	for _, a := range all {
		n, limit := max(a.Planned, 1), a.PlannedLimit
		if limit <= 0 {
			limit = math.MaxInt
		}
		changed := int64(0)
		if n <= limit {
			var err error
			if changed, err = tx.Exec(query.Insert("notify_schedules", "client_id, messages")+` ON CONFLICT (client_id) DO UPDATE
				SET messages = notify_schedules.messages + excluded.messages WHERE notify_schedules.messages <= ?`,
				a.ClientID, n, limit-n); err != nil {
				return err
			}
		}
		if changed == 0 {
			if err := refuse(tx, batch, a, notify.ErrScheduleFull); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeScheduled inserts the scheduled sends of a group.
func storeScheduled(tx *db.Tx, batch []*acceptance) error {
	var args []any
	for _, a := range batch {
		if a.err != nil || a.replayed || !a.later() {
			continue
		}
		a.Scheduled, a.Expanded, a.Counts, a.Finished = true, false, notify.Counts{}, time.Time{}
		if err := useList(tx, a.List(), a.Number); err != nil {
			return err
		}
		args = append(args, a.Number, a.ClientID, a.KindID, db.Nanos(a.Received), a.data, a.Planned, db.Nanos(a.SendAt))
	}
	return newScheduled.All(tx, args)
}

// schedule is what this process knows about scheduled sends, so that it need not look for them
// before one is due.
type schedule struct {
	mu    sync.Mutex
	known bool
	next  int64 // when the first is due; math.MaxInt64 if there is none
	read  time.Time
}

// scheduleFor is how long what is known is used when other processes schedule sends too.
const scheduleFor = time.Second

// added records what a group has added.
func (c *schedule) added(batch []*acceptance) {
	for _, a := range batch {
		if a.err == nil && !a.replayed && a.later() {
			c.mu.Lock()
			c.next = min(c.next, db.Nanos(a.SendAt))
			c.mu.Unlock()
		}
	}
}

// ask returns when the first send is due, if that is known. Otherwise the caller reads it and calls
// tell; what is added meanwhile counts too.
func (c *schedule) ask(now int64, shared bool) (next int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && now < c.next && (!shared || time.Since(c.read) < scheduleFor) {
		return c.next, true
	}
	c.known, c.next = false, math.MaxInt64
	return 0, false
}

func (c *schedule) tell(next int64, read time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.read = true, read
	c.next = min(c.next, next)
	return c.next
}

const (
	firstScheduled = "SELECT due FROM notify_scheduled ORDER BY due LIMIT 1"
	dueScheduled   = "SELECT " + scheduledColumns + " FROM notify_scheduled WHERE due <= ? ORDER BY due, number LIMIT ?"
)

// nextScheduled returns when the first send is due.
func nextScheduled(tx *db.Tx) (int64, error) {
	if err := query.UseIndexes(tx); err != nil {
		return 0, err
	}
	list, err := db.All(tx, query.ScanNumber, firstScheduled)
	if err != nil || len(list) == 0 {
		return math.MaxInt64, err
	}
	return list[0], nil
}

// Activate implements notify.Store. Schedules follow the machine's clock, not the steady one: people
// mean the time that clocks show.
func (s *Store) Activate(ctx context.Context, limit int) (int, time.Time, error) {
	now := db.Nanos(s.now())
	next, known := s.schedule.ask(now, s.Shared())
	if known {
		return 0, query.MomentOf(next), nil
	}
	began := time.Now()
	next, err := query.View(ctx, s.db, nextScheduled)
	if err != nil || next > now || limit <= 0 {
		if err != nil {
			return 0, time.Time{}, err
		}
		return 0, query.MomentOf(s.schedule.tell(next, began)), nil
	}
	due := s.steady()
	shard := s.shard()
	started := 0
	err = s.lock(ctx, func(tx *db.Tx) (err error) {
		if started, err = activate(tx, now, due, limit, shard); err != nil {
			return err
		}
		next, err = nextScheduled(tx)
		return err
	})
	if err != nil {
		return 0, time.Time{}, err
	}
	s.held.queued(notify.PriorityBulk, due)
	s.held.queued(notify.PriorityRetry, due) // what workflows delay
	return started, query.MomentOf(s.schedule.tell(next, began)), nil
}

// activatedMessages limits the messages that are made in one transaction.
const activatedMessages = 4000

// activate moves due sends from the schedule.
func activate(tx *db.Tx, now int64, due time.Time, limit, shard int) (int, error) {
	if err := query.UseIndexes(tx); err != nil {
		return 0, err
	}
	rows, err := db.All(tx, scanScheduled, dueScheduled+query.SkipLocked(tx.Dialect()), now, limit)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	planned, n := 0, 0
	for ; n < len(rows); n++ {
		if few(&rows[n]) {
			planned += rows[n].next
		}
		if planned > activatedMessages && n > 0 {
			break
		}
	}
	rows = rows[:n]
	members, err := firstMembers(tx, rows)
	if err != nil {
		return 0, err
	}
	sends, messages, numbers := make([]newSend, 0, n), []newMessage{}, make([]int64, 0, n)
	done, delays := map[string]int{}, waits.Counts{}
	for i := range rows {
		r := &rows[i]
		numbers = append(numbers, r.Number)
		done[r.ClientID] += max(r.next, 1)
		data, err := encodeSend(&r.Send)
		if err != nil {
			return 0, err
		}
		send := newSend{Number: r.Number, Client: r.ClientID, Kind: r.KindID, Received: db.Nanos(r.Received), Data: data,
			Tally: true, Kept: keptHours(&r.Send)}
		if few(r) {
			to := repeats.Distinct(r.Channels.Messages(recipientsOf(r, members)))
			send.Audience, send.Next, send.Tally, send.Expanded = len(r.Audiences), len(to), false, now
			// A large schedule that is due at once does not delay single messages.
			messages = appendMessages(messages, &r.Send, 0, notify.PriorityBulk, due, to)
			delays.Made(&r.Send, to)
		}
		sends = append(sends, send)
	}
	if _, err := tx.Exec("DELETE FROM notify_scheduled WHERE "+query.NumbersIn(tx.Dialect(), "number"),
		query.NumberList(tx.Dialect(), numbers)); err != nil {
		return 0, err
	}
	// In the order in which sends are accepted, so that two servers never wait for each other: first what counts
	// the schedule, then what counts delayed messages.
	if err := unschedule(tx, done); err != nil {
		return 0, err
	}
	return n, store(tx, shard, sends, messages, delays)
}

// few reports whether the recipients of a scheduled send are known, and few enough to be
// counted on demand.
func few(r *sendRow) bool { return r.next > 0 && r.next <= notify.SingleLimit }

// unschedule subtracts from the numbers of scheduled messages of clients.
func unschedule(tx *db.Tx, done map[string]int) error {
	for _, client := range slices.Sorted(maps.Keys(done)) {
		if _, err := tx.Exec("UPDATE notify_schedules SET messages = messages - ? WHERE client_id = ?", done[client],
			client); err != nil {
			return err
		}
	}
	return nil
}

// firstMembers returns the recipients of the short lists of sends, by the id of the list.
func firstMembers(tx *db.Tx, rows []sendRow) (map[string][]notify.Member, error) {
	var ids []string
	for i := range rows {
		if id := rows[i].List(); id != "" && few(&rows[i]) {
			ids = append(ids, id)
		}
	}
	found := make(map[string][]notify.Member, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	list, err := query.TextList(ids)
	if err != nil {
		return nil, err
	}
	_, err = db.All(tx, func(row db.Scanner) (id string, err error) {
		var members db.JSON[[]notify.Member]
		err = row.Scan(&id, &members)
		found[id] = members.V
		return id, err
	}, "SELECT list, members FROM notify_list_members WHERE "+query.TextsIn(tx.Dialect(), "list")+" AND position = 0",
		list)
	return found, err
}

// recipientsOf returns the recipients of a send that has few.
func recipientsOf(r *sendRow, members map[string][]notify.Member) []notify.Recipient {
	var all []notify.Recipient
	for i, m := range members[r.List()] {
		if m.UserID == "" && m.Email == "" {
			continue // erased
		}
		all = append(all, notify.Recipient{UserID: m.UserID, Email: m.Email, Audience: i})
	}
	for i, a := range r.Audiences {
		switch a.Type {
		case notify.ToUser:
			all = append(all, notify.Recipient{UserID: a.ID, Audience: i})
		case notify.ToEmail:
			all = append(all, notify.Recipient{Email: a.ID, Audience: i})
		}
	}
	return all
}

// admitOccurrences moves the recurring sends of a group on, and refuses those whose occurrence is no longer due.
func admitOccurrences(tx *db.Tx, batch []*acceptance) error {
	var all []*acceptance
	for _, a := range batch {
		if a.err == nil && !a.replayed && a.Occurrence != nil {
			all = append(all, a)
		}
	}
	// All processes change the rows in the same order, to avoid deadlocks.
	slices.SortStableFunc(all, func(a, b *acceptance) int {
		return cmp.Or(strings.Compare(a.Occurrence.ClientID, b.Occurrence.ClientID),
			strings.Compare(a.Occurrence.Name, b.Occurrence.Name))
	})
	for _, a := range all {
		due, err := occurrences.Admit(tx, *a.Occurrence, a.Number)
		if err != nil {
			return err
		}
		if !due {
			if err := refuse(tx, batch, a, notify.ErrSuperseded); err != nil {
				return err
			}
		}
	}
	return nil
}
