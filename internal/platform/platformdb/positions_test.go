package platformdb_test

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/platformdb"
)

var _ drain.Positions = (*platformdb.Store)(nil)

// TestPositions: a position is that of the last write, and goes with its drain, but only
// if this server works on the app.
func TestPositions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := open(t, d)
		ctx := t.Context()
		want := func(app string, sent uint64, known bool) {
			t.Helper()
			if got, is, err := s.Position(ctx, app, "d"); got != sent || is != known || err != nil {
				t.Errorf("position of %s is %d, %v, %v, want %d, %v", app, got, is, err, sent, known)
			}
		}
		want("a", 0, false)
		for _, app := range []string{"a", "b", "c"} {
			for _, sent := range []uint64{0, 7, 5} {
				if err := s.SetPosition(ctx, app, "d", sent); err != nil {
					t.Fatal(err)
				}
				want(app, sent, true)
			}
		}
		err := s.SweepPositions(ctx, map[string][]string{"a": {"d"}, "b": {"other"}},
			func(app string) bool { return app != "c" })
		if err != nil {
			t.Fatal(err)
		}
		want("a", 5, true)
		want("b", 0, false)
		want("c", 5, true)

		if value, known, err := s.State(ctx, "x"); value != "" || known || err != nil {
			t.Errorf("state is %q, %v, %v, want none", value, known, err)
		}
		for _, set := range []string{"one", "two"} {
			if err := s.SetState(ctx, "x", set); err != nil {
				t.Fatal(err)
			}
			if value, known, err := s.State(ctx, "x"); value != set || !known || err != nil {
				t.Errorf("state is %q, %v, %v, want %q", value, known, err, set)
			}
		}
	})
}

// TestTraffic: servers add to the requests of an instance, which go with it.
func TestTraffic(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		one, two := open(t, d), platformdb.New(d)
		ctx := t.Context()
		err := one.Update(ctx, func(tx platform.Tx) error {
			return tx.Instances().Insert(&platform.Instance{Resource: platform.Resource{GUID: "i"}, AppGUID: "a",
				ProcessGUID: "p"})
		})
		if err != nil {
			t.Fatal(err)
		}
		more := platform.Traffic{Requests: 2, Classes: [6]int64{2: 2}, Buckets: []int64{1, 1}, Duration: 30, Sent: 5,
			Received: 7}
		for _, s := range []*platformdb.Store{one, two, one} {
			stored, err := s.AddTraffic(ctx, map[string]platform.Traffic{"i": more, "gone": more})
			if err != nil || len(stored) != 2 {
				t.Fatalf("stored %v, %v, want both", stored, err)
			}
		}
		got, err := two.Traffic(ctx, "i", "gone", "none")
		if err != nil {
			t.Fatal(err)
		}
		if sum := got["i"]; len(got) != 2 || sum.Requests != 6 || sum.Classes[2] != 6 || sum.Buckets[1] != 3 ||
			sum.Duration != 90 || sum.Sent != 15 || sum.Received != 21 {
			t.Errorf("sum is %+v, want three times %+v", got, more)
		}
		if rest := got["i"].Minus(more); rest.Requests != 4 || rest.Buckets[0] != 2 {
			t.Errorf("rest is %+v, want twice %+v", rest, more)
		}
		if err := one.PurgeTraffic(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := one.Traffic(ctx, "i", "gone"); err != nil || len(got) != 1 || got["i"].Requests != 6 {
			t.Errorf("after a purge there is %+v, %v, want that of the instance", got, err)
		}
	})
}
