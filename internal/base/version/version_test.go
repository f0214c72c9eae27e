package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuilt(t *testing.T) {
	t.Parallel()
	settings := func(revision, modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision},
			{Key: "vcs.modified", Value: modified}}
	}
	const revision = "1e1c280f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"
	for name, test := range map[string]struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		"test binary":    {"(devel)", nil, "0.1.0-dev"},
		"commit":         {"v0.0.0-20261115181000-1e1c280f0f0f", settings(revision, "false"), "0.1.0-dev+1e1c280"},
		"changed files":  {"v0.0.0-20261115181000-1e1c280f0f0f+dirty", settings(revision, "true"), "0.1.0-dev+1e1c280.dirty"},
		"tag":            {"v1.2.3", settings(revision, "false"), "1.2.3"},
		"candidate":      {"v1.2.3-rc.1", settings(revision, "false"), "1.2.3-rc.1"},
		"tag, changed":   {"v1.2.3+dirty", settings(revision, "true"), "0.1.0-dev+1e1c280.dirty"},
		"after a tag":    {"v1.2.4-0.20261115181000-1e1c280f0f0f", settings(revision, "false"), "0.1.0-dev+1e1c280"},
		"no commits yet": {"(devel)", settings("", "false"), "0.1.0-dev"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := &debug.BuildInfo{Main: debug.Module{Version: test.version}, Settings: test.settings}
			got := built(func() (*debug.BuildInfo, bool) { return info, true })
			if want := strings.Replace(test.want, "0.1.0", next, 1); got != want {
				t.Errorf("built() = %q, want %q", got, want)
			}
		})
	}
	if got := built(func() (*debug.BuildInfo, bool) { return nil, false }); got != next+"-dev" {
		t.Errorf("without build information built() = %q, want %q", got, next+"-dev")
	}
}

// TestScript runs scripts/version, whose output the Makefile stamps, in a
// new repository.
func TestScript(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"../../../scripts/version": "scripts/version",
		"version.go": "internal/base/version/version.go"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		// No configuration of the user, nor a repository that this test runs in.
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir),
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	expect := func(when, pattern string) {
		t.Helper()
		pattern = "^" + strings.Replace(pattern, "NEXT", regexp.QuoteMeta(next), 1) + "$"
		if got := run("scripts/version"); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: scripts/version says %q, want it to match %s", when, got, pattern)
		}
	}
	expect("outside of a repository", `NEXT-dev`)
	run("git", "init", "-q")
	run("git", "add", ".")
	run("git", "commit", "-q", "-m", "first")
	expect("a commit", `NEXT-dev\+[0-9a-f]{7}`)
	run("git", "tag", "-a", "-m", "release", "v7.8.9")
	expect("a tag", `7\.8\.9`)
	if err := os.WriteFile(filepath.Join(dir, "scripts", "version"), append([]byte(run("cat", "scripts/version")), '\n',
		'\n'), 0o755); err != nil {
		t.Fatal(err)
	}
	expect("a tag with changed files", `NEXT-dev\+[0-9a-f]{7}\.dirty`)
	run("git", "commit", "-q", "-a", "-m", "second")
	expect("a commit after a tag", `NEXT-dev\+[0-9a-f]{7}`)
}
