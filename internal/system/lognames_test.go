package system

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// Envelopes carry the names of app, space and organization as they are at the
// moment, in log-cache, and in a stream that is open, which answers by its own
// host name and is where the root document says.
func TestEnvelopesFollowNames(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	base, token := s.Endpoints().API, adminToken(t, s)
	app := someApp(t, base, token)
	if root := call(t, http.MethodGet, base+"/", "", nil); !strings.Contains(root.body, `"log_stream":{"href":"`+base+
		`"}`) || !strings.Contains(root.body, `"logging":{"href":"ws`+strings.TrimPrefix(base, "http")+`"}`) {
		t.Errorf("root: %s", root.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v2/read?log&source_id="+app, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "log-stream.localhost"
	req.Header.Set("Authorization", "bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("answer is %v, %v, want 200", res, err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	streamed := func() string {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.HasPrefix(data, "{") {
				return data
			}
		}
		t.Fatal("the stream has ended: ", lines.Err())
		return ""
	}
	described := call(t, http.MethodGet, base+"/v3/apps/"+app+"?include=space.organization", token, nil).json(t)
	included := described["included"].(map[string]any)
	guid := func(kind string) string { return included[kind].([]any)[0].(map[string]any)["guid"].(string) }
	space, org := guid("spaces"), guid("organizations")
	check := func(data, appName, spaceName, orgName string) {
		t.Helper()
		for _, has := range []string{
			`"app_id":"` + app + `"`, `"app_name":"` + appName + `"`, `"space_id":"` + space + `"`, `"space_name":"` +
				spaceName + `"`,
			`"organization_id":"` + org + `"`, `"organization_name":"` + orgName + `"`, `"origin":"cloud_controller"`, `"deployment":"ingot"`, `"job":"api"`, `"index":"0"`, `"ip":"127.0.0.1"`,
		} {
			if !strings.Contains(data, has) {
				t.Errorf("%s is not in %s", has, data)
			}
		}
	}
	cached := func() string { return call(t, http.MethodGet, base+"/api/v1/read/"+app, token, nil).body }
	check(cached(), "described", "described", "described")
	rename := func(path, name string) {
		t.Helper()
		if a := call(t, http.MethodPatch, base+path, token, map[string]any{"name": name}); a.status != http.StatusOK {
			t.Fatalf("renaming %s: %d, want 200: %s", path, a.status, a.body)
		}
	}
	rename("/v3/spaces/"+space, "space2")
	check(cached(), "described", "space2", "described")
	rename("/v3/organizations/"+org, "org2")
	check(cached(), "described", "space2", "org2")
	rename("/v3/apps/"+app, "app2") // leaves a line in the app's log
	check(cached(), "app2", "space2", "org2")
	check(streamed(), "app2", "space2", "org2")
}
