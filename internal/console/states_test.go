package console

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ingot/internal/console/pagetest"
)

// appWorld is an app with one instance in a state, which has crashed at a time and whose last build
// ended in a state.
func appWorld(t *testing.T, state string, uptime int, crashed time.Time, build string) *pagetest.World {
	t.Helper()
	w := pagetest.New(t, New)
	w.Session.Scopes = []string{"cloud_controller.admin"}
	answers := map[string]string{
		"/v3/apps/a": `{"guid":"a","name":"shop","state":"STARTED"}`,
		"/v3/apps/a/processes": `{"pagination":{"total_results":1,"total_pages":1},"resources":[{"guid":"p","type":"web",
			"instances":1}]}`,
		"/v3/processes/p/stats": fmt.Sprintf(`{"resources":[{"type":"web","index":0,"state":%q,"uptime":%d}]}`, state, uptime),
		"/v3/audit_events": fmt.Sprintf(`{"pagination":{"total_results":1,"total_pages":1},"resources":[{"type":"app.crash",
			"created_at":%q,"data":{"index":0,"exit_description":"exited with status 3"}}]}`, crashed.Format(time.RFC3339)),
		"/v3/app_summaries": fmt.Sprintf(`{"pagination":{"total_results":1,"total_pages":1},"resources":[{"guid":"a",
			"name":"shop","state":"STARTED","instances":{"desired":1,"running":%d,"crashed":%d}}]}`,
			strings.Count(state, "RUNNING"), strings.Count(state, "CRASHED")),
		"/v3/deployments": `{"pagination":{"total_results":1,"total_pages":1},"resources":[{"guid":"d","strategy":"rolling",
			"status":{"value":"FINALIZED","reason":"SUPERSEDED"},"relationships":{"app":{"data":{"guid":"a"}}}}]}`,
	}
	builds := fmt.Sprintf(`{"pagination":{"total_results":2,"total_pages":1},"resources":[
		{"guid":"b2","state":%q,"error":"no buildpack\nmatches","relationships":{"app":{"data":{"guid":"a"}}}},
		{"guid":"b1","state":"STAGED","relationships":{"app":{"data":{"guid":"a"}}}}]}`, build)
	answers["/v3/builds"], answers["/v3/apps/a/builds"] = builds, builds
	w.API.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			answer = `{"pagination":{"total_results":0,"total_pages":1},"resources":[]}`
		}
		fmt.Fprint(rw, answer)
	})
	return w
}

// An app has the same state on every page.
func TestStatesOfAnApp(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		state     string
		uptime    int
		crashed   time.Time
		build     string
		has, lack []string // of the app's page
		list      []string
	}{
		"crashed": {"CRASHED", 0, now.Add(-3 * time.Hour), "STAGED",
			[]string{`badge crashed">crashed`, "Instance 0 crashed", "exited with status 3", "replaced by a newer deployment"},
			[]string{`badge started`, `badge running`, "<dt>Up", "FINALIZED", "SUPERSEDED", "build failed"},
			[]string{`badge crashed">crashed`}},
		"just restarted": {"RUNNING", 30, now.Add(-time.Minute), "STAGED",
			[]string{`badge running">running`, "Instance 0 crashed", "<dt>Up"}, []string{"build failed"},
			[]string{`badge running">running`}},
		"healthy for a while": {"RUNNING", 600, now.Add(-11 * time.Minute), "STAGED",
			[]string{`badge running">running`, "<dt>Up"}, []string{"Instance 0 crashed"}, []string{`badge running">running`}},
		"build failed": {"RUNNING", 600, now.Add(-time.Hour), "FAILED",
			[]string{`badge running">running`, "build failed", "The last build failed", "no buildpack\nmatches",
				"/console/apps/a/builds/b2"}, []string{"Instance 0 crashed"},
			[]string{`badge running">running`, "build failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := appWorld(t, c.state, c.uptime, c.crashed, c.build)
			for path, has := range map[string][]string{"/apps/a": c.has, "/apps": c.list,
				"": {"rolling, replaced by a newer deployment"}, "/apps/a/deployments": {"replaced by a newer deployment"}} {
				status, text := w.Get("/console" + path)
				for _, want := range has {
					if status != http.StatusOK || !strings.Contains(text, want) {
						t.Errorf("%q: %d, it lacks %q\n%s", path, status, want, text)
					}
				}
				if path != "/apps/a" {
					continue
				}
				for _, not := range c.lack {
					if strings.Contains(text, not) {
						t.Errorf("%q has %q\n%s", path, not, text)
					}
				}
			}
		})
	}
}

// An address without a page is answered with a page.
func TestUnknownPage(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	for _, path := range []string{"/console/nonsense", "/console/apps/a/nonsense", "/console/apps/a/restart"} {
		status, text := w.Get(path)
		if status != http.StatusNotFound || !strings.Contains(text, "There is no page "+path) ||
			!strings.Contains(text, "<nav") {
			t.Errorf("%s: %d %s, want a page that says so", path, status, text)
		}
	}
	// Also for other methods, and for a form that has been removed.
	for path, method := range map[string]string{"/console/nonsense": http.MethodPost,
		"/console/apps/a/b/c/d": http.MethodPost, "/console/services/x/nonsense": http.MethodPost,
		"/console/other": http.MethodHead} {
		req, err := http.NewRequestWithContext(t.Context(), method, w.Server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", w.Cookie)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusNotFound || method == http.MethodPost &&
			!strings.Contains(string(raw), "There is no page "+path) ||
			!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s %s: %s %s %v, want a page that says so", method, path, resp.Status, raw, err)
		}
	}
}
