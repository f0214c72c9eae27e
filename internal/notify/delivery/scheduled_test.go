package delivery

import (
	"context"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// A send waits for its time; those who are in the audience then get it.
func TestScheduled(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	w := newWorld(t, setup{people: newPeople(3), now: clock.Now})
	w.start()
	at := func(r *actions.Request) { r.SendAt = clock.Now().Add(time.Hour) }
	everyone, user := w.send(to(notify.ToEveryone, ""), at), w.send(at)
	if got := w.finish(w.send()); got.Delivered != 1 {
		t.Errorf("a send at once: %+v", got)
	}
	for _, send := range []int64{everyone, user} {
		if s, err := w.store.Send(context.Background(), send); err != nil || !s.Scheduled || s.Counts.Total != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	}
	w.people.mu.Lock()
	w.people.emails["late"] = "late@example.com"
	w.people.order = append(w.people.order, "late")
	w.people.mu.Unlock()
	clock.Advance(time.Hour)
	w.Kick()
	if got := w.finish(everyone); got.Delivered != 4 {
		t.Errorf("everyone: %+v", got)
	}
	if got := w.finish(user); got.Delivered != 1 || len(w.post.all()) != 6 {
		t.Errorf("the user: %+v, %d messages", got, len(w.post.all()))
	}
}

// A clock that is set forward makes what is due then start; one that is set back starts nothing again.
func TestScheduledClockSet(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	w := newWorld(t, setup{now: clock.Now})
	first := w.send(func(r *actions.Request) { r.SendAt = clock.Now().Add(time.Hour) })
	second := w.send(func(r *actions.Request) { r.SendAt = clock.Now().Add(3 * time.Hour) })
	w.start()
	clock.Advance(2 * time.Hour)
	w.Kick()
	w.finish(first)
	clock.Advance(-2 * time.Hour)
	w.Stop()
	w.renew()
	w.start()
	w.Kick()
	w.finish(w.send())
	clock.Advance(time.Hour) // the time of the first comes again
	w.Kick()
	w.finish(w.send())
	clock.Advance(2 * time.Hour)
	w.Kick()
	w.finish(second)
	if n := len(w.post.all()); n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
}

// What is not delivered in time is not sent any more, neither the first time nor again.
func TestExpired(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	w := newWorld(t, setup{now: clock, change: func(o *Options) {
		o.Now, o.Schedule = clock, Schedule{First: 10 * time.Hour, Longest: 10 * time.Hour, Attempts: 4}
	}})
	expires := func(r *actions.Request) { r.ExpiresAt = clock().Add(time.Hour) }
	tried := make(chan struct{}, 10)
	w.post.say = func(o notify.Outgoing) notify.Result {
		tried <- struct{}{}
		if o.To == "user1@example.com" {
			return notify.Result{Verdict: notify.Temporary, Reason: "later"}
		}
		return notify.Result{Verdict: notify.Accepted}
	}
	w.start()
	if got := w.finish(w.send(expires)); got.Delivered != 1 {
		t.Errorf("in time: %+v", got)
	}
	again := w.send(expires, to(notify.ToUser, "user-0000001"))
	w.store.until(t, "it waits for a retry", func() bool { return w.counts(again).Retry == 1 })
	if due := w.message(again, 0).Due; due.After(clock().Add(time.Hour)) {
		t.Errorf("it is due %v after it expires", due.Sub(clock().Add(time.Hour)))
	}
	w.Stop()
	late := w.send(expires)
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	w.renew()
	w.start()
	for _, send := range []int64{late, again} {
		if got := w.finish(send); got.Undeliverable != 1 || w.message(send, 0).Reason != reasonExpired {
			t.Errorf("too late: %+v, %+v", got, w.message(send, 0))
		}
	}
	if len(tried) != 2 {
		t.Errorf("%d attempts, want 2", len(tried))
	}
}

// What waits when a send is canceled is never sent; what is being sent may be.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(50), change: func(o *Options) { o.Workers, o.Batch = 1, 10 }})
	begun, canceled := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.post.say = func(o notify.Outgoing) notify.Result {
		once.Do(func() {
			close(begun)
			<-canceled
		})
		if o.To == "user1@example.com" {
			return notify.Result{Verdict: notify.Temporary, Reason: "later"}
		}
		return notify.Result{Verdict: notify.Accepted}
	}
	send := w.send(to(notify.ToEveryone, ""))
	w.start()
	<-begun
	s, err := w.store.Cancel(context.Background(), send)
	close(canceled)
	if err != nil || s.Counts.Canceled < 30 {
		t.Fatalf("%+v, %v", s.Counts, err)
	}
	got := w.finish(send)
	if got.Delivered+got.Canceled != 50 || got.Delivered == 0 || got.Canceled < s.Counts.Canceled ||
		len(w.post.all()) > 50-s.Counts.Canceled {
		t.Errorf("%+v, %d sent, at the answer %+v", got, len(w.post.all()), s.Counts)
	}
}
