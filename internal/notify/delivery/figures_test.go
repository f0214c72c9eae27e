package delivery

import (
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// figuresOfAll are the figures of all clients by a dimension.
func figuresOfAll(t *testing.T, store notify.Store, by notify.FigureDimension) notify.FigureReport {
	t.Helper()
	r, err := store.Figures(t.Context(), notify.FigureQuery{All: true, By: by, Daily: true, Points: 3, Groups: 100,
		From: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -2)})
	testkit.Must(t, err)
	return r
}

// checkFigures compares figures with the counts of finished sends: each message counts once, whatever happened.
func checkFigures(t *testing.T, store notify.Store, sends ...int64) {
	t.Helper()
	var want notify.Figures
	for _, number := range sends {
		s, err := store.Send(t.Context(), number)
		testkit.Must(t, err)
		c := s.Counts
		want.Add(notify.Figures{Accepted: int64(c.Total), Delivered: int64(c.Delivered), Failed: int64(c.Failed),
			Undeliverable: int64(c.Undeliverable), Unsubscribed: int64(c.Unsubscribed), Canceled: int64(c.Canceled),
			Skipped: int64(c.Skipped), Digested: int64(c.Digested)})
	}
	r := figuresOfAll(t, store, notify.FiguresByDomain)
	got := notify.SumFigures(r.Total)
	want.Retried = got.Retried
	if got != want {
		t.Errorf("figures are %+v, want those of the sends, %+v", got, want)
	}
	var groups notify.Figures
	for _, g := range r.Groups {
		groups.Add(notify.SumFigures(g.Points))
	}
	if groups != got {
		t.Errorf("figures by domain are %+v, in all %+v", groups, got)
	}
}

// TestFigures delivers with a template, and with a version of it that cannot be rendered, and counts by what was used.
func TestFigures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(3)})
	ctx := t.Context()
	own := notify.Template{ID: "t", Name: "t", Subject: "s", Text: "{{.Text}}", Updated: time.Now()}
	testkit.Must(t, w.store.CreateTemplate(ctx, own))
	w.start()
	with := func(r *actions.Request) { r.Template = "t" }
	if c := w.finish(w.send(to(notify.ToEveryone, ""), with)); c.Delivered != 3 {
		t.Fatalf("counts are %+v", c)
	}
	own.Text, own.Updated = "{{.Nothing}}", time.Now()
	testkit.Must(t, w.store.UpdateTemplate(ctx, own))
	if c := w.finish(w.send(to(notify.ToEveryone, ""), with)); c.Failed != 3 {
		t.Fatalf("counts with the changed template are %+v", c)
	}
	got := map[int64]notify.Figures{}
	for _, g := range figuresOfAll(t, w.store, notify.FiguresByTemplate).Groups {
		if g.Series.TemplateID != "t" {
			t.Errorf("template %q", g.Series.TemplateID)
		}
		got[g.Series.TemplateVersion] = notify.SumFigures(g.Points)
	}
	if len(got) != 2 || got[1] != (notify.Figures{Accepted: 3, Delivered: 3}) ||
		got[2] != (notify.Figures{Accepted: 3, Failed: 3}) {
		t.Errorf("by version: %+v", got)
	}
	// The addresses were looked up.
	r := figuresOfAll(t, w.store, notify.FiguresByDomain)
	if len(r.Groups) != 1 || r.Groups[0].Series.Domain != "example.com" {
		t.Errorf("by domain: %+v", r.Groups)
	}
}
