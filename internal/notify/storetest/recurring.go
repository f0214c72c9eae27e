package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
)

// repeated is a recurring send that is due at a time.
func (k *kit) repeated(client, name string, next time.Time) notify.Recurring {
	now := k.clock.Now().UTC()
	return notify.Recurring{
		RecurringRef: notify.RecurringRef{ClientID: client, Name: name},
		Timetable: notify.Timetable{Cron: "0 9 * * *", Zone: "Europe/Berlin", Ends: start.Add(24 * 365 * time.Hour),
			Count: 7},
		Message: notify.RecurringMessage{KindID: "news", Content: notify.Content{Subject: "Grüße", Text: "text"},
			Data: []byte(`{"a":1}`), TTL: time.Hour, MayCritical: true,
			Members: []notify.Member{{Email: "a@example.com", Data: []byte(`{"b":2}`)}}},
		State: notify.RecurringActive, Next: next.UTC(), Created: now, Updated: now,
	}
}

// due claims what is due, and checks when the others are.
func (k *kit) due(s notify.Store, limit int, next time.Time, want ...string) []notify.Recurring {
	k.Helper()
	list, at, err := s.DueRecurring(k.ctx, limit, time.Minute)
	k.must(err)
	var names []string
	for _, r := range list {
		names = append(names, r.ClientID+" "+r.Name)
	}
	k.equal("due", names, want)
	if !at.Equal(next) {
		k.Errorf("the next is due at %s, want %s", at, next)
	}
	return list
}

// occur accepts the send of an occurrence.
func (k *kit) occur(s notify.Store, r notify.Recurring, next time.Time) (notify.Send, error) {
	n := k.sending(r.ClientID, "u1")
	n.Occurrence = &notify.Occurrence{RecurringRef: r.RecurringRef, At: r.Next, Next: next, Sent: k.clock.Now(),
		Updated: r.Updated}
	send, _, err := s.Accept(k.ctx, n)
	return send, err
}

// testRecurringChanged changes a recurring send while a server sends it: one of the two has to read it again.
func testRecurringChanged(k *kit) {
	s := k.store()
	first := start.Add(time.Hour)
	daily := k.repeated("shop", "daily", first)
	k.must(s.SetRecurring(k.ctx, daily))
	k.clock.Advance(time.Hour)
	due := k.due(s, 10, first.Add(time.Minute), "shop daily")

	// It was changed, so what the server read is not sent.
	changed := daily
	changed.Message.Content.Subject, changed.Updated = "Changed", k.clock.Now().UTC()
	k.must(s.SetRecurring(k.ctx, changed))
	_, err := k.occur(s, due[0], start.Add(3*time.Hour))
	k.wantErr(err, notify.ErrSuperseded)
	k.waits(s, 0)
	due = k.due(s, 10, first.Add(time.Minute), "shop daily")

	// It was sent, so the change would make it due a second time.
	value[notify.Send](k)(k.occur(s, due[0], start.Add(3*time.Hour)))
	k.wantErr(s.SetRecurring(k.ctx, changed), notify.ErrSuperseded)
	k.due(s, 10, start.Add(3*time.Hour))
	k.waits(s, 1)
}

func testRecurring(k *kit) {
	s := k.store()
	first, second := start.Add(time.Hour), start.Add(2*time.Hour)
	_, err := s.Recurring(k.ctx, notify.RecurringRef{ClientID: "shop", Name: "daily"})
	k.wantErr(err, notify.ErrNotFound)
	k.due(s, 10, time.Time{})
	daily := k.repeated("shop", "daily", first)
	for _, r := range []notify.Recurring{daily, k.repeated("shop", "weekly", second),
		k.repeated("other", "daily", second)} {
		k.must(s.SetRecurring(k.ctx, r))
	}
	k.due(s, 10, first)
	s = k.store() // as after a restart
	k.equal("read", value[notify.Recurring](k)(s.Recurring(k.ctx, daily.RecurringRef)), daily)

	// One is sent, and is due again.
	k.clock.Advance(time.Hour)
	due := k.due(s, 10, first.Add(time.Minute), "shop daily") // the lease ends then
	k.equal("claimed", due[0], daily)
	k.due(s, 10, first.Add(time.Minute))
	send := value[notify.Send](k)(k.occur(s, due[0], start.Add(3*time.Hour)))
	_, err = k.occur(s, due[0], start.Add(3*time.Hour))
	k.wantErr(err, notify.ErrSuperseded)
	k.waits(s, 1)
	daily.Runs, daily.LastSend, daily.LastDue, daily.LastRun = 1, send.Number, first.UTC(), k.clock.Now().UTC()
	daily.Next = start.Add(3 * time.Hour).UTC()
	k.equal("sent", value[notify.Recurring](k)(s.Recurring(k.ctx, daily.RecurringRef)), daily)

	// One is postponed, and skipped.
	k.clock.Advance(time.Hour)
	due = k.due(s, 1, second, "other daily") // not one more of the same client
	o := notify.Occurrence{RecurringRef: due[0].RecurringRef, At: due[0].Next, Sent: k.clock.Now(),
		Updated: due[0].Updated}
	k.must(s.PostponeOccurrence(k.ctx, o, k.clock.Now().Add(10*time.Minute), "not now"))
	got := value[notify.Recurring](k)(s.Recurring(k.ctx, o.RecurringRef))
	k.equal("postponed", []any{got.Next, got.Problem, got.Failures}, []any{second.UTC(), "not now", 0})
	k.clock.Advance(10 * time.Minute)
	k.due(s, 10, k.clock.Now().Add(time.Minute), "shop weekly", "other daily")
	k.must(s.SkipOccurrence(k.ctx, o, "never"))
	k.must(s.SkipOccurrence(k.ctx, o, "twice"))
	k.must(s.MoveOccurrence(k.ctx, o))
	k.must(s.PostponeOccurrence(k.ctx, o, start, "again"))
	got = value[notify.Recurring](k)(s.Recurring(k.ctx, o.RecurringRef))
	k.equal("skipped", []any{got.State, got.Next, got.Problem, got.Failures, got.LastDue, got.LastSend},
		[]any{notify.RecurringEnded, time.Time{}, "never", 1, second.UTC(), int64(0)})

	// Moved, paused and resumed.
	o = notify.Occurrence{RecurringRef: daily.RecurringRef, At: daily.Next, Next: start.Add(5 * time.Hour),
		Updated: daily.Updated}
	k.must(s.MoveOccurrence(k.ctx, o))
	daily.Next = o.Next.UTC()
	k.equal("moved", value[notify.Recurring](k)(s.Recurring(k.ctx, daily.RecurringRef)), daily)
	k.must(s.SetRecurringState(k.ctx, daily.RecurringRef, notify.RecurringPaused, time.Time{}, k.clock.Now()))
	_, err = k.occur(s, daily, start.Add(9*time.Hour))
	k.wantErr(err, notify.ErrSuperseded)
	k.must(s.SetRecurringState(k.ctx, daily.RecurringRef, notify.RecurringActive, daily.Next, k.clock.Now()))
	daily.Updated = k.clock.Now()
	value[notify.Send](k)(k.occur(s, daily, time.Time{}))
	got = value[notify.Recurring](k)(s.Recurring(k.ctx, daily.RecurringRef))
	k.equal("ended", []any{got.State, got.Next, got.Runs}, []any{notify.RecurringEnded, time.Time{}, 2})
	missing := notify.RecurringRef{ClientID: "shop", Name: "nope"}
	k.wantErr(s.SetRecurringState(k.ctx, missing, notify.RecurringPaused, time.Time{}, start), notify.ErrNotFound)
	k.wantErr(s.DeleteRecurring(k.ctx, missing), notify.ErrNotFound)
	_, err = k.occur(s, notify.Recurring{RecurringRef: missing, Next: start}, start)
	k.wantErr(err, notify.ErrSuperseded)

	// Replaced and deleted: what was sent is still known.
	changed := k.repeated("shop", "daily", start.Add(8*time.Hour))
	changed.Cron, changed.Message.Members = "5 5 * * *", nil
	changed.Message.Audience = &notify.Audience{Type: notify.ToEveryone}
	changed.LastDue = got.LastDue
	k.must(s.SetRecurring(k.ctx, changed))
	changed.Runs, changed.LastSend, changed.LastDue, changed.LastRun = 2, got.LastSend, got.LastDue, got.LastRun
	changed.Created = daily.Created
	k.equal("replaced", value[notify.Recurring](k)(s.Recurring(k.ctx, daily.RecurringRef)), changed)
	k.equal("of a client", namesOf(value[[]notify.Recurring](k)(s.ListRecurring(k.ctx,
		notify.RecurringQuery{ClientID: "shop", Limit: 10}))), []string{"shop daily", "shop weekly"})
	k.equal("after one", namesOf(value[[]notify.Recurring](k)(s.ListRecurring(k.ctx,
		notify.RecurringQuery{ClientID: "shop", After: daily.RecurringRef, Limit: 10}))), []string{"shop weekly"})
	k.equal("of all", namesOf(value[[]notify.Recurring](k)(s.ListRecurring(k.ctx, notify.RecurringQuery{All: true,
		After: notify.RecurringRef{ClientID: "other", Name: "daily"}, Limit: 1}))), []string{"shop daily"})
	k.must(s.DeleteRecurring(k.ctx, daily.RecurringRef))
	_, err = k.occur(s, changed, start)
	k.wantErr(err, notify.ErrSuperseded)
	if err := s.SetRecurring(k.ctx, k.repeated("shop", "a\x00b", first)); err == nil {
		k.Error("a name with NUL was stored")
	}
}

func namesOf(list []notify.Recurring) (names []string) {
	for _, r := range list {
		names = append(names, r.ClientID+" "+r.Name)
	}
	return names
}

// testRecurringBounds sees that a client can have so many and so much, and that those of others come in turn.
func testRecurringBounds(k *kit) {
	s := k.open(Options{Now: k.clock.Now, Bounds: notify.Bounds{Definitions: 1 << 20}})
	big := k.repeated("shop", "big", start)
	big.Message.Content.Text = strings.Repeat("x", 1<<20)
	k.wantFull("more than a client may have", s.SetRecurring(k.ctx, big))
	for i := range notify.MaxRecurring {
		r := k.repeated("shop", fmt.Sprintf("r-%04d", i), start)
		r.Message = notify.RecurringMessage{KindID: "news"}
		k.must(s.SetRecurring(k.ctx, r))
	}
	k.wantErr(s.SetRecurring(k.ctx, k.repeated("shop", "more", start)), notify.ErrTooMany)
	k.must(s.SetRecurring(k.ctx, k.repeated("shop", "r-0007", start.Add(time.Hour)))) // it replaces one
	k.must(s.SetRecurring(k.ctx, k.repeated("small", "one", start)))
	k.must(s.SetRecurring(k.ctx, k.repeated("small", "two", start)))
	list, _, err := s.DueRecurring(k.ctx, 4, time.Minute)
	k.must(err)
	of := map[string]int{}
	for _, r := range list {
		of[r.ClientID]++
	}
	k.equal("of each client", of, map[string]int{"shop": 2, "small": 2})
}

// testRecurringOnce sees that several processes send each occurrence once.
func testRecurringOnce(k *kit) {
	s := k.store()
	stores := []notify.Store{s, s}
	if s.Shared() {
		stores[1] = k.store()
	}
	const count, times = 20, 5
	for i := range count {
		k.must(s.SetRecurring(k.ctx, k.repeated("shop", fmt.Sprint("r", i), start.Add(-time.Hour))))
	}
	var sent, ended atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for ended.Load() < count && k.ctx.Err() == nil {
				list, _, err := stores[w%2].DueRecurring(k.ctx, 3, -time.Second) // a lease that holds nothing
				if err != nil {
					k.Error(err)
					return
				}
				for _, r := range list {
					next := r.Next.Add(time.Minute)
					if r.Runs+1 == times {
						next = time.Time{}
					}
					_, err := k.occur(stores[w%2], r, next)
					switch {
					case errors.Is(err, notify.ErrSuperseded):
					case err != nil:
						k.Error(err)
						return
					default:
						sent.Add(1)
						if next.IsZero() {
							ended.Add(1)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	k.equal("sent", sent.Load(), int64(count*times))
	k.waits(s, count*times)
}
