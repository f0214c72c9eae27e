package delivery

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// TestPostponedLimit: when as many messages of a client wait for another attempt as may, whatever the channel and why,
// it cannot send more by this channel until some are sent.
func TestPostponedLimit(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]notify.Result{
		"no room": {Verdict: notify.Temporary, Untried: true, Reason: "waiting", RetryAfter: time.Hour},
		"asked":   {Verdict: notify.Temporary, Reason: "429 Too Many Requests", RetryAfter: time.Hour},
		"failed":  {Verdict: notify.Temporary, Reason: "no answer"},
	} {
		for id := range notify.ChannelID(notify.ChannelCount) {
			t.Run(id.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				testPostponed(t, id, again)
			})
		}
	}
}

func testPostponed(t *testing.T, id notify.ChannelID, again notify.Result) {
	t.Helper()
	clock := testkit.NewClock(time.Now())
	var postpones atomic.Bool
	postpones.Store(true)
	channel := &post{say: func(notify.Outgoing) notify.Result {
		if postpones.Load() {
			return again
		}
		return notify.Result{Verdict: notify.Accepted}
	}}
	w := newWorld(t, setup{now: clock.Now, channel: channel, change: func(o *Options) {
		o.Now, o.Schedule = clock.Now, Schedule{First: time.Hour, Longest: time.Hour, Attempts: 4}
		o.More = map[notify.ChannelID]notify.Channel{}
		for more := range notify.ChannelID(notify.ChannelCount) {
			o.More[more] = channel
		}
		delete(o.More, notify.Email)
	}})
	w.people.phones = map[string]string{"user-0000000": "+4915112345678"}
	testkit.Must(t, w.store.AddPushSubscription(t.Context(), notify.PushSubscription{ID: "b",
		Endpoint: "https://example.com/b", Owner: notify.Owner{ClientID: "shop", UserID: "user-0000000"},
		P256dh: make([]byte, 65), Auth: make([]byte, 16)}))
	testkit.Must(t, w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
		notify.ChannelsOf(id)))
	w.service = actions.New(actions.Options{Store: w.store, Directory: w.people, IDs: w.ids, Kick: w.Kick,
		Limits: actions.Limits{Delayed: 4}})
	w.start()
	var sends []int64
	for range 2 {
		send := w.send()
		w.store.until(t, "it is postponed", func() bool { return w.message(send, 0).Status == notify.Retry })
		sends = append(sends, send)
	}
	_, err := w.service.Send(t.Context(), actions.Request{Client: "shop", KindID: "news", RequestID: "r",
		Audiences: []notify.Audience{{Type: notify.ToUser, ID: "user-0000000"}},
		Content:   notify.Content{Subject: "Hello", Text: "the text"}})
	if !fault.Is(err, fault.RateLimited) ||
		!strings.Contains(err.Error(), "2 messages that wait for another attempt, and has them, most by "+id.String()) {
		t.Errorf("one more: %v", err)
	}
	postpones.Store(false)
	clock.Advance(3 * time.Hour)
	w.Kick()
	for _, send := range sends {
		if got := w.finish(send); got.Delivered != 1 {
			t.Errorf("it ended as %+v", got)
		}
	}
	if got := w.finish(w.send()); got.Delivered != 1 {
		t.Errorf("a later one ended as %+v", got)
	}
}
