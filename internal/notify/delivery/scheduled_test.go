package delivery

import (
	"context"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
)

// A send waits for its time; those who are in the audience then get it.
func TestScheduled(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	w := newWorld(t, setup{people: newPeople(3), now: clock.Now})
	w.start()
	at := func(r *notify.Request) { r.SendAt = clock.Now().Add(time.Hour) }
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
	first := w.send(func(r *notify.Request) { r.SendAt = clock.Now().Add(time.Hour) })
	second := w.send(func(r *notify.Request) { r.SendAt = clock.Now().Add(3 * time.Hour) })
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
