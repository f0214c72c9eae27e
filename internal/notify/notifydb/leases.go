package notifydb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/occurrences"
)

// priorities is the number of queues of a channel.
const priorities = int(notify.PriorityRetry) + 1

// lanes is the number of queues of all channels: a channel has one for each priority. The statements that
// change the lane of a message have the number of priorities too.
const lanes = priorities * notify.ChannelCount

func laneOf(c notify.ChannelID, p notify.Priority) int { return priorities*int(c) + int(p) }

func channelOf(lane int) notify.ChannelID {
	return notify.ChannelID(lane % collectedLanes / priorities)
}

// position is a position in a queue, which is ordered by due time, then number.
type position struct{ due, number int64 }

var farthest = position{math.MaxInt64, math.MaxInt64}

func earlier(a, b position) position {
	if a.due < b.due || a.due == b.due && a.number < b.number {
		return a
	}
	return b
}

// lease is the result of one claim.
type lease struct {
	id       int64 // of its row, on PostgreSQL
	owner    string
	until    time.Time
	messages map[int64]*holding // not finished yet
}

// holding is a claimed message.
type holding struct {
	lease *lease
	lane  int
	at    position
	send  *notify.Send
}

// held holds the claims of this process. On SQLite these are all leases. There
// it also records for each queue the position up to which every waiting message
// is leased (the front), so that claims start after it. A message that is
// inserted before the front moves it back.
type held struct {
	mu       sync.Mutex
	messages map[int64]*holding
	leases   map[*lease]struct{}
	front    [lanes]position
	// While a claim reads a snapshot, these are the messages that were released
	// since the snapshot, and how far the fronts moved back.
	claiming bool
	dropped  map[int64]struct{}
	back     [lanes]position
}

func (h *held) init() {
	h.messages, h.leases = map[int64]*holding{}, map[*lease]struct{}{}
}

// begin starts a claim and returns the positions to start from.
func (h *held) begin(now time.Time) (front [lanes]position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.leases {
		if !l.until.After(now) {
			h.drop(l)
		}
	}
	h.claiming, h.dropped = true, map[int64]struct{}{}
	for i := range h.back {
		h.back[i] = farthest
	}
	return h.front
}

// free reports whether a message was not leased at any time since the claim
// began.
func (h *held) free(number int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, dropped := h.dropped[number]
	return h.messages[number] == nil && !dropped
}

// end ends a claim, with a lease unless it failed or found nothing.
func (h *held) end(l *lease, front [lanes]position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claiming, h.dropped = false, nil
	for i := range front {
		h.front[i] = earlier(front[i], h.back[i])
	}
	if l == nil {
		return
	}
	h.leases[l] = struct{}{}
	for n, m := range l.messages {
		h.messages[n] = m
	}
}

// queued records that messages with this due time were inserted into the queues of a priority.
func (h *held) queued(priority notify.Priority, due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rewindAll(priority, position{db.Nanos(due), -1})
}

// rewindAll rewinds the queues of a priority, of all channels: that costs the others a search.
func (h *held) rewindAll(priority notify.Priority, to position) {
	for c := range notify.ChannelCount {
		h.rewind(laneOf(notify.ChannelID(c), priority), to)
	}
}

func (h *held) rewind(lane int, to position) {
	to.number-- // the front is the last position that is leased
	h.front[lane] = earlier(h.front[lane], to)
	h.back[lane] = earlier(h.back[lane], to)
}

// drop releases the rest of a lease. The caller holds the lock.
func (h *held) drop(l *lease) {
	for n, m := range l.messages {
		h.forget(n, m)
		h.rewind(m.lane, m.at)
	}
	delete(h.leases, l)
}

func (h *held) forget(n int64, m *holding) {
	delete(m.lease.messages, n)
	if h.messages[n] == m {
		delete(h.messages, n)
	}
	if h.claiming {
		h.dropped[n] = struct{}{}
	}
}

// finished removes messages, and returns the ids of leases that became empty.
func (h *held) finished(outcomes []notify.Outcome) (ended []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range outcomes {
		if o.Status == notify.Retry {
			h.rewindAll(notify.PriorityRetry, position{db.Nanos(o.Due), o.Number})
		}
		m := h.messages[o.Number]
		if m == nil {
			continue
		}
		h.forget(o.Number, m)
		if len(m.lease.messages) == 0 {
			delete(h.leases, m.lease)
			ended = append(ended, m.lease.id)
		}
	}
	return ended
}

// sendOf returns the send of a leased message, or nil.
func (h *held) sendOf(number int64) *notify.Send {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.messages[number]; m != nil {
		return m.send
	}
	return nil
}

// leaseChange is the change of a stored lease by Finish.
type leaseChange struct {
	id    int64
	ended bool    // it has no message left, and is deleted
	freed []int64 // messages that may be claimed again before it ends
}

// changes returns the changes of leases for these outcomes, in the order of their ids. A lease that
// loses only messages that are never claimed again is not changed.
func (h *held) changes(outcomes []notify.Outcome) []leaseChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	type part struct{ done, freed map[int64]struct{} }
	parts := map[*lease]part{}
	for _, o := range outcomes {
		m := h.messages[o.Number]
		if m == nil {
			continue
		}
		p, known := parts[m.lease]
		if !known {
			p = part{map[int64]struct{}{}, map[int64]struct{}{}}
			parts[m.lease] = p
		}
		p.done[o.Number] = struct{}{}
		// A failed one may be replayed, one that is collected canceled.
		if o.Status == notify.Retry || o.Status == notify.Failed || o.Status == notify.Queued {
			p.freed[o.Number] = struct{}{}
		}
	}
	var all []leaseChange
	for l, p := range parts {
		c := leaseChange{id: l.id, ended: len(p.done) == len(l.messages)}
		if !c.ended {
			c.freed = slices.Sorted(maps.Keys(p.freed))
		}
		if c.ended || len(c.freed) > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b leaseChange) int { return cmp.Compare(a.id, b.id) })
	return all
}

// Renew implements notify.Store.
func (s *Store) Renew(ctx context.Context, owner string, length time.Duration) error {
	until := s.steady().Add(length)
	err := s.lock(ctx, func(tx *db.Tx) error {
		return execAll(tx, []any{db.Nanos(until), owner, db.Nanos(until)},
			"UPDATE notify_leases SET ends = ? WHERE owner = ? AND ends < ?",
			"UPDATE notify_sends SET lease_until = ? WHERE lease_owner = ? AND expanded = 0 AND lease_until < ?",
			"UPDATE notify_callbacks SET due = ? WHERE lease_owner = ? AND lease_owner <> '' AND due < ?")
	})
	if err != nil {
		return err
	}
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	for l := range s.held.leases {
		if l.owner == owner && l.until.Before(until) {
			l.until = until
		}
	}
	return nil
}

// Release implements notify.Store.
func (s *Store) Release(ctx context.Context, owner string) error {
	err := s.lock(ctx, func(tx *db.Tx) error {
		if err := execAll(tx, []any{owner},
			"DELETE FROM notify_leases WHERE owner = ?",
			"UPDATE notify_sends SET lease_owner = '', lease_until = 0 WHERE lease_owner = ? AND expanded = 0"); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE notify_callbacks SET due = ?, lease_owner = '' WHERE lease_owner = ? AND lease_owner <> ''",
			db.Nanos(s.steady()), owner)
		return err
	})
	if err != nil {
		return err
	}
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	for l := range s.held.leases {
		if l.owner == owner {
			s.held.drop(l)
		}
	}
	return nil
}

// releaseAll is like Release for all owners, if this process is the only one. Messages that
// were not tried yet are due now, even if the clock was set back since they were accepted.
func (s *Store) releaseAll(ctx context.Context) error {
	return s.lock(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec("UPDATE notify_sends SET lease_owner = '', lease_until = 0 WHERE expanded = 0 AND lease_until " +
			"> 0"); err != nil {
			return err
		}
		now := db.Nanos(s.steady())
		for lane := range lanes {
			if lane%priorities == int(notify.PriorityRetry) {
				continue
			}
			if _, err := tx.Exec("UPDATE notify_messages SET due = ? WHERE status < 2 AND lane = ? AND due > ?", now,
				lane, now); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("UPDATE notify_callbacks SET due = ?, lease_owner = '' WHERE lease_owner <> ''",
			now); err != nil {
			return err
		}
		return occurrences.ReleaseRecurring(tx)
	})
}

func execAll(tx *db.Tx, args []any, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.Exec(statement, args...); err != nil {
			return fmt.Errorf("leases: %w", err)
		}
	}
	return nil
}
