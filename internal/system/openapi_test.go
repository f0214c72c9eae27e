package system

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"ingot/internal/base/handbook"
	"ingot/internal/base/web/openapitest"
	"ingot/internal/console"
)

// TestDescription compares /openapi.yaml with the route table and with what is
// really answered.
func TestDescription(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	live := s.built.Load().front.Live.Load()
	base, token := s.Endpoints().API, adminToken(t, s)
	text := call(t, http.MethodGet, base+"/openapi.yaml", "", nil)
	doc, err := openapitest.Parse([]byte(text.body), nil)
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, o := range doc.Operations() {
		described[o.Method+" "+o.Path] = true
	}

	// What others have described is not for us to describe: Cloud Foundry the
	// v3 API and what there is of v2, UAA its own.
	others := map[string]bool{}
	for _, r := range live.Auth.Routes() {
		others[r.Method+" "+r.Pattern] = true
	}
	have := map[string]bool{}
	for _, r := range live.Origin.Routes() {
		have[r.Method+" "+r.Pattern] = true
		ours := !others[r.Method+" "+r.Pattern] && (!strings.HasPrefix(r.Pattern, "/v3") ||
			strings.HasPrefix(r.Pattern, "/v3/ingot")) && r.Pattern != "/" && !strings.HasPrefix(r.Pattern, "/v2/") &&
			!strings.HasPrefix(r.Pattern, console.Path) && !strings.HasPrefix(r.Pattern, handbook.Path) // pages
		if ours && !described[r.Method+" "+r.Pattern] {
			t.Errorf("%s %s is not described", r.Method, r.Pattern)
		}
	}
	for operation := range described {
		if !have[operation] {
			t.Errorf("%s is described and does not exist", operation)
		}
	}

	judge := func(path, bearer string, want int) {
		t.Helper()
		a := call(t, http.MethodGet, base+path, bearer, nil)
		if a.status != want {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, want)
		}
		name, _, _ := strings.Cut(path, "?")
		operation := doc.Find(http.MethodGet, name)
		if operation == nil {
			t.Fatalf("%s is not described", path)
		}
		body := []byte(a.body)
		if a.body == "" || strings.Contains(a.header.Get("Content-Type"), "yaml") ||
			strings.Contains(a.header.Get("Content-Type"), "pem") {
			body = nil
		}
		if err := operation.Check(a.status, a.header, body); err != nil {
			t.Errorf("%s does not answer as described: %v\n%s", path, err, a.body)
		}
	}
	app := someApp(t, base, token)
	judge("/openapi.yaml", "", 200)
	judge("/healthz", "", 200)
	judge("/readyz", "", 200)
	judge("/api/v1/info", "", 200)
	judge("/api/v1/meta", token, 200)
	judge("/api/v1/meta", "", 401)
	judge("/api/v1/read/"+app, token, 200)
	judge("/api/v1/read/"+app+"?limit=x", token, 400)
	judge("/api/v1/read/"+app, "", 401)
	judge("/v3/processes/"+app+"/stats", token, 200)
	judge("/v3/app_summaries?per_page=1", token, 200)
	judge("/v3/app_summaries", "", 401)
	judge("/v3/apps/"+app+"/processes/web/stats", token, 200)
	judge("/v3/apps/"+app+"/processes/web/stats", "", 401)
	judge("/v3/processes/none/stats", token, 404)
	judge("/v3/revisions/none", token, 404)
	judge("/v3/ingot/system", token, 200)
	judge("/v3/ingot/system", "", 401)
	judge("/v3/ingot/apps/"+app+"/series?range=30d&process=web&instance=0&points=100", token, 200)
	judge("/v3/ingot/apps/"+app+"/series", token, 200)
	judge("/v3/ingot/apps/"+app+"/series?range=2h", token, 400)
	judge("/v3/ingot/apps/"+app+"/series", "", 401)
	judge("/v3/ingot/apps/none/series", token, 404)
	judge("/v3/ingot/apps/none/metrics", token, 404)
	judge("/api/v1/tail/"+app+"?recent=x", token, 400)
	judge("/v2/read?source_id="+app, token, 400)
	judge("/v2/read?log", "", 401)
	judge("/api/v1/query?query=cpu%7Bsource_id%3D%22"+app+"%22%7D", token, 200)
	judge("/api/v1/query?query=cpu", token, 400)
	judge("/api/v1/query_range?step=15&query=cpu%7Bsource_id%3D%22"+app+"%22%7D", token, 200)
	judge("/apps/"+app+"/stream", token, 400)
	judge("/apps/"+app+"/stream", "", 401)
	judge("/firehose/x", token, 400)
	judge("/routing/v1/router_groups", token, 200)
	judge("/routing/v1/router_groups?name=none", token, 404)
	judge("/routing/v1/router_groups", "", 401)
	judge("/instance-identity/ca.pem", "", 200)

	// The tail never ends by itself.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/tail/"+app+"?recent=10", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Errorf("the tail is %s", kind)
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := doc.CheckSchema("Envelope", []byte(data)); err != nil {
				t.Errorf("%s is no envelope as described: %v", data, err)
			}
			return
		}
	}
	t.Error("the tail ended without an event")
}

// someApp makes an app, which has a line in its log by that.
func someApp(t *testing.T, base, token string) string {
	t.Helper()
	create := func(path string, body map[string]any) string {
		t.Helper()
		a := call(t, http.MethodPost, base+path, token, body)
		guid, _ := a.json(t)["guid"].(string)
		if a.status != http.StatusCreated {
			t.Fatalf("creating %s: %d, want 201: %s", path, a.status, a.body)
		}
		return guid
	}
	to := func(noun, guid string) map[string]any {
		return map[string]any{noun: map[string]any{"data": map[string]string{"guid": guid}}}
	}
	org := create("/v3/organizations", map[string]any{"name": "described"})
	space := create("/v3/spaces", map[string]any{"name": "described", "relationships": to("organization", org)})
	return create("/v3/apps", map[string]any{"name": "described", "relationships": to("space", space)})
}
