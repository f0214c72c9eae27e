package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
)

// TestDeployments replaces apps under continuous load, with both clients.
func TestDeployments(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		var parts []part
		for _, c := range s.tools(t) {
			parts = append(parts, part{c.name, func(t *testing.T) { deployments(t, s, c) }})
		}
		together(t, parts...)
		t.Run("killed", func(t *testing.T) { deploymentKilled(t, s) })
	})
}

// edition returns a folder with a probe that responds with a version. With
// arguments it does something else than serving.
func edition(t testing.TB, version string, arguments ...string) string {
	t.Helper()
	dir := t.TempDir()
	program, err := os.ReadFile(filepath.Join(probe(t), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"probe": program, "version": []byte(version),
		"arguments": []byte(strings.Join(arguments, " "))} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pushEdition returns the arguments for a client to push an edition.
func pushEdition(name, dir string, more ...string) []string {
	return append([]string{
		"push", name, "-p", dir, "-b", "binary_buildpack", "-c", `VERSION="$(cat version)" exec ./probe $(cat arguments)`,
		"-k", "64M",
	}, more...)
}

// load sends requests to an app continuously, also slow ones that must not be
// repeated.
type load struct {
	s    *site
	host string
	stop chan struct{}
	all  sync.WaitGroup

	mu       sync.Mutex
	round    int            // since the last take
	answers  map[string]int // by version, of requests that began in this round
	failures []string
}

func (s *site) load(t *testing.T, host string) *load {
	t.Helper()
	l := &load{s: s, host: host, stop: make(chan struct{}), answers: map[string]int{}}
	for range 3 {
		l.all.Go(func() { l.repeat(l.version) })
	}
	l.all.Go(func() { l.repeat(l.slow) })
	t.Cleanup(func() {
		select {
		case <-l.stop:
		default:
			l.end(t)
		}
	})
	return l
}

func (l *load) repeat(ask func()) {
	for {
		select {
		case <-l.stop:
			return
		default:
			ask()
		}
	}
}

func (l *load) ask(method, path string) ([]byte, bool) {
	r, err := l.s.try(method, l.s.API+path, "", nil, header{"Host", l.host + ".apps.localhost"})
	if err == nil && r.Status == http.StatusOK {
		return r.Body, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, fmt.Sprint(method, " ", path, ": ", r, " ", err))
	return nil, false
}

func (l *load) version() {
	l.mu.Lock()
	round := l.round
	l.mu.Unlock()
	body, ok := l.ask(http.MethodGet, "/env")
	if !ok {
		return
	}
	var env map[string]string
	err := json.Unmarshal(body, &env)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, err.Error())
	}
	if round == l.round { // otherwise the response may be an older one
		l.answers[env["VERSION"]]++
	}
}

func (l *load) slow() { l.ask(http.MethodPost, "/slow?for=200ms") }

// seen waits for enough responses to requests that begin now, and returns them.
func (l *load) seen(t *testing.T) map[string]int {
	t.Helper()
	l.take()
	var got map[string]int
	testkit.Eventually(t, "the app is asked", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		n := len(l.failures)
		for _, m := range l.answers {
			n += m
		}
		got = maps.Clone(l.answers) // others continue counting
		return n >= 30
	})
	return got
}

func (l *load) take() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.answers
	l.answers = map[string]int{}
	l.round++
	return got
}

// only fails the test unless all responses are of these versions, with some of
// each.
func (l *load) only(t *testing.T, versions ...string) {
	t.Helper()
	got := l.seen(t)
	if len(got) != len(versions) {
		t.Fatalf("answers are %v, want those of %v", got, versions)
	}
	for _, v := range versions {
		if got[v] == 0 {
			t.Fatalf("answers are %v, want those of %v", got, versions)
		}
	}
}

func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.all.Wait()
	if len(l.failures) > 0 {
		t.Errorf("%d requests failed: %s", len(l.failures), strings.Join(l.failures[:min(5, len(l.failures))], "\n"))
	}
}

// deployment returns the newest deployment of an app.
func (s *site) deployment(t testing.TB, app string) (reason, trouble string) {
	t.Helper()
	var page struct {
		Resources []struct {
			Status struct {
				Value, Reason string
				Details       struct{ Error string }
			}
		}
	}
	s.call(t, http.MethodGet, "/v3/deployments?order_by=-created_at&per_page=1&app_guids="+app, s.adminToken(t), nil).
		want(t, http.StatusOK).into(t, &page)
	if len(page.Resources) == 0 {
		return "", ""
	}
	status := page.Resources[0].Status
	return status.Reason, status.Details.Error
}

func (s *site) awaitDeployment(t testing.TB, app, reason string) {
	t.Helper()
	testkit.Eventually(t, "the deployment is "+reason,
		func() bool { now, _ := s.deployment(t, app); return now == reason })
}

func deployments(t *testing.T, s *site, c *tool) {
	name := "roll-" + c.name
	// A stopped app is just started.
	c.ok(t, pushEdition(name, edition(t, "one"), "-i", "2", "-m", "64M", "--strategy", "rolling")...)
	app := strings.TrimSpace(c.ok(t, "app", name, "--guid"))
	s.running(t, app, 2)
	l := s.load(t, name)
	l.only(t, "one")

	// Rolling: no request fails.
	out := c.ok(t, pushEdition(name, edition(t, "two"), "--strategy", "rolling", "--max-in-flight", "2", "-m", "80M")...)
	l.only(t, "two")
	contains(t, columns(out), "instances: 2/2", "#0 running", "#1 running")
	if got := s.stats(t, app)[0].Memory; got != 80<<20 {
		t.Errorf("%d bytes of memory after a push with -m 80M", got)
	}
	contains(t, c.ok(t, "events", name), "audit.app.deployment.create")
	before := s.running(t, app, 2)

	// One that crashes is canceled by the platform: before it is ready, or soon after that.
	for _, broken := range [][]string{{"exit", "3"}, {"mortal", "50ms"}, {"mortal", "1s"}} {
		out, code := c.run(t, pushEdition(name, edition(t, "broken", broken...), "--strategy", "rolling")...)
		if reason, trouble := s.deployment(t, app); code != 1 || !strings.Contains(strings.ToLower(out), "cancel") ||
			reason != "CANCELED" || !strings.Contains(trouble, "Exited with status") {
			t.Errorf("push of a version that does %v: exit code %d, deployment %s %q, want 1 and CANCELED with the reason\n%s",
				broken, code, reason, trouble, out)
		}
		l.only(t, "two")
	}

	// One that does not become healthy does not finish, and can be canceled.
	ended := make(chan string, 1)
	broken := pushEdition(name, edition(t, "three", "deaf"), "--strategy", "rolling")
	go func() {
		out, code := c.run(t, broken...)
		ended <- fmt.Sprintln("exit code", code, out)
	}()
	s.awaitDeployment(t, app, "DEPLOYING")
	l.only(t, "two")
	contains(t, c.ok(t, "app", name), "DEPLOYING", "rolling")
	if out, code := c.run(t, "stop", name); code == 0 || !strings.Contains(out, "cancel the deployment") {
		t.Errorf("stop while deploying: %d %s", code, out)
	}
	c.ok(t, "cancel-deployment", name)
	s.awaitDeployment(t, app, "CANCELED")
	contains(t, strings.ToLower(<-ended), "exit code 1", "cancel")
	l.only(t, "two")
	if after := s.running(t, app, 2); after[0] != before[0] || after[1] != before[1] {
		t.Errorf("instances %v, then %v", before, after)
	}

	// A canary deployment pauses until it is continued.
	c.ok(t, pushEdition(name, edition(t, "four"), "--strategy", "canary")...)
	l.only(t, "two", "four")
	contains(t, c.ok(t, "app", name), "PAUSED", "canary")
	c.ok(t, "continue-deployment", name)
	l.only(t, "four")

	// A restart and a restage can be rolling, too.
	c.ok(t, "set-env", name, "MOOD", "good")
	c.ok(t, "restart", name, "--strategy", "rolling")
	if got := s.environment(t, name)["MOOD"]; got != "good" {
		t.Errorf("MOOD=%q", got)
	}
	c.ok(t, "restage", name, "--strategy", "rolling", "--no-wait")
	s.awaitDeployment(t, app, "DEPLOYED")
	l.end(t)
	if out, code := c.run(t, "cancel-deployment", name); code == 0 ||
		!strings.Contains(out, "No active deployment found for app") {
		t.Errorf("cancel without a deployment: %d %s", code, out)
	}
	c.ok(t, "stop", name)
}

// deploymentKilled kills the server during a deployment.
func deploymentKilled(t *testing.T, s *site) {
	home := s.admin(t)
	cfOK(t, home, pushEdition("halfway", edition(t, "one"), "-i", "3", "-m", "64M")...)
	app := guid(t, home, "halfway")
	s.running(t, app, 3)
	for i := range times(2, 20) {
		version := fmt.Sprint("version ", i)
		cfOK(t, home, pushEdition("halfway", edition(t, version), "--strategy", "rolling", "--no-wait")...)
		s.Kill9(t)
		s.Restart(t)
		// From now on no request fails, and finally only the new version runs.
		l := s.load(t, "halfway")
		s.awaitDeployment(t, app, "DEPLOYED")
		l.only(t, version)
		l.end(t)
		s.running(t, app, 3)
	}
}
