package api_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
)

// Where an engine enforces no policies, none are created.
func TestNetworkPoliciesRefused(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, setupOptions(t, db.SQLite, func(o *api.Options) { o.NoPolicies = "not here" }))
	const body = `{"policies":[{"source":{"id":"$app"},"destination":{"id":"$app","protocol":"tcp","ports":{"start":1,"end":2}}}]}`
	w.play([]step{
		{as: "dev", do: "POST /networking/v1/external/policies", body: body, want: 400,
			has: []string{`{"error":"not here"}`}},
		{as: "dev", do: "POST /networking/v1/external/policies/delete", body: body, want: 200},
		{as: "dev", do: "GET /networking/v1/external/policies", want: 200, has: []string{`"total_policies":0`}},
	})
}

func TestNetworkPolicyScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vars["other"] = w.app(w.vars["space"], "other")
	const policies = "/networking/v1/external/policies"
	one := func(source, dest, protocol string, start, end int) string {
		return fmt.Sprintf(`{"policies":[{"source":{"id":%q},"destination":{"id":%q,"protocol":%q,"ports":{"start":%d,"end":%d}}}]}`, source, dest, protocol, start, end)
	}
	valid := one("$app", "$other", "tcp", 8080, 8090)
	const refused = `{"error":"one or more applications cannot be found or accessed"}`
	w.play([]step{
		{do: "GET /", want: 200, has: []string{`"network_policy_v1":{"href":"http://example.com/networking/v1/external"}`}},
		{as: "dev", do: "POST " + policies, body: valid, want: 200, has: []string{"{}"}},
		{as: "dev", do: "POST " + policies, body: valid, want: 200},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app", "udp", 53, 53), want: 200},
		{as: "dev", do: "GET " + policies, want: 200, has: []string{`"total_policies":2`, `"source":{"id":"$app"}`,
			`"destination":{"id":"$other","protocol":"tcp","ports":{"start":8080,"end":8090}}`}},
		{as: "dev", do: "GET " + policies + "?id=$other", want: 200, has: []string{`"total_policies":1`}},
		{as: "dev", do: "GET " + policies + "?id=$none,$app", want: 200, has: []string{`"total_policies":2`}},
		{as: "dev", do: "GET " + policies + "?source_id=$app&dest_id=$app", want: 200,
			has: []string{`"total_policies":1`, "udp"}},
		{as: "dev", do: "GET " + policies + "?dest_id=$none", want: 200, has: []string{`"total_policies":0,"policies":[]`}},
		// Only developers of both spaces change or see them.
		{as: "manager", do: "POST " + policies, body: valid, want: 403, has: []string{refused}},
		{as: "supporter", do: "POST " + policies + "/delete", body: valid, want: 403, has: []string{refused}},
		{as: "auditor", do: "GET " + policies, want: 200, has: []string{`"total_policies":0`}},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app2", "tcp", 1, 2), want: 403, has: []string{refused}},
		{as: "dev", do: "POST " + policies, body: one("$none", "$app", "tcp", 1, 2), want: 403, has: []string{refused}},
		{do: "POST " + policies, body: one("$app", "$app2", "tcp", 1, 2), want: 200},
		{do: "POST " + policies, body: one("$app", "$none", "tcp", 1, 2), want: 403, has: []string{refused}},
		{as: "dev", do: "GET " + policies, want: 200, has: []string{`"total_policies":2`}, not: []string{"$app2"}},
		{do: "GET " + policies, want: 200, has: []string{`"total_policies":3`}},

		{as: "dev", do: "POST " + policies, body: `{"policies":[]}`, want: 400,
			has: []string{`{"error":"mapper: validate policies: missing policies"}`}},
		{as: "dev", do: "POST " + policies, body: `nonsense`, want: 400, has: []string{"mapper: unmarshal json"}},
		{as: "dev", do: "POST " + policies, body: one("", "$app", "tcp", 1, 2), want: 400,
			has: []string{"missing source id"}},
		{as: "dev", do: "POST " + policies, body: one("$app", "", "tcp", 1, 2), want: 400,
			has: []string{"missing destination id"}},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app", "icmp", 1, 2), want: 400,
			has: []string{"invalid destination protocol, specify either udp or tcp"}},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app", "tcp", 3, 2), want: 400,
			has: []string{"invalid port range 3-2, start must be less than or equal to end"}},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app", "tcp", -1, 2), want: 400,
			has: []string{"invalid start port -1, must be in range 1-65535"}},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app", "tcp", 0, 2), want: 400,
			has: []string{"missing start port"}},
		{as: "dev", do: "POST " + policies, body: one("$app", "$app", "tcp", 1, 65536), want: 400,
			has: []string{"invalid end port 65536, must be in range 1-65535"}},
		{as: "dev", do: "POST " + policies, body: strings.Replace(valid, `"source":{`, `"source":{"tag":"1",`, 1), want: 400,
			has: []string{"tags may not be specified"}},

		{as: "dev", do: "POST " + policies + "/delete", body: valid, want: 200, has: []string{"{}"}},
		{as: "dev", do: "POST " + policies + "/delete", body: valid, want: 200},
		// Of an app that was deleted, with its policies.
		{do: "POST " + policies + "/delete", body: one("$app", "$none", "tcp", 1, 2), want: 200},
		{as: "dev", do: "POST " + policies + "/delete", body: one("$none", "$app", "tcp", 1, 2), want: 200},
		{as: "dev", do: "POST " + policies + "/delete", body: one("$none", "$app2", "tcp", 1, 2), want: 403,
			has: []string{refused}},
		{as: "dev", do: "GET " + policies, want: 200, has: []string{`"total_policies":1`}, not: []string{"$other"}},
		{do: "GET /v3/audit_events?target_guids=$app&types=audit.app.network-policy.create,audit.app.network-policy.delete",
			want: 200, has: []string{`"total_results":4`}},
	})
	// The limit of a source.
	var many []string
	for port := range platform.MaxPolicies {
		many = append(many, strings.TrimSuffix(strings.TrimPrefix(one("$other", "$app", "tcp", port+1, port+1),
			`{"policies":[`), `]}`))
	}
	w.play([]step{
		{as: "dev", do: "POST " + policies, body: `{"policies":[` + strings.Join(many, ",") + `]}`, want: 200},
		{as: "dev", do: "POST " + policies, body: one("$other", "$app", "udp", 1, 1), want: 403,
			has: []string{`{"error":"policy quota exceeded"}`}},
		{as: "dev", do: "POST " + policies, body: one("$other", "$app", "tcp", 1, 1), want: 200}, // exists
	})
	admin := w.as("networker", platform.ScopeNetworkAdmin)
	w.want(w.call(admin, "POST", policies, w.expand(one("$other", "$app2", "udp", 1, 1))), 200)
	if all := w.want(w.call(admin, "GET", policies, nil), 200); all.at("total_policies") != float64(platform.MaxPolicies+
		3) {
		t.Errorf("a network administrator sees %v policies", all.at("total_policies"))
	}
	w.want(w.call(w.as("reader", "uaa.user"), "GET", policies, nil), 403)
	// They go with their apps.
	w.one(step{do: "DELETE /v3/apps/$other", want: 202})
	w.one(step{do: "GET " + policies, want: 200, has: []string{`"total_policies":2`}})
}
