package api_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/cf"
	"ingot/internal/db"
)

// TestStatsOfVersions sees that instances of an older version never count as
// what was asked for.
func TestStatsOfVersions(t *testing.T) {
	t.Parallel()
	f := setupStore(t, db.SQLite, func(s cf.Store) cf.Store { return s })
	admin := f.admin()
	app := f.app(f.space(f.org("o"), "s"), "a")
	for _, test := range []struct {
		old, now cf.InstanceState // empty: there is none
		want     string
	}{
		{"", "", "DOWN"},
		{cf.InstanceRunning, "", "STOPPING"},
		{cf.InstanceStarting, "", "STOPPING"},
		{cf.InstanceStopping, "", "STOPPING"},
		{cf.InstanceCrashed, "", "DOWN"},
		{cf.InstanceDown, "", "DOWN"},
		{cf.InstanceRunning, cf.InstanceStarting, "STARTING"},
		{cf.InstanceStopping, cf.InstanceRunning, "RUNNING"},
		{"", cf.InstanceRunning, "RUNNING"},
		{"", cf.InstanceCrashed, "CRASHED"},
	} {
		// In whichever order they are found.
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			err := f.store.Update(t.Context(), func(tx cf.Tx) error {
				process, err := tx.Processes().Get(app)
				if err != nil {
					return err
				}
				if _, err := tx.Instances().DeleteAll(cf.Where("process_guid", app)); err != nil {
					return err
				}
				rows := [2]cf.Instance{{Version: "older", State: test.old}, {Version: process.Version, State: test.now}}
				for _, i := range order {
					if row := rows[i]; row.State != "" {
						row.AppGUID, row.ProcessGUID = app, app
						row.Ready = row.State == cf.InstanceRunning
						if err := tx.Instances().Insert(&row); err != nil {
							return err
						}
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			stats := f.want(f.call(admin, "GET", "/v3/processes/"+app+"/stats", nil), 200)
			short := f.want(f.call(admin, "GET", "/v3/processes/"+app+"/process_instances", nil), 200)
			inShort := strings.Replace(test.want, "STOPPING", "DOWN", 1)
			if stats.at("resources.0.state") != test.want || short.at("resources.0.state") != inShort {
				t.Errorf("old %q, new %q: %s and %s, want %s", test.old, test.now, stats.body, short.body, test.want)
			}
			if routable := fmt.Sprint(stats.at("resources.0.routable")); (routable == "true") != (test.want == "RUNNING") {
				t.Errorf("old %q, new %q: routable is %s", test.old, test.now, routable)
			}
		}
	}
}
