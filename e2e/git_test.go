package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
)

// gitFolder is a git repository of a user.
type gitFolder struct {
	*tool
	dir string
	env []string // of git
}

func newGitFolder(t testing.TB, c *tool) *gitFolder {
	t.Helper()
	g := &gitFolder{tool: c, dir: t.TempDir()}
	g.git(t, "init", "-q", "-b", "main")
	return g
}

// newGitSite returns a server, a repository of a user of it, and the program of an app.
func newGitSite(t *testing.T) (s *site, g *gitFolder, program string) {
	t.Helper()
	s = startApps(t, options{Engine: "process"})
	client := s.tools(t)[0]
	client.ok(t, "target", "-o", "demo", "-s", "dev")
	text, err := os.ReadFile(filepath.Join(probe(t), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	return s, newGitFolder(t, client), string(text)
}

// try runs git, with our client as the helper for credentials, and returns its output and exit code.
func (g *gitFolder) try(t testing.TB, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := g.command(ctx, t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("git %q: %v\n%s", args, err, &out)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (g *gitFolder) command(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	helper := []string{"-c", "credential.helper=", "-c", "credential.helper=!" + program(t) + " git-credential"}
	cmd := exec.CommandContext(ctx, "git", append(helper, args...)...)
	cmd.Dir = g.dir
	cmd.Env = slices.Concat(g.cmd(ctx).Env, []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A",
		"GIT_COMMITTER_EMAIL=a@b"}, g.env)
	return cmd
}

func (g *gitFolder) git(t testing.TB, args ...string) string {
	t.Helper()
	out, code := g.try(t, args...)
	if code != 0 {
		t.Fatalf("git %q: exit code %d\n%s", args, code, out)
	}
	return out
}

// refused runs git, which must fail and say why.
func (g *gitFolder) refused(t testing.TB, why []string, args ...string) {
	t.Helper()
	out, code := g.try(t, args...)
	if code == 0 {
		t.Errorf("git %q is accepted:\n%s", args, out)
	}
	contains(t, out, why...)
}

// commit writes files and commits them; an empty text deletes a file.
func (g *gitFolder) commit(t testing.TB, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(g.dir, name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil && text == "" {
			err = os.Remove(name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	g.git(t, "add", "-A")
	g.git(t, "commit", "-q", "-m", "change")
}

const gitManifest = `applications:
- name: other
  buildpacks: [binary_buildpack]
  command: sh run.sh
  memory: 64M
`

// TestGitPush deploys with the real git.
func TestGitPush(t *testing.T) {
	t.Parallel()
	s, g, executable := newGitSite(t)
	client := g.tool
	version := func(want string) {
		t.Helper()
		testkit.Eventually(t, "version "+want+" answers",
			func() bool { return s.environment(t, "pushed")["VERSION"] == want })
	}
	g.git(t, "remote", "add", "ingot", s.API+"/git/demo/dev/pushed")
	g.commit(t, map[string]string{"probe": executable, "run.sh": "VERSION=1 exec ./probe\n",
		"manifest.yml": gitManifest, ".cfignore": "notes\n", "notes/a": "not part of the app"})
	address := strings.Replace(s.API, "://", "://pushed.apps.localhost:", 1)
	address = address[:strings.Index(address, "localhost:")+len("localhost")] + s.API[strings.LastIndex(s.API, ":"):]
	out := g.git(t, "push", "ingot", "main")
	contains(t, out, "remote: Building...", "remote: pushed is running.", "remote: "+address, "main -> main")
	version("1")
	contains(t, g.git(t, "push", "ingot", "main"), "Everything up-to-date")

	gitChanges(t, g, version)
	gitRefusals(t, s, g, version)

	// A clone is what was pushed, also of a server that was killed.
	s.Kill9(t)
	s.Restart(t)
	clone := &gitFolder{tool: client, dir: t.TempDir()}
	clone.git(t, "clone", "-q", s.API+"/git/demo/dev/pushed", ".")
	if ours, theirs := g.git(t, "rev-parse", "ingot/main"), clone.git(t, "rev-parse", "HEAD"); ours != theirs {
		t.Errorf("the clone has the commit %s, want %s", theirs, ours)
	}
	clone.git(t, "fsck", "--strict")
	clone.commit(t, map[string]string{"run.sh": "VERSION=7 exec ./probe\n"})
	clone.git(t, "push", "origin", "HEAD")
	version("7")
	g.own(t, 25_000)
	g.git(t, "fetch", "-q", "ingot")
	if ours, theirs := g.git(t, "rev-parse", "ingot/main"), clone.git(t, "rev-parse", "HEAD"); ours != theirs {
		t.Errorf("with many commits of its own, the repository has fetched %s, want %s", ours, theirs)
	}

	// The commit is deployed again after the app was deployed in another way.
	client.ok(t, "push", "pushed", "-p", clone.dir, "-f", filepath.Join(clone.dir, "manifest.yml"), "--strategy",
		"rolling")
	clone.git(t, "fetch", "-q", "origin")
	contains(t, clone.git(t, "push", "origin", "HEAD"), "pushed is running.")
}

// own gives the repository a branch with commits that no other one has. A client that fetches names them all.
func (g *gitFolder) own(t *testing.T, n int) {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "commit refs/heads/own\ncommitter a <a@example.org> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
	}
	c := g.command(t.Context(), t, "fast-import", "--quiet")
	c.Stdin = strings.NewReader(text.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// gitChanges has pushes that replace the app.
func gitChanges(t *testing.T, g *gitFolder, version func(string)) {
	t.Helper()
	g.commit(t, map[string]string{"run.sh": "test ! -e notes && VERSION=2 exec ./probe\n"})
	g.git(t, "push", "ingot", "main")
	version("2")
	// A start that fails.
	g.commit(t, map[string]string{"run.sh": "echo this one fails; exit 7\n"})
	g.refused(t, []string{"this one fails", "[remote rejected] main -> main (the app does not start:"}, "push", "ingot",
		"main")
	version("2")
	// A build that fails.
	g.git(t, "reset", "-q", "--hard", "HEAD~1")
	g.commit(t, map[string]string{"manifest.yml": strings.Replace(gitManifest, "[binary_buildpack]", "[]", 1)})
	g.refused(t, []string{"[remote rejected] main -> main (the build failed: "}, "push", "ingot", "main")
	version("2")
	// A branch in the meantime, and a forced push.
	g.git(t, "reset", "-q", "--hard", "HEAD~1")
	g.git(t, "checkout", "-q", "-b", "other", "HEAD~1")
	g.commit(t, map[string]string{"run.sh": "VERSION=3 exec ./probe\n"})
	g.refused(t, []string{"only the branch main is deployed: deploy this one with git push ingot other:main"}, "push",
		"ingot", "other")
	g.refused(t, []string{"non-fast-forward"}, "push", "ingot", "other:main")
	g.git(t, "push", "--force", "ingot", "other:main")
	version("3")
}

// gitRefusals has what is not deployed.
func gitRefusals(t *testing.T, s *site, g *gitFolder, version func(string)) {
	t.Helper()
	g.git(t, "tag", "v1")
	g.refused(t, []string{"tags are not deployed"}, "push", "ingot", "v1")
	g.refused(t, []string{"cannot be deleted: delete the app with ingot delete pushed"}, "push", "ingot", ":main")
	g.git(t, "update-index", "--add", "--cacheinfo", "160000,"+strings.TrimSpace(g.git(t, "rev-parse", "HEAD"))+",lib")
	g.git(t, "commit", "-q", "-m", "a submodule")
	g.refused(t, []string{`"lib" is a submodule`}, "push", "ingot", "other:main")
	g.git(t, "reset", "-q", "--hard", "HEAD~1")
	g.refused(t, []string{"does not exist, or you have no access"}, "push", s.API+"/git/demo/none/pushed", "other:main")
	g.refused(t, []string{"does not exist, or you have no access"}, "clone", s.API+"/git/demo/dev/none")

	shallow := &gitFolder{tool: g.tool, dir: t.TempDir()}
	shallow.git(t, "clone", "-q", "--depth", "1", "file://"+g.dir, ".")
	shallow.refused(t, []string{"shallow clone cannot be pushed"}, "push", s.API+"/git/demo/dev/shallow", "HEAD:main")

	gitStrangers(t, s, g)
	gitTwice(t, s, g)
	version("4")
}

// gitStrangers has users that may not push.
func gitStrangers(t *testing.T, s *site, g *gitFolder) {
	t.Helper()
	admin := s.adminToken(t)
	s.createUser(t, admin, "mallory", "a password")
	with := func(secret, path string) string {
		return strings.Replace(s.API, "://", "://user:"+secret+"@", 1) + path
	}
	none := s.userTokens(t, "mallory", "a password").Access
	const app = "/git/demo/dev/pushed"
	for _, c := range []struct{ url, want string }{
		{with("wrong", app), "Authentication failed"},
		{with(none, app), "does not exist, or you have no access"},
		{with(none, "/git/none/dev/pushed"), "does not exist, or you have no access"},
	} {
		g.refused(t, []string{c.want}, "-c", "credential.helper=", "push", c.url, "other:main")
		g.refused(t, []string{c.want}, "-c", "credential.helper=", "clone", c.url, t.TempDir())
	}
	r := s.call(t, http.MethodGet, "/git/demo/dev/pushed/info/refs?service=git-receive-pack", "", nil)
	r.want(t, http.StatusUnauthorized)
	contains(t, g.git(t, "-c", "credential.helper=", "ls-remote", with(admin, app)), "refs/heads/main")
}

// gitTwice has two pushes at the same time, of which one is refused.
func gitTwice(t *testing.T, s *site, g *gitFolder) {
	t.Helper()
	g.commit(t, map[string]string{"run.sh": "VERSION=4 exec ./probe\n"})
	other := &gitFolder{tool: g.tool, dir: t.TempDir()}
	other.git(t, "clone", "-q", g.dir, ".")
	results := make(chan string, 2)
	for _, folder := range []*gitFolder{g, other} {
		go func() {
			out, code := folder.try(t, "push", s.API+"/git/demo/dev/pushed", "other:main")
			if code == 0 {
				out = "accepted"
			}
			results <- out
		}()
	}
	first, second := <-results, <-results
	if first != "accepted" {
		first, second = second, first
	}
	// The second may also come when the first is done: then there is nothing to do.
	if first != "accepted" || second != "accepted" &&
		!strings.Contains(second, "another push to this app is in progress") {
		t.Errorf("two pushes: %s\n%s", first, second)
	}
	g.git(t, "fetch", "-q", "ingot")
}

// interrupted begins a push, and kills the server when git has shown a text.
func (g *gitFolder) interrupted(t *testing.T, s *site, at string, args ...string) {
	t.Helper()
	out := &watchedOutput{wanted: at, seen: make(chan struct{})}
	done := make(chan error, 1)
	cmd := g.command(t.Context(), t, args...)
	cmd.Stdout, cmd.Stderr = out, out
	go func() { done <- cmd.Run() }()
	select {
	case <-out.seen:
	case err := <-done:
		t.Fatalf("git %q ended before it showed %q: %v\n%s", args, at, err, out)
	}
	s.Kill9(t)
	if err := <-done; err == nil {
		t.Errorf("git %q succeeds although the server was killed", args)
	}
}

// watchedOutput is output in which a text is awaited.
type watchedOutput struct {
	mu     sync.Mutex
	text   bytes.Buffer
	wanted string
	seen   chan struct{} // closed when it has come
	once   sync.Once
}

func (o *watchedOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if strings.Contains(o.text.String(), o.wanted) {
		o.once.Do(func() { close(o.seen) })
	}
	return len(p), nil
}

func (o *watchedOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestGitPushKilled kills the server in the middle of pushes.
func TestGitPushKilled(t *testing.T) {
	t.Parallel()
	s, g, executable := newGitSite(t)
	client := g.tool
	g.commit(t, map[string]string{"probe": executable, "run.sh": "VERSION=0 exec ./probe\n",
		"manifest.yml": gitManifest})
	remote := func() string { return s.API + "/git/demo/dev/pushed" }
	g.git(t, "push", remote(), "main")
	for i, at := range []string{"Deploying ", "Applying the manifest...", "Building...", "Starting pushed..."} {
		deployed := strings.TrimSpace(g.git(t, "rev-parse", "HEAD"))
		g.commit(t, map[string]string{"run.sh": "sleep 2; VERSION=" + strconv.Itoa(i+1) + " exec ./probe\n"})
		g.interrupted(t, s, at, "push", remote(), "main")
		s.Restart(t)
		// What was accepted is still there, whole.
		clone := &gitFolder{tool: client, dir: t.TempDir()}
		clone.git(t, "clone", "-q", remote(), ".")
		clone.git(t, "fsck", "--strict")
		if now := strings.TrimSpace(clone.git(t, "rev-parse", "HEAD")); now != deployed {
			t.Errorf("killed at %q: the repository has %s, want %s", at, now, deployed)
		}
		contains(t, g.git(t, "push", remote(), "main"), "pushed is running.")
		testkit.Eventually(t, "version "+strconv.Itoa(i+1)+" answers", func() bool {
			return s.environment(t, "pushed")["VERSION"] == strconv.Itoa(i+1)
		})
	}
}
