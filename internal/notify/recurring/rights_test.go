package recurring_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/recurring"
)

// rights are what clients may do; nil means that there is no client.
type rights struct {
	held []string
	down bool
}

func (r *rights) Held(_ context.Context, id string, _ *notify.Holder, scopes []string) ([]string, error) {
	switch {
	case r.down:
		return nil, fault.New(fault.Unavailable, "The authorization server did not say it")
	case r.held == nil:
		return nil, fault.New(fault.NotFound, "The client %q no longer exists", id)
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return !slices.Contains(r.held, s) }), nil
}

// TestRights takes away one thing that a recurring send needs, and gives it back: in between, nothing is sent, and the
// recurring send says why.
func TestRights(t *testing.T) {
	t.Parallel()
	const write, critical = "notifications.write", "critical_notifications.write"
	for _, test := range []struct {
		name           string
		message        notify.RecurringMessage
		lose, giveBack func(w *world, r *rights)
		problem        string
	}{
		{"client deleted", notify.RecurringMessage{KindID: "news"}, func(_ *world, r *rights) { r.held = nil },
			func(_ *world, r *rights) { r.held = []string{write} }, `client "shop" no longer exists`},
		{"right to send lost", notify.RecurringMessage{KindID: "news"},
			func(_ *world, r *rights) { r.held = []string{critical} }, func(_ *world, r *rights) { r.held = []string{write} },
			`The client "shop" no longer has the scope notifications.write`},
		{"right of a user lost", notify.RecurringMessage{KindID: "news", Holder: &notify.Holder{UserID: "u-1"}},
			func(_ *world, r *rights) { r.held = []string{critical} }, func(_ *world, r *rights) { r.held = []string{write} },
			`The user "u-1", who set it with the client "shop", no longer has`},
		{"user erased", notify.RecurringMessage{KindID: "news", Holder: &notify.Holder{UserID: "u-1"}},
			func(w *world, _ *rights) { w.holder("n", notify.Holder{Erased: true}) },
			func(w *world, _ *rights) { w.holder("n", notify.Holder{UserID: "u-1"}) },
			"The data of the user who set it was erased on request"},
		{"right to critical mail lost", notify.RecurringMessage{KindID: "alarm", MayCritical: true},
			func(_ *world, r *rights) { r.held = []string{write} },
			func(_ *world, r *rights) { r.held = []string{write, critical} }, "critical_notifications.write"},
		{"kind becomes critical", notify.RecurringMessage{KindID: "news"},
			func(w *world, _ *rights) { w.register("news", true) }, func(w *world, _ *rights) { w.register("news", false) },
			`The kind "news" is critical`},
		{"kind deleted", notify.RecurringMessage{KindID: "news"}, func(w *world, _ *rights) { w.register("other", false) },
			func(w *world, _ *rights) { w.register("news", false) }, `The kind "news" is not registered`},
		{"space deleted", notify.RecurringMessage{KindID: "news",
			Audience: &notify.Audience{Type: notify.ToSpace, ID: "dev"}},
			func(w *world, _ *rights) { delete(w.directory.Members, "dev") },
			func(w *world, _ *rights) { w.directory.Members["dev"] = nil }, `Space "dev" could not be found`},
		{"organization deleted", notify.RecurringMessage{KindID: "news",
			Audience: &notify.Audience{Type: notify.ToOrg, ID: "acme"}},
			func(w *world, _ *rights) { delete(w.directory.Members, "acme") },
			func(w *world, _ *rights) { w.directory.Members["acme"] = nil }, `Organization "acme" could not be found`},
		{"scope deleted", notify.RecurringMessage{KindID: "news", Audience: &notify.Audience{Type: notify.ToScope, ID: "s"}},
			func(w *world, _ *rights) { delete(w.directory.Members, "s") },
			func(w *world, _ *rights) { w.directory.Members["s"] = nil }, `scope "s" could not be found`},
		{"template deleted", notify.RecurringMessage{KindID: "news", Template: "card"},
			func(w *world, _ *rights) { testkit.Must(w.t, w.store.DeleteTemplate(w.t.Context(), "card")) },
			func(w *world, _ *rights) { w.template("card") }, `Template with ID "card" could not be found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, may := newWorld(t, dbtest.New(t, db.SQLite), "2026-11-18T12:00:30Z"), &rights{held: []string{write, critical}}
			w.rights = may
			w.register("alarm", true)
			w.register("news", false)
			w.template("card")
			for _, id := range []string{"dev", "acme", "s"} {
				w.directory.Members[id] = nil
			}
			m := test.message
			m.Content = notify.Content{Subject: "S", Text: "T"}
			if m.Audience == nil {
				m.Members = []notify.Member{{Email: "a@example.com"}}
			}
			one := notify.Recurring{RecurringRef: notify.RecurringRef{ClientID: "shop", Name: "n"},
				Timetable: notify.Timetable{Cron: "* * * * *", Zone: "UTC"}, Message: m, Created: w.clock.Now(),
				Updated: w.clock.Now()}
			testkit.Must(t, recurring.Begin(&one, w.clock.Now()))
			testkit.Must(t, w.store.SetRecurring(t.Context(), one))
			r, _ := w.start()
			w.until(r, "2026-11-18T12:01:00Z")
			if a := w.next(); a.err != nil {
				t.Fatal(a.err)
			}
			w.waits("n", "2026-11-18T12:02:00Z", 1)
			test.lose(w, may)
			w.until(r, "2026-11-18T12:02:00Z")
			w.next()
			w.waits("n", "2026-11-18T12:03:00Z", 1)
			if got := w.get("n"); got.State != notify.RecurringActive || got.Failures != 1 ||
				!strings.Contains(got.Problem, test.problem) {
				t.Errorf("it is %s with %d failures and the problem %q, want %q", got.State, got.Failures, got.Problem,
					test.problem)
			}
			test.giveBack(w, may)
			w.until(r, "2026-11-18T12:03:00Z")
			if a := w.next(); a.err != nil {
				t.Error(a.err)
			}
			w.waits("n", "2026-11-18T12:04:00Z", 2)
			if got := w.get("n"); got.Problem != "" {
				t.Errorf("the problem stays: %q", got.Problem)
			}
			may.down = true
			w.until(r, "2026-11-18T12:04:00Z")
			w.next()
			testkit.Eventually(t, "it says that the server is down", func() bool {
				return strings.Contains(w.get("n").Problem, "did not say")
			})
			if got := w.get("n"); got.Failures != 1 || got.Runs != 2 || !got.Next.Equal(at(t, "2026-11-18T12:04:00Z")) {
				t.Errorf("while the server is down, it is %+v", got)
			}
		})
	}
}

// register replaces the kinds by one, beside the critical kind "alarm".
func (w *world) register(id string, critical bool) {
	w.t.Helper()
	kinds := []notify.Kind{{ClientID: "shop", ID: id, Description: id, Critical: critical}}
	if id != "alarm" {
		kinds = append(kinds, notify.Kind{ClientID: "shop", ID: "alarm", Description: "alarm", Critical: true})
	}
	testkit.Must(w.t, w.store.Register(w.t.Context(), notify.Client{ID: "shop"}, kinds, true))
}

func (w *world) template(id string) {
	w.t.Helper()
	testkit.Must(w.t, w.store.CreateTemplate(w.t.Context(), notify.Template{ID: id, Name: id, Subject: "{{.Subject}}",
		Text: "{{.Text}}", HTML: "{{.HTML}}", Created: w.clock.Now(), Updated: w.clock.Now()}))
}

func (w *world) holder(name string, h notify.Holder) {
	w.t.Helper()
	r := w.get(name)
	r.Message.Holder, r.Updated = &h, w.clock.Now()
	testkit.Must(w.t, w.store.SetRecurring(w.t.Context(), r))
}
