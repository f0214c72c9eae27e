package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
	"ingot/internal/platform/api/apps"
)

// TestStatsOfVersions sees that instances of an older version never count as
// what was asked for.
func TestStatsOfVersions(t *testing.T) {
	t.Parallel()
	f := setupStore(t, db.SQLite, func(s platform.Store) platform.Store { return s })
	admin := f.admin()
	app := f.app(f.space(f.org("o"), "s"), "a")
	for _, test := range []struct {
		old, now platform.InstanceState // empty: there is none
		want     string
	}{
		{"", "", "DOWN"},
		{platform.InstanceRunning, "", "STOPPING"},
		{platform.InstanceStarting, "", "STOPPING"},
		{platform.InstanceStopping, "", "STOPPING"},
		{platform.InstanceCrashed, "", "DOWN"},
		{platform.InstanceDown, "", "DOWN"},
		{platform.InstanceRunning, platform.InstanceStarting, "STARTING"},
		{platform.InstanceStopping, platform.InstanceRunning, "RUNNING"},
		{"", platform.InstanceRunning, "RUNNING"},
		{"", platform.InstanceCrashed, "CRASHED"},
	} {
		// In whichever order they are found.
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			err := f.store.Update(t.Context(), func(tx platform.Tx) error {
				process, err := tx.Processes().Get(app)
				if err != nil {
					return err
				}
				if _, err := tx.Instances().DeleteAll(platform.Where("process_guid", app)); err != nil {
					return err
				}
				rows := [2]platform.Instance{{Version: "older", State: test.old}, {Version: process.Version, State: test.now}}
				for _, i := range order {
					if row := rows[i]; row.State != "" {
						row.AppGUID, row.ProcessGUID = app, app
						row.Ready = row.State == platform.InstanceRunning
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

type traffic map[string]apps.InstanceTraffic

func (t traffic) Traffic(context.Context, ...string) map[string]apps.InstanceTraffic { return t }

type usage map[string]apps.InstanceUsage

func (u usage) Usage(context.Context, []*platform.Instance) map[string]apps.InstanceUsage { return u }

// TestStatsOfRequests sees what the router and the engine counted, of instances that are there
// and of none else.
func TestStatsOfRequests(t *testing.T) {
	t.Parallel()
	counted, used := traffic{}, usage{}
	f := setupOptions(t, db.SQLite, func(o *api.Options) { o.Traffic, o.Runtime = counted, used })
	app := f.app(f.space(f.org("o"), "s"), "a")
	err := f.store.Update(t.Context(), func(tx platform.Tx) error {
		process, err := tx.Processes().Get(app)
		if err != nil {
			return err
		}
		process.Instances = 3
		if err := tx.Processes().Update(process); err != nil {
			return err
		}
		for i := range 2 {
			row := platform.Instance{Resource: platform.Resource{GUID: fmt.Sprintf("i%d", i)}, AppGUID: app, ProcessGUID: app,
				Version: process.Version, State: platform.InstanceRunning, Ready: true, Index: i}
			if err := tx.Instances().Insert(&row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	counted["i1"] = apps.InstanceTraffic{
		Requests: 9, Active: 1, Classes: [6]int64{1, 0, 5, 0, 2, 1}, Received: 10, Sent: 2000,
		Mean: 1234567 * time.Nanosecond, P50: time.Millisecond, P95: 2500 * time.Microsecond, P99: 5 * time.Millisecond,
	}
	used["i1"] = apps.InstanceUsage{Time: time.Now(), CPU: 0.5, Memory: 1 << 20, LogLost: 7,
		Members: []apps.MemberUsage{{Name: "web", State: "RUNNING", Since: time.Now()}}}
	for _, path := range []string{"/v3/processes/" + app + "/stats", "/v3/apps/" + app + "/processes/web/stats"} {
		got := f.want(f.call(f.admin(), "GET", path, nil), 200)
		for member, want := range map[string]string{
			"0.router.requests": "0", "0.router.status.2xx": "0", "0.router.latency_ms.p99": "0",
			"1.router.requests": "9", "1.router.active": "1", "1.router.status.none": "1", "1.router.status.2xx": "5",
			"1.router.status.3xx": "0",
			"1.router.status.4xx": "2", "1.router.status.5xx": "1", "1.router.bytes_received": "10",
			"1.router.bytes_sent":      "2000",
			"1.router.latency_ms.mean": "1.234", "1.router.latency_ms.p50": "1", "1.router.latency_ms.p95": "2.5",
			"1.router.latency_ms.p99": "5",
			"2.state":                 "DOWN", "2.router": "<nil>",
			"1.usage.cpu": "0.5", "1.usage.log_lines_lost": "<nil>", "1.log_lines_lost": "7", "1.members.0.name": "web",
			"0.members": "<nil>",
		} {
			if v := fmt.Sprint(got.at("resources." + member)); v != want {
				t.Errorf("%s: %s is %s, want %s", path, member, v, want)
			}
		}
	}
}
