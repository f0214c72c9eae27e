package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestAppFailures tests apps that fail.
func TestAppFailures(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		together(t,
			part{"exits", func(t *testing.T) {
				home := s.admin(t)
				out := pushFails(t, home, pushProbe(t, "gone", "-c", "./probe exit 3")...)
				contains(t, out, "Start unsuccessful", "Exited with status 3", "cf logs gone --recent")
				showsCrash(t, home, "gone", "#0 crashed", "APP/PROC/WEB: Exited with status 3")
				contains(t, cfOK(t, home, "events", "gone"), "app.crash", "reason: CRASHED", "exit_status: 3")
				contains(t, cfOK(t, home, "logs", "gone", "--recent"), "OUT leaving with 3", "[APP/PROC/WEB/0] OUT Exit status 3")
				s.reaches(t, "gone", "/", http.StatusNotFound)
			}},
			part{"never listens", func(t *testing.T) {
				home := s.admin(t)
				out := pushFails(t, home, pushProbe(t, "deaf", "-c", "./probe deaf", "-t", "5")...)
				contains(t, out, "Start unsuccessful", "Instance never healthy after 5s", "is not listening")
				contains(t, cfOK(t, home, "logs", "deaf", "--recent"), "OUT not listening", "never healthy")
				// The same app works if it is not expected to listen.
				cfOK(t, home, pushProbe(t, "deaf", "-c", "./probe deaf", "-u", "process")...)
				contains(t, columns(cfOK(t, home, "app", "deaf")), "#0 running")
			}},
			part{"listens elsewhere", func(t *testing.T) {
				home := s.admin(t)
				out := pushFails(t, home, pushProbe(t, "stray", "-c", "PORT=0 ./probe", "-t", "5")...)
				contains(t, out, "Instance never healthy after 5s", "the app listens on port",
					"instead; make it listen on the port in $PORT")
				contains(t, cfOK(t, home, "events", "stray"), "the app listens on port")
			}},
			part{"crashes", func(t *testing.T) {
				appCrashes(t, s)
			}},
			part{"sidecar", func(t *testing.T) {
				sidecarEnds(t, s)
			}},
		)
	})
}

// pushFails runs cf push, which must fail.
func pushFails(t testing.TB, home string, args ...string) string {
	t.Helper()
	out, code := cf(t, home, args...)
	if code != 1 || !strings.Contains(out, "FAILED") {
		t.Fatalf("cf %s: exit code %d, want 1\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// showsCrash waits until cf app shows words about a crashed instance: now and then it is
// started again.
func showsCrash(t testing.TB, home, app string, words ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("cf app %s shows %q", app, words), func() bool {
		out := columns(cfOK(t, home, "app", app))
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(out, w) })
	})
}

// exit is the log record of an instance that exited.
type exit struct {
	Instance, Cell, Reason, Description, Version string
	Index, Count                                 int
	At                                           int64
}

// exitOf waits for the lines of a crash in the log of an app.
func (s *site) exitOf(t testing.TB, app string) exit {
	t.Helper()
	s.logged(t, app, "API", `Process has crashed with type: "web"`)
	payload := s.logged(t, app, "API", "App instance exited with guid "+app+" payload: ")
	var raw map[string]any
	if err := json.Unmarshal([]byte(payload), &raw); err != nil {
		t.Fatalf("payload is no JSON: %v: %s", err, payload)
	}
	want := []string{"cellid", "crashcount", "crashtimestamp", "exitdescription", "index", "instance", "reason", "version"}
	if got := slices.Sorted(maps.Keys(raw)); !slices.Equal(got, want) {
		t.Errorf("the exit record has the keys %v, want %v", got, want)
	}
	var x struct {
		Instance, CellID, Reason, ExitDescription, Version string
		Index, CrashCount                                  *int
		CrashTimestamp                                     int64
	}
	if err := json.Unmarshal([]byte(payload), &x); err != nil || x.Index == nil || x.CrashCount == nil ||
		x.Instance == "" || x.CellID == "" || x.Version == "" || x.CrashTimestamp == 0 {
		t.Fatalf("the exit record lacks something (%v): %s", err, payload)
	}
	return exit{x.Instance, x.CellID, x.Reason, x.ExitDescription, x.Version, *x.Index, *x.CrashCount, x.CrashTimestamp}
}

// appCrashes makes a running app exit.
func appCrashes(t *testing.T, s *site) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "fragile")...)
	app := guid(t, home, "fragile")
	before := s.running(t, app, 1)[0]
	s.reaches(t, "fragile", "/", http.StatusOK)
	s.breaks(t, "fragile", "/crash")
	x := s.exitOf(t, app)
	if x.Instance != before || x.Index != 0 || x.Reason != "CRASHED" || x.Count != 1 ||
		x.Description != "APP/PROC/WEB: Exited with status 137" {
		t.Errorf("the exit record of %s: %+v", before, x)
	}
	testkit.Eventually(t, "another instance runs", func() bool { return s.running(t, app, 1)[0] != before })
	s.reaches(t, "fragile", "/", http.StatusOK)
	contains(t, cfOK(t, home, "events", "fragile"), "app.crash", "audit.app.process.crash", "exit_status: 137", before)

	// Exit status 0 is a crash, too.
	s.breaks(t, "fragile", "/exit?code=0")
	testkit.Eventually(t, "the second crash is counted",
		func() bool { return strings.Contains(logText(s.log(t, app)), `"crashcount":2`) })
	s.reaches(t, "fragile", "/", http.StatusOK)

	if s.options.Engine == "container" { // plain processes have no limit
		s.breaks(t, "fragile", "/eat")
		testkit.Eventually(t, "out of memory is reported",
			func() bool { return strings.Contains(cfOK(t, home, "events", "fragile"), "out of memory") })
		s.reaches(t, "fragile", "/", http.StatusOK)
	}
}

func logText(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

// sidecarEnds tests that an app is stopped when its sidecar exits.
func sidecarEnds(t *testing.T, s *site) {
	home := s.admin(t)
	file := write(t, "manifest.yml", `
applications:
- name: pair
  buildpacks: [binary_buildpack]
  memory: 96M
  disk_quota: 64M
  command: ./probe
  sidecars:
  - name: helper
    process_types: [web]
    command: NUMBERS=100ms ./probe sidecar helper.pid
    memory: 32M
`)
	out := cfOK(t, home, "push", "-f", file, "-p", probe(t))
	contains(t, columns(out), "sidecars: helper", "#0 running")
	app := guid(t, home, "pair")
	before := s.running(t, app, 1)[0]
	const source = "APP/PROC/WEB/SIDECAR/HELPER"
	s.logged(t, app, source, "the sidecar is here")
	s.logged(t, app, source, "number "+before+" 2")
	// The app is stopped with its sidecar, often before it responds.
	if r := s.get(t, "pair", "/kill?file=helper.pid"); r.Status != http.StatusBadGateway && (r.Status != http.StatusOK ||
		len(r.Body) > 0) {
		t.Fatalf("the sidecar cannot be killed: %s", r)
	}
	x := s.exitOf(t, app)
	if x.Instance != before || x.Reason != "CRASHED" || x.Description != source+": Exited with status 137" {
		t.Errorf("the exit record of %s: %+v", before, x)
	}
	testkit.Eventually(t, "another instance runs", func() bool { return s.running(t, app, 1)[0] != before })
	s.reaches(t, "pair", "/", http.StatusOK)
	contains(t, cfOK(t, home, "events", "pair"), "app.crash", source+": Exited with status 137")
	contains(t, cfOK(t, home, "logs", "pair", "--recent"), "["+source+"/0] OUT Exit status 137")
}
