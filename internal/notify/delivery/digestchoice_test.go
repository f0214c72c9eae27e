package delivery

import (
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
)

// TestDigestChoice sends a kind to a user for each choice, with and without a digest of the kind: the choice is
// read once for a message, and what is not collected is delivered at once.
func TestDigestChoice(t *testing.T) {
	t.Parallel()
	all := []string{"at_once", "hourly", "daily", "weekly"}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := testkit.NewClock(time.Now())
		w := newWorld(t, setup{db: d, now: clock.Now, change: func(o *Options) { o.Now = clock.Now }})
		w.start()
		ref := notify.KindRef{ClientID: "shop", KindID: "news"}
		for i, c := range []struct {
			window   string
			choice   []string
			of       notify.DigestChoice
			collects time.Duration
		}{
			{"30m", all, notify.DigestDefault, 30 * time.Minute},
			{"30m", all, notify.DigestAtOnce, 0},
			{"30m", all, notify.DigestHourly, time.Hour},
			{"30m", all, notify.DigestDaily, 24 * time.Hour},
			{"30m", all, notify.DigestWeekly, 7 * 24 * time.Hour},
			{"30m", nil, notify.DigestWeekly, 30 * time.Minute},
			{"", all[1:], notify.DigestDefault, 0},
			{"", all[1:], notify.DigestHourly, time.Hour},
			{"", all[1:2], notify.DigestWeekly, 0},
		} {
			r, err := notify.NewDigestRule(c.window, 0, "", nil, c.choice...)
			testkit.Must(t, err)
			testkit.Must(t, w.store.SetDigestRule(t.Context(), ref, r))
			user := w.people.order[i]
			w.wishesOf(user, notify.Wish{Digest: &c.of})
			before := w.store.asked.Load()
			send := w.send(to(notify.ToUser, user))
			if c.collects == 0 {
				if got := w.finish(send); got.Delivered != 1 {
					t.Errorf("%+v: %+v", c, got)
				}
			} else {
				w.store.until(t, "it is collected", func() bool { return w.message(send, 0).Collected })
				m := w.message(send, 0)
				chosen := c.of != notify.DigestDefault && c.choice != nil
				if got := m.Due.Sub(clock.Now()); (got-c.collects).Abs() > time.Second || m.Quiet != chosen {
					t.Errorf("%+v: it is collected until %s from now: %+v", c, got, m)
				}
				if _, err := w.store.Cancel(t.Context(), send); err != nil {
					t.Fatal(err)
				}
			}
			if n := w.store.asked.Load() - before; n > 1 {
				t.Errorf("%+v: the user's choice was read %d times", c, n)
			}
		}
	})
}
