package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// quietFor sets the quiet hours of users, by all channels but the inbox.
func (w *world) quietFor(zone string, users ...string) {
	w.t.Helper()
	q, err := notify.NewQuietHours("22:00", "07:00", zone, nil, nil)
	testkit.Must(w.t, err)
	for _, id := range users {
		testkit.Must(w.t, w.store.ChangePreferences(w.t.Context(), id, notify.PreferenceChange{Quiet: q}))
	}
}

// held waits until a message waits for the end of quiet hours.
func (w *world) held(send int64) notify.Message {
	w.t.Helper()
	w.store.until(w.t, "a message waits", func() bool {
		m := w.message(send, 0)
		return m.Status == notify.Retry || m.Status.Final()
	})
	return w.message(send, 0)
}

// TestQuiet sends in quiet hours in which clocks are set forward or back, in the north and in the south: messages wait
// through a restart, with two servers where they share a store, and are sent once when the quiet hours end.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, night := range []struct{ name, zone, at, until string }{
		{"Berlin in spring", "Europe/Berlin", "2026-03-28T21:00:00Z", "2026-03-29T05:00:00Z"},
		{"Berlin in autumn", "Europe/Berlin", "2026-10-24T20:30:00Z", "2026-10-25T06:00:00Z"},
		{"Santiago in spring", "America/Santiago", "2026-09-06T02:10:00Z", "2026-09-06T10:00:00Z"},
		{"Santiago in autumn", "America/Santiago", "2026-04-05T01:00:00Z", "2026-04-05T11:00:00Z"},
	} {
		t.Run(night.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				at, err := time.Parse(time.RFC3339, night.at)
				testkit.Must(t, err)
				until, err := time.Parse(time.RFC3339, night.until)
				testkit.Must(t, err)
				clock := testkit.NewClock(at)
				w := newWorld(t, setup{db: d, now: clock.Now, change: func(o *Options) { o.Now = clock.Now }})
				w.quietFor(night.zone, "user-0000000", "mailto:ann@example.com")
				w.start()
				user, address := w.send(), w.send(to(notify.ToEmail, "Ann@example.com"))
				other := w.send(to(notify.ToUser, "user-0000001"))
				alarm := w.send(func(r *actions.Request) { r.KindID = "alarm" })
				plain := w.send(to(notify.ToEmail, "ann@example.com"), func(r *actions.Request) { r.KindID = "" })
				for _, send := range []int64{other, alarm, plain} {
					if got := w.finish(send); got.Delivered != 1 {
						t.Errorf("what does not wait: %+v", got)
					}
				}
				for _, send := range []int64{user, address} {
					m := w.held(send)
					if want := "waits for the end of the recipient's quiet hours at " + night.until; m.Status != notify.Retry ||
						m.Attempts != 0 || m.Reason != want || !m.Due.Equal(until) {
						t.Errorf("%+v, want %s", m, want)
					}
				}
				line, err := w.store.Timeline(t.Context(), notify.MessageNumber(user, 0))
				testkit.Must(t, err)
				if !slices.ContainsFunc(line.Events(), func(e notify.Event) bool {
					return e.Name == notify.EventWaiting && e.At.Equal(until) && strings.Contains(e.Reason, "quiet hours")
				}) {
					t.Errorf("the timeline is %+v", line.Events())
				}

				clock.Advance(until.Sub(at) - time.Second)
				w.Stop()
				w.renew()
				w.start()
				if w.store.Shared() {
					o := w.options
					o.Dir = t.TempDir()
					second := New(o)
					testkit.Must(t, second.Start(t.Context()))
					t.Cleanup(second.Stop)
				}
				w.finish(w.send(to(notify.ToUser, "user-0000001")))
				if n := len(w.post.all()); n != 4 {
					t.Errorf("%d messages before the end, want 4", n)
				}
				clock.Advance(time.Second)
				w.Kick()
				for _, send := range []int64{user, address, w.send()} {
					if got := w.finish(send); got.Delivered != 1 {
						t.Errorf("after the end: %+v", got)
					}
				}
				if n := len(w.post.all()); n != 7 {
					t.Errorf("%d messages, want 7", n)
				}
			})
		})
	}
}

// TestQuietDecidedAgain holds messages that expire, are canceled or unwanted before the quiet hours end, and those of
// users who change their quiet hours meanwhile: they are not sent, or wait for the new end.
func TestQuietDecidedAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC)
		clock := testkit.NewClock(at)
		w := newWorld(t, setup{db: d, now: clock.Now, change: func(o *Options) { o.Now = clock.Now }})
		w.quietFor("UTC", "user-0000000", "user-0000001", "user-0000002")
		w.start()
		expires := w.send(func(r *actions.Request) { r.ExpiresAt = at.Add(time.Hour) })
		expiresLater := w.send(func(r *actions.Request) { r.ExpiresAt = at.Add(9 * time.Hour) })
		canceled := w.send()
		unwanted := w.send(to(notify.ToUser, "user-0000001"))
		moved := w.send(to(notify.ToUser, "user-0000002"))
		for _, send := range []int64{expiresLater, canceled, unwanted, moved} {
			if m := w.held(send); !m.Due.Equal(at.Add(8 * time.Hour)) {
				t.Errorf("%+v", m)
			}
		}
		if m := w.held(expires); !m.Due.Equal(at.Add(time.Hour)) || !strings.HasSuffix(m.Reason, ", but expires before") {
			t.Errorf("%+v", m)
		}
		_, err := w.store.Cancel(t.Context(), canceled)
		testkit.Must(t, err)
		no := false
		w.wishesOf("user-0000001", notify.Wish{Subscribe: &no})
		w.quietFor("Atlantic/Azores", "user-0000002") // an hour later
		w.Kick()
		w.store.until(t, "the message is decided again", func() bool {
			return w.message(moved, 0).Due.Equal(at.Add(9 * time.Hour))
		})
		clock.Advance(time.Hour)
		w.Kick()
		if got := w.finish(expires); got.Undeliverable != 1 {
			t.Errorf("expired: %+v", got)
		}
		clock.Advance(7 * time.Hour)
		w.Kick()
		for send, want := range map[int64]notify.Counts{
			canceled:     {Total: 1, Canceled: 1},
			unwanted:     {Total: 1, Unsubscribed: 1},
			expiresLater: {Total: 1, Delivered: 1},
		} {
			if got := w.finish(send); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		clock.Advance(time.Hour)
		w.Kick()
		if got := w.finish(moved); got.Delivered != 1 || len(w.post.all()) != 2 {
			t.Errorf("%+v, %d messages", got, len(w.post.all()))
		}
	})
}

// TestQuietChannels sends by all channels in quiet hours: the inbox and the chat get their messages.
func TestQuietChannels(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, posts := wishing(t, d, notify.ChannelsOf(notify.Email, notify.Inbox, notify.Hook, notify.Chat))
		now := time.Now().UTC()
		whole := func(channels ...string) {
			q, err := notify.NewQuietHours("00:00", "00:00", "UTC", []string{
				strings.ToLower(now.Format("Mon")), strings.ToLower(now.Add(24 * time.Hour).Format("Mon"))}, channels)
			testkit.Must(t, err)
			testkit.Must(t, w.store.ChangePreferences(t.Context(), "user-0000000", notify.PreferenceChange{Quiet: q}))
		}
		w.start()
		for _, c := range []struct {
			channels []string
			wait     []notify.ChannelID
		}{
			{nil, []notify.ChannelID{notify.Email, notify.Hook}},
			{[]string{"inbox"}, []notify.ChannelID{notify.Inbox}},
			{[]string{"webhook", "inbox"}, []notify.ChannelID{notify.Inbox, notify.Hook}},
		} {
			whole(c.channels...)
			send := w.send()
			w.store.until(t, "all have been decided", func() bool {
				got := w.counts(send)
				return got.Delivered == 4-len(c.wait) && got.Retry == len(c.wait)
			})
			for id, p := range posts {
				got := false
				for _, o := range p.all() {
					got = got || notify.SendOf(o.Number) == send
				}
				want := true
				for _, waits := range c.wait {
					want = want && waits != id
				}
				if got != want {
					t.Errorf("%v: %s got it: %v", c.channels, id, got)
				}
			}
		}
	})
}
