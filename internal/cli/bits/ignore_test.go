package bits_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIgnoreFiles compares what .cfignore excludes with what the cf CLI excludes, and with git for
// the same lines (decision 50). TestIgnoreFiles in e2e runs the cf CLI on the same cases.
func TestIgnoreFiles(t *testing.T) {
	t.Parallel()
	var given struct {
		Files []string
		Cases []struct {
			Lines, CF []string
			Git       *[]string // nil: as cf
		}
	}
	b, err := os.ReadFile("testdata/cfignore.json")
	if err == nil {
		err = json.Unmarshal(b, &given)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range given.Files {
		write(t, dir, map[string]string{name: name})
	}
	never := []string{"manifest.yml", ".gitignore"} // and git does not know that
	ignored := func(isIgnored func(string) bool) []string {
		return slices.DeleteFunc(slices.Clone(given.Files), func(name string) bool {
			return slices.Contains(never, name) || !isIgnored(name)
		})
	}
	for _, c := range given.Cases {
		write(t, dir, map[string]string{".cfignore": strings.Join(c.Lines, "\n") + "\n"})
		pushed := map[string]bool{}
		for _, f := range scan(t, dir) {
			pushed[f.Path] = true
		}
		for _, name := range append(slices.Clone(never), ".cfignore") {
			if pushed[name] {
				t.Errorf("%q: %s is pushed", c.Lines, name)
			}
		}
		if got := ignored(func(name string) bool { return !pushed[name] }); !slices.Equal(got, c.CF) {
			t.Errorf("%q excludes %q, want %q", c.Lines, got, c.CF)
		}
		want := c.CF
		if c.Git != nil {
			want = *c.Git
		}
		if got := ignored(ignoredByGit(t, dir, given.Files)); !slices.Equal(got, want) {
			t.Errorf("git: %q excludes %q, want %q", c.Lines, got, want)
		}
	}
}

// ignoredByGit runs git check-ignore with the lines of .cfignore.
func ignoredByGit(t *testing.T, dir string, files []string) func(string) bool {
	t.Helper()
	git := func(args ...string) []string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		cmd.Stdin = strings.NewReader(strings.Join(files, "\x00") + "\x00")
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: none is ignored
			t.Fatalf("git %q: %v", args, err)
		}
		return strings.Split(string(out), "\x00")
	}
	repository := filepath.Join(t.TempDir(), "git")
	git("init", "-q", "--bare", repository)
	ignored := git("--git-dir", repository, "--work-tree", dir, "-c", "core.excludesFile="+filepath.Join(dir, ".cfignore"),
		"check-ignore", "--no-index", "--stdin", "-z")
	return func(name string) bool { return slices.Contains(ignored, name) }
}
