package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// Tests of what Cloud Foundry's test suites expect of the router and the log
// stream, with the real cf: routes balanced by a header, instances by header,
// traces, metrics, and a stopped app whose route is unknown.
func TestRouting(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	cfOK(t, home, "enable-feature-flag", "hash_based_routing")
	cfOK(t, home, pushProbe(t, "hashed", "-i", "3")...)
	app := strings.TrimSpace(cfOK(t, home, "app", "hashed", "--guid"))
	s.running(t, app, 3)
	host := header{"Host", "hashed.apps.localhost"}
	ask := func(headers ...header) string {
		t.Helper()
		r := s.call(t, http.MethodGet, s.API+"/", "", nil, append(headers, host)...).want(t, http.StatusOK)
		return strings.Fields(string(r.Body))[1]
	}

	contains(t, cfOK(t, home, "update-route", "apps.localhost", "--hostname", "hashed", "-o", "loadbalancing=hash", "-o",
		"hash_header=Tenant-Id", "-o", "hash_balance=1.5"), "OK")
	contains(t, cfOK(t, home, "route", "apps.localhost", "--hostname", "hashed"), "loadbalancing=hash",
		"hash_header=Tenant-Id", "hash_balance=1.5")
	instances := map[string]bool{}
	for i := range 20 {
		tenant := header{"Tenant-Id", fmt.Sprint("tenant-", i)}
		at := ask(tenant)
		instances[at] = true
		for range 3 {
			if again := ask(tenant); again != at {
				t.Errorf("%s is at %s and at %s", tenant.value, at, again)
			}
		}
	}
	if len(instances) < 2 {
		t.Errorf("20 tenants are at %v", instances)
	}
	contains(t, cfOK(t, home, "update-route", "apps.localhost", "--hostname", "hashed", "-r", "loadbalancing"), "OK")

	for index := range 3 {
		if at := ask(header{"X-Cf-Process-Instance", fmt.Sprintf("%s:%d", app, index)}); at != fmt.Sprint(index) {
			t.Errorf("asked for instance %d, at %s", index, at)
		}
	}
	r := s.call(t, http.MethodGet, s.API+"/", "", nil, host, header{"X-Cf-Process-Instance", app + ":7"}).
		want(t, http.StatusBadRequest)
	contains(t, string(r.Body), "Requested instance ('7') with process guid ('"+app+"') does not exist")

	const trace = "463ac35c9f6413ad48485a3953bb6124"
	ask(header{"traceparent", "00-" + trace + "-a2fb4a1d1a96d312-01"})
	testkit.Eventually(t, "the access log has the trace", func() bool {
		return strings.Contains(cfOK(t, home, "logs", "hashed", "--recent"), `traceparent:"00-`+trace+"-")
	})

	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.API+"/v2/read?gauge&source_id="+app, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "log-stream.localhost"
	req.Header.Set("Authorization", "bearer "+s.adminToken(t))
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: {") {
	}
	contains(t, lines.Text(), `"memory":{"unit":"bytes","value":`, `"app_name":"hashed"`, `"process_type":"web"`)
	cancel()

	contains(t, cfOK(t, home, "stop", "hashed"), "OK")
	r = s.reaches(t, "hashed", "/", http.StatusNotFound)
	if r.Header.Get("X-Cf-Routererror") != "unknown_route" {
		t.Errorf("header is %v, want X-Cf-Routererror: unknown_route", r.Header)
	}
	contains(t, string(r.Body), "404 Not Found: Requested route ('hashed.apps.localhost")
}
