package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// TestSoakRollingDeaths deploys versions that die at random times within the minimum healthy
// time, a thousand times: every deployment is canceled, and no request fails. The short form
// is a part of TestDeployments.
func TestSoakRollingDeaths(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	const apps, rounds = 8, 125
	s := startApps(t, options{Engine: "process"})
	var done, requests atomic.Int64
	var parts []part
	for i := range apps {
		parts = append(parts, part{fmt.Sprint(i), func(t *testing.T) {
			rollingDeaths(t, s, fmt.Sprint("mortal-", i), rounds,
				&done, &requests)
		}})
	}
	together(t, parts...)
	t.Logf("%d deployments of versions that die, %d requests", done.Load(), requests.Load())
}

func rollingDeaths(t *testing.T, s *site, name string, rounds int, done, requests *atomic.Int64) {
	c := s.tools(t)[0]
	c.ok(t, "target", "-o", "demo", "-s", "dev")
	c.ok(t, pushEdition(name, edition(t, "good"), "-m", "64M")...)
	app := strings.TrimSpace(c.ok(t, "app", name, "--guid"))
	s.running(t, app, 1)
	stop, ended := make(chan struct{}), make(chan []string)
	go func() {
		var failures []string
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				ended <- failures
				return
			case <-tick.C:
			}
			requests.Add(1)
			r, err := s.try(http.MethodGet, s.API+"/env", "", nil, header{"Host", name + ".apps.localhost"})
			if err != nil || r.Status != http.StatusOK || !bytes.Contains(r.Body, []byte(`"VERSION":"good"`)) {
				failures = append(failures, fmt.Sprint(r, " ", err))
			}
		}
	}()
	if out, code := c.run(t, pushEdition(name, edition(t, "mortal", "mortal", "900ms", "random"), "--strategy",
		"rolling")...); code != 1 {
		t.Errorf("push of a version that dies: exit code %d, want 1\n%s", code, out)
	}
	var droplets struct{ Resources []struct{ GUID string } }
	s.call(t, http.MethodGet, "/v3/apps/"+app+"/droplets?order_by=-created_at", s.adminToken(t), nil).
		want(t, http.StatusOK).into(t, &droplets)
	for range rounds {
		body := fmt.Sprintf(`{"droplet":{"guid":%q},"options":{"min_healthy_time":2},"relationships":{"app":{"data":{"guid":%q}}}}`, droplets.Resources[0].GUID, app)
		s.call(t, http.MethodPost, "/v3/deployments", s.adminToken(t), json.RawMessage(body)).want(t, http.StatusCreated)
		reason := ""
		testkit.Eventually(t, "the deployment has ended",
			func() bool { reason, _ = s.deployment(t, app); return reason != "DEPLOYING" && reason != "CANCELING" })
		if reason != "CANCELED" {
			t.Errorf("the deployment is %s, want CANCELED", reason)
		}
		done.Add(1)
	}
	close(stop)
	if failures := <-ended; len(failures) > 0 {
		t.Errorf("%d requests failed: %s", len(failures), strings.Join(failures[:min(5, len(failures))], "\n"))
	}
}
