package api_test

import (
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/web"
)

// TestAdvertised follows every link of the root documents: what is advertised
// exists, and what does not exist is null.
func TestAdvertised(t *testing.T) {
	t.Parallel()
	f := setup(t)
	// other servers, and documents of this one
	elsewhere := []string{"self", "login", "uaa", "log_cache", "logging", "app_ssh"}
	for _, document := range []string{"/", "/v3", "/v3/info"} {
		links, _ := f.want(f.call("", "GET", document, nil), 200).at("links").(map[string]any)
		for name, value := range links {
			link, _ := value.(map[string]any)
			address, _ := link["href"].(string)
			path, mine := strings.CutPrefix(address, "http://example.com")
			if link == nil || address == "" || document == "/" && slices.Contains(elsewhere, name) {
				continue
			}
			if !mine || !slices.ContainsFunc(f.routes, func(r web.Route) bool {
				return r.Pattern == path ||
					strings.HasPrefix(r.Pattern, path+"/")
			}) {
				t.Errorf("%s: %s leads to %s, where nothing is", document, name, address)
			}
		}
	}
	root := f.call("", "GET", "/", nil)
	for _, name := range []string{"cloud_controller_v2", "credhub"} {
		if v, ok := root.at("links").(map[string]any)[name]; !ok || v != nil {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// TestUsageSummaries counts what runs and what is there, of a space, an
// organization and the platform.
func TestUsageSummaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{do: "POST /v3/routes",
			body: `{"host":"u","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201},
		{do: "POST /v3/domains", body: `{"name":"mine.org","relationships":{"organization":{"data":{"guid":"$org"}}}}`,
			want: 201},
		{do: "POST /v3/processes/$app/actions/scale", body: `{"instances":3,"memory_in_mb":64}`, want: 202},
		{do: "GET /v3/organizations/$org/usage_summary", want: 200, has: []string{`"started_instances":0`, `"memory_in_mb":0`,
			`"routes":1`, `"domains":1`}},
	})
	w.staged()
	w.one(step{do: "POST /v3/apps/$app/actions/start", want: 200})
	w.play([]step{
		{do: "GET /v3/organizations/$org/usage_summary", want: 200, has: []string{`"started_instances":3`,
			`"memory_in_mb":192`, `"routes":1`, `"domains":1`, `"per_app_tasks":0`}},
		{as: "dev", do: "GET /v3/spaces/$space/usage_summary", want: 200, has: []string{`"started_instances":3`,
			`"memory_in_mb":192`, `"domains":0`}},
		{do: "GET /v3/organizations/$org2/usage_summary", want: 200, has: []string{`"started_instances":0`, `"domains":0`,
			`"routes":0`}},
		{do: "GET /v3/info/usage_summary", want: 200, has: []string{`"started_instances":3`, `"memory_in_mb":192`,
			`"routes":1`, `"domains":1`}},
		{as: "dev", do: "GET /v3/info/usage_summary", want: 403},
	})
	w.play([]step{
		{as: "dev", do: runTask, body: `{"command":"x","memory_in_mb":"100"}`, want: 202},
		{do: "GET /v3/spaces/$space/usage_summary", want: 200, has: []string{`"memory_in_mb":292`, `"per_app_tasks":1`}},
	})
}
