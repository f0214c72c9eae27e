package delivery

import (
	"context"
	"sync"
	"testing"
	"time"

	"ingot/internal/notify"
)

// stuckChannel is a channel whose first batch hangs, whatever its context says.
type stuckChannel struct {
	post
	once    sync.Once
	release chan struct{}
}

func (d *stuckChannel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	first := false
	d.once.Do(func() { first = true })
	if first {
		<-d.release
		return
	}
	d.post.Deliver(ctx, batch, done)
}

// A channel that hangs is left to itself; its messages are tried again.
func TestChannelHangs(t *testing.T) {
	t.Parallel()
	d := &stuckChannel{release: make(chan struct{})}
	t.Cleanup(func() { close(d.release) })
	w := newWorld(t, setup{channel: d, people: newPeople(20), change: func(o *Options) {
		o.Log, o.Patience = nil,
			5*time.Second /* those that do not hang need some, too */
	}})
	w.start()
	got := w.finish(w.send(to(notify.ToEveryone, "")))
	if got.Delivered != 20 || len(d.all()) != 20 {
		t.Errorf("%+v, %d sent", got, len(d.all()))
	}
}

// poisoned is a directory that panics whenever it is asked for one of its people.
type poisoned struct {
	*people
	id string
}

func (d *poisoned) Emails(ctx context.Context, ids []string) (map[string]string, error) {
	for _, id := range ids {
		if id == d.id {
			panic("poison")
		}
	}
	return d.people.Emails(ctx, ids)
}

// A message that always panics fails in the end, and no other with it.
func TestPoisonedMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(20), change: func(o *Options) {
		all := o.Directory.(*people) //nolint:errcheck,errorlint // it is
		o.Log, o.Directory = nil, &poisoned{all, all.order[7]}
		o.Schedule.Attempts = 3
	}})
	w.people.withoutEmails = true
	w.start()
	got := w.finish(w.send(to(notify.ToEveryone, "")))
	if got.Delivered != 19 || got.Failed != 1 || len(w.post.all()) != 19 {
		t.Errorf("%+v, %d sent", got, len(w.post.all()))
	}
}
