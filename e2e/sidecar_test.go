package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
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
		)
	})
}

// sidecarPort returns a port on which a sidecar can listen. Each container has
// all ports.
func (s *site) sidecarPort(t testing.TB) int {
	t.Helper()
	if s.options.Engine == "container" {
		return 9090
	}
	for {
		// Below the ephemeral ports, or a connection may take it meanwhile.
		port := 20000 + rand.IntN(12000)
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
	if err := json.Unmarshal([]byte(cfOK(t, home, "curl", "/v3/routes?hosts=duo-side")), &routes); err != nil || len(routes.Resources) != 1 {
		t.Fatalf("routes are %+v, %v, want 1", routes, err)
	}
	replace := func(destinations string) string {
		t.Helper()
		return cfOK(t, home, "curl", "-X", "PATCH", "/v3/routes/"+routes.Resources[0].GUID+"/destinations", "-d", `{"destinations":[`+destinations+`]}`)
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
	testkit.Eventually(t, "both answer", func() bool { return asking.count("duo-side") > 20 && asking.count("duo") > before+20 })
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
