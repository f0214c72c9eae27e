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

// ownRunc adds a separate runc to the PATH of a server; set replaces it.
func ownRunc(t *testing.T) (path string, set func(script string)) {
	t.Helper()
	real, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("the host has no runc")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "runc")
	set = func(script string) {
		t.Helper()
		next := file + ".new" // the old one may be running, and the server may look for it
		testkit.WriteProgram(t, next, "#!/bin/sh\n"+strings.ReplaceAll(script, "RUNC", real)+"\n")
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	set(`exec RUNC "$@"`)
	return "PATH=" + dir + ":" + os.Getenv("PATH"), set
}

// placed returns the state and the details of the instances of an app.
func (s *site) placed(t *testing.T, app string) string {
	t.Helper()
	var all []string
	for _, r := range s.stats(t, app) {
		all = append(all, r.State+" "+r.Details)
	}
	return strings.Join(all, "; ")
}

// TestIsolationIsNotWeakened restarts a server whose containers no longer work:
// it does not start new instances instead of running them without isolation,
// everything else works, and it starts them by itself when containers work again.
func TestIsolationIsNotWeakened(t *testing.T) {
	t.Parallel()
	path, set := ownRunc(t)
	s := startApps(t, options{Engine: "container", Env: []string{path}})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "-m", "64M")...)
	app := guid(t, home, "steady")
	before := s.running(t, app, 1)

	set("echo broken >&2; exit 1")
	s.Kill9(t)
	s.options.Engine = "auto"
	s.Restart(t)
	s.mayFail = true // it logs the failure at level ERROR
	if got := s.get(t, "steady", "/"); got.Status != http.StatusOK {
		t.Errorf("the app that runs: %s", got)
	}
	// The trial is after the start of the server, which serves the running app without it.
	contains(t, s.Stdout.await(t, "What to type next"), "NO INSTANCE STARTS")
	public := s.call(t, http.MethodGet, "/readyz", "", nil).want(t, http.StatusOK)
	contains(t, string(public.Body), `"status":"degraded"`, `"apps":`)
	operator, err := s.try(http.MethodGet, s.Admin+"/readyz", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(operator.Body), "runc --version")

	cfOK(t, home, "scale", "steady", "-i", "2")
	testkit.Eventually(t, "the second instance is held back", func() bool {
		got := s.placed(t, app)
		return strings.HasPrefix(got, "RUNNING ; DOWN the platform starts no instances at the moment")
	})
	if dirs, _ := os.ReadDir(filepath.Join(s.Dir, "processes")); len(dirs) > 0 {
		t.Errorf("instances run as plain processes: %v", dirs)
	}
	out, code := cf(t, home, pushProbe(t, "later", "-m", "64M")...)
	if code == 0 {
		t.Error("an app was staged")
	}
	contains(t, out, "the platform starts no instances at the moment")

	set(`exec RUNC "$@"`)
	after := s.running(t, app, 2)
	if after[0] != before[0] {
		t.Errorf("%v became %v", before, after)
	}
	testkit.Eventually(t, "the server is whole again", func() bool {
		r, err := s.try(http.MethodGet, s.API+"/readyz", "", nil)
		return err == nil && strings.Contains(string(r.Body), `"status":"ok"`)
	})

	// More memory than the machine has.
	token := s.adminToken(t)
	s.call(t, http.MethodPost, "/v3/apps/"+app+"/actions/stop", token, nil).want(t, http.StatusOK)
	s.call(t, http.MethodPost, "/v3/processes/"+app+"/actions/scale", token, map[string]any{"memory_in_mb": 99_999_999,
		"instances": 1}).want(t, http.StatusAccepted)
	s.call(t, http.MethodPost, "/v3/apps/"+app+"/actions/start", token, nil).want(t, http.StatusOK)
	testkit.Eventually(t, "the instance is refused",
		func() bool { return s.placed(t, app) == "DOWN insufficient resources: memory" })
	if events := cfOK(t, home, "events", "steady"); strings.Contains(events, "crash") {
		t.Errorf("got a crash event, want none:\n%s", events)
	}
}
