package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo runs the guided tour, which follows both seeds with the program's own
// client, and checks that it cleans up. It runs in containers, where the samples'
// ports cannot conflict.
func TestDemo(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "container"})
	t.Cleanup(func() { s.emptySpace(t) })
	samples, err := buildSamples()
	if err != nil {
		t.Fatal(err)
	}
	// With two orgs a new client has no target; the tour does not need one.
	ours := s.tools(t)[0]
	ours.ok(t, "create-org", "globex")
	before := ours.ok(t, "target")
	home := filepath.Join(t.TempDir(), "home")
	tour := run(t, []string{"INGOT_HOME=" + home, "HOME=" + home}, "demo", "--data-dir", s.Dir, "--samples", samples)
	if code := tour.wait(t); code != 0 {
		t.Fatalf("exit code %d:\n%s\n%s", code, tour.Stdout, tour.Stderr)
	}
	contains(t, tour.Stdout.String(),
		"$ ingot push tour-sidecar-app -f", "sidecars:        config-server", "SIDECAR/CONFIG-SERVER: Exited with status 137",
		"$ ingot create-service postgres small demo-db --wait", `"migrated": true`, `"count": 2`,
		"you@example.com   queued", "/mailbox")
	cf := s.admin(t)
	if orgs := cfOK(t, cf, "orgs"); strings.Contains(orgs, "ingot-tour") {
		t.Errorf("the tour leaves its org behind:\n%s", orgs)
	}
	if again := ours.ok(t, "target"); again != before {
		t.Errorf("the tour changes the user's target:\n%s", again)
	}
	contains(t, cfOK(t, cf, "apps"), "No apps found")
	contains(t, cfOK(t, cf, "services"), "No service instances found")
}
