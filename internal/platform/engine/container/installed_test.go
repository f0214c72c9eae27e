//go:build linux

package container_test

import (
	"os"
	"path/filepath"
	"testing"

	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
)

// A language that is installed while the server runs is there for the next
// instance, and for those that run.
func TestInstalledMeanwhile(t *testing.T) {
	t.Parallel()
	e, _ := opened(t, container.Options{})
	etc := enginetest.TempDir(t)
	container.HostEtc(e, etc)
	start(t, e, idle("before"))
	const script = "/etc/alternatives/lang && echo installed"
	if out, status := inside(t, e, "before", script); status == 0 {
		t.Fatalf("it already exists: %s", out)
	}
	if err := os.Mkdir(filepath.Join(etc, "alternatives"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/bin/true", filepath.Join(etc, "alternatives", "lang")); err != nil {
		t.Fatal(err)
	}
	start(t, e, idle("after"))
	for _, id := range []string{"after", "before"} {
		if out, status := inside(t, e, id, script); status != 0 || out != "installed" {
			t.Errorf("%s: exit status %d, output %s, want 0 and installed", id, status, out)
		}
	}
}
