package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
)

// TestSidecars tests an app and a sidecar in one instance.
func TestSidecars(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		together(t,
			part{"destination", func(t *testing.T) { sidecarDestination(t, s) }},
			part{"share", func(t *testing.T) { sidecarShares(t, s) }},
			part{"options", func(t *testing.T) { sidecarOptions(t, s) }},
			part{"buildpack", func(t *testing.T) { sidecarOfBuildpack(t, s) }},
			part{"memory", func(t *testing.T) { sidecarMemory(t, s) }},
		)
	})
}

// sidecarPorts are the ports that sidecarPort returned or found in use.
var sidecarPorts sync.Map

// sidecarPort returns a port on which a sidecar can listen. Each container has
// all ports.
func (s *site) sidecarPort(t testing.TB) int {
	t.Helper()
	if s.options.Engine == "container" {
		return 9090
	}
	// While this process starts another one, that one has a copy of every socket.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for {
		// Below the ephemeral ports, and those of servers for apps and services, or another may
		// take it meanwhile.
		port := 16000 + rand.IntN(4000)
		if _, taken := sidecarPorts.LoadOrStore(port, true); taken {
			continue // by another test, whose sidecar may not listen yet
		}
		if l, err := net.Listen("tcp", fmt.Sprint(":", port)); err == nil {
			l.Close()
			return port
		}
	}
}

// pushBeside pushes an app with a sidecar helper, which responds with the name of
// the app and "-helper".
func (s *site) pushBeside(t testing.TB, home, app string, port int) {
	t.Helper()
	file := write(t, "manifest.yml", fmt.Sprintf(`
applications:
- name: %s
  buildpacks: [binary_buildpack]
  memory: 96M
  disk_quota: 64M
  command: ./probe
  sidecars:
  - name: helper
    process_types: [web]
    command: ./probe beside %s-helper %d
    memory: 32M
`, app, app, port))
	contains(t, columns(cfOK(t, home, "push", "-f", file, "-p", probe(t))), "sidecars: helper", "#0 running")
	s.logged(t, guid(t, home, app), "APP/PROC/WEB/SIDECAR/HELPER", app+"-helper is here")
}

// asker sends requests to routes continuously, and checks that the right app
// responds.
type asker struct {
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	answers  map[string]int // those with status 200, by host
	mistakes []string
}

// ask starts an asker for hosts and the prefixes of their responses.
func (s *site) ask(t testing.TB, want map[string]string) *asker {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a := &asker{stop: stop, answers: map[string]int{}}
	for host, begins := range want {
		a.all.Go(func() {
			for ctx.Err() == nil {
				r, err := s.try(http.MethodGet, s.API+"/", "", nil, header{"Host", host + ".apps.localhost"})
				a.mu.Lock()
				switch {
				case err != nil:
					a.mistakes = append(a.mistakes, host+": "+err.Error())
				case r.Status == http.StatusOK && !strings.HasPrefix(string(r.Body), begins):
					a.mistakes = append(a.mistakes, fmt.Sprintf("%s answers %q", host, r.Body))
				case r.Status == http.StatusOK:
					a.answers[host]++
				}
				a.mu.Unlock()
			}
		})
	}
	t.Cleanup(func() { stop(); a.all.Wait() })
	return a
}

// count returns the number of responses of a host.
func (a *asker) count(host string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.answers[host]
}

// sidecarDestination maps a route to the port of a sidecar, which takes effect
// after a restart; until then no other process responds to it.
func sidecarDestination(t *testing.T, s *site) {
	home := s.admin(t)
	port := s.sidecarPort(t)
	s.pushBeside(t, home, "duo", port)
	app := guid(t, home, "duo")
	contains(t, cfOK(t, home, "create-route", "apps.localhost", "--hostname", "duo-side"), "OK")
	var routes struct{ Resources []struct{ GUID string } }
	if err := json.Unmarshal([]byte(cfOK(t, home, "curl", "/v3/routes?hosts=duo-side")), &routes); err != nil ||
		len(routes.Resources) != 1 {
		t.Fatalf("routes are %+v, %v, want 1", routes, err)
	}
	replace := func(destinations string) string {
		t.Helper()
		return cfOK(t, home, "curl", "-X", "PATCH", "/v3/routes/"+routes.Resources[0].GUID+"/destinations", "-d",
			`{"destinations":[`+destinations+`]}`)
	}

	asking := s.ask(t, map[string]string{"duo": "probe 0", "duo-side": "duo-helper 0"})
	testkit.Eventually(t, "the app answers", func() bool { return asking.count("duo") > 0 })
	// Further destinations are for other routes: replacing the only one of an
	// app would move its own port.
	contains(t, replace(fmt.Sprintf(`{"app":{"guid":%q,"process":{"type":"web"}},"port":%d}`, app, port)), fmt.Sprintf(`"port":%d`, port), `"type":"web"`)
	s.reaches(t, "duo-side", "/", http.StatusNotFound)
	before := asking.count("duo")
	testkit.Eventually(t, "the app goes on answering", func() bool { return asking.count("duo") > before+20 })
	if n := asking.count("duo-side"); n > 0 {
		t.Errorf("the sidecar is reached %d times without a restart", n)
	}
	contains(t, columns(cfOK(t, home, "restart", "duo")), "#0 running")
	s.reaches(t, "duo-side", "/", http.StatusOK)
	before = asking.count("duo")
	testkit.Eventually(t, "both answer", func() bool {
		return asking.count("duo-side") > 20 &&
			asking.count("duo") > before+20
	})
	if got := s.environment(t, "duo"); s.options.Engine == "container" && got["PORT"] != "8080" {
		t.Errorf("PORT=%s", got["PORT"])
	}

	// Without a destination no app is reached from now on.
	contains(t, replace(""), `"destinations":[]`)
	s.reaches(t, "duo-side", "/", http.StatusNotFound)
	s.reaches(t, "duo", "/", http.StatusOK)
	asking.stop()
	asking.all.Wait()
	if len(asking.mistakes) > 0 {
		t.Errorf("%d wrong answers: %.5q", len(asking.mistakes), asking.mistakes[:min(5, len(asking.mistakes))])
	}
	t.Logf("answers: %v", asking.answers)
}

// sidecarShares tests that an app and its sidecar communicate by file, socket and
// localhost, and that another app can reach none of them.
func sidecarShares(t *testing.T, s *site) {
	home := s.admin(t)
	port := s.sidecarPort(t)
	s.pushBeside(t, home, "shares", port)
	here := fmt.Sprintf("127.0.0.1:%d", port)
	s.works(t, "shares", "read", "shares-helper.txt")
	s.works(t, "shares", "socket", "shares-helper.sock")
	s.works(t, "shares", "socket", "@shares-helper")
	s.works(t, "shares", "dial", here)
	if s.options.Engine != "container" {
		return // this engine does not isolate apps, as the server logs
	}
	cfOK(t, home, pushProbe(t, "alien")...)
	row := s.stats(t, guid(t, home, "shares"))[0]
	for _, dir := range []string{".", "/home/vcap/app", filepath.Join(s.Dir, "containers", "instances", row.Instance)} {
		s.fails(t, "alien", "read", filepath.Join(dir, "shares-helper.txt"))
		s.fails(t, "alien", "socket", filepath.Join(dir, "shares-helper.sock"))
	}
	s.fails(t, "alien", "socket", "@shares-helper")
	s.fails(t, "alien", "dial", here)
	s.fails(t, "alien", "dial", fmt.Sprintf("%s:%d", row.Internal, port))
	s.fails(t, "alien", "dial", row.Internal+":8080")
	s.works(t, "alien", "dial", "127.0.0.1:8080")
}

// sidecarOptions uses what sidecars can ask for beyond Cloud Foundry: a step before the main
// process, its own check and variables, and a restart of the sidecar alone.
func sidecarOptions(t *testing.T, s *site) {
	home := s.admin(t)
	port := s.sidecarPort(t)
	manifest := fmt.Sprintf(`
applications:
- name: options
  buildpacks: [binary_buildpack]
  memory: 128M
  disk_quota: 64M
  command: test -e setup.txt && exec ./probe
  sidecars:
  - name: setup
    process_types: [web]
    command: sleep 1 && echo done > setup.txt
    before: main
    restart: never
  - name: companion
    run-in: [tasks]
    command: echo companion is here; echo prepared > new.txt; mv new.txt companion.txt; while ! test -e fail; do sleep 0.1; done; exit 9
    memory: 16M
  - name: helper
    process_types: [web]
    command: echo "GREETING is $GREETING"; rm -f options-helper.sock; exec ./probe beside options-helper %d
    memory: 32M
    restart: on-failure
    ports: [%d]
    health-check-type: port
    env:
      GREETING: good morning
    stop-after: main
    stop-signal: INT
`, port, port)
	file := write(t, "manifest.yml", manifest)
	contains(t, columns(cfOK(t, home, "push", "-f", file, "-p", probe(t))), "sidecars: setup, helper", "#0 running")
	app := guid(t, home, "options")
	s.logged(t, app, "APP/PROC/WEB/SIDECAR/HELPER", "GREETING is good morning")
	s.works(t, "options", "read", "setup.txt")
	before := s.stats(t, app)[0].Instance

	// The sidecar alone is started again.
	cfOK(t, home, "ssh", "options", "-c", "pkill -KILL -f 'beside options-helpe[r]'")
	s.logged(t, app, "APP/PROC/WEB/SIDECAR/HELPER", "Exit status 137; it is started again in 500ms")
	// Without it the instance is not ready, so that it may not be reached for a moment.
	path := "/try?" + url.Values{"how": {"dial"}, "what": {fmt.Sprintf("127.0.0.1:%d", port)}}.Encode()
	testkit.Eventually(t, "the sidecar listens again", func() bool {
		r, err := s.try(http.MethodGet, s.API+path, "", nil, header{"Host", "options.apps.localhost"})
		return err == nil && r.Status == http.StatusOK && len(r.Body) == 0
	})
	if now := s.stats(t, app)[0].Instance; now != before {
		t.Errorf("the instance was replaced: %s, before %s", now, before)
	}
	testkit.Eventually(t, "the event is recorded", func() bool {
		return strings.Contains(cfOK(t, home, "curl", "/v3/audit_events?types=app.sidecar.crash&target_guids="+app), `"sidecar":"HELPER"`)
	})

	sidecarOfTasks(t, s, home, app)

	// A route to the sidecar, by its name.
	contains(t, cfOK(t, home, "create-route", "apps.localhost", "--hostname", "options-side"), "OK")
	var routes struct{ Resources []struct{ GUID string } }
	if err := json.Unmarshal([]byte(cfOK(t, home, "curl", "/v3/routes?hosts=options-side")), &routes); err != nil ||
		len(routes.Resources) != 1 {
		t.Fatalf("routes are %+v, %v, want 1", routes, err)
	}
	contains(t, cfOK(t, home, "curl", "-X", "POST", "/v3/routes/"+routes.Resources[0].GUID+"/destinations", "-d",
		fmt.Sprintf(`{"destinations":[{"app":{"guid":%q,"sidecar":{"name":"helper"}}}]}`, app)),
		fmt.Sprintf(`"port":%d`, port), `"sidecar":{"name":"helper"}`)
	cfOK(t, home, "restart", "options")
	s.reaches(t, "options-side", "/", http.StatusOK)
	s.reaches(t, "options", "/", http.StatusOK)

	// What runs can be described, and what cannot work is refused with the names.
	written := filepath.Join(t.TempDir(), "written.yml")
	cfOK(t, home, "create-app-manifest", "options", "-p", written)
	again, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(again), "before: main", "restart: never", "restart: on-failure", "health-check-type: port",
		"GREETING: good morning", "stop-after:", "stop-signal: SIGINT", "run-in:")
	cycle := write(t, "manifest.yml", strings.Replace(manifest, "    restart: never", "    depends_on: [helper]", 1)+
		"    depends_on: [main]\n")
	cfFails(t, home, "Sidecars wait for each other to start: helper → main → setup → helper", "push", "-f", cycle,
		"-p", probe(t))
	contains(t, cfOK(t, home, "stop", "options"), "OK")
}

// sidecarOfTasks runs tasks with a companion: the command decides their result, unless the
// companion fails before.
func sidecarOfTasks(t *testing.T, s *site, home, app string) {
	t.Helper()
	contains(t, cfOK(t, home, "run-task", "options", "--command",
		"until test -e companion.txt; do sleep 0.1; done; cat companion.txt", "--name", "duo", "--wait"), "OK")
	s.logged(t, app, "APP/TASK/duo", "prepared")
	s.logged(t, app, "APP/TASK/duo/SIDECAR/COMPANION", "companion is here")
	cfOK(t, home, "run-task", "options", "--command", "touch fail; sleep 1000", "--name", "left")
	testkit.Eventually(t, "the task fails with its companion", func() bool {
		out := cfOK(t, home, "curl", "/v3/apps/"+app+"/tasks?names=left")
		return strings.Contains(out, "APP/TASK/left/SIDECAR/COMPANION: Exited with status 9")
	})
	cfFails(t, home, "its sidecars need companion (16 MB)", "run-task", "options", "--command", "true", "-m", "16M")
}

// sidecarOfBuildpack pushes with a buildpack that supplies a sidecar, which the user's of the
// same name overrides.
func sidecarOfBuildpack(t *testing.T, s *site) {
	if s.options.Engine == "container" {
		return // the same everywhere
	}
	home := s.admin(t)
	pack := filepath.Join(t.TempDir(), "pack")
	for name, text := range map[string]string{
		"bin/detect": "exit 1\n",
		"bin/supply": `cat > "$3/$4/launch.yml" <<'END'
processes:
- type: agent
  command: echo agent of the buildpack; exec sleep 1000
  limits: {memory: 16}
  platforms:
    cloudfoundry: {sidecar_for: [web]}
    ingot: {optional: true}
END
`,
	} {
		file := filepath.Join(pack, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	contains(t, cfOK(t, home, "create-buildpack", "agent_buildpack", pack, "99"), "OK")
	push := func(sidecars string) {
		t.Helper()
		file := write(t, "manifest.yml",
			"applications:\n- name: supplied\n  buildpacks: [agent_buildpack, binary_buildpack]\n  memory: 96M\n  disk_quota: "+
				"64M\n  command: ./probe\n"+sidecars)
		contains(t, columns(cfOK(t, home, "push", "-f", file, "-p", probe(t))), "sidecars: agent", "#0 running")
	}
	push("")
	app := guid(t, home, "supplied")
	s.logged(t, app, "APP/PROC/WEB/SIDECAR/AGENT", "agent of the buildpack")
	sidecars := func() string { return cfOK(t, home, "curl", "/v3/apps/"+app+"/sidecars") }
	contains(t, sidecars(), `"origin":"buildpack"`, `"memory_in_mb":16`, `"optional":true`)
	push("  sidecars:\n  - {name: agent, process_types: [web], command: echo agent of the user; exec sleep 1000, " +
		"memory: 8M}\n")
	s.logged(t, app, "APP/PROC/WEB/SIDECAR/AGENT", "agent of the user")
	contains(t, sidecars(), `"origin":"user"`, `"memory_in_mb":8`, `"total_results":1`)
}
