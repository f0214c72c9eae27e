package e2e

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// overSSH returns the repository with git using OpenSSH, which gets one-time codes as passwords, and the URL of
// an app.
func (g *gitFolder) overSSH(t *testing.T, s *site, code string) (over *gitFolder, remote string) {
	t.Helper()
	needOpenSSH(t)
	dir := t.TempDir()
	ask := filepath.Join(dir, "askpass")
	//nolint:gosec // it is run
	if err := os.WriteFile(ask, []byte("#!/bin/sh\nexec "+code+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &gitFolder{tool: g.tool, dir: g.dir, env: []string{
		"SSH_ASKPASS=" + ask, "SSH_ASKPASS_REQUIRE=force", "LC_ALL=C",
		"GIT_SSH_COMMAND=ssh -F none -o StrictHostKeyChecking=accept-new -o NumberOfPasswordPrompts=1 " +
			"-o UserKnownHostsFile=" + filepath.Join(dir, "known"),
	}}, "ssh://git@" + s.SSH
}

// TestGitPushOverSSH deploys with the real git and ssh.
func TestGitPushOverSSH(t *testing.T) {
	t.Parallel()
	s, plain, executable := newGitSite(t)
	client := plain.tool
	g, remote := plain.overSSH(t, s, program(t)+" ssh-code")
	remote += "/demo/dev/pushed"
	version := func(want string) {
		t.Helper()
		testkit.Eventually(t, "version "+want+" answers",
			func() bool { return s.environment(t, "pushed")["VERSION"] == want })
	}
	g.git(t, "remote", "add", "ingot", remote)
	g.commit(t, map[string]string{"probe": executable, "run.sh": "VERSION=1 exec ./probe\n",
		"manifest.yml": gitManifest})
	contains(t, g.git(t, "push", "ingot", "main"), "remote: Building...", "remote: pushed is running.",
		"remote: http://pushed.apps.localhost:", "main -> main")
	version("1")
	contains(t, g.git(t, "push", "ingot", "main"), "Everything up-to-date")
	contains(t, client.ok(t, "events", "pushed"), "audit.app.package.upload", "audit.app.start", "admin")

	// A clone gets later commits, also when it has some that the server does not know.
	clone := &gitFolder{tool: client, dir: t.TempDir(), env: g.env}
	clone.git(t, "clone", "-q", remote, ".")
	clone.git(t, "fsck", "--strict")
	for range 40 { // more than git lists before it waits for an answer
		clone.git(t, "commit", "-q", "--allow-empty", "-m", "mine")
	}
	g.commit(t, map[string]string{"run.sh": "VERSION=2 exec ./probe\n"})
	g.git(t, "push", "ingot", "main")
	version("2")
	clone.git(t, "fetch", "-q", "origin")
	if ours, theirs := g.git(t, "rev-parse", "main"), clone.git(t, "rev-parse", "origin/main"); ours != theirs {
		t.Errorf("the clone has fetched %s, want %s", theirs, ours)
	}
	gitSSHRefusals(t, s, g, version)
	gitSSHStrangers(t, s, g, remote)
	// Both ways lead to the same repository.
	g.commit(t, map[string]string{"run.sh": "VERSION=3 exec ./probe\n"})
	plain.git(t, "push", s.API+"/git/demo/dev/pushed", "main")
	version("3")
	contains(t, g.git(t, "push", "ingot", "main"), "Everything up-to-date")
}

// gitSSHRefusals has what is not deployed, before and after the pack was read.
func gitSSHRefusals(t *testing.T, s *site, g *gitFolder, version func(string)) {
	t.Helper()
	g.commit(t, map[string]string{"run.sh": "echo this one fails; exit 7\n"})
	g.refused(t, []string{"remote: APP/PROC/WEB/0: this one fails",
		"[remote rejected] main -> main (the app does not start:"}, "push", "ingot", "main")
	version("2")
	g.git(t, "reset", "-q", "--hard", "HEAD~1")
	g.refused(t, []string{"cannot be deleted: delete the app with ingot delete pushed"}, "push", "ingot", ":main")
	g.git(t, "checkout", "-q", "-b", "other")
	large := make([]byte, 20<<20)
	_, _ = rand.Read(large) // never fails
	g.commit(t, map[string]string{"large": string(large)})
	g.refused(t, []string{"only the branch main is deployed: deploy this one with git push ingot other:main"}, "push",
		"ingot", "other")
	g.git(t, "checkout", "-q", "main")
	g.refused(t, []string{"fatal: remote error: The organization or space does not exist"}, "push",
		"ssh://git@"+s.SSH+"/demo/none/pushed", "main")
	g.refused(t, []string{"fatal: remote error: The app does not exist"}, "clone", "ssh://git@"+s.SSH+"/demo/dev/none",
		t.TempDir())
	g.refused(t, []string{"fatal: remote error: The path of an app is /ORG/SPACE/APP"}, "ls-remote",
		"ssh://git@"+s.SSH+"/x")
	version("2")
}

// gitSSHStrangers has users that may not push, and what is no git.
func gitSSHStrangers(t *testing.T, s *site, g *gitFolder, remote string) {
	t.Helper()
	admin := s.adminToken(t)
	s.createUser(t, admin, "mallory", "a password")
	home := cfHome(t, s.Server)
	cfOK(t, home, "auth", "mallory", "a password")
	code := strings.TrimSpace(cfOK(t, home, "ssh-code"))
	for _, c := range []struct{ password, want string }{
		{"echo a-guess", "Permission denied"},
		{"echo " + code, "fatal: remote error: The organization or space does not exist, or you have no access"},
		{"echo " + code, "Permission denied"}, // it was used
	} {
		stranger, _ := g.overSSH(t, s, c.password)
		stranger.refused(t, []string{c.want}, "push", remote, "main")
	}
	for command, want := range map[string]string{
		"":                               "Welcome, admin. Only git push, git fetch and git clone are possible here",
		"id":                             "Only git push",
		"git-upload-archive '/a/b/c'":    "Only git push",
		"git-upload-pack /demo; id":      "Only git push",
		"git-receive-pack '/demo/../x/'": "The path of an app is /ORG/SPACE/APP",
	} {
		d := &sshFixture{site: s, user: "git"}
		password := strings.TrimSpace(g.tool.ok(t, "ssh-code"))
		args := []string{"-T", d.host()}
		if command != "" {
			args = append(args, command)
		}
		if out, status := d.openSSH(t, password, "", "ssh", args...); status != 1 || !strings.Contains(out, want) {
			t.Errorf("%q: exit code %d, want 1 and %q\n%s", command, status, want, out)
		}
	}
	d := &sshFixture{site: s, user: "git"}
	password := strings.TrimSpace(g.tool.ok(t, "ssh-code"))
	if out, status := d.openSSH(t, password, "", "ssh", "-W", "127.0.0.1:1", d.host()); status == 0 ||
		!strings.Contains(out, "only git is served") {
		t.Errorf("forwarding: exit code %d, want a refusal\n%s", status, out)
	}
}
