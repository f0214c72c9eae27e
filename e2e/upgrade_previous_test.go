package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestUpgradePreviousSoak upgrades servers of the commit in testdata/previous-release to
// this build, on each engine: with the handover under load, and by a stop and a start. It
// is a soak test because it compiles that commit; TestUpgrade replaces this build by
// itself.
func TestUpgradePreviousSoak(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	programs := appsDir(t)
	buildCommit(t, "previous-release", programs, "ingot", "ingot-init", "ingot-builder", "ingot-static", "ingot-sftp")
	for _, o := range engines() {
		o.Program = filepath.Join(programs, "ingot")
		t.Run(o.Engine+"/handover", func(t *testing.T) {
			t.Parallel()
			upgradeFrom(t, startApps(t, o), (*site).handedOver)
		})
		t.Run(o.Engine+"/restart", func(t *testing.T) {
			t.Parallel()
			upgradeFrom(t, startApps(t, o), (*site).stopStart)
		})
	}
}

// handedOver replaces the server under load.
func (s *site) handedOver(t *testing.T, app, instance string) {
	t.Helper()
	l := s.press(t, app)
	l.more(t, 500)
	before := s.replace(t, program(t))
	l.more(t, 500)
	s.client.CloseIdleConnections()
	if code := before.wait(t); code != 0 {
		t.Fatalf("the process before ended with code %d, want 0\n%s", code, before.Stderr)
	}
	l.more(t, 500)
	asked, _ := l.end(t)
	s.checkLog(app, instance).end(t, asked)
}

// stopStart stops the server and starts this build.
func (s *site) stopStart(t *testing.T, app, instance string) {
	t.Helper()
	s.Stop(t)
	s.Restart(t)
	s.checkLog(app, instance).read(t)
}

// upgradeFrom fills a server of an earlier release, upgrades it, and checks that
// everything exists and works.
func upgradeFrom(t *testing.T, s *site, upgrade func(s *site, t *testing.T, app, instance string)) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "5ms")
	cfOK(t, home, "create-user-provided-service", "shared", "-p", `{"color":"green"}`)
	cfOK(t, home, "bind-service", "steady", "shared")
	cfOK(t, home, "start", "steady")
	s.createUser(t, s.adminToken(t), "joe", "right")
	cfOK(t, home, "set-space-role", "joe", "demo", "dev", "SpaceDeveloper")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	cfOK(t, home, "run-task", "steady", "--command", "echo of a task", "--name", "once", "--wait")

	s.options.Program = "" // from now on this build
	upgrade(s, t, app, instance)

	if now := s.running(t, app, 1)[0]; now != instance {
		t.Errorf("instance %s after the upgrade, %s before it", now, instance)
	}
	s.logged(t, app, "APP/TASK/once", "of a task")
	// The client of the administrator is still logged in; joe logs in now.
	contains(t, columns(cfOK(t, home, "services")), "shared user-provided")
	contains(t, cfOK(t, home, "env", "steady"), "green", "NUMBERS")
	contains(t, cfOK(t, home, "tasks", "steady"), "once", "SUCCEEDED")
	joe := cfHome(t, s.Server)
	cfOK(t, joe, "auth", "joe", "right")
	cfOK(t, joe, "target", "-o", "demo", "-s", "dev")
	contains(t, columns(cfOK(t, joe, "app", "steady")), "#0 running")
	// What the earlier release built and started is restarted and built by this one.
	cfOK(t, joe, "restart", "steady", "--strategy", "rolling")
	cfOK(t, joe, pushProbe(t, "steady")...)
	s.reaches(t, "steady", "/", http.StatusOK)
}
