package delivery

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/notifydb"
)

// settle finishes what a killed server has left of two sends, of which the first was canceled. all are those and the
// earlier ones.
func (v victim) settle(t *testing.T, canceled, other int64, users int, all []int64) {
	t.Helper()
	d, store, err := v.open(t.Context())
	testkit.Must(t, err)
	defer d.Close()
	rest := &post{}
	last := New(Options{Store: store, Directory: newPeople(users), Channel: rest, IDs: testIDs(t), Dir: v.Dir})
	testkit.Must(t, last.Start(t.Context()))
	testkit.Eventually(t, "both sends are finished", func() bool {
		for _, number := range []int64{canceled, other} {
			if s, err := store.Send(t.Context(), number); err != nil || s.Finished.IsZero() {
				return false
			}
		}
		return true
	})
	last.Stop()
	for _, o := range rest.all() {
		if notify.SendOf(o.Number) == canceled {
			t.Errorf("message %d of a canceled send is delivered after a restart", o.Number)
		}
	}
	s, err := store.Send(t.Context(), canceled)
	testkit.Must(t, err)
	if c := s.Counts; c.Delivered+c.Canceled != c.Total || c.Canceled == 0 {
		t.Errorf("counts of the canceled send are %+v", c)
	}
	s, err = store.Send(t.Context(), other)
	testkit.Must(t, err)
	if s.Counts.Delivered != users || s.Counts.Total != users {
		t.Errorf("counts of the other send are %+v, want all %d delivered", s.Counts, users)
	}
	checkFigures(t, store, all...)
}

// gate holds messages back once a mail server has accepted some, until it is opened. Those that are on their way may
// pass.
type gate struct {
	accepted func() int

	mu     sync.Mutex
	after  int
	opened chan struct{}
}

// close closes the gate after n more messages, and returns how many are accepted then.
func (g *gate) close(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.after, g.opened = g.accepted()+n, make(chan struct{})
	return g.after
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
	}
	g.after, g.opened = math.MaxInt, nil
}

// fault is what the mail server does.
func (g *gate) fault(s mailtest.Step) mailtest.Action {
	if s.Stage != mailtest.Dot {
		return mailtest.Action{}
	}
	g.mu.Lock()
	after, opened := g.after, g.opened
	g.mu.Unlock()
	if g.accepted() >= after {
		<-opened
	}
	return mailtest.Action{Delay: 3 * time.Millisecond}
}

// TestKillAroundCancel cancels a send while a server delivers it, which is killed before or after. Only what
// was claimed at the answer is delivered later, and each message has an end.
func TestKillAroundCancel(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			const users, rounds = 300, 3
			ctx := t.Context()
			// Otherwise a busy machine delivers all before the send is canceled.
			g := &gate{}
			sink := mailtest.New(t, mailtest.Options{Keep: 10 * users, Fault: g.fault})
			g.accepted = sink.Accepted
			t.Cleanup(g.open) // the mail server waits for it
			v := victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Dir: t.TempDir(), Users: users,
				SMTP: sink.URL("", fmt.Sprintf("connections=%d", connections))}
			accept := func(store *notifydb.Store) int64 {
				send, _, err := store.Accept(ctx, notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: "news",
					Audiences: []notify.Audience{{Type: notify.ToEveryone}}, Received: time.Now(),
					Content: notify.Content{Subject: "Hello", Text: "text"}}})
				testkit.Must(t, err)
				return send.Number
			}
			var sends []int64
			for range rounds {
				d, store, err := v.open(ctx)
				testkit.Must(t, err)
				first := accept(store)
				if !store.Shared() {
					testkit.Must(t, d.Close()) // it belongs to one process
				}
				reached := g.close(1 + rand.IntN(users/3))
				cmd := v.spawn(t)
				sink.Wait(reached, time.Minute)
				kill := func() {
					testkit.Must(t, cmd.Process.Kill())
					cmd.Wait() //nolint:errcheck // it was killed
				}
				if !store.Shared() {
					kill()
					d, store, err = v.open(ctx)
					testkit.Must(t, err)
				}
				canceled, err := store.Cancel(ctx, first)
				testkit.Must(t, err)
				before := sink.Accepted()
				g.open()
				held := canceled.Counts.Queued + canceled.Counts.Retry
				if store.Shared() {
					kill()
				}
				second := accept(store) // in the same queue, after what would be left
				testkit.Must(t, d.Close())

				cmd = v.spawn(t)
				sink.Wait(before+users, time.Minute)
				kill()
				sends = append(sends, first, second)
				v.settle(t, first, second, users, sends)
				if n := sink.Accepted(); n > before+held+users+2*connections {
					t.Errorf("%d messages after the answer, %d were claimed, of the second send are %d", n-before, held, users)
				}
			}
		})
	}
}
