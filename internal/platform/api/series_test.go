package api_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
	"ingot/internal/platform/series"
)

// recorded has a point of one minute ago: 20 requests and 10 MB, of an instance.
type recorded struct{}

func (recorded) History(_ context.Context, _ string, in series.Range, now time.Time) (*series.History, error) {
	from, to := in.Window(now.Unix())
	p := series.None()
	p[series.Status2xx], p[series.Memory], p[series.P99] = 20, 10<<20, 0.025
	var blocks []series.Stored
	for _, r := range series.Resolutions() {
		if r.Step == in.Step {
			b := series.NewBlock(r, to-r.Step)
			for _, scope := range []string{"", "web", "web/0", series.Messages, series.Builds} {
				b.Add(scope, to-r.Step, &p)
			}
			blocks = append(blocks, series.Stored{Resolution: r.ID, Start: r.Block(to - r.Step), Data: b.Encode()})
		}
	}
	return series.Merge(blocks, from, to, in.Step), nil
}

// TestSeriesOfApp: who sees an app sees its series, with limits and what happened; others get 404.
func TestSeriesOfApp(t *testing.T) {
	t.Parallel()
	f := setupOptions(t, db.SQLite, func(o *api.Options) { o.Series = recorded{} })
	space := f.space(f.org("o"), "s")
	app := f.app(space, "a")
	err := f.store.Update(t.Context(), func(tx platform.Tx) error {
		for kind, data := range map[string]map[string]any{
			"app.crash":               {"index": 0, "exit_description": "Exited with <status> 1"},
			"audit.app.process.scale": {}, "audit.app.map-route": {},
			"audit.app.developers.notified": {"subject": "a crashed"},
		} {
			if err := tx.AuditEvents().Insert(&platform.AuditEvent{Type: kind, TargetGUID: app, ActorName: "ann",
				SpaceGUID: space, Data: data}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	path := "/v3/ingot/apps/" + app + "/series"
	for query, step := range map[string]int{"": 10, "?range=24h&process=web": 60, "?range=30d&instance=0": 900,
		"?range=30d&points=1": 30 * 24 * 3600} {
		body := f.want(f.call(f.admin(), "GET", path+query, nil), http.StatusOK).body
		for _, want := range []string{`"step":` + strconv.Itoa(step), `"memory":1073741824`, `"kind":"crash"`, `"kind":"scaling"`,
			`"kind":"alert","text":"Developers were notified: a crashed"`, "Scaled by ann", "Instance 0 crashed", `{"type":"web","instances":[0]}`, "10485760"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s has no %s: %.600s", query, want, body)
			}
		}
		if strings.Contains(body, "map-route") {
			t.Errorf("%s has a marker that is none", query)
		}
	}
	for _, query := range []string{"?range=2h", "?range=", "?range=99999999d", "?range=30d%00",
		"?instance=-1", "?instance=x",
		"?instance=99999999999999999999", "?points=0", "?points=-1", "?points=100000", "?points=99999999999999999999",
		"?points=1e3", "?points=NaN", "?other=1"} {
		f.want(f.call(f.admin(), "GET", path+query, nil), http.StatusBadRequest)
	}
	metrics := f.want(f.call(f.admin(), "GET", "/v3/ingot/apps/"+app+"/metrics", nil), http.StatusOK).body
	if !strings.Contains(metrics, `ingot_app_instances_wanted{app="a",process="web"} 1`) {
		t.Errorf("metrics are %s", metrics)
	}
}

// TestSeriesOfPlatform: those who may read everything see what the platform did; others do not.
func TestSeriesOfPlatform(t *testing.T) {
	t.Parallel()
	f := setupOptions(t, db.SQLite, func(o *api.Options) { o.Series = recorded{} })
	const path = "/v3/ingot/system/series"
	for query, step := range map[string]string{"": `"step":10`, "?range=30d&points=1": `"step":2592000`} {
		body := f.want(f.call(f.admin(), "GET", path+query, nil), http.StatusOK).body
		for _, want := range []string{step, `"requests_2xx":[`, `"messages_queued":[`, `"messages_waiting":[`, `"builds_staged":[`,
			"10485760"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s has no %s: %.600s", query, want, body)
			}
		}
	}
	someone := f.as("someone", "cloud_controller.read", "cloud_controller.write")
	f.want(f.call(someone, "GET", path, nil), http.StatusForbidden)
	f.want(f.call(f.as("auditor", "cloud_controller.global_auditor"), "GET", path, nil), http.StatusOK)
	for _, query := range []string{"?process=web", "?instance=0", "?range=2h", "?other=1"} {
		f.want(f.call(f.admin(), "GET", path+query, nil), http.StatusBadRequest)
	}
}
