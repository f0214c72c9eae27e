package api_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/brokertest"
)

// TestQuotasUnderLoad: 50 clients make random changes at the same time. At no time is
// more in use than the quotas of the organization and of the space allow, and every
// client gets either what it asked for or a refusal.
func TestQuotasUnderLoad(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const clients, rounds = 50, 6
		m := newMarketIn(t, newWorldOn(t, d.Dialect()), &brokertest.Broker{})
		m.loose = true
		m.quotas()
		ofOrg := `{"apps":{"total_memory_in_mb":640,"total_instances":12,"per_app_tasks":2,"log_rate_limit_in_bytes_per_second":900},` +
			`"services":{"total_service_instances":3,"total_service_keys":2},"routes":{"total_routes":6},"domains":{"total_domains":2}}`
		m.one(step{do: "PATCH /v3/organization_quotas/$organization", body: ofOrg, want: 200})
		m.one(step{do: "PATCH /v3/space_quotas/$space_quota",
			body: `{"apps":{"total_memory_in_mb":600,"total_instances":10},"routes":{"total_routes":5}}`, want: 200})
		m.create("db", "sync")
		var apps []string
		for i := range 5 {
			app := m.app(m.vars["space"], fmt.Sprint("load-", i))
			apps = append(apps, app)
			m.want(m.call(m.admin(), "PATCH", "/v3/apps/"+app+"/relationships/current_droplet",
				rel("x", m.droplet(app, &platform.Droplet{}))["x"]), 200)
			m.want(m.call(m.admin(), "POST", "/v3/processes/"+app+"/actions/scale", map[string]any{"memory_in_mb": 60,
				"log_rate_limit_in_bytes_per_second": 100}), 202)
		}
		tokens := map[string]string{"dev": m.as("dev"), "orgmanager": m.as("orgmanager")}
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				random := rand.New(rand.NewPCG(16, uint64(client)))
				for round := range rounds {
					as, method, path, body := loadRequest(m, random, apps, fmt.Sprintf("%d-%d", client, round))
					switch a := m.call(tokens[as], method, path, body); a.status {
					case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusUnprocessableEntity:
					default:
						t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
					}
				}
			})
		}
		done := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() { all.Wait(); close(done) })
		peak := map[string]int{}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			checkWithin(t, m, apps, peak)
		}
		for what, most := range map[string]int{"instances": 10, "routes": 5, "domains": 2, "services": 3, "keys": 2} {
			if peak[what] < most {
				t.Logf("%s: at most %d of %d were in use", what, peak[what], most)
			}
		}
	})
}

// loadRequest is a random change.
func loadRequest(m *market, random *rand.Rand, apps []string, name string) (as, method, path string, body any) {
	app := apps[random.IntN(len(apps))]
	switch random.IntN(9) {
	case 0:
		return "dev", "POST", "/v3/apps/" + app + "/actions/start", nil
	case 1:
		return "dev", "POST", "/v3/apps/" + app + "/actions/stop", nil
	case 2, 3:
		return "dev", "POST", "/v3/processes/" + app + "/actions/scale", map[string]any{"instances": random.IntN(6),
			"memory_in_mb": 30 + random.IntN(60)}
	case 4:
		return "dev", "POST", "/v3/apps/" + app + "/tasks", map[string]any{"command": "x", "memory_in_mb": 30,
			"log_rate_limit_in_bytes_per_second": 50}
	case 5:
		return "dev", "POST", "/v3/routes", map[string]any{"host": "load-" + name,
			"relationships": rel("space", m.vars["space"], "domain", m.vars["domain"])}
	case 6:
		return "orgmanager", "POST", "/v3/domains", map[string]any{"name": "d" + name + ".example.org",
			"relationships": rel("organization", m.vars["org"])}
	case 7:
		return "dev", "POST", "/v3/service_credential_bindings", map[string]any{"type": "key", "name": name,
			"relationships": rel("service_instance", m.vars["db"])}
	}
	return "dev", "POST", "/v3/service_instances", map[string]any{"type": "managed", "name": name,
		"relationships": rel("space", m.vars["space"], "service_plan", m.vars["sync"])}
}

// checkWithin compares one snapshot of what is in use with the quotas.
func checkWithin(t *testing.T, m *market, apps []string, peak map[string]int) {
	t.Helper()
	var org, space actions.Usage
	tasks := 0
	err := m.store.View(t.Context(), func(tx platform.Tx) (err error) {
		if org, err = actions.UsageOf(tx, "organization_guid", m.vars["org"]); err != nil {
			return err
		}
		if space, err = actions.UsageOf(tx, "space_guid", m.vars["space"]); err != nil {
			return err
		}
		for _, app := range apps {
			n, err := tx.Tasks().Count(platform.Where("app_guid", app).And(platform.ActiveTasks()))
			if err != nil {
				return err
			}
			tasks = max(tasks, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what      string
		got, most int
	}{
		{"memory of the organization", org.MemoryMB, 640}, {"memory of the space", space.MemoryMB, 600},
		{"instances", space.Instances, 10}, {"log rate", int(org.LogRate), 900}, {"tasks of an app", tasks, 2},
		{"routes", space.Routes, 5},
		{"domains", org.Domains, 2}, {"services", org.ServiceInstances, 3}, {"keys", org.ServiceKeys, 2},
	} {
		peak[c.what] = max(peak[c.what], c.got)
		if c.got > c.most {
			t.Errorf("%s: %d in use, the quota allows %d", c.what, c.got, c.most)
		}
	}
	if org.UnlimitedLogs {
		t.Error("something logs without a limit, which the quota does not allow")
	}
}
