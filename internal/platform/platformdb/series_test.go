package platformdb_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/recorder"
	"ingot/internal/platform/series"
)

var _ recorder.Store = (*platformdb.Store)(nil)

// TestSeries: points of several servers are read together and go with their app. Jumps of the clock,
// noise and many servers leave an app within its bound.
func TestSeries(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := open(t, d)
		app := &platform.App{Name: "shop", SpaceGUID: "space"}
		if err := s.Update(t.Context(), func(tx platform.Tx) error { return tx.Apps().Insert(app) }); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		add := func(server, guid string, r series.Resolution, now int64) {
			t.Helper()
			a := series.Addition{App: guid, Resolution: r, Since: now}
			for i := range int64(30) {
				var p series.Point
				for f := range p {
					p[f] = math.Exp(random.Float64() * 30)
				}
				a.Points = append(a.Points, series.Timed{At: now - i*r.Step, Point: p})
			}
			if err := s.AddPoints(t.Context(), server, now, []series.Addition{a}); err != nil {
				t.Fatal(err)
			}
		}
		size := func(guid string) (bytes, rows int64) {
			t.Helper()
			if err := d.View(t.Context(), func(tx *db.Tx) error {
				return tx.QueryRow("SELECT COALESCE(SUM(LENGTH(data)), 0), COUNT(*) FROM platform_series WHERE app_guid = ?",
					guid).Scan(&bytes, &rows)
			}); err != nil {
				t.Fatal(err)
			}
			return bytes + rows*series.RowOverhead, rows
		}
		const now = 1_700_000_000
		add("one", "missing", series.Seconds, now)
		if _, rows := size("missing"); rows != 0 {
			t.Errorf("an app that does not exist has %d blocks", rows)
		}
		for i := range int64(150) {
			server := []string{"one", "two", "three"}[i%3]
			for _, r := range series.Resolutions() {
				add(server, app.GUID, r, now+i*r.Span()/2)
			}
			add(server, app.GUID, series.Minutes, now+int64(random.IntN(1<<30))) // the clock jumps
			add(server, app.GUID, series.Minutes, now)
		}
		if bytes, rows := size(app.GUID); bytes > series.Bound || rows == 0 {
			t.Errorf("%d blocks have %d bytes, want at most %d", rows, bytes, series.Bound)
		}
		blocks, err := s.Series(t.Context(), app.GUID, series.Quarters.ID, now, now)
		if err != nil || len(blocks) == 0 {
			t.Errorf("%d blocks, %v", len(blocks), err)
		}
		if err := s.PurgeSeries(t.Context(), now+100*series.Quarters.Keep); err != nil {
			t.Fatal(err)
		}
		if _, rows := size(app.GUID); rows != 0 {
			t.Errorf("%d blocks are left after their time", rows)
		}
		add("one", series.Platform, series.Seconds, now)
		if err := s.PurgeSeries(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if _, rows := size(series.Platform); rows == 0 {
			t.Error("the platform, which is no app, has no blocks")
		}
		add("one", app.GUID, series.Seconds, now)
		if err := s.Update(t.Context(), func(tx platform.Tx) error { return tx.Apps().Delete(app.GUID) }); err != nil {
			t.Fatal(err)
		}
		if _, rows := size(app.GUID); rows != 0 {
			t.Errorf("a deleted app has %d blocks", rows)
		}
	})
}
