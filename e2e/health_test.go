package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestReadiness has an instance that is not ready for a while: it gets no requests, is not
// restarted, and the stats and the log say so. All with the real cf.
func TestReadiness(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	manifest := filepath.Join(t.TempDir(), "manifest.yml")
	text := fmt.Sprintf(`applications:
- name: ready
  path: %s
  buildpacks: [binary_buildpack]
  command: ./probe
  memory: 64M
  disk_quota: 64M
  instances: 2
  health-check-type: http
  health-check-http-endpoint: /where
  health-check-interval: 1
  health-check-invocation-timeout: 60
  readiness-health-check-type: http
  readiness-health-check-http-endpoint: /ready
  readiness-health-check-interval: 1
  readiness-health-check-invocation-timeout: 60
`, probe(t))
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfOK(t, home, "push", "-f", manifest)
	app := strings.TrimSpace(cfOK(t, home, "app", "ready", "--guid"))
	contains(t, cfOK(t, home, "get-readiness-health-check", "ready"), "http", "/ready", "60", "1")
	s.running(t, app, 2)
	type stat struct {
		Index    int    `json:"index"`
		State    string `json:"state"`
		Routable bool   `json:"routable"`
		Uptime   int    `json:"uptime"`
		GUID     string `json:"instance_guid"`
	}
	stats := func() (all []stat) {
		t.Helper()
		var body struct{ Resources []stat }
		s.call(t, "GET", "/v3/apps/"+app+"/processes/web/stats", s.adminToken(t), nil).want(t, 200).into(t, &body)
		return body.Resources
	}
	routable := func(n int) func() bool {
		return func() bool {
			count := 0
			for _, one := range stats() {
				if one.State != "RUNNING" {
					t.Fatalf("instance %d is %s", one.Index, one.State)
				}
				if one.Routable {
					count++
				}
			}
			return count == n
		}
	}
	testkit.Eventually(t, "both are routable", routable(2))
	before := stats()
	lost, file, _ := strings.Cut(strings.TrimSpace(string(s.get(t, "ready", "/unready").want(t, 200).Body)), " ")
	testkit.Eventually(t, "one is not routable", routable(1))
	for range 10 {
		if r := s.get(t, "ready", "/").want(t, 200); strings.Fields(string(r.Body))[1] == lost {
			t.Errorf("the instance that is not ready got a request")
		}
	}
	cfOK(t, home, "ssh", "ready", "-i", lost, "-c", "rm "+file)
	testkit.Eventually(t, "it is routable again", routable(2))
	for i, now := range stats() {
		if now.GUID != before[i].GUID {
			t.Errorf("instance %d was restarted", i)
		}
	}
	testkit.Eventually(t, "the log says so", func() bool {
		out := cfOK(t, home, "logs", "ready", "--recent")
		return strings.Contains(out, "Container failed the readiness health check.") &&
			strings.Contains(out, "Container passed the readiness health check.")
	})
	contains(t, cfOK(t, home, "events", "ready"), "audit.app.process.not-ready", "audit.app.process.ready")
}
