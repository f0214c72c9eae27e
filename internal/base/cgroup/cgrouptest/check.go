package cgrouptest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Check walks a group and those below. None passes controllers on and has processes, the kernel's rule
// for all but the root. controllers are what groups pass on, by their path in dir; "+" after it allows
// more. A group that is not named must not exist, and one that is named must.
func Check(t testing.TB, dir string, controllers map[string]string) {
	t.Helper()
	seen := []string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		group, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		seen = append(seen, group)
		passed, processes := read(path, "cgroup.subtree_control"), read(path, "cgroup.procs")
		if passed != "" && processes != "" {
			t.Errorf("%s passes %s on and has the processes %s", group, passed, processes)
		}
		want, ok := controllers[group]
		least, more := strings.CutSuffix(want, "+")
		got := strings.Fields(passed)
		for _, name := range strings.Fields(least) {
			if !slices.Contains(got, name) {
				t.Errorf("%s passes on %q, want %s", group, passed, name)
			}
		}
		if !ok || !more && len(got) != len(strings.Fields(least)) {
			t.Errorf("%s passes on %q, want %q (expected: %v)", group, passed, want, ok)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for group := range controllers {
		if !slices.Contains(seen, group) {
			t.Errorf("%s does not exist", group)
		}
	}
}

func read(dir, file string) string {
	content, _ := os.ReadFile(filepath.Join(dir, file)) // the group may be gone
	return strings.Join(strings.Fields(string(content)), " ")
}
