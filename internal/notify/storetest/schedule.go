package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
)

// later is a send to one user at a time.
func (k *kit) later(client, user string, at time.Time) notify.NewSend {
	n := k.sending(client)
	n.Audiences = []notify.Audience{{Type: notify.ToUser, ID: user}}
	n.SendAt, n.Expanded, n.Planned = at, false, 1
	return n
}

// activate starts what is due and checks how many and when the next is due.
func (k *kit) activate(s notify.Store, want int, next time.Time) {
	k.Helper()
	n, at, err := s.Activate(k.ctx, 100)
	k.must(err)
	if n != want || !at.Equal(next) {
		k.Errorf("started %d, next at %v, want %d and %v", n, at, want, next)
	}
}

func (k *kit) idle(s notify.Store) {
	k.Helper()
	k.equal("claimed", len(k.claim(s, "w", 10)), 0)
	k.equal("expansions", len(value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w", 10, time.Minute))), 0)
	if at, some, err := s.NextDue(k.ctx); err != nil || some {
		k.Errorf("the next message is due at %v, %v", at, err)
	}
	k.waits(s, 0)
}

func testSchedule(k *kit) {
	s := k.store()
	at := start.Add(time.Hour)
	key := notify.Idempotency{Key: "key", Hash: "h", Until: start.Add(24 * time.Hour)}
	n := k.later("c", "u1", at)
	n.ExpiresAt = at.Add(time.Hour)
	n.Idempotency = key
	send := k.accept(s, n)
	wide := k.sending("c")
	wide.SendAt, wide.Expanded = at.Add(time.Minute), false
	audience := k.accept(s, wide)
	now := k.accept(s, k.sending("d", "u9"))
	k.finish(s, notify.Delivered, numbersOf(k.claim(s, "w", 10))...)
	if !send.Scheduled || now.Scheduled || !send.SendAt.Equal(at) {
		k.Errorf("accepted as %+v", send)
	}
	for range 2 { // a second time after a restart
		k.activate(s, 0, at)
		k.idle(s)
		got := value[notify.Send](k)(s.Send(k.ctx, send.Number))
		k.equal("scheduled", []any{got.Scheduled, got.Expanded, got.SendAt.Equal(at), got.Content, got.Counts},
			[]any{true, false, true, n.Content, notify.Counts{}})
		again, replayed, err := s.Accept(k.ctx, n)
		k.must(err)
		k.equal("repeated", []any{replayed, again.Number, again.Scheduled}, []any{true, send.Number, true})
		var listed []int64
		for _, l := range value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{ClientID: "c", Limit: 10})) {
			listed = append(listed, l.Number)
		}
		k.equal("listed", listed, []int64{audience.Number, send.Number})
		k.equal("listed of all", len(value[[]notify.Send](k)(s.ListSends(k.ctx, notify.SendQuery{All: true, Limit: 2}))), 2)
		value[int](k)(s.Purge(k.ctx, k.clock.Now().Add(time.Hour)))
		s = k.store()
	}

	k.clock.Advance(time.Hour)
	k.activate(s, 1, at.Add(time.Minute))
	k.activate(s, 0, at.Add(time.Minute))
	k.waits(s, 1)
	claimed := k.claim(s, "w", 10)
	k.equal("claimed", numbersOf(claimed), []int64{notify.MessageNumber(send.Number, 0)})
	k.equal("expiry", claimed[0].Send.ExpiresAt, at.Add(time.Hour))
	k.equal("recipient", claimed[0].Recipient, notify.Recipient{UserID: "u1"})
	k.finish(s, notify.Delivered, numbersOf(claimed)...)
	got := value[notify.Send](k)(s.Send(k.ctx, send.Number))
	k.equal("counts", got.Counts, notify.Counts{Total: 1, Delivered: 1})
	k.equal("finished", got.Finished.Equal(k.clock.Now()) && !got.Scheduled && got.SendAt.Equal(at), true)

	// An audience is read when it is due.
	k.clock.Advance(time.Minute)
	k.activate(s, 1, time.Time{})
	expand := value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w", 10, time.Minute))
	k.equal("expansions", len(expand), 1)
	k.equal("audience", expand[0].Audiences, wide.Audiences)
	k.must(s.Extend(k.ctx, expand[0].Number, notify.Cursor{}, people(names("m", 3)...), notify.Cursor{Audience: 1}, true))
	k.equal("members", len(k.claim(s, "w", 10)), 3)
	k.activate(s, 0, time.Time{})
}

// testScheduleList sees that a short list is sent at once and a long one is expanded.
func testScheduleList(k *kit) {
	s := k.store()
	for _, size := range []int{3, 150} {
		id := fmt.Sprint("list-", size)
		k.must(s.CreateList(k.ctx, "c", id))
		var members []notify.Member
		for _, name := range names("m", size) {
			members = append(members, notify.Member{UserID: name})
		}
		k.must(s.AddToList(k.ctx, "c", id, 0, members))
		n := k.later("c", "", k.clock.Now().Add(time.Hour))
		n.Audiences, n.Planned = []notify.Audience{{Type: notify.ToList, ID: id}}, size
		k.accept(s, n)
	}
	k.clock.Advance(48 * time.Hour)
	value[int](k)(s.Purge(k.ctx, k.clock.Now())) // keeps the lists
	s = k.store()
	k.activate(s, 2, time.Time{})
	claimed := k.claim(s, "w", 500)
	k.equal("claimed", len(claimed), 3)
	k.equal("the last", claimed[2].Recipient, notify.Recipient{UserID: "m-000002", Audience: 2})
	k.equal("to expand", len(value[[]notify.Send](k)(s.ClaimExpansions(k.ctx, "w", 10, time.Minute))), 1)
}

// testScheduleLimit sees that a client cannot schedule without end, and that neither the queue nor
// other clients are affected.
func testScheduleLimit(k *kit) {
	s := k.open(Options{QueueLimit: 1, Now: k.clock.Now})
	at := start.Add(time.Hour)
	accept := func(client string, planned int, key string) error {
		n := k.later(client, "u", at)
		n.Planned, n.PlannedLimit = planned, 5
		if key != "" {
			n.Idempotency = notify.Idempotency{Key: key, Hash: "h", Until: at}
		}
		_, _, err := s.Accept(k.ctx, n)
		return err
	}
	k.wantErr(accept("c", 6, ""), notify.ErrScheduleFull)
	k.must(accept("c", 4, ""))
	k.wantErr(accept("c", 2, "again"), notify.ErrScheduleFull)
	k.must(accept("c", 0, "")) // an audience counts as one
	k.wantErr(accept("c", 0, ""), notify.ErrScheduleFull)
	k.must(accept("d", 5, ""))
	k.accept(s, k.sending("c", "u1")) // the queue is empty
	k.clock.Advance(2 * time.Hour)
	k.activate(s, 3, time.Time{})
	at = k.clock.Now().Add(time.Hour)
	k.must(accept("c", 5, "again"))
	k.wantErr(accept("c", 1, ""), notify.ErrScheduleFull)
}

// testScheduleOnce sees that several processes start each send once, beside others that are scheduled.
func testScheduleOnce(k *kit) {
	s := k.store()
	stores := []notify.Store{s, s}
	if s.Shared() {
		stores[1] = k.store()
	}
	const clients, each = 3, 40
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				n := k.later(fmt.Sprint("c", c), fmt.Sprint("u", i), k.clock.Now().Add(-time.Duration(i)))
				if _, _, err := stores[c%2].Accept(k.ctx, n); err != nil {
					k.Error(err)
				}
			}
		})
	}
	var started atomic.Int64
	for w := range 4 {
		wg.Go(func() {
			for started.Load() < clients*each && k.ctx.Err() == nil {
				n, _, err := stores[w%2].Activate(k.ctx, 7)
				if err != nil && !errors.Is(err, k.ctx.Err()) {
					k.Error(err)
					return
				}
				started.Add(int64(n))
			}
		})
	}
	wg.Wait()
	k.equal("started", started.Load(), int64(clients*each))
	k.waits(s, clients*each)
	k.equal("claimed", len(k.claim(s, "w", 500)), clients*each)
}
