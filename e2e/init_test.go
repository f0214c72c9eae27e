package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestPreviousInit runs apps under the ingot-init of an earlier release, as they are after an
// upgrade: testdata/previous-init names its commit. In a clone without that commit
// only the recorded files of internal/platform/instance/initproto are tested.
func TestPreviousInit(t *testing.T) {
	t.Parallel()
	programs := previousPrograms(t)
	s := startApps(t, options{Args: []string{"--programs", programs}})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "10ms")
	cfOK(t, home, "start", "steady")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	contains(t, cfOK(t, home, "run-task", "steady", "--command", "echo of a task", "--name", "once", "--wait"), "OK")
	s.logged(t, app, "APP/TASK/once", "of a task")

	// The server is replaced; new instances have the ingot-init of its release.
	s.options.Args = s.options.Args[:0:0]
	before := s.replace(t, program(t))
	s.reaches(t, "steady", "/", http.StatusOK)
	if now := s.running(t, app, 1)[0]; now != instance {
		t.Fatalf("instance %s after the upgrade, %s before it", now, instance)
	}
	var last location
	s.get(t, "steady", "/where").into(t, &last)
	countNumbers(t, s, app, instance, last.Number)
	s.client.CloseIdleConnections()
	if code := before.wait(t); code != 0 {
		t.Errorf("the process before ended with code %d, want 0", code)
	}
	// A crash is seen, and the next instance is started by the new one.
	s.breaks(t, "steady", "/exit?code=3")
	testkit.Eventually(t, "another instance runs", func() bool {
		all := s.running(t, app, 1)
		return len(all) == 1 && all[0] != instance
	})
	contains(t, cfOK(t, home, "events", "steady"), "crash")
}

// previousPrograms returns a folder with the programs of this build, and the ingot-init of
// the earlier commit.
func previousPrograms(t *testing.T) string {
	t.Helper()
	programs := appsDir(t)
	buildCommit(t, "previous-init", programs, "ingot-init")
	for _, name := range []string{"ingot-builder", "ingot-static", "ingot-sftp"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(program(t)), name))
		if err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, filepath.Join(programs, name), string(text))
	}
	return programs
}

// buildCommit builds programs of the commit that a file of testdata names into a folder.
// It skips the test in a clone without the commit, but not a soak test, which would find nothing.
func buildCommit(t *testing.T, file, programs string, names ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.Fields(string(text))[0]
	if err := exec.CommandContext(t.Context(), "git", "-C", "..", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		if os.Getenv("INGOT_SOAK") != "" {
			t.Fatalf("testdata/%s: commit %s is not in this clone: %v", file, commit, err)
		}
		t.Skipf("commit %s is not in this clone: %v", commit, err)
	}
	if err := os.MkdirAll(programs, 0o755); err != nil { //nolint:gosec // instances run what is in it
		t.Fatal(err)
	}
	source := t.TempDir()
	for _, command := range []string{
		"git -C .. archive " + commit + " go.mod go.sum cmd internal | tar -x -C " + source,
		"cd " + source + " && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o " + programs + "/ ./cmd/" +
			strings.Join(names, " ./cmd/"),
	} {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}
