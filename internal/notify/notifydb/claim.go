package notifydb

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// claimLock is the key of PostgreSQL's advisory lock around claims: "notify" in
// ASCII. Claims are short, and with the lock they need not write to the
// messages.
const claimLock int64 = 0x6e6f74696679

// Claim implements notify.Store.
func (s *Store) Claim(ctx context.Context, owner string, limit int, length time.Duration,
	of ...notify.ChannelID) ([]notify.Claimed, error) {
	if limit <= 0 {
		return []notify.Claimed{}, nil
	}
	if err := query.AllStorable(owner); err != nil {
		return nil, err
	}
	release, err := acquire(ctx, s.claiming)
	if err != nil {
		return nil, err
	}
	defer release()

	now := s.steady()
	l := &lease{id: rand.Int64N(1<<62) + 1, owner: owner, until: now.Add(length), messages: map[int64]*holding{}}
	c := claim{now: db.Nanos(now), from: s.held.begin(now), first: firstLane(of)}
	front := c.from
	kept := false
	defer func() {
		if kept {
			s.held.end(l, c.from)
		} else {
			s.held.end(nil, front)
		}
	}()
	var claimed []notify.Claimed
	work := func(tx *db.Tx) (err error) {
		c.from = front
		claimed, err = s.claim(tx, &c, l, limit)
		return err
	}
	if s.Shared() {
		err = s.lock(ctx, work)
	} else {
		err = query.Meaning(s.db.View(ctx, work))
	}
	if err != nil {
		return nil, err
	}
	kept = true
	if s.Shared() {
		c.from = front // other processes may insert messages anywhere
	}
	if len(l.messages) == 0 {
		l = nil
	}
	return claimed, nil
}

// claim is one run of Claim.
type claim struct {
	now   int64
	first int // of the lanes of the channel
	from  [lanes]position
	got   [lanes][]notify.Message
}

// firstLane returns the first lane of a channel, of Email if none is given.
func firstLane(of []notify.ChannelID) int {
	if len(of) == 0 {
		return 0
	}
	return laneOf(of[0], notify.PrioritySingle)
}

func (s *Store) claim(tx *db.Tx, c *claim, l *lease, limit int) ([]notify.Claimed, error) {
	if s.Shared() {
		if _, err := tx.Exec("SELECT pg_advisory_xact_lock(?), "+query.ByIndex, claimLock); err != nil {
			return nil, err
		}
	}
	clear(l.messages)
	clear(c.got[:])
	if err := s.fill(tx, c, limit); err != nil {
		return nil, err
	}
	var sends []int64
	for _, list := range c.got {
		for _, m := range list {
			sends = append(sends, notify.SendOf(m.Number))
		}
	}
	slices.Sort(sends)
	known, err := s.sendsOf(tx, slices.Compact(sends))
	if err != nil {
		return nil, err
	}
	claimed := make([]notify.Claimed, 0, len(sends))
	numbers := make([]int64, 0, len(sends))
	for lane, list := range c.got {
		for _, m := range list {
			send := known[notify.SendOf(m.Number)]
			if send == nil || l.messages[m.Number] != nil {
				continue
			}
			l.messages[m.Number] = &holding{l, lane, position{db.Nanos(m.Due), m.Number}, send}
			claimed = append(claimed, notify.Claimed{Message: m, Send: send})
			numbers = append(numbers, m.Number)
		}
	}
	if !s.Shared() || len(claimed) == 0 {
		return claimed, nil
	}
	_, err = tx.Exec("WITH gone AS (DELETE FROM notify_leases WHERE ends <= ?) "+
		query.Insert("notify_leases", "id, owner, ends, messages"), c.now, l.id, l.owner, db.Nanos(l.until),
		query.NumberList(db.Postgres, numbers))
	return claimed, err
}

// fill takes messages from the queues: half of them single ones, a quarter from
// each other queue; what a queue cannot fill goes to the others. Each claim
// starts with the next queue, so that small limits do not starve any.
func (s *Store) fill(tx *db.Tx, c *claim, limit int) error {
	shares := [priorities]int{limit - 2*(limit/4), limit / 4, limit / 4}
	if limit < 4 {
		shares = [priorities]int{}
	}
	first := int(s.turn.Add(1))
	left := limit
	var empty [priorities]bool
	for i := range priorities {
		priority := (first + i) % priorities
		if shares[priority] == 0 {
			continue
		}
		n, err := s.pick(tx, c, c.first+priority, shares[priority])
		if err != nil {
			return err
		}
		left -= n
		empty[priority] = n < shares[priority]
	}
	for i := range priorities {
		priority := (first + i) % priorities
		if left == 0 || empty[priority] {
			continue
		}
		n, err := s.pick(tx, c, c.first+priority, left)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// pickQueries read the messages after a position in a queue. In PostgreSQL, a
// statement uses one snapshot, so that leases and messages are consistent.
const (
	queueAfter = "status < 2 AND lane = ? AND due <= ? AND (due, number) > (?, ?)"
	notLeased  = " AND number NOT IN (SELECT unnest(CAST(messages AS BIGINT[])) FROM notify_leases WHERE ends > ?)"
	inOrder    = " ORDER BY due, number LIMIT ?"
)

// pick takes up to n messages from a queue.
func (s *Store) pick(tx *db.Tx, c *claim, lane, n int) (int, error) {
	taken := 0
	for taken < n {
		from := c.from[lane]
		ask := n - taken
		query, args := "SELECT "+messageColumns+" FROM notify_messages WHERE "+queueAfter+inOrder,
			[]any{lane, c.now, from.due, from.number, ask}
		if s.Shared() {
			query, args = "SELECT "+messageColumns+" FROM notify_messages WHERE "+queueAfter+notLeased+inOrder,
				[]any{lane, c.now, from.due, from.number, c.now, ask}
		}
		list, err := db.All(tx, scanMessage, query, args...)
		if err != nil {
			return taken, err
		}
		for _, m := range list {
			c.from[lane] = position{db.Nanos(m.Due), m.Number}
			if s.Shared() || s.held.free(m.Number) {
				c.got[lane] = append(c.got[lane], m)
				taken++
			}
		}
		if len(list) < ask {
			break
		}
	}
	return taken, nil
}

// NextDue implements notify.Store.
func (s *Store) NextDue(ctx context.Context, of ...notify.ChannelID) (time.Time, bool, error) {
	s.held.mu.Lock()
	front := s.held.front
	s.held.mu.Unlock()
	next, err := query.View(ctx, s.db, func(tx *db.Tx) (position, error) {
		next := farthest
		if err := query.UseIndexes(tx); err != nil {
			return next, err
		}
		for priority := range priorities {
			lane := firstLane(of) + priority
			p, err := s.firstFree(tx, lane, front[lane])
			if err != nil {
				return next, err
			}
			next = earlier(next, p)
		}
		if s.Shared() {
			var ends int64
			err := tx.QueryRow("SELECT COALESCE(MIN(ends), 0) FROM notify_leases").Scan(&ends)
			if ends > 0 {
				next.due = min(next.due, ends)
			}
			return next, err
		}
		return next, nil
	})
	if err != nil {
		return time.Time{}, false, err
	}
	if !s.Shared() {
		s.held.mu.Lock()
		for l := range s.held.leases {
			next.due = min(next.due, db.Nanos(l.until))
		}
		s.held.mu.Unlock()
	}
	if next.due == farthest.due {
		return time.Time{}, false, nil
	}
	return db.Time(next.due), true, nil
}

// firstFree returns the first message of a queue that is not leased.
func (s *Store) firstFree(tx *db.Tx, lane int, from position) (position, error) {
	scan := func(row db.Scanner) (p position, err error) {
		err = row.Scan(&p.due, &p.number)
		return p, err
	}
	for {
		query, args := "SELECT due, number FROM notify_messages WHERE "+queueAfter+inOrder,
			[]any{lane, farthest.due, from.due, from.number, 100}
		if s.Shared() {
			query, args = "SELECT due, number FROM notify_messages WHERE "+queueAfter+notLeased+inOrder,
				[]any{lane, farthest.due, from.due, from.number, db.Nanos(s.steady()), 1}
		}
		list, err := db.All(tx, scan, query, args...)
		if err != nil || len(list) == 0 {
			return farthest, err
		}
		for _, p := range list {
			if s.Shared() {
				return p, nil
			}
			s.held.mu.Lock()
			free := s.held.messages[p.number] == nil
			s.held.mu.Unlock()
			if free {
				return p, nil
			}
			from = p
		}
	}
}
