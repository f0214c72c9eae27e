package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDown stops a server with its apps, once while it runs and once after it was
// killed, and checks that the next start restores them.
func TestDown(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		cfOK(t, home, pushProbe(t, "steady", "-i", "2")...)
		app := guid(t, home, "steady")
		s.running(t, app, 2)
		down := func() string {
			t.Helper()
			p := run(t, nil, "down", "--data-dir", s.Dir, "--log-format", "json")
			if code := p.wait(t); code != 0 {
				t.Fatalf("exit code %d\n%s%s", code, p.Stdout, p.Stderr)
			}
			for _, engine := range []string{"containers/instances", "processes"} {
				if left, _ := os.ReadDir(filepath.Join(s.Dir, engine)); len(left) > 0 {
					t.Errorf("%s still has %v", engine, left)
				}
			}
			if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(mounts), s.Dir+"/") {
				t.Error("mounts are left")
			}
			return p.Stdout.String()
		}

		stopped, nothing := "Stopped 2 app instances.", "No app was running."
		if s.options.Engine == "kubernetes" { // other servers may run them
			stopped = "App instances keep running in the cluster."
			nothing = stopped
		}
		contains(t, down(), "Stopped the server (pid ", stopped, s.Dir)
		if code := s.wait(t); code != 0 {
			t.Fatalf("the server left with %d", code)
		}
		s.Restart(t)
		s.running(t, app, 2)
		s.reaches(t, "steady", "/", http.StatusOK)

		s.Kill9(t)
		contains(t, down(), "No server was running.", stopped)
		contains(t, down(), "No server was running.", nothing)
		s.Restart(t)
		s.running(t, app, 2)
		if events := cfOK(t, home, "events", "steady"); strings.Contains(events, "crash") {
			t.Errorf("it counts as a crash:\n%s", events)
		}
	})
}

func TestDownOfNothing(t *testing.T) {
	t.Parallel()
	p := run(t, nil, "down", "--data-dir", t.TempDir())
	if code := p.wait(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	contains(t, p.Stderr.String(), "is not the data directory of a server")
}
