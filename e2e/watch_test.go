package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
)

// pushWatch tests that push --watch runs every change to a folder, that a change that
// does not start replaces nothing, and that what is left is the last good version.
func pushWatch(t *testing.T, s *site) {
	dir := t.TempDir()
	content, err := os.ReadFile(filepath.Join(probe(t), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		// As editors save.
		if err := os.WriteFile(name+"~", []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+"~", name); err != nil {
			t.Fatal(err)
		}
	}
	write("probe", string(content))
	write("run.sh", "VERSION=1 exec ./probe\n")
	write(".cfignore", "*~\nignored\n")
	write("unused", "")

	client := s.tools(t)[0]
	client.ok(t, "target", "-o", "demo", "-s", "dev") // other parts create orgs
	p := run(t, client.cmd(t.Context()).Env, "push", "watched", "--watch", "--no-logs", "-p", dir, "-b",
		"binary_buildpack", "-c", "sh run.sh", "-m", "64M")
	version := func(want string) {
		t.Helper()
		// The version before may answer until it is stopped.
		testkit.Eventually(t, "version "+want+" answers",
			func() bool { return s.environment(t, "watched")["VERSION"] == want })
	}
	p.Stdout.await(t, "Watching "+dir)
	version("1")

	write("ignored", "") // causes an event, and no push
	write("run.sh", "VERSION=2 exec ./probe\n")
	p.Stdout.await(t, "1 file changed (run.sh): synced and restarted in ")
	version("2")

	write("run.sh", "echo this one fails; exit 7\n")
	contains(t, p.Stdout.await(t, "1 file changed (run.sh): failed after "), "The version of ", " keeps running.")
	contains(t, p.Stderr.await(t, "next change is tried automatically"), "The new version of watched does not start.",
		"this one fails")
	version("2")

	if err := os.Remove(filepath.Join(dir, "unused")); err != nil {
		t.Fatal(err)
	}
	p.Stdout.await(t, "1 file changed (unused deleted): failed after ") // still with the broken file
	write("run.sh", "test ! -e unused && VERSION=3 exec ./probe\n")
	testkit.Eventually(t, "the third version answers",
		func() bool { return s.environment(t, "watched")["VERSION"] == "3" })
	p.Stdout.await(t, "(run.sh): synced and restarted in ")

	write("Procfile", "web: sh run.sh\n")
	p.Stdout.await(t, "1 file changed (Procfile): built and restarted in ")
	version("3")

	// A build that differs little from the one before is started as a layer over it.
	write("run.sh", "test ! -e unused && VERSION=$(cat version) exec ./probe\n")
	write("version", "4\n")
	testkit.Eventually(t, "the fourth version answers",
		func() bool { return s.environment(t, "watched")["VERSION"] == "4" })
	write("Procfile", "web: sh run.sh # changed\n")
	testkit.Eventually(t, "it is built again", func() bool {
		return strings.Count(p.Stdout.String(), "1 file changed (Procfile): built and restarted in ") == 2
	})
	version("4")

	if err := p.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d after an interrupt\n%s", code, p.Stderr)
	}
	contains(t, p.Stdout.String(), "Stopped watching app watched. The version of ")
	home := s.admin(t)
	testkit.Eventually(t, "the deployment of the last change has ended", func() bool {
		return !strings.Contains(cfOK(t, home, "curl", "/v3/deployments?status_values=ACTIVE&app_guids="+
			guid(t, home, "watched")), `"strategy"`)
	})
	cfOK(t, home, "restart", "watched")
	version("4")
}
