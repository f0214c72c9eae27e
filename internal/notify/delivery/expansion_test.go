package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

func TestExpansion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(2611), change: func(o *Options) { o.Chunk = 500 }})
	w.people.withoutEmails = true
	w.start()
	send := w.send(to(notify.ToEveryone, ""))
	seen := 0
	if err := w.service.Messages(context.Background(), send, func(m notify.Message) error {
		if m.UserID != w.people.order[seen] {
			return fmt.Errorf("message %d is for %s", seen, m.UserID)
		}
		seen++
		return nil
	}); err != nil || seen != 2611 {
		t.Errorf("%d messages listed, %v", seen, err)
	}
	if got := w.finish(send); got.Delivered != 2611 || got.Total != 2611 {
		t.Errorf("counts are %+v, want all 2611 delivered", got)
	}
	once := map[string]int{}
	body := map[*notify.Body]int{}
	for _, o := range w.post.all() {
		once[o.To]++
		body[o.Body]++
	}
	if len(once) != 2611 || len(w.post.all()) != 2611 {
		t.Errorf("%d addresses got %d messages", len(once), len(w.post.all()))
	}
	if len(body) > 10 {
		t.Errorf("the same body was rendered %d times", len(body))
	}
	if w.people.lookup > 100 {
		t.Errorf("%d questions for addresses", w.people.lookup)
	}
}

// A send that has more recipients than are possible ends; those before get it.
func TestTooManyRecipients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(1500), change: func(o *Options) { o.Chunk, o.Log = 500, nil }})
	w.store.failing("Extend by some", fmt.Errorf("send 1: %w", notify.ErrTooMany))
	w.start()
	if got := w.finish(w.send(to(notify.ToEveryone, ""))); got.Delivered != got.Total || got.Total == 0 ||
		got.Total >= 1500 {
		t.Errorf("counts are %+v, want all of fewer than 1500 delivered", got)
	}
}

// Nothing is lost while the directory is away, at any of its questions.
func TestDirectoryAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(1500), change: func(o *Options) { o.Log = nil }})
	w.people.withoutEmails = true
	async := func(r *actions.Request) { r.Async = true }
	large := w.send(to(notify.ToEveryone, ""), async)
	small := w.send()
	asked := make(chan string)
	w.people.asked = asked
	w.people.set(errAway)
	w.start()
	for missing := map[string]bool{"page everyone": true, "emails": true}; len(missing) > 0; {
		delete(missing, <-asked)
	}
	w.people.mu.Lock()
	w.people.asked, w.people.down = nil, nil
	w.people.mu.Unlock()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // questions that were under way
		for {
			select {
			case <-asked:
			case <-ended:
				return
			}
		}
	}()
	if got := w.finish(small); got.Delivered != 1 || w.message(small, 0).Attempts != 1 {
		t.Errorf("small: %+v, %+v", got, w.message(small, 0))
	}
	if got := w.finish(large); got.Delivered != 1500 {
		t.Errorf("large: %+v", got)
	}
}

// A space that is gone by the time a campaign is expanded has no members.
func TestAudienceGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	w.start()
	send := w.send(func(r *actions.Request) {
		r.KindID, r.Campaign = "", &notify.CampaignType{ID: "ct", SenderID: "s"}
		r.Audiences = []notify.Audience{{Type: notify.ToSpace, ID: "gone"}, {Type: notify.ToSpace, ID: "3"}}
	})
	if got := w.finish(send); got.Delivered != 3 || got.Total != 3 {
		t.Errorf("counts are %+v, want all 3 delivered", got)
	}
}

// A send to everyone does not keep a send to a space from being expanded, nor a
// single message from being delivered.
func TestFairness(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(3000), change: func(o *Options) { o.Chunk, o.Batch = 200, 100 }})
	async := func(r *actions.Request) { r.Async = true }
	large := w.send(to(notify.ToEveryone, ""), async)
	space := w.send(to(notify.ToSpace, "150"), async)
	var single atomic.Int64
	var begun sync.Once
	w.post.say = func(notify.Outgoing) notify.Result {
		begun.Do(func() { single.Store(w.send(to(notify.ToEmail, "single@example.com"))) })
		return notify.Result{Verdict: notify.Accepted}
	}
	w.start()
	w.finish(large)
	w.finish(space)
	w.finish(single.Load())
	order := w.post.all()
	last := func(match func(notify.Outgoing) bool) int {
		for i, o := range slices.Backward(order) {
			if match(o) {
				return i
			}
		}
		return -1
	}
	if at := last(func(o notify.Outgoing) bool { return o.To == "single@example.com" }); at > 2000 {
		t.Errorf("the single message was number %d", at)
	}
	if at := last(func(o notify.Outgoing) bool { return notify.SendOf(o.Number) == space }); at > 2000 {
		t.Errorf("the last message of the space was number %d", at)
	}
	if len(order) != 3151 {
		t.Errorf("%d messages", len(order))
	}
}

// Messages that wait for their next attempt do not hold up fresh ones.
func TestRetriesWaitAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(1200), change: func(o *Options) {
		o.Schedule = Schedule{First: time.Hour, Attempts: 10}
	}})
	w.post.say = func(o notify.Outgoing) notify.Result {
		if strings.HasPrefix(o.To, "user") {
			return notify.Result{Verdict: notify.Temporary, Reason: "451"}
		}
		return notify.Result{Verdict: notify.Accepted}
	}
	w.start()
	waiting := w.send(to(notify.ToEveryone, ""))
	w.store.until(t, "all wait", func() bool { return w.counts(waiting).Retry == 1200 })
	fresh := w.send(to(notify.ToEmail, "fresh@example.com"))
	if got := w.finish(fresh); got.Delivered != 1 {
		t.Errorf("counts are %+v, want 1 delivered", got)
	}
	if m := w.message(waiting, 7); m.Status != notify.Retry || m.Due.Before(time.Now().Add(50*time.Minute)) ||
		m.Attempts != 1 {
		t.Errorf("message is %+v, want a retry after the first attempt in 50m or later", m)
	}
}

// What the journal holds is delivered already.
func TestJournalIsReadFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(20)})
	send := w.send(to(notify.ToEveryone, ""))
	j, _ := mustJournal(t, w.options.Dir)
	for i := range 15 {
		if err := j.append(notify.MessageNumber(send, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.append(notify.MessageNumber(999, 1)); err != nil { // purged since
		t.Fatal(err)
	}
	w.start()
	if got := w.finish(send); got.Delivered != 20 || len(w.post.all()) != 5 {
		t.Errorf("%+v, %d sent again", got, len(w.post.all())-5)
	}
	if m := w.message(send, 3); m.Attempts != 1 {
		t.Errorf("message is %+v, want 1 attempt", m)
	}
}
