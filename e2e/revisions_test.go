package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ingot/internal/base/testkit"
)

// TestRevisions lists, shows and compares revisions, and rolls back to them, with
// both clients.
func TestRevisions(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		var parts []part
		for _, c := range s.tools(t) {
			parts = append(parts, part{c.name, func(t *testing.T) { revisions(t, s, c) }})
		}
		together(t, parts...)
	})
}

func revisions(t *testing.T, s *site, c *tool) {
	name := "past-" + c.name
	c.ok(t, pushEdition(name, edition(t, "one"), "-i", "2", "-m", "64M")...)
	app := strings.TrimSpace(c.ok(t, "app", name, "--guid"))
	s.running(t, app, 2)
	contains(t, c.ok(t, "revisions", name), "Initial revision.", "deployed")
	if webs := s.webProcesses(t, app); len(webs) != 1 || webs[0] != app {
		t.Errorf("the web processes are %v, want one with the guid of the app", webs)
	}

	// Another version, with another environment and more memory.
	c.ok(t, "set-env", name, "MOOD", "good")
	c.ok(t, pushEdition(name, edition(t, "two"), "-m", "80M", "--strategy", "rolling")...)
	contains(t, c.ok(t, "revisions", name), "New droplet deployed. New environment variables deployed.")
	contains(t, c.ok(t, "revision", name, "--version", "2"), "MOOD", "good")
	if out := c.ok(t, "revision", name, "--version", "1"); strings.Contains(out, "MOOD") {
		t.Errorf("the first revision has the environment of the second: %s", out)
	}
	if out, code := c.run(t, "revision", name, "--version", "7"); code == 0 {
		t.Errorf("a revision that does not exist: %s", out)
	}
	if c.name == "ingot" {
		contains(t, columns(c.ok(t, "diff", name, "1", "2")), "env MOOD - good", "web memory in mb 64 80")
	}
	s.running(t, app, 2)

	// Back, under the load of 64 connections: no request fails.
	done := s.connections(t, name, 64)
	c.ok(t, "rollback", name, "--version", "1", "-f")
	if answers := done("one"); answers["two"] == 0 {
		t.Errorf("answers by version are %v, want some of both", answers)
	}
	env := s.environment(t, name)
	if env["VERSION"] != "one" || env["MOOD"] != "" {
		t.Errorf("after the rollback VERSION=%q and MOOD=%q, want one and nothing", env["VERSION"], env["MOOD"])
	}
	s.running(t, app, 2)
	if got := s.stats(t, app)[0].Memory; got != 64<<20 {
		t.Errorf("%d bytes of memory after the rollback, want 64M", got)
	}
	contains(t, c.ok(t, "revisions", name), "Rolled back to revision 1.")
	if out, code := c.run(t, "rollback", name, "--version", "1", "-f"); code == 0 ||
		!strings.Contains(out, "is the same as the deployed revision") {
		t.Errorf("a second rollback: %d %s", code, out)
	}

	// A canary is a second web process beside the old one.
	old := s.webProcesses(t, app)
	c.ok(t, "rollback", name, "--version", "2", "--strategy", "canary", "-f")
	both := s.webProcesses(t, app)
	if len(old) != 1 || old[0] == app || len(both) != 2 || both[0] != old[0] {
		t.Fatalf("the web processes are %v, and %v with a canary, want one and another beside it", old, both)
	}
	version := map[string]string{"ingot": "two", "cf": "one"}[c.name] // cf takes the oldest web process
	contains(t, c.ok(t, "ssh", name, "-c", "cat app/version"), version)
	c.ok(t, "continue-deployment", name)
	s.awaitDeployment(t, app, "DEPLOYED")
	if left := s.webProcesses(t, app); len(left) != 1 || left[0] != both[1] {
		t.Errorf("the web processes are %v, want only %s", left, both[1])
	}
	s.running(t, app, 2)
	contains(t, c.ok(t, "ssh", name, "-i", "1", "-c", "cat app/version"), "two")
	c.ok(t, "scale", name, "-i", "1")
	s.running(t, app, 1)
	contains(t, c.ok(t, "events", name), "audit.app.revision.create")
	c.ok(t, "delete", name, "-f")
}

// webProcesses returns the guids of the web processes of an app, the oldest first.
func (s *site) webProcesses(t testing.TB, app string) (guids []string) {
	t.Helper()
	var page struct{ Resources []struct{ GUID string } }
	s.call(t, http.MethodGet, "/v3/apps/"+app+"/processes?types=web&order_by=created_at", s.adminToken(t), nil).
		want(t, http.StatusOK).into(t, &page)
	for _, r := range page.Resources {
		guids = append(guids, r.GUID)
	}
	return guids
}

// connections sends requests to an app over n connections at once, once each has had
// an answer. The function that it returns stops that when a version has answered, and
// returns the number of answers by version. Any failed request fails the test.
func (s *site) connections(t *testing.T, host string, n int) func(last string) map[string]int {
	t.Helper()
	stop := make(chan struct{})
	var all sync.WaitGroup
	var answered atomic.Int64
	var mu sync.Mutex
	answers := map[string]int{}
	var failures []string
	api, err := url.Parse(s.API)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for first := true; ; first = false {
				version, err := versionOver(client, api.String()+"/env", host+".apps.localhost")
				mu.Lock()
				if err != nil {
					failures = append(failures, err.Error())
				} else {
					answers[version]++
				}
				mu.Unlock()
				if first {
					answered.Add(1)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	testkit.Eventually(t, "every connection has an answer", func() bool { return answered.Load() == int64(n) })
	return func(last string) map[string]int {
		t.Helper()
		testkit.Eventually(t, "version "+last+" answers", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return answers[last] > 0 || len(failures) > 0
		})
		close(stop)
		all.Wait()
		if len(failures) > 0 {
			t.Errorf("%d requests failed: %s", len(failures), strings.Join(failures[:min(5, len(failures))], "\n"))
		}
		return answers
	}
}

func versionOver(client *http.Client, address, host string) (string, error) {
	r, err := http.NewRequest(http.MethodGet, address, nil) //nolint:noctx // it is short
	if err != nil {
		return "", err
	}
	r.Host = host
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", response.StatusCode)
	}
	var env map[string]string
	err = json.NewDecoder(response.Body).Decode(&env)
	return env["VERSION"], err
}
