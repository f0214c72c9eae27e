package notifydb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
	"ingot/internal/notify/notifydb/usage"
	"ingot/internal/notify/notifydb/waits"
)

// group holds the calls of Accept that wait for the next commit. The first call
// starts a goroutine, the leader, that stores all waiting calls, then those
// that arrived meanwhile, and exits when there are none.
type group struct {
	mu      sync.Mutex
	waiting []*acceptance
	leading bool
}

// acceptance is one call of Accept.
type acceptance struct {
	notify.NewSend
	data  string
	taken bool // by the leader; guarded by group.mu
	done  chan struct{}

	replayed bool
	earlier  notify.Send // that was replayed
	original *acceptance // the same, if it is in this group
	err      error
}

const (
	// groupSize limits the calls per commit, groupMessages their recipients.
	groupSize     = 128
	groupMessages = 4096
	// groupTime limits the duration of a commit, because callers wait for it.
	groupTime = 30 * time.Second
)

// Accept implements notify.Store. A call that is canceled before the leader
// takes it stores nothing; after that it waits for the result.
func (s *Store) Accept(ctx context.Context, n notify.NewSend) (notify.Send, bool, error) {
	a, err := newAcceptance(n)
	if err != nil {
		return notify.Send{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return notify.Send{}, false, context.Cause(ctx)
	}
	var accepted notify.Send
	var replayed bool
	err = s.usage.Storing(ctx, n.ClientID, usage.SendSize(a.data), func() (stored bool, err error) {
		accepted, replayed, err = s.enqueue(ctx, a)
		return err == nil && !replayed, err
	})
	return accepted, replayed, err
}

// enqueue waits for the commit of a call.
func (s *Store) enqueue(ctx context.Context, a *acceptance) (notify.Send, bool, error) {
	g := &s.accepting
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	if !g.leading {
		g.leading = true
		lasting := context.WithoutCancel(ctx)
		background.Go("notification sends", func() { s.lead(lasting) })
	}
	g.mu.Unlock()

	select {
	case <-a.done:
	case <-ctx.Done():
		if g.leave(a) {
			return notify.Send{}, false, context.Cause(ctx)
		}
		<-a.done
	}
	if a.err != nil {
		return notify.Send{}, false, a.err
	}
	if a.original != nil {
		return a.original.Send, true, nil
	}
	if a.replayed {
		return a.earlier, true, nil
	}
	return a.Send, false, nil
}

func newAcceptance(n notify.NewSend) (*acceptance, error) {
	if len(n.Recipients) > notify.MaxRecipients {
		return nil, fmt.Errorf("a send has %d recipients, at most %d are allowed", len(n.Recipients), notify.MaxRecipients)
	}
	data, err := encodeSend(&n.Send)
	if err != nil {
		return nil, err
	}
	if err := query.AllStorable(n.Idempotency.Key, n.Idempotency.Hash); err != nil {
		return nil, err
	}
	for _, r := range n.Recipients {
		if err := query.AllStorable(r.UserID, r.Email); err != nil {
			return nil, err
		}
	}
	n.Recipients = repeats.Distinct(n.Recipients)
	return &acceptance{NewSend: n, data: data, done: make(chan struct{})}, nil
}

// leave removes a call that the leader has not taken yet.
func (g *group) leave(a *acceptance) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.taken {
		return false
	}
	g.waiting = slices.DeleteFunc(g.waiting, func(b *acceptance) bool { return a == b })
	return true
}

// next returns the calls to store next; without any, the leader exits.
func (g *group) next() []*acceptance {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, messages := 0, 0
	for n < len(g.waiting) && n < groupSize && (n == 0 || messages+len(g.waiting[n].Recipients) <= groupMessages) {
		g.waiting[n].taken = true
		messages += len(g.waiting[n].Recipients)
		n++
	}
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	if n == 0 {
		g.leading = false
	}
	return batch
}

func (s *Store) lead(ctx context.Context) {
	for {
		batch := s.accepting.next()
		if len(batch) == 0 {
			return
		}
		err := s.acceptSafely(ctx, batch)
		if err != nil && len(batch) > 1 {
			s.log.DebugContext(ctx, "grouped sends failed, retrying one by one", "sends", len(batch), "error", err)
			for i := range batch {
				batch[i].err = s.acceptSafely(ctx, batch[i:i+1])
			}
		} else if err != nil {
			batch[0].err = err
		}
		for _, a := range batch {
			close(a.done)
		}
	}
}

// acceptSafely is acceptAll with panics converted to errors.
func (s *Store) acceptSafely(ctx context.Context, batch []*acceptance) error {
	return background.Do("notification sends", func() error { return s.acceptAll(ctx, batch) })
}

var (
	newSends    = query.NewInsertion("notify_sends", insertedColumns, "")
	newMessages = query.NewInsertion("notify_messages", "number, lane, due, updated, audience, user_id, email", "")
)

// acceptAll stores a group in one transaction. Errors of a single call are
// stored in it; the returned error concerns all.
func (s *Store) acceptAll(ctx context.Context, batch []*acceptance) error {
	ctx, cancel := context.WithTimeoutCause(ctx, groupTime,
		errors.New("the database took too long to accept the send; try again"))
	defer cancel()
	first, err := s.take(ctx, len(batch))
	if err != nil {
		return err
	}
	now, due := s.now(), s.steady()
	shard := s.shard()
	var delays waits.Counts
	err = s.lock(ctx, func(tx *db.Tx) error {
		for i, a := range batch {
			a.replayed, a.original, a.err = false, nil, nil
			a.Send.Number = first + int64(i)
		}
		if err := s.admit(tx, batch, now); err != nil {
			return err
		}
		var sends []newSend
		messages := []newMessage{} // never null in JSON
		var members []any
		delays = waits.Counts{}
		for _, a := range batch {
			if a.err != nil || a.replayed || a.later() {
				continue
			}
			n := len(a.Recipients)
			priority := notify.PriorityBulk
			expanded := now
			tally := true
			if !a.Expanded {
				expanded = time.Time{}
			} else if n <= notify.SingleLimit {
				priority, tally = notify.PrioritySingle, false
			}
			a.Counts = notify.Counts{Total: n, Queued: n}
			a.Finished = time.Time{}
			if n == 0 {
				a.Finished = db.Time(db.Nanos(expanded))
			}
			sends = append(sends, newSend{
				a.Number, a.ClientID, a.KindID, db.Nanos(a.Received), a.data,
				a.Cursor.Audience, a.Cursor.Page, n, tally, db.Nanos(expanded), keptHours(&a.Send),
			})
			messages = appendMessages(messages, &a.Send, 0, priority, due, a.Recipients)
			delays.Made(&a.Send, a.Recipients)
			if !a.Expanded && len(a.Audiences) > 1 {
				for _, r := range a.Recipients {
					members = append(members, a.Number, repeats.MemberOf(r))
				}
			}
			if err := useList(tx, a.List(), a.Number); err != nil {
				return err
			}
		}
		if err := storeScheduled(tx, batch); err != nil {
			return err
		}
		s.backlog.add(len(messages))
		if err := store(tx, shard, sends, messages, delays); err != nil {
			return err
		}
		if err := newMembers.All(tx, members); err != nil {
			return err
		}
		return storeRest(tx, batch, shard)
	})
	if err == nil {
		s.remember(batch)
		s.schedule.added(batch)
		s.held.queued(notify.PrioritySingle, due)
		s.held.queued(notify.PriorityBulk, due)
		if len(delays) > 0 {
			s.held.queued(notify.PriorityRetry, due)
		}
	}
	return err
}

// storeRest stores what belongs to sends that were stored.
func storeRest(tx *db.Tx, batch []*acceptance, shard int) error {
	if err := storeFileUses(tx, batch); err != nil {
		return err
	}
	return countLarge(tx, batch, shard)
}

// countLarge stores the counts of the large sends of a group, in order of their numbers, as in Finish, to
// avoid deadlocks.
func countLarge(tx *db.Tx, batch []*acceptance, shard int) error {
	for _, a := range batch {
		if a.err != nil || a.replayed || a.Counts.Total == 0 || a.Expanded && a.Counts.Total <= notify.SingleLimit {
			continue
		}
		if err := addCounts(tx, a.Number, shard, a.Counts, 0); err != nil {
			return err
		}
	}
	return nil
}

// remember caches the small sends of a group, which are claimed in a moment. The others are
// cached when they are first claimed.
func (s *Store) remember(batch []*acceptance) {
	for _, a := range batch {
		if a.err != nil || a.replayed || !a.Expanded || a.later() || a.Counts.Total > notify.SingleLimit ||
			len(a.Audiences) > notify.SingleLimit {
			continue
		}
		send := a.Send
		send.Received = db.Time(db.Nanos(a.Received)) // as it is read
		send.ExpiresAt = db.Time(db.Nanos(a.ExpiresAt))
		send.Cursor, send.Counts, send.Finished = notify.Cursor{}, notify.Counts{}, time.Time{}
		s.sends.put(&send)
	}
}

// newSend is a send as it is inserted.
type newSend struct {
	Number   int64  `json:"n"`
	Client   string `json:"c"`
	Kind     string `json:"k"`
	Received int64  `json:"r"`
	Data     string `json:"d"`
	Audience int    `json:"a"`
	Page     string `json:"p"`
	Next     int    `json:"x"`
	Tally    bool   `json:"t"`
	Expanded int64  `json:"e"`
	Kept     int    `json:"h"`
}

// store inserts the sends and messages of a group, and adds to the numbers of waiting and of delayed messages. On
// PostgreSQL this is one round trip if none is delayed.
func store(tx *db.Tx, shard int, sends []newSend, messages []newMessage, delays waits.Counts) error {
	if len(sends) == 0 {
		return nil
	}
	if err := delays.Store(tx, shard); err != nil {
		return err
	}
	if tx.Dialect() == db.Postgres {
		sent, err := json.Marshal(sends)
		if err != nil {
			return err
		}
		made, err := json.Marshal(messages)
		if err != nil {
			return err
		}
		_, err = tx.Exec(storeGroup, string(sent), string(made), shard, len(messages))
		return err
	}
	args := make([]any, 0, 13*len(sends))
	for _, n := range sends {
		args = append(args, n.Number, n.Client, n.Kind, n.Received, n.Data, n.Audience, n.Page, n.Next, n.Tally,
			n.Expanded, n.Kept, "", 0)
	}
	if err := newSends.All(tx, args); err != nil {
		return err
	}
	if err := storeMessages(tx, messages); err != nil {
		return err
	}
	return addWaiting(tx, shard, len(messages))
}

// These statements of PostgreSQL get their rows as one JSON text: parsing hundreds of placeholders is slower.
const (
	intoMessages = `INSERT INTO notify_messages (number, lane, due, updated, audience, user_id, email)
		SELECT n, l, d, w, a, u, e FROM json_to_recordset(CAST(CAST(? AS TEXT) AS JSON))
		AS v (n BIGINT, l INTEGER, d BIGINT, w BIGINT, a INTEGER, u TEXT, e TEXT)`
	storeGroup = `WITH sends AS (INSERT INTO notify_sends (` + insertedColumns + `)
		SELECT n, c, k, r, d, a, p, x, t, e, h, '', 0 FROM json_to_recordset(CAST(CAST(? AS TEXT) AS JSON))
		AS v (n BIGINT, c TEXT, k TEXT, r BIGINT, d TEXT, a INTEGER, p TEXT, x INTEGER, t BOOLEAN, e BIGINT, h INTEGER)
		), messages AS (` + intoMessages + ") " + intoBacklog
)

// newMessage is a message as it is inserted.
type newMessage struct {
	Number   int64  `json:"n"`
	Lane     int    `json:"l"`
	Due      int64  `json:"d"`
	Updated  int64  `json:"w"`
	Audience int    `json:"a"`
	User     string `json:"u"`
	Email    string `json:"e"`
}

// appendMessages adds messages of a send. Those that its workflow delays are in the queue of retries, where due times
// lie ahead.
func appendMessages(list []newMessage, send *notify.Send, index int, priority notify.Priority, now time.Time,
	recipients []notify.Recipient) []newMessage {
	list = slices.Grow(list, len(recipients))
	for i, r := range recipients {
		lane, due := laneOf(r.Channel, priority), now
		if delay := send.Workflow.Delay(r.Channel); delay > 0 {
			lane, due = laneOf(r.Channel, notify.PriorityRetry), now.Add(delay)
		}
		list = append(list, newMessage{notify.MessageNumber(send.Number, index+i), lane, db.Nanos(due), db.Nanos(now),
			r.Audience, r.UserID, r.Email})
	}
	return list
}

// storeMessages inserts messages, on PostgreSQL in one round trip.
func storeMessages(tx *db.Tx, list []newMessage) error {
	if len(list) == 0 {
		return nil
	}
	if tx.Dialect() == db.Postgres {
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		_, err = tx.Exec(intoMessages, string(text))
		return err
	}
	args := make([]any, 0, 7*len(list))
	for _, m := range list {
		args = append(args, m.Number, m.Lane, m.Due, m.Updated, m.Audience, m.User, m.Email)
	}
	return newMessages.All(tx, args)
}

// admit finds the repeated requests of a group, and those that exceed the queue
// limit.
func (s *Store) admit(tx *db.Tx, batch []*acceptance, now time.Time) error {
	// All processes insert keys in the same order, to avoid deadlocks.
	var keyed []*acceptance
	for _, a := range batch {
		if a.Idempotency.Key != "" {
			keyed = append(keyed, a)
		}
	}
	slices.SortStableFunc(keyed, func(a, b *acceptance) int {
		if c := strings.Compare(a.ClientID, b.ClientID); c != 0 {
			return c
		}
		return strings.Compare(a.Idempotency.Key, b.Idempotency.Key)
	})
	for _, a := range keyed {
		if err := useKey(tx, batch, a, now); err != nil {
			return err
		}
	}
	if err := admitFiles(tx, batch, now); err != nil {
		return err
	}
	if err := admitScheduled(tx, batch); err != nil {
		return err
	}
	if err := admitDelayed(tx, batch); err != nil {
		return err
	}
	if err := s.load.admit(tx, batch); err != nil {
		return err
	}
	if err := s.admitQueue(tx, batch); err != nil {
		return err
	}
	return admitOccurrences(tx, batch)
}

// admitQueue refuses what exceeds the queue limit.
func (s *Store) admitQueue(tx *db.Tx, batch []*acceptance) error {
	if s.limit <= 0 || s.backlog.far(s.limit, batch) {
		return nil
	}
	n, err := waiting(tx)
	if err != nil {
		return err
	}
	s.backlog.set(n)
	for _, a := range batch {
		if a.err != nil || a.replayed || a.later() {
			continue
		}
		if n+max(len(a.Recipients), 1) <= s.limit {
			n += len(a.Recipients)
			continue
		}
		if err := refuse(tx, batch, a, notify.ErrQueueFull); err != nil {
			return err
		}
	}
	return nil
}

// refuse makes a call of the group, and its repetitions, fail.
func refuse(tx *db.Tx, batch []*acceptance, a *acceptance, why error) error {
	a.err = why
	for _, b := range batch {
		if b.original == a {
			b.replayed, b.err = false, why
		}
	}
	if a.Idempotency.Key == "" {
		return nil
	}
	_, err := tx.Exec("DELETE FROM notify_idempotency WHERE client_id = ? AND name = ? AND send = ?",
		a.ClientID, a.Idempotency.Key, a.Number)
	return err
}

// backlog is what the leader knows about the number of waiting messages, so that it need not read it for
// every group while it is far below the limit.
type backlog struct {
	known int // it was so many, plus those that were added since
	read  time.Time
}

const (
	// backlogFor is how long the number is used: a second of other servers' sends is much less than half of a
	// large limit. Small limits are observed exactly.
	backlogFor   = time.Second
	backlogLarge = 100_000
)

func (b *backlog) set(n int) { b.known, b.read = n, time.Now() }
func (b *backlog) add(n int) { b.known += n }

// far reports whether a group is accepted without looking.
func (b *backlog) far(limit int, batch []*acceptance) bool {
	n := b.known
	for _, a := range batch {
		n += max(len(a.Recipients), 1)
	}
	return limit >= backlogLarge && n <= limit/2 && time.Since(b.read) < backlogFor
}

// useKey stores an idempotency key, or finds the send it belongs to.
func useKey(tx *db.Tx, batch []*acceptance, a *acceptance, now time.Time) error {
	k := a.Idempotency
	n, err := tx.Exec(query.Insert("notify_idempotency", "client_id, name, hash, send, ends")+` ON CONFLICT (client_id, name) DO UPDATE SET
			hash = excluded.hash, send = excluded.send, ends = excluded.ends WHERE notify_idempotency.ends <= ?`,
		a.ClientID, k.Key, k.Hash, a.Number, db.Nanos(k.Until), db.Nanos(now))
	if err != nil || n == 1 {
		return err
	}
	var hash string
	var send int64
	err = tx.QueryRow("SELECT hash, send FROM notify_idempotency WHERE client_id = ? AND name = ?", a.ClientID, k.Key).
		Scan(&hash, &send)
	if err != nil {
		return err
	}
	if hash != k.Hash {
		a.err = notify.ErrKeyReused
		return nil
	}
	a.replayed = true
	for _, b := range batch {
		if b.Number == send {
			a.original = b
			return nil
		}
	}
	a.earlier, err = sendOf(tx, a.ClientID, a.KindID, send)
	return err
}

// sendOf returns the send of an idempotency key.
func sendOf(tx *db.Tx, clientID, kindID string, send int64) (notify.Send, error) {
	found, err := findSend(tx, send)
	if query.IsNotFound(err) {
		// It was purged.
		return notify.Send{Number: send, ClientID: clientID, KindID: kindID, Expanded: true}, nil
	}
	return found, err
}

// Repeated implements notify.Store.
func (s *Store) Repeated(ctx context.Context, clientID string, key notify.Idempotency) (found notify.Send,
	repeated bool, err error) {
	found, err = query.View(ctx, s.db, func(tx *db.Tx) (notify.Send, error) {
		k, err := query.One(tx, func(row db.Scanner) (k struct {
			hash string
			send int64
		}, err error,
		) {
			err = row.Scan(&k.hash, &k.send)
			return k, err
		}, "SELECT hash, send FROM notify_idempotency WHERE client_id = ? AND name = ? AND ends > ?", clientID, key.Key,
			db.Nanos(s.now()))
		switch {
		case err != nil:
			return notify.Send{}, err
		case k.hash != key.Hash:
			return notify.Send{}, notify.ErrKeyReused
		}
		return sendOf(tx, clientID, "", k.send)
	})
	if query.IsNotFound(err) {
		return notify.Send{}, false, nil
	}
	return found, err == nil, err
}
