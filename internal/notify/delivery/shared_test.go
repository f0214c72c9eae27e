package delivery

import (
	"context"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/notify"
)

// Two servers share a queue, one of them goes away in the middle: every message
// is delivered once.
func TestServersShare(t *testing.T) {
	t.Parallel()
	const users = 1500
	address := dbtest.URL(t, db.Postgres)
	server := func() *world {
		return newWorld(t, setup{people: newPeople(users), db: dbtest.Open(t, address), change: func(o *Options) {
			o.Batch, o.Workers, o.Chunk = 50, 2, 200
		}})
	}
	a, b := server(), server()
	slow := func(notify.Outgoing) notify.Result {
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C
		return notify.Result{Verdict: notify.Accepted}
	}
	a.post.say, b.post.say = slow, slow
	a.start()
	b.start()
	send := a.send(to(notify.ToEveryone, ""))
	listed := 0
	// The one that did not accept it hears of the rest too.
	if err := b.service.Messages(context.Background(), send,
		func(notify.Message) error { listed++; return nil }); err != nil || listed != users {
		t.Errorf("%d messages listed, %v", listed, err)
	}
	b.store.until(t, "both did something", func() bool { return len(a.post.all()) > 0 && len(b.post.all()) > 0 })
	a.Stop()
	if got := b.finish(send); got.Delivered != users {
		t.Errorf("counts are %+v, want %d delivered", got, users)
	}
	once := map[int64]int{}
	for _, w := range []*world{a, b} {
		for _, o := range w.post.all() {
			once[o.Number]++
		}
	}
	if len(once) != users || len(a.post.all())+len(b.post.all()) != users {
		t.Errorf("%d messages were delivered %d times", len(once), len(a.post.all())+len(b.post.all()))
	}
	t.Logf("%d and %d messages", len(a.post.all()), len(b.post.all()))
}
