package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/testkit"
)

// bindingOf returns the guid of an app's binding, and its credentials.
func (s *site) bindingOf(t *testing.T, app, instance string) (string, map[string]any) {
	t.Helper()
	token := s.adminToken(t)
	all := s.list(t, token, "/v3/service_credential_bindings?type=app&app_names="+app+"&service_instance_names="+instance)
	if len(all) != 1 {
		t.Fatalf("%s has %d bindings to %s, want 1", app, len(all), instance)
	}
	binding := all[0]["guid"].(string)
	details := s.call(t, http.MethodGet, "/v3/service_credential_bindings/"+binding+"/details", token, nil).
		want(t, http.StatusOK).object(t)
	return binding, details["credentials"].(map[string]any)
}

// rotatesWhileUsed rotates the credentials of an app while it gets requests that read its
// database: none fails, and the old credentials are refused in the end.
func rotatesWhileUsed(t *testing.T, s *site, app, instance string) {
	t.Helper()
	c := s.tools(t)[0]
	c.ok(t, "target", "-o", "demo", "-s", "dev")
	before, old := s.bindingOf(t, app, instance)
	var asked, failed atomic.Int64
	var first sync.Once
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			asked.Add(1)
			if r := s.get(t, app, "/users"); r.Status != http.StatusOK {
				failed.Add(1)
				first.Do(func() { t.Logf("the first failure: %s", r) })
			}
		}
	}()
	contains(t, columns(c.ok(t, "rotate-credentials", instance, "--grace", "0s", "--wait")),
		app+" app rolling restart revoked")
	from := asked.Load()
	testkit.Eventually(t, "the app answers after the end of the old credentials",
		func() bool { return asked.Load() > from+5 })
	close(stop)
	<-done
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed while the credentials were rotated", failed.Load(), asked.Load())
	}
	after, now := s.bindingOf(t, app, instance)
	if after != before || now["password"] == old["password"] || now["database"] != old["database"] {
		t.Errorf("the binding was %s with %v, and is %s with %v", before, old["username"], after, now["username"])
	}
	uri, _ := old["uri"].(string)
	if !strings.HasPrefix(uri, "postgres:") {
		return // there is no other client here
	}
	if conn, err := pgx.Connect(t.Context(), uri); err == nil {
		conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // it should not be there
		t.Error("the old credentials still open a connection")
	}
}

// serviceRotate changes the service files of running instances: the main process and a sidecar
// get the signals that they ask for, and nothing is restarted.
func serviceRotate(t *testing.T, s *site) {
	home := s.admin(t)
	c := s.tools(t)[0]
	c.ok(t, "target", "-o", "demo", "-s", "dev")
	dir := t.TempDir()
	script := `trap 'echo "$1 reads $(cat "$VCAP_SERVICES_FILE_PATH")"' HUP USR1
echo "$1 starts with $(cat "$VCAP_SERVICES_FILE_PATH")"
while :; do sleep 0.1; done
`
	if err := os.WriteFile(filepath.Join(dir, "watch.sh"), []byte(script), 0o644); err != nil { //nolint:gosec // no secret
		t.Fatal(err)
	}
	manifest := write(t, "manifest.yml", fmt.Sprintf(`applications:
- name: watcher
  path: %s
  buildpacks: [binary_buildpack]
  command: bash watch.sh main
  memory: 64M
  disk_quota: 64M
  health-check-type: process
  no-route: true
  on-credentials: hup
  features: {file-based-vcap-services: true}
  services: [rotated]
  sidecars:
  - {name: helper, process_types: [web], command: bash watch.sh helper, memory: 16M, on-credentials: SIGUSR1}
`, dir))
	cfOK(t, home, "create-service", "fake", "sync", "rotated", "--wait")
	cfOK(t, home, "push", "-f", manifest)
	app := guid(t, home, "watcher")
	_, old := s.bindingOf(t, "watcher", "rotated")
	lines := func(begins string) string {
		all := ""
		for _, l := range s.log(t, app) {
			if strings.HasPrefix(l.Text, begins) {
				all += l.Text + "\n"
			}
		}
		return all
	}
	for _, who := range []string{"main", "helper"} {
		testkit.Eventually(t, who+" has its credentials",
			func() bool { return strings.Contains(lines(who+" starts"), old["password"].(string)) })
	}
	contains(t, columns(c.ok(t, "rotate-credentials", "rotated", "--grace", "0s", "--wait")),
		"watcher app new service files revoked")
	_, now := s.bindingOf(t, "watcher", "rotated")
	for _, who := range []string{"main", "helper"} {
		testkit.Eventually(t, who+" reads the new credentials",
			func() bool { return strings.Contains(lines(who+" reads"), now["password"].(string)) })
		if n := strings.Count(lines(who+" starts"), "\n"); n != 1 {
			t.Errorf("%s was started %d times, want once", who, n)
		}
	}
	cfOK(t, home, "delete", "watcher", "-f")
	cfOK(t, home, "delete-service", "rotated", "-f", "--wait")
}
