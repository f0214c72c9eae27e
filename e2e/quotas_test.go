package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestQuotas runs the quota commands of Cloud Foundry's test suites and of
// operators with the real cf client.
func TestQuotas(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	orgQuotas(t, home)
	spaceQuotas(t, home)
	quotasHold(t, s, home)
	compatible(t, s, home)
}

func orgQuotas(t *testing.T, home string) {
	t.Helper()
	contains(t, columns(cfOK(t, home, "org-quotas")),
		"default unlimited unlimited unlimited unlimited allowed unlimited unlimited unlimited")
	contains(t, columns(cfOK(t, home, "org", "demo")), "quota: default")
	// The old name of the command, as suites use it.
	cfOK(t, home, "create-quota", "runaway", "-m", "10G", "-i", "-1", "-r", "1000", "-s", "100", "-a", "-1",
		"--allow-paid-service-plans", "--reserved-route-ports", "20")
	contains(t, columns(cfOK(t, home, "org-quota", "runaway")),
		"total memory: 10G", "instance memory: unlimited", "routes: 1000", "service instances: 100",
		"paid service plans: allowed", "app instances: unlimited", "route ports: 20", "log volume per second: unlimited")
	contains(t, cfOK(t, home, "create-org-quota", "runaway"), "already exists")
	cfOK(t, home, "create-org-quota", "small", "-m", "128M", "-i", "64M", "-a", "2", "-r", "3", "-s", "1", "-l", "1M")
	cfOK(t, home, "update-org-quota", "small", "-n", "smaller", "-m", "192M", "-l", "-1", "--disallow-paid-service-plans")
	contains(t, columns(cfOK(t, home, "org-quotas")), "smaller 192M 64M 3 1 disallowed 2")
	contains(t, columns(cfOK(t, home, "quotas")), "runaway 10G unlimited 1000 100 allowed unlimited 20")

	cfOK(t, home, "create-org", "suite", "-q", "runaway")
	contains(t, columns(cfOK(t, home, "org", "suite")), "quota: runaway")
	cfOK(t, home, "set-org-quota", "suite", "smaller")
	contains(t, columns(cfOK(t, home, "org", "suite")), "quota: smaller")
	cfFails(t, home, "This quota is applied to one or more organizations", "delete-org-quota", "smaller", "-f")
	cfOK(t, home, "set-quota", "suite", "runaway")
	cfOK(t, home, "delete-quota", "smaller", "-f")
	cfFails(t, home, "not found", "org-quota", "smaller")
}

func spaceQuotas(t *testing.T, home string) {
	t.Helper()
	cfOK(t, home, "target", "-o", "demo", "-s", "dev")
	cfOK(t, home, "create-space-quota", "tight", "-m", "1G", "-i", "256M", "-r", "10", "-s", "5", "-a", "20",
		"--allow-paid-service-plans", "--reserved-route-ports", "2", "-l", "2M")
	contains(t, cfOK(t, home, "create-space-quota", "tight"), "already exists")
	contains(t, columns(cfOK(t, home, "space-quota", "tight")), "total memory: 1G", "instance memory: 256M", "routes: 10",
		"app instances: 20", "route ports: 2", "log volume per second: 2M")
	contains(t, columns(cfOK(t, home, "space-quotas")), "tight 1G 256M 10 5 allowed 20 2 2M")
	cfOK(t, home, "update-space-quota", "tight", "-n", "tighter", "-m", "160M", "-l", "-1")
	cfOK(t, home, "set-space-quota", "dev", "tighter")
	contains(t, columns(cfOK(t, home, "space", "dev")), "quota: tighter")
	cfOK(t, home, "unset-space-quota", "dev", "tighter")
	cfOK(t, home, "set-space-quota", "dev", "tighter")
}

// quotasHold pushes and scales up to the limits.
func quotasHold(t *testing.T, s *site, home string) {
	t.Helper()
	cfOK(t, home, pushProbe(t, "Mixed-Case", "-i", "2")...)
	s.running(t, guid(t, home, "Mixed-Case"), 2) // cf waits for one of them
	cfFails(t, home, "memory space_quota_exceeded", "scale", "Mixed-Case", "-i", "3")
	cfFails(t, home, "memory space_instance_memory_limit_exceeded", "scale", "Mixed-Case", "-m", "512M", "-f")
	cfFails(t, home, "memory_in_mb exceeds space memory quota", "run-task", "Mixed-Case", "--command", "true", "-m", "64M")
	contains(t, columns(cfOK(t, home, "app", "Mixed-Case")), "instances: 2/2", "routes: Mixed-Case.apps.localhost")
	s.get(t, "mixed-case", "/").want(t, http.StatusOK)
	s.get(t, "MIXED-CASE", "/").want(t, http.StatusOK)

	cfOK(t, home, "delete-space-quota", "tighter", "-f")
	contains(t, columns(cfOK(t, home, "space", "dev")), "quota:")
	cfOK(t, home, "scale", "Mixed-Case", "-i", "3")
	cfOK(t, home, "scale", "Mixed-Case", "-i", "1")

	cfOK(t, home, "create-org-quota", "no-routes", "-m", "1G", "-r", "1", "-a", "-1")
	cfOK(t, home, "set-org-quota", "demo", "no-routes")
	cfFails(t, home, "Routes quota exceeded for organization 'demo'.", "create-route", "apps.localhost", "-n", "one-more")
	cfOK(t, home, "set-org-quota", "demo", "default")
	cfOK(t, home, "create-route", "apps.localhost", "-n", "One-More")
	contains(t, cfOK(t, home, "routes"), "One-More")
}

// newestDeployment returns the guid of the newest deployment of an app, or "".
func (s *site) newestDeployment(t *testing.T, app string) string {
	t.Helper()
	all := s.list(t, s.adminToken(t), "/v3/deployments?order_by=-created_at&per_page=1&app_guids="+app)
	if len(all) == 0 {
		return ""
	}
	return all[0]["guid"].(string)
}

// compatible tests requests that Cloud Foundry's test suites send.
func compatible(t *testing.T, s *site, home string) {
	t.Helper()
	app := guid(t, home, "Mixed-Case")
	cfOK(t, home, "curl", "--fail", "-X", "POST", "/v3/processes/"+app+"/actions/scale", "-d", `{"memory_in_mb":"72","instances":"2"}`)
	contains(t, cfOK(t, home, "curl", "/v3/processes/"+app+"?embed=process_instances"), `"process_instances":[`,
		`"memory_in_mb":72`)
	s.running(t, app, 2)

	// A deployment exists after a command that does not wait for it.
	for _, command := range [][]string{
		pushProbe(t, "Mixed-Case", "-i", "2", "--strategy", "rolling", "--no-wait"),
		{"restart", "Mixed-Case", "--strategy", "rolling", "--no-wait"},
		{"restage", "Mixed-Case", "--strategy", "rolling", "--no-wait"},
		pushProbe(t, "Mixed-Case", "-i", "1", "--strategy", "rolling", "--no-wait"),
		{"restart", "Mixed-Case", "--strategy", "rolling", "--no-wait"},
		{"restart", "Mixed-Case", "--strategy", "rolling", "--no-wait"},
		{"restart", "Mixed-Case", "--strategy", "rolling", "--no-wait"},
	} {
		before := s.newestDeployment(t, app)
		cfOK(t, home, command...)
		if s.newestDeployment(t, app) == before {
			t.Errorf("%s made no deployment", strings.Join(command[:2], " "))
		}
		if out := cfOK(t, home, "app", "Mixed-Case"); !strings.Contains(out, "Active deployment with status") {
			// On a slow machine it may be over by now.
			took := cfOK(t, home, "curl", "/v3/deployments?order_by=-created_at&per_page=1&app_guids="+app)
			t.Logf("%s: no deployment is shown\n%s\n%s", strings.Join(command[:2], " "), out, took)
			contains(t, took, `"reason":"DEPLOYED"`)
		}
		s.awaitDeployment(t, app, "DEPLOYED")
	}
	contains(t, cfOK(t, home, "logs", "Mixed-Case", "--recent"), "Applied manifest to app with guid "+app)
	contains(t, cfOK(t, home, "events", "Mixed-Case"), "audit.app.apply_manifest", "audit.app.update")
	cfFails(t, home, "Network policies cannot be created here", "add-network-policy", "Mixed-Case", "Mixed-Case")
}
