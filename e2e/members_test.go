package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// memberStat is a member of an instance in its statistics.
type memberStat struct {
	Name, Type, State string
	CPU               float64
	Mem               int64
	MemQuota          int64 `json:"mem_quota"`
	Restarts          int
	LastExit          *struct {
		Status int
		Reason string
	} `json:"last_exit"`
}

// members returns the members of the first web instance of an app.
func (s *site) members(t testing.TB, app string) []memberStat {
	t.Helper()
	var got struct {
		Resources []struct{ Members []memberStat }
	}
	s.call(t, http.MethodGet, "/v3/apps/"+app+"/processes/web/stats", s.adminToken(t), nil).want(t, http.StatusOK).
		into(t, &got)
	if len(got.Resources) == 0 {
		return nil
	}
	return got.Resources[0].Members
}

// sidecarMemory enforces the memory of a sidecar: it is killed alone, named in the log, the
// event and the statistics, and started again. Where that is not possible it is refused.
func sidecarMemory(t *testing.T, s *site) {
	home := s.admin(t)
	const grow = "(exec sleep 1000) & until test -e go; do sleep 0.1; done; rm go; echo growing; head -c 100M /dev/zero " +
		"| tail"
	manifest := fmt.Sprintf(`
applications:
- name: bounded
  buildpacks: [binary_buildpack]
  memory: 128M
  disk_quota: 64M
  command: ./probe
  sidecars:
  - name: helper
    process_types: [web]
    command: echo "MEMORY_LIMIT is $MEMORY_LIMIT"; %s
    memory: 32M
    memory-enforced: true
    cpu-weight: 50
    restart: on-failure
`, grow)
	file := write(t, "manifest.yml", manifest)
	if s.options.Engine != "container" {
		cfFails(t, home, "memory-enforced and cpu-weight of sidecars need", "push", "-f", file, "-p", probe(t))
		return
	}
	contains(t, columns(cfOK(t, home, "push", "-f", file, "-p", probe(t))), "sidecars: helper", "#0 running")
	app := guid(t, home, "bounded")
	s.logged(t, app, "APP/PROC/WEB/SIDECAR/HELPER", "MEMORY_LIMIT is 32m")
	if got := s.environment(t, "bounded")["MEMORY_LIMIT"]; got != "96m" {
		t.Errorf("the main process is told a limit of %s, want what the sidecar leaves, 96m", got)
	}
	before := s.stats(t, app)[0].Instance

	const reason = "out of memory: sidecar helper exceeded its limit of 32M"
	cfOK(t, home, "ssh", "bounded", "-c", "touch app/go")
	s.logged(t, app, "APP/PROC/WEB/SIDECAR/HELPER", "Exit status 137 ("+reason+"); it is started again in 500ms")
	testkit.Eventually(t, "the event has the reason", func() bool {
		return strings.Contains(cfOK(t, home, "curl", "/v3/audit_events?types=app.sidecar.crash&target_guids="+app),
			`"reason":"`+reason+`"`)
	})
	var m []memberStat
	testkit.Eventually(t, "the sidecar runs again", func() bool {
		m = s.members(t, app)
		// Its use is measured now and then, the last time perhaps when it did not run.
		return len(m) == 2 && m[1].State == "RUNNING" && m[1].Restarts == 1 && m[1].Mem > 0
	})
	if h := m[1]; h.Name != "helper" || h.Type != "sidecar" || h.MemQuota != 32<<20 || h.Mem > 32<<20 ||
		h.LastExit == nil || h.LastExit.Status != 137 || h.LastExit.Reason != reason {
		t.Errorf("the sidecar is %+v (%+v), want its limit and how it ended", h, h.LastExit)
	}
	if w := m[0]; w.Name != "web" || w.Type != "process" || w.State != "RUNNING" || w.Restarts != 0 || w.LastExit != nil ||
		w.MemQuota != 96<<20 || w.Mem <= 0 {
		t.Errorf("the main process is %+v (%+v), want that it runs with 96 MB", w, w.LastExit)
	}
	if now := s.stats(t, app)[0].Instance; now != before {
		t.Errorf("the instance was replaced: %s, before %s", now, before)
	}
	contains(t, cfOK(t, home, "create-app-manifest", "bounded", "-p", t.TempDir()+"/written.yml"), "OK")

	// What would leave nothing for the main process is refused with the figures.
	const figures = "(the process has 32M, and its sidecars get 32M of it: helper 32M)"
	small := write(t, "manifest.yml", strings.Replace(manifest, "memory: 128M", "memory: 32M", 1))
	cfFails(t, home, figures, "push", "-f", small, "-p", probe(t))
	cfFails(t, home, figures, "scale", "bounded", "-m", "32M", "-f")

	// Without a restart policy, the sidecar's exit ends the instance.
	plain := write(t, "manifest.yml", strings.Replace(manifest, "    restart: on-failure\n", "", 1))
	contains(t, columns(cfOK(t, home, "push", "-f", plain, "-p", probe(t))), "#0 running")
	cfOK(t, home, "ssh", "bounded", "-c", "touch app/go")
	testkit.Eventually(t, "the crash names the sidecar and its limit", func() bool {
		return strings.Contains(cfOK(t, home, "events", "bounded"),
			"APP/PROC/WEB/SIDECAR/HELPER: Exited with status 137 ("+reason+")")
	})
	contains(t, cfOK(t, home, "stop", "bounded"), "OK")
}
