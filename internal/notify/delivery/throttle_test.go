package delivery

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/mail/mailtest"
)

// limited returns a world in which both kinds may send two messages in an hour, and its clock.
func limited(t *testing.T, d *db.DB, over string, collects *notify.DigestRule) (*world, *testkit.Clock) {
	t.Helper()
	return limitedFor(t, d, nil, over, collects)
}

func limitedFor(t *testing.T, d *db.DB, people *people, over string, collects *notify.DigestRule) (*world,
	*testkit.Clock) {
	t.Helper()
	clock := testkit.NewClock(time.Now())
	w := newWorld(t, setup{db: d, people: people, now: clock.Now, change: func(o *Options) { o.Now = clock.Now }})
	r, err := notify.NewThrottleRule(2, "1h", over, nil)
	testkit.Must(t, err)
	for _, kind := range []string{"news", "alarm"} {
		ref := notify.KindRef{ClientID: "shop", KindID: kind}
		testkit.Must(t, w.store.SetDigestRule(t.Context(), ref, collects))
		testkit.Must(t, w.store.SetThrottleRule(t.Context(), ref, r))
	}
	return w, clock
}

// TestThrottle sends more than the limit: the rest is dropped, except critical messages. Those that are not wanted, or
// are tried again, do not count.
func TestThrottle(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, clock := limited(t, d, "drop", nil)
		failures := 2
		w.post.say = func(o notify.Outgoing) notify.Result {
			if o.UserID == "user-0000001" && failures > 0 {
				failures--
				return notify.Result{Verdict: notify.Temporary, Reason: "450"}
			}
			return notify.Result{Verdict: notify.Accepted}
		}
		w.start()
		yes, no := true, false
		w.wishesOf("user-0000000", notify.Wish{Subscribe: &no})
		for range 3 {
			if got := w.finish(w.send()); got.Unsubscribed != 1 {
				t.Errorf("not wanted: %+v", got)
			}
		}
		w.wishesOf("user-0000000", notify.Wish{Subscribe: &yes})
		sent := func(user string, want ...int) {
			t.Helper()
			for i, delivered := range want {
				send := w.send(to(notify.ToUser, user))
				if got := w.finish(send); got.Delivered != delivered || got.Throttled != 1-delivered {
					t.Errorf("message %d to %s: %+v", i, user, got)
				}
				m := w.message(send, 0)
				if want := map[int]string{1: "", 0: reasonThrottled}[delivered]; m.Reason != want {
					t.Errorf("message %d to %s: %q", i, user, m.Reason)
				}
			}
		}
		sent("user-0000000", 1, 1, 0, 0)
		for range 4 {
			if got := w.finish(w.send(func(r *actions.Request) { r.KindID = "alarm" })); got.Delivered != 1 {
				t.Errorf("critical: %+v", got)
			}
		}
		again := w.send(to(notify.ToUser, "user-0000001"))
		w.store.until(t, "it is to be tried again", func() bool { return w.message(again, 0).Attempts == 1 })
		for range 2 {
			clock.Advance(time.Minute)
			w.Kick()
			w.store.until(t, "it was tried", func() bool {
				m := w.message(again, 0)
				return m.Status.Final() || m.Attempts == 2
			})
		}
		w.finish(again)
		sent("user-0000001", 1, 0)
		clock.Advance(time.Hour)
		sent("user-0000000", 1, 1, 0)
	})
}

// TestThrottleUntried: what is not attempted, for whatever reason, does not count, until it is.
func TestThrottleUntried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		people := newPeople(10)
		people.locales = map[string]string{}
		w, clock := limitedFor(t, d, people, "drop", nil)
		localized(t, w)
		now := clock.Now()
		testkit.Must(t, w.store.CreateTemplate(t.Context(), notify.Template{ID: "bad", Name: "bad",
			Subject: "{{.Nothing}}", Text: "{{", Updated: now}))
		var mu sync.Mutex
		untried := true
		set := func(to bool) {
			mu.Lock()
			defer mu.Unlock()
			untried = to
		}
		w.post.say = func(o notify.Outgoing) notify.Result {
			mu.Lock()
			defer mu.Unlock()
			if untried && strings.Contains(o.Body.Subject, "postponed") {
				return notify.Result{Verdict: notify.Temporary, Untried: true, Reason: "waiting", RetryAfter: 55 * time.Minute}
			}
			return notify.Result{Verdict: notify.Accepted}
		}
		w.start()
		with := func(subject, template string) func(*actions.Request) {
			return func(r *actions.Request) {
				r.Content.Subject, r.Template = subject, template
				if template != "" {
					r.Content, r.Data, r.WithData = notify.Content{}, json.RawMessage(`{"n":1}`), true
				}
			}
		}
		reached := func(send int64, status notify.Status) {
			t.Helper()
			w.store.until(t, "it is "+string(status), func() bool {
				m := w.message(send, 0)
				return m.Status == status
			})
			if m := w.message(send, 0); m.Attempts != 0 {
				t.Errorf("%+v was attempted", m)
			}
		}
		for i, cause := range []struct {
			name    string
			request func(*actions.Request)
			status  notify.Status
			before  func()
			after   func()
		}{
			{"postponed by the channel", with("postponed", ""), notify.Retry, func() {}, func() {}},
			{"language", with("", "t"), notify.Retry, func() { people.setLocales(errAway) },
				func() { people.setLocales(nil) }},
			{"cannot be rendered", with("", "bad"), notify.Failed, func() {}, func() {}},
		} {
			user := to(notify.ToUser, people.order[i])
			cause.before()
			var held []int64
			for range 2 {
				send := w.send(user, cause.request)
				reached(send, cause.status)
				held = append(held, send)
			}
			clock.Advance(30 * time.Minute)
			for range 2 {
				if got := w.finish(w.send(user)); got.Delivered != 1 {
					t.Errorf("%s: another message: %+v", cause.name, got)
				}
			}
			if got := w.finish(w.send(user)); got.Throttled != 1 {
				t.Errorf("%s: a third message: %+v", cause.name, got)
			}
			cause.after()
			set(false)
			clock.Advance(26 * time.Minute)
			w.Kick()
			for _, send := range held {
				if got := w.finish(send); got.Delivered != 0 {
					t.Errorf("%s: in the same hour: %+v", cause.name, got)
				}
			}
			set(true)
			clock.Advance(time.Hour)
		}

		// It counts from when it is sent, also if the window that it first had is over.
		user := to(notify.ToUser, people.order[9])
		late := []int64{w.send(user, with("postponed", "")), w.send(user, with("postponed", ""))}
		for _, send := range late {
			reached(send, notify.Retry)
		}
		set(false)
		clock.Advance(56 * time.Minute)
		w.Kick()
		for _, send := range late {
			if got := w.finish(send); got.Delivered != 1 {
				t.Errorf("late: %+v", got)
			}
		}
		clock.Advance(5 * time.Minute)
		if got := w.finish(w.send(user)); got.Throttled != 1 {
			t.Errorf("five minutes later: %+v", got)
		}
		clock.Advance(55 * time.Minute)
		if got := w.finish(w.send(user)); got.Delivered != 1 {
			t.Errorf("an hour later: %+v", got)
		}
	})
}

// TestThrottleDigest collects what is over the limit. What cannot be in a digest is dropped.
func TestThrottleDigest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, clock := limited(t, d, "digest", inDigest(50))
		w.start()
		var collected []int64
		for i := range 5 {
			send := w.send(func(r *actions.Request) { r.Content.Subject = fmt.Sprint("event ", i) })
			if i < 2 {
				if got := w.finish(send); got.Delivered != 1 {
					t.Errorf("message %d: %+v", i, got)
				}
				continue
			}
			collected = append(collected, send)
			w.store.until(t, "it is collected", func() bool { return w.message(send, 0).Collected })
		}
		soon := w.send(func(r *actions.Request) { r.ExpiresAt = clock.Now().Add(time.Minute) })
		if got := w.finish(soon); got.Throttled != 1 || w.message(soon, 0).Reason != reasonNoGathered {
			t.Errorf("what expires: %+v", got)
		}
		clock.Advance(time.Hour)
		w.renewed()
		for _, send := range collected {
			if got := w.finish(send); got.Digested != 1 {
				t.Errorf("collected: %+v", got)
			}
		}
		w.store.until(t, "the digest is delivered", func() bool { return len(w.post.all()) == 3 })
	})
}

// renewed starts the delivery again, which looks for digests at once.
func (w *world) renewed() {
	w.Stop()
	w.renew()
	w.start()
}

// TestThrottleAfterQuiet holds more messages than the limit in quiet hours: when they end, as many as it allows go out.
func TestThrottleAfterQuiet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, clock := limited(t, d, "drop", nil)
		clock.Advance(time.Until(time.Date(2030, 1, 1, 23, 0, 0, 0, time.UTC)))
		w.quietFor("UTC", "user-0000000")
		w.start()
		var sends []int64
		for range 5 {
			sends = append(sends, w.send())
			w.held(sends[len(sends)-1])
		}
		clock.Advance(9 * time.Hour)
		w.Kick()
		var got notify.Counts
		for _, send := range sends {
			c := w.finish(send)
			got.Delivered, got.Throttled = got.Delivered+c.Delivered, got.Throttled+c.Throttled
		}
		if got.Delivered != 2 || got.Throttled != 3 {
			t.Errorf("%+v", got)
		}
	})
}

// TestSoakKillThrottle kills servers with SIGKILL while they drop or collect what is over a limit: every user gets
// exactly as many messages as the limit allows, the rest was dropped or is in digests, nothing is lost, and only as
// many mails come twice as there are connections for each kill. INGOT_SOAK=1 makes it the long form.
func TestSoakKillThrottle(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			users, events, kills := 40, 12, 6
			if os.Getenv("INGOT_SOAK") == "1" {
				users, events, kills = 500, 100, 200
			}
			j := &journeys{kills: kills}
			j.sink = mailtest.New(t, mailtest.Options{Keep: 10 * users * events,
				Fault: mailtest.At(mailtest.Dot, mailtest.Action{Delay: 3 * time.Millisecond})})
			j.v = victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Dir: t.TempDir(), Users: users,
				SMTP: j.sink.URL("", fmt.Sprintf("connections=%d", connections))}
			d, store, err := j.v.open(t.Context())
			testkit.Must(t, err)
			var everyone []notify.Recipient
			for _, id := range newPeople(users).order {
				everyone = append(everyone, notify.Recipient{UserID: id})
			}
			sends := map[string][]int64{}
			for i := range events {
				for kind, over := range map[string]notify.ThrottleOver{"news": notify.OverDrop, "posts": notify.OverDigest} {
					n := notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: kind,
						ThrottleRule: &notify.ThrottleRule{Limit: 5, Window: notify.Delay(notify.MaxDelay), Over: over},
						Audiences:    []notify.Audience{{Type: notify.ToEveryone}}, Received: time.Now(), Expanded: true,
						Content: notify.Content{Subject: fmt.Sprintf("event-%04d", i)}}, Recipients: everyone}
					if over == notify.OverDigest {
						n.DigestRule = &notify.DigestRule{Window: notify.Delay(300 * time.Millisecond), Max: 100}
					}
					send, _, err := store.Accept(t.Context(), n)
					testkit.Must(t, err)
					sends[kind] = append(sends[kind], send.Number)
				}
			}
			testkit.Must(t, d.Close())
			servers := 1
			if dialect == db.Postgres {
				servers = 2
			}
			j.kill(t, servers)
			j.endThrottle(t, servers, sends)
		})
	}
}

// endThrottle lets servers finish, and looks at what came.
func (j *journeys) endThrottle(t *testing.T, servers int, sends map[string][]int64) {
	t.Helper()
	d, store, err := j.v.open(t.Context())
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	for i := range servers {
		last := New(Options{Store: store, Directory: newPeople(j.v.Users), Channel: newMail(t, j.sink.URL("", ""),
			time.Minute, time.Minute), IDs: testIDs(t), Dir: filepath.Join(j.v.Dir, fmt.Sprint(i))})
		testkit.Must(t, last.Start(t.Context()))
		t.Cleanup(last.Stop)
	}
	testkit.Eventually(t, "nothing waits", func() bool {
		n, err := store.Waiting(t.Context())
		testkit.Must(t, err)
		return n == 0
	})
	for kind, numbers := range sends {
		got := map[string]int{}
		for _, send := range numbers {
			list, err := store.MessagesOf(t.Context(), send, -1, 10*j.v.Users)
			testkit.Must(t, err)
			for _, m := range list {
				got[string(m.Status)]++
				if m.Status == notify.Delivered {
					got["delivered to "+m.UserID]++
				}
			}
		}
		rest := map[string]string{"news": "throttled", "posts": "digested"}[kind]
		if got["delivered"] != 5*j.v.Users || got[rest] != (len(numbers)-5)*j.v.Users {
			t.Errorf("%s: %d delivered, %d %s, want %d and %d", kind, got["delivered"], got[rest], rest, 5*j.v.Users,
				(len(numbers)-5)*j.v.Users)
		}
		for _, id := range newPeople(j.v.Users).order {
			if n := got["delivered to "+id]; n != 5 {
				t.Errorf("%s: %d messages to %s, want 5", kind, n, id)
			}
		}
	}
	mails := map[string]bool{}
	for _, m := range j.sink.Messages() {
		mails[m.ID] = true
	}
	doubles := j.sink.Accepted() - len(mails)
	t.Logf("%d mails, %d kills of %d servers, %d duplicates (at most %d)", len(mails), j.kills, servers, doubles,
		j.kills*connections)
	if doubles > j.kills*connections {
		t.Errorf("%d duplicates", doubles)
	}
}
