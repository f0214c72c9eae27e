package delivery

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// TestPacedLimit: when as many messages of a client wait as may, because their receiving domains get few, it
// cannot send more by mail until some are sent. What the channel postpones for another reason does not count.
func TestPacedLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := testkit.NewClock(time.Now())
		w := newWorld(t, setup{db: d, now: clock.Now, change: func(o *Options) { o.Now = clock.Now }})
		testkit.Must(t, w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
			notify.ChannelsOf(notify.Email)))
		w.service = actions.New(actions.Options{Store: w.store, Directory: w.people, IDs: w.ids, Kick: w.Kick,
			Limits: actions.Limits{Delayed: 4}})
		var paced, untried atomic.Bool
		untried.Store(true)
		w.post.say = func(notify.Outgoing) notify.Result {
			if untried.Load() {
				return notify.Result{Verdict: notify.Temporary, Untried: true, Paced: paced.Load(), Reason: "waiting",
					RetryAfter: time.Hour}
			}
			return notify.Result{Verdict: notify.Accepted}
		}
		w.start()
		postponed := func() int64 {
			t.Helper()
			send := w.send()
			w.store.until(t, "it is postponed", func() bool { return w.message(send, 0).Status == notify.Retry })
			return send
		}
		all := []int64{postponed(), postponed(), postponed()}
		if m := w.message(all[0], 0); m.Paced {
			t.Errorf("the message that is not paced is %+v", m)
		}
		paced.Store(true)
		all = append(all, postponed(), postponed())
		_, err := w.service.Send(t.Context(), actions.Request{Client: "shop", KindID: "news", RequestID: "r",
			Audiences: []notify.Audience{{Type: notify.ToUser, ID: "user-0000001"}},
			Content:   notify.Content{Subject: "Hello", Text: "the text"}})
		if !fault.Is(err, fault.RateLimited) || !strings.Contains(err.Error(), "may have 2 messages by mail that wait") {
			t.Errorf("one more: %v", err)
		}
		untried.Store(false)
		clock.Advance(2 * time.Hour)
		w.Kick()
		for _, send := range slices.Backward(all) {
			if got := w.finish(send); got.Delivered != 1 {
				t.Errorf("it ended as %+v", got)
			}
		}
		if got := w.finish(w.send()); got.Delivered != 1 {
			t.Errorf("a later one ended as %+v", got)
		}
	})
}
