package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// TestServices tests the seed's service commands with the real cf client, a test
// broker and one server.
func TestServices(t *testing.T) {
	t.Parallel()
	var slow, held atomic.Bool
	answer := make(chan struct{})
	b := brokertest.New(t, &brokertest.Broker{Polls: 1, Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
		if r.Operation() == "provision" && slow.Load() {
			<-answer
		}
		if r.Operation() == "last_operation" && held.Load() {
			return &brokertest.Reply{Status: http.StatusOK, Body: map[string]any{"state": "in progress"}}, false
		}
		return nil, false
	}})
	s := startApps(t, options{Engine: "process", Args: []string{"--broker-timeout", "20s"}})
	t.Cleanup(func() { s.emptySpace(t) })
	home := s.admin(t)
	serviceBrokers(t, home, b)
	cfOK(t, home, pushProbe(t, "svc", "--no-start")...)
	together(t,
		part{"life", func(t *testing.T) { serviceLife(t, s, home, b) }},
		part{"async", func(t *testing.T) { serviceAsync(t, s, &held) }},
		part{"provided", func(t *testing.T) { serviceProvided(t, s) }},
		part{"rotate", func(t *testing.T) { serviceRotate(t, s) }},
	)
	testkit.Eventually(t, "nothing is left at the broker", func() bool { return len(b.Instances()) == 0 })
	// The server does not wait for a broker that does not respond in time; what
	// the broker creates later is deleted with the instance.
	slow.Store(true)
	out, code := cf(t, home, "create-service", "fake", "sync", "late", "--wait")
	if code != 1 || !strings.Contains(out, "timed out") {
		t.Errorf("a slow broker: %d %s", code, out)
	}
	close(answer)
	testkit.Eventually(t, "the broker answers nevertheless", func() bool { return len(b.Instances()) == 1 })
	cfOK(t, home, "delete-service", "late", "-f", "--wait")
	testkit.Eventually(t, "nothing is left at the broker", func() bool { return len(b.Instances()) == 0 })
}

// TestDashboardClient has the OAuth client of a broker's dashboard created in the
// authorization server, and deleted with the broker.
func TestDashboardClient(t *testing.T) {
	t.Parallel()
	b := brokertest.New(t, &brokertest.Broker{Change: func(catalog map[string]any) {
		all := catalog["services"].([]any)
		all[0].(map[string]any)["dashboard_client"] = map[string]any{"id": "dash", "secret": "s3cret",
			"redirect_uri": "http://127.0.0.1:1/callback"}
	}})
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	cfOK(t, home, "create-service-broker", "dashes", brokertest.Username, brokertest.Password, b.URL)
	// The authorization server accepts the client's secret.
	grant := func() int {
		return s.call(t, http.MethodPost, s.API+"/oauth/token?grant_type=authorization_code&code=none", "", nil,
			header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("dash:s3cret"))},
			header{"Content-Type", "application/x-www-form-urlencoded"}).Status
	}
	if got := grant(); got != http.StatusBadRequest { // a wrong code of a known client
		t.Errorf("the client of the dashboard gets %d", got)
	}
	info := b.Requests("catalog")[0].Header.Get("X-Api-Info-Location")
	contains(t, s.call(t, http.MethodGet, "http://"+info, "", nil).want(t, http.StatusOK).String(),
		"authorization_endpoint")
	cfOK(t, home, "delete-service-broker", "dashes", "-f")
	if got := grant(); got != http.StatusUnauthorized {
		t.Errorf("after the broker is gone its client gets %d", got)
	}
}

// emptySpace deletes what failed tests left over.
func (s *site) emptySpace(t *testing.T) {
	t.Helper()
	token := s.adminToken(t)
	for _, i := range s.list(t, token, "/v3/service_instances?per_page=5000") {
		s.call(t, http.MethodDelete, "/v3/service_instances/"+i["guid"].(string)+"?purge=true", token, nil)
	}
}

func serviceBrokers(t *testing.T, home string, b *brokertest.Broker) {
	t.Helper()
	cfFails(t, home, "Authentication with the service broker 'fakes' failed", "create-service-broker", "fakes", "u",
		"wrong", b.URL)
	cfOK(t, home, "delete-service-broker", "fakes", "-f")
	cfOK(t, home, "create-service-broker", "fakes", brokertest.Username, brokertest.Password, b.URL)
	contains(t, cfOK(t, home, "service-brokers"), "fakes", b.URL)
	contains(t, cfOK(t, home, "service-access"), "fakes", "sync", "none")
	cfOK(t, home, "enable-service-access", "fake", "-p", "sync", "-o", "demo")
	contains(t, columns(cfOK(t, home, "service-access")), "fake sync limited demo")
	cfOK(t, home, "enable-service-access", "fake")
	contains(t, columns(cfOK(t, home, "service-access")), "fake sync all", "fake async all")
	cfOK(t, home, "disable-service-access", "fake", "-p", "garbage")
	contains(t, cfOK(t, home, "marketplace"), "fake", "sync, paid, async", "For tests", "fakes")
	contains(t, columns(cfOK(t, home, "marketplace", "-e", "fake")), "sync works: sync free",
		"paid works: paid paid USD 9.50/MONTHLY")
	cfOK(t, home, "update-service-broker", "fakes", brokertest.Username, brokertest.Password, b.URL)
}

// serviceLife tests all operations on an instance that is created synchronously.
func serviceLife(t *testing.T, s *site, home string, b *brokertest.Broker) {
	contains(t, cfOK(t, home, "create-service", "fake", "sync", "db", "-c", `{"size":3}`, "-t", "mine,sql", "--wait"),
		"Service instance db created", "OK")
	contains(t, cfOK(t, home, "create-service", "fake", "sync", "db"), "Service instance db already exists")
	cfFails(t, home, "Parameters are not valid", "create-service", "fake", "sync", "bad", "-c", `{"size":0}`)
	cfFails(t, home, "this plan never works", "create-service", "fake", "fails", "never", "--wait")
	cfOK(t, home, "delete-service", "never", "-f")
	contains(t, cfOK(t, home, "create-service", "fake", "paid", "dear"), "The plan 'paid' is not free")
	contains(t, columns(cfOK(t, home, "services")), "db fake sync create succeeded fakes",
		"dear fake paid create succeeded fakes")
	contains(t, columns(cfOK(t, home, "service", "db")), "name: db", "offering: fake", "plan: sync", "broker: fakes",
		"tags: mine, sql", "status: create succeeded", "dashboard url: https://example.org/dashboard")
	contains(t, cfOK(t, home, "service", "db", "--params"), `"size": 3`)
	contains(t, cfOK(t, home, "update-service", "db", "-c", `{"size":4}`, "-t", "other", "--wait"),
		"Update of service instance db complete")
	contains(t, cfOK(t, home, "update-service", "db", "-p", "paid", "--wait"), "complete")
	cfOK(t, home, "rename-service", "db", "database")

	contains(t, cfOK(t, home, "bind-service", "svc", "database", "--wait"), "TIP")
	contains(t, cfOK(t, home, "bind-service", "svc", "database"), "already bound")
	contains(t, cfOK(t, home, "env", "svc"), `"fake": [`, `"instance_name": "database"`, `"plan": "paid"`, `"other"`,
		`"port": 5432`)
	contains(t, columns(cfOK(t, home, "services")), "database fake paid svc update succeeded fakes")
	cfOK(t, home, "start", "svc")
	env := s.environment(t, "svc")
	var vcap map[string][]map[string]any
	if err := json.Unmarshal([]byte(env["VCAP_SERVICES"]), &vcap); err != nil || len(vcap["fake"]) != 1 {
		t.Fatalf("VCAP_SERVICES is %q, %v", env["VCAP_SERVICES"], err)
	}
	credentials, _ := vcap["fake"][0]["credentials"].(map[string]any)
	if uri, _ := credentials["uri"].(string); uri == "" || env["DATABASE_URL"] != strings.Replace(uri, "postgresql:",
		"postgres:", 1) {
		t.Errorf("DATABASE_URL is %q, the uri %q", env["DATABASE_URL"], uri)
	}
	cfOK(t, home, "unbind-service", "svc", "database", "--wait")
	contains(t, cfOK(t, home, "unbind-service", "svc", "database"), "does not exist")

	contains(t, cfOK(t, home, "create-service-key", "database", "k", "--wait"), "OK")
	contains(t, cfOK(t, home, "create-service-key", "database", "k"), "already exists")
	contains(t, cfOK(t, home, "service-keys", "database"), "k")
	contains(t, cfOK(t, home, "service-key", "database", "k"), `"password": "secret-`, `"port": 5432`)
	cfOK(t, home, "delete-service-key", "database", "k", "-f", "--wait")
	// Deleting a space deletes instances with bindings, keys and shares.
	cfOK(t, home, "bind-service", "svc", "database", "--wait")
	cfOK(t, home, "create-service-key", "database", "k2", "--wait")

	cfOK(t, home, "create-space", "second")
	cfOK(t, home, "enable-feature-flag", "service_instance_sharing")
	cfOK(t, home, "share-service", "database", "-s", "second")
	contains(t, cfOK(t, home, "service", "database"), "second")
	cfOK(t, home, "unshare-service", "database", "-s", "second", "-f")
	cfOK(t, home, "share-service", "database", "-s", "second")
	contains(t, cfOK(t, home, "delete-service", "database", "-f", "--wait"), "deleted")
	cfOK(t, home, "delete-service", "dear", "-f", "--wait")
}

// serviceAsync tests an instance that is created asynchronously, and is deleted
// with its app's space. The broker does not finish while it is held.
func serviceAsync(t *testing.T, s *site, held *atomic.Bool) {
	home := s.admin(t)
	cfOK(t, home, "create-space", "async")
	cfOK(t, home, "target", "-s", "async")
	held.Store(true) // or it may be done when cf looks
	contains(t, cfOK(t, home, "create-service", "fake", "async", "later"), "in progress")
	held.Store(false)
	testkit.Eventually(t, "the instance is made", func() bool {
		return strings.Contains(columns(cfOK(t, home, "services")), "later fake async create succeeded fakes")
	})
	manifest := write(t, "manifest.yml",
		"applications:\n- name: with\n  services:\n  - name: later\n    binding_name: main\n")
	cfOK(t, home, "create-app", "with")
	cfOK(t, home, "apply-manifest", "-f", manifest)
	contains(t, cfOK(t, home, "env", "with"), `"binding_name": "main"`, `"label": "fake"`)
	cfFails(t, home, "it broke", "create-service", "fake", "breaks", "broken", "--wait")
	contains(t, cfOK(t, home, "delete-space", "async", "-f"), "OK")
}

// serviceProvided tests a user-provided service, with credentials from files.
func serviceProvided(t *testing.T, s *site) {
	home := s.admin(t)
	cfOK(t, home, "create-space", "provided")
	cfOK(t, home, "target", "-s", "provided")
	cfOK(t, home, "create-user-provided-service", "ups", "-p", `{"username":"me","n":7}`, "-l",
		"syslog://127.0.0.1:1", "-t", "x")
	contains(t, columns(cfOK(t, home, "services")), "ups user-provided")
	cfOK(t, home, "update-user-provided-service", "ups", "-p", `{"username":"you"}`)
	cfOK(t, home, pushProbe(t, "files", "--no-start")...)
	contains(t, cfOK(t, home, "bind-service", "files", "ups", "--binding-name", "main"), "OK")
	contains(t, cfOK(t, home, "env", "files"), `"user-provided": [`, `"username": "you"`,
		`"syslog_drain_url": "syslog://127.0.0.1:1"`)
	cfOK(t, home, "curl", "-X", "PATCH", "/v3/apps/"+guid(t, home, "files")+"/features/service-binding-k8s", "-d",
		`{"enabled":true}`)
	cfOK(t, home, "start", "files")
	env := s.environment(t, "files")
	if s.options.Engine == "container" && env["SERVICE_BINDING_ROOT"] != "/etc/cf-service-bindings" ||
		env["SERVICE_BINDING_ROOT"] == "" || env["VCAP_SERVICES"] != "" {
		t.Errorf("SERVICE_BINDING_ROOT is %q, VCAP_SERVICES %q", env["SERVICE_BINDING_ROOT"], env["VCAP_SERVICES"])
	}
	cfOK(t, home, "unbind-service", "files", "ups")
	cfOK(t, home, "delete-service", "ups", "-f")
	cfOK(t, home, "delete-space", "provided", "-f")
}
