package recurring_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
	"ingot/internal/notify/notifydb"
	"ingot/internal/notify/recurring"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// world is a store with a clock, and what its runners sent.
type world struct {
	t     *testing.T
	store *notifydb.Store
	clock *testkit.Clock
	// sent has the clock and the error of each attempt.
	sent chan attempt
	// refuse returns the error of the next attempt, instead of sending.
	refuse chan error
	// directory and rights are those of the service; nil means that clients may do everything.
	directory *apitest.Directory
	rights    notify.Rights
}

type attempt struct {
	name string
	at   time.Time
	err  error
}

func newWorld(t *testing.T, d *db.DB, begin string) *world {
	t.Helper()
	w := &world{t: t, clock: testkit.NewClock(at(t, begin)), sent: make(chan attempt, 100), refuse: make(chan error, 10),
		directory: &apitest.Directory{Members: map[string][]string{}}}
	var err error
	w.store, err = notifydb.Open(t.Context(), d, notifydb.Options{Now: w.clock.Now})
	testkit.Must(t, err)
	testkit.Must(t, w.store.Register(t.Context(), notify.Client{ID: "shop"}, []notify.Kind{{ClientID: "shop", ID: "news",
		Description: "News"}}, false))
	return w
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	testkit.Must(t, err)
	return parsed
}

// start starts a runner; the returned function stops it.
func (w *world) start() (*recurring.Runner, func()) {
	w.t.Helper()
	service := actions.New(actions.Options{Store: w.store, Directory: w.directory, Rights: w.rights})
	r := recurring.New(recurring.Options{Store: w.store, Now: w.clock.Now, Poll: time.Hour, Again: time.Minute,
		Send: func(ctx context.Context, r actions.Request) (receipt actions.Receipt, err error) {
			select {
			case err = <-w.refuse:
			default:
				receipt, err = service.Send(ctx, r)
			}
			w.sent <- attempt{r.Occurrence.Name, w.clock.Now(), err}
			return receipt, err
		}})
	testkit.Must(w.t, r.Start(w.t.Context()))
	w.t.Cleanup(r.Stop)
	return r, r.Stop
}

// set creates a recurring send.
func (w *world) set(name, cron, zone string, count int) {
	w.t.Helper()
	w.setFor(name, cron, zone, count, notify.Member{Email: "a@example.com"})
}

// setFor creates a recurring send to these recipients.
func (w *world) setFor(name, cron, zone string, count int, to ...notify.Member) {
	w.t.Helper()
	one := notify.Recurring{RecurringRef: notify.RecurringRef{ClientID: "shop", Name: name},
		Timetable: notify.Timetable{Cron: cron, Zone: zone, Count: count},
		Message: notify.RecurringMessage{KindID: "news", Content: notify.Content{Subject: "S", Text: "T"},
			Members: to},
		Created: w.clock.Now(), Updated: w.clock.Now()}
	testkit.Must(w.t, recurring.Begin(&one, w.clock.Now()))
	testkit.Must(w.t, w.store.SetRecurring(w.t.Context(), one))
}

func (w *world) get(name string) notify.Recurring {
	w.t.Helper()
	one, err := w.store.Recurring(w.t.Context(), notify.RecurringRef{ClientID: "shop", Name: name})
	testkit.Must(w.t, err)
	return one
}

// next waits for the next attempt.
func (w *world) next() attempt {
	w.t.Helper()
	select {
	case a := <-w.sent:
		return a
	case <-time.After(time.Minute):
		w.t.Fatal("nothing is sent")
	}
	return attempt{}
}

// until moves the clock to a time and wakes the runner, which sees it.
func (w *world) until(r *recurring.Runner, text string) {
	w.clock.Advance(at(w.t, text).Sub(w.clock.Now()))
	r.Kick()
}

// waits checks when a recurring send is due again.
func (w *world) waits(name, next string, runs int) {
	w.t.Helper()
	want := at(w.t, next)
	testkit.Eventually(w.t, fmt.Sprintf("%s is due at %s after %d runs", name, next, runs), func() bool {
		one := w.get(name)
		return one.Next.Equal(want) && one.Runs == runs
	})
}

// TestDaylightSaving sends at half past two in Berlin, around both switches: once each day.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d, "2026-03-28T00:00:00Z")
		w.set("night", "30 2 * * *", "Europe/Berlin", 0)
		r, _ := w.start()
		for i, due := range []string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"} {
			w.waits("night", due, i)
			w.until(r, due)
			if a := w.next(); a.err != nil || !a.at.Equal(at(t, due)) {
				t.Errorf("%+v, want it at %s", a, due)
			}
		}
		w.waits("night", "2026-03-31T02:30:00+02:00", 3)
		w.until(r, "2026-10-25T02:30:00+02:00") // it missed the summer
		w.next()
		w.waits("night", "2026-10-26T02:30:00+01:00", 4)
		w.until(r, "2026-10-25T02:30:00+01:00") // clocks show it again
		w.until(r, "2026-10-26T02:30:00+01:00")
		w.next()
		w.waits("night", "2026-10-27T02:30:00+01:00", 5)
		if len(w.sent) > 0 {
			t.Errorf("also sent: %+v", <-w.sent)
		}
	})
}

// TestKindWithoutText: when a kind has no text messages any more, those who have only a phone number are left
// out, and the others get what they got before.
func TestKindWithoutText(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const number = "+4915112345678"
		w := newWorld(t, d, "2026-11-18T08:00:00Z")
		w.setFor("daily", "0 9 * * *", "UTC", 0, notify.Member{Email: number, Phone: number},
			notify.Member{Email: "a@example.com"})
		r, _ := w.start()
		w.waits("daily", "2026-11-18T09:00:00Z", 0)
		w.until(r, "2026-11-18T09:00:00Z")
		if a := w.next(); a.err != nil {
			t.Errorf("it failed for all: %v", a.err)
		}
		w.waits("daily", "2026-11-19T09:00:00Z", 1)
	})
}

// TestClockSet sees that a clock that is set forward and back sends nothing twice, and nothing never.
func TestClockSet(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d, "2026-11-18T12:00:00Z")
		w.set("daily", "0 9 * * *", "UTC", 0)
		r, stop := w.start()
		w.until(r, "2027-11-18T12:00:00Z") // a year ahead: one for all that were missed
		w.next()
		w.waits("daily", "2027-11-19T09:00:00Z", 1)
		w.until(r, "2026-11-18T12:01:00Z")          // back
		w.waits("daily", "2026-11-20T09:00:00Z", 1) // that of the 19th was sent
		w.until(r, "2026-11-20T09:00:00Z")
		w.next()
		w.waits("daily", "2026-11-21T09:00:00Z", 2)
		w.until(r, "2026-11-20T08:59:00Z") // a minute back: the time comes again
		w.until(r, "2026-11-20T09:00:00Z")
		w.waits("daily", "2026-11-21T09:00:00Z", 2)
		// Set back while no server runs.
		w.until(r, "2027-01-01T00:00:00Z")
		w.next()
		w.waits("daily", "2027-01-01T09:00:00Z", 3)
		stop()
		w.clock.Advance(at(t, "2026-11-21T12:00:00Z").Sub(w.clock.Now()))
		w.start()
		w.waits("daily", "2026-11-22T09:00:00Z", 3)
		if len(w.sent) > 0 {
			t.Errorf("also sent: %+v", <-w.sent)
		}
	})
}

// TestMissed sees that a server that was down sends one for all that it missed, and counts it as one.
func TestMissed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d, "2026-11-18T12:00:30Z")
		w.set("minutes", "* * * * *", "UTC", 3)
		w.clock.Advance(48 * time.Hour)
		r, _ := w.start()
		w.next()
		w.waits("minutes", "2026-11-20T12:01:00Z", 1)
		w.until(r, "2026-11-20T12:01:00Z")
		w.next()
		w.waits("minutes", "2026-11-20T12:02:00Z", 2)
		w.until(r, "2026-11-20T12:02:00Z")
		w.next()
		testkit.Eventually(t, "it has ended after three", func() bool {
			return w.get("minutes").State == notify.RecurringEnded
		})
		if n, err := w.store.Waiting(t.Context()); err != nil || n != 3 {
			t.Errorf("%d messages wait (%v), want 3", n, err)
		}
	})
}

// TestRefused sees that what may succeed later is tried again, and the rest is skipped, with the reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d, "2026-11-18T12:00:30Z")
		w.set("hourly", "@hourly", "UTC", 0)
		r, _ := w.start()
		w.refuse <- fault.New(fault.Unavailable, "The platform does not respond")
		w.refuse <- fmt.Errorf("accept a send: %w", os.ErrDeadlineExceeded)
		w.until(r, "2026-11-18T13:00:00Z")
		w.next()
		testkit.Eventually(t, "the problem is known", func() bool {
			return w.get("hourly").Problem == "The platform does not respond"
		})
		w.until(r, "2026-11-18T13:01:00Z")
		w.next()
		testkit.Eventually(t, "no internals are shown", func() bool {
			return w.get("hourly").Problem == "The server could not accept the send; it is tried again"
		})
		w.until(r, "2026-11-18T13:02:00Z")
		if a := w.next(); a.err != nil {
			t.Error(a.err)
		}
		w.waits("hourly", "2026-11-18T14:00:00Z", 1)
		if one := w.get("hourly"); one.Problem != "" || one.Failures != 0 ||
			!one.LastDue.Equal(at(t, "2026-11-18T13:00:00Z")) {
			t.Errorf("%+v", one)
		}
		testkit.Must(t, w.store.Register(t.Context(), notify.Client{ID: "shop"}, nil, true)) // without the kind
		w.until(r, "2026-11-18T14:00:00Z")
		w.next()
		w.waits("hourly", "2026-11-18T15:00:00Z", 1)
		if one := w.get("hourly"); one.Failures != 1 || len(one.Problem) < 20 {
			t.Errorf("%+v", one)
		}
	})
}

// TestTimes sees that bounds are respected.
func TestTimes(t *testing.T) {
	t.Parallel()
	one := notify.Recurring{Timetable: notify.Timetable{Cron: "0 9 * * *", Zone: "Europe/Berlin",
		Starts: at(t, "2027-01-01T08:00:00Z"), Ends: at(t, "2027-01-03T08:00:00Z")}}
	testkit.Must(t, recurring.Begin(&one, at(t, "2026-11-18T12:00:00Z")))
	if got := fmt.Sprint(recurring.Times(&one, 5)); got != "[2027-01-01 09:00:00 +0100 CET 2027-01-02 09:00:00 +0100 CET "+
		"2027-01-03 09:00:00 +0100 CET]" {
		t.Errorf("got %s", got)
	}
	one.Count, one.Runs = 3, 1
	if got := recurring.Times(&one, 5); len(got) != 2 {
		t.Errorf("got %s after one of three", got)
	}
	testkit.Must(t, recurring.Begin(&one, at(t, "2027-01-03T08:00:00Z")))
	if one.State != notify.RecurringEnded || recurring.Times(&one, 5) != nil {
		t.Errorf("got %+v", one)
	}
}
