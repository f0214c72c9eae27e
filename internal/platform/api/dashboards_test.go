package api_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"ingot/internal/platform/services"
	"ingot/internal/platform/services/brokertest"
)

// catalogued is a broker whose catalog asks for a dashboard client.
type catalogued struct {
	mu     sync.Mutex
	client map[string]any
}

func (c *catalogued) set(client map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = client
}

func (c *catalogued) change(catalog map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return
	}
	catalog["services"].([]any)[0].(map[string]any)["dashboard_client"] = c.client
}

func (d *dashboards) ids() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(d.clients)), " ")
}

// TestDashboardClients follows the OAuth client of a broker's dashboard through
// the life of the broker.
func TestDashboardClients(t *testing.T) {
	t.Parallel()
	c := &catalogued{}
	client := func(id, secret string) map[string]any {
		return map[string]any{"id": id, "secret": secret, "redirect_uri": "https://dashboard.example.org/callback"}
	}
	c.set(client("dash", "one"))
	m := newMarket(t, &brokertest.Broker{Change: c.change})
	if got := m.dashboards.ids(); got != "cf dash" {
		t.Fatalf("clients %s", got)
	}
	m.one(step{do: "GET /v3/service_brokers?names=b", want: 200, save: "broker"})
	refresh := func() *answer {
		t.Helper()
		return m.job(step{do: "PATCH /v3/service_brokers/$broker", body: `{"url":"$url"}`, want: 202})
	}
	expect := func(j *answer, state, ids, why string) {
		t.Helper()
		if j.at("state") != state || m.dashboards.ids() != ids || !strings.Contains(j.body, why) {
			t.Errorf("clients %s, want %s; job %s, want %s %q", m.dashboards.ids(), ids, j.body, state, why)
		}
	}
	// The same again changes nothing, another secret does.
	expect(refresh(), "COMPLETE", "cf dash", "")
	if m.dashboards.puts != 1 {
		t.Errorf("the client was stored %d times", m.dashboards.puts)
	}
	c.set(client("dash", "two"))
	expect(refresh(), "COMPLETE", "cf dash", "")
	if got := m.dashboards.clients["dash"]; got.Secret != "two" ||
		got.RedirectURI != "https://dashboard.example.org/callback" {
		t.Errorf("the client is %+v", got)
	}
	// A client that exists and is not the broker's is refused.
	c.set(client("cf", "mine"))
	expect(refresh(), "FAILED", "cf dash", "Service dashboard client id must be unique")
	if got := m.dashboards.clients["cf"]; got.Secret != "" {
		t.Errorf("the client of others is %+v", got)
	}
	c.set(map[string]any{"id": "x", "secret": "", "redirect_uri": "javascript:alert(1)"})
	expect(refresh(), "FAILED", "cf dash", "Service dashboard client secret must be a string")
	c.set(client("other", "three"))
	expect(refresh(), "COMPLETE", "cf other", "")
	// Nor another broker's.
	second := &catalogued{}
	second.set(client("other", "four"))
	m.vars["url2"] = brokertest.New(t, &brokertest.Broker{Offering: "second", Change: second.change}).URL
	const login = `,"authentication":{"type":"basic","credentials":{"username":"broker-user","password":"broker-password"}}`
	m.fails(step{do: "POST /v3/service_brokers", want: 202, body: `{"name":"second","url":"$url2"` + login + `}`},
		"Service dashboard client id must be unique")
	// Where clients cannot be kept the catalog is taken all the same.
	m.dashboards.mu.Lock()
	m.dashboards.refuse = fmt.Errorf("%w: 403", services.ErrNoDashboards)
	m.dashboards.mu.Unlock()
	c.set(client("third", "five"))
	expect(refresh(), "COMPLETE", "cf other", "dashboard client configuration will be ignored")
	m.dashboards.mu.Lock()
	m.dashboards.refuse = errors.New("no answer")
	m.dashboards.mu.Unlock()
	expect(refresh(), "FAILED", "cf other", "could not be updated in the authorization server")
	m.dashboards.mu.Lock()
	m.dashboards.refuse = nil
	m.dashboards.mu.Unlock()
	expect(refresh(), "COMPLETE", "cf third", "")
	m.play([]step{
		{do: "GET /v3/audit_events?types=audit.service_dashboard_client.create", want: 200,
			has: []string{`"guid":"dash"`, `"service_dashboard_client"`}},
		{do: "GET /v3/audit_events?types=audit.service_dashboard_client.delete", want: 200, has: []string{`"guid":"dash"`}},
		{do: "GET /v3/service_brokers/$broker", want: 200, not: []string{"five"}},
	})
	// With the broker goes its client.
	if j := m.job(step{do: "DELETE /v3/service_brokers/$broker",
		want: 202}); j.at("operation") != "service_broker.delete" {
		t.Errorf("job %s", j.body)
	} else {
		expect(j, "COMPLETE", "cf", "")
	}
	m.one(step{do: "GET /v3/service_brokers/$broker", want: 404})

	// A dashboard may ask what its user may do, and nothing else.
	for _, r := range m.broker.Requests("catalog") {
		if got := r.Header.Get("X-Api-Info-Location"); got != "api.example.com/v2/info" ||
			r.Header.Get("X-Broker-Api-Request-Identity") == "" {
			t.Errorf("headers %v", r.Header)
		}
	}
	tok := m.as("dev", "openid", "cloud_controller_service_permissions.read")
	m.one(step{as: "dev", do: "POST /v3/service_instances",
		body: `{"type":"user-provided","name":"ups","relationships":{"space":{"data":{"guid":"$space"}}}}`, want: 201,
		save: "ups"})
	m.want(m.call(tok, "GET", "/v3/service_instances/"+m.vars["ups"]+"/permissions", nil), 200)
	m.want(m.call(tok, "GET", "/v3/service_instances/"+m.vars["ups"], nil), 403)
	m.want(m.call("", "GET", "/v2/info", nil), 200)
}
