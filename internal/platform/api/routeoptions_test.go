package api_test

import (
	"strings"
	"testing"
)

// Routes can be balanced by a header once the feature flag allows it, with the
// rules and words of Cloud Controller.
func TestRouteOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(host, options string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/routes", body: `{"host":"` + host + `","options":` + options +
			`,"relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`, want: want, has: has,
			save: "route"}
	}
	bad := func(options string, has ...string) step {
		s := create("bad", options, 422, has...)
		s.save = ""
		return s
	}
	patch := func(options string, want int, has ...string) step {
		return step{as: "dev", do: "PATCH /v3/routes/$route", body: `{"options":` + options + `}`, want: want, has: has}
	}
	push := func(options string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest", want: want, has: has,
			body: "applications:\n- name: hashed\n  routes:\n  - route: hashed.apps.localhost\n    options: " + options + "\n"}
	}
	w.play([]step{
		bad(`{"loadbalancing":"hash","hash_header":"X-Tenant"}`, "Options Unknown field(s): 'hash_header'",
			"Options Loadbalancing must be one of 'round-robin, least-connection' if present"),
		bad(`{"hash_header":"X","hash_balance":1.5}`, "Options Unknown field(s): 'hash_balance', 'hash_header'"),
		push(`{loadbalancing: hash, hash_header: X-Tenant}`, 422,
			"Route 'hashed.apps.localhost' contains invalid route option 'hash_header'. Valid keys: 'loadbalancing, "+
				"proxy_protocol'",
			"Cannot use loadbalancing value 'hash' for Route 'hashed.apps.localhost'; Valid values are: 'round-robin, "+
				"least-connection'"),

		{do: "PATCH /v3/feature_flags/hash_based_routing", body: `{"enabled":true}`, want: 200},
		bad(`{"loadbalancing":"magic"}`,
			"Options Loadbalancing must be one of 'round-robin, least-connection, hash' if present"),
		bad(`{"loadbalancing":5}`, "Options Loadbalancing must be one of"),
		bad(`{"loadbalancing":"hash"}`, "Hash header must be present when loadbalancing is set to hash."),
		bad(`{"loadbalancing":"hash","hash_header":5}`, "Options Hash header must be a string"),
		bad(`{"loadbalancing":"hash","hash_header":"`+strings.Repeat("x", 129)+`"}`,
			"Options Hash header must be at most 128 characters"),
		bad(`{"loadbalancing":"round-robin","hash_header":"X"}`,
			"Options Hash header can only be set when loadbalancing is hash"),
		bad(`{"loadbalancing":"round-robin","hash_balance":2}`,
			"Options Hash balance can only be set when loadbalancing is hash"),
		bad(`{"loadbalancing":"hash","hash_header":"X","hash_balance":"much"}`,
			"Options Hash balance must be a numeric value"),
		bad(`{"loadbalancing":"hash","hash_header":"X","hash_balance":0.5}`,
			"Options Hash balance must be either 0 or between 1.1 and 10.0"),
		bad(`{"loadbalancing":"hash","hash_header":"X","hash_balance":10.1}`,
			"Options Hash balance must be either 0 or between 1.1 and 10.0"),
		bad(`{"loadbalancing":"hash","hash_header":"X","hash_balance":"12345678901234567"}`,
			"Options Hash balance must be at most 16 characters"),
		bad(`{"nonsense":1}`, "Options Unknown field(s): 'nonsense'"),

		create("number", `{"loadbalancing":"hash","hash_header":"X-Tenant","hash_balance":1.25}`, 201, `"hash_balance":"1.3"`,
			`"hash_header":"X-Tenant"`, `"loadbalancing":"hash"`),
		patch(`{"hash_balance":"2"}`, 200, `"hash_balance":"2.0"`, `"hash_header":"X-Tenant"`),
		patch(`{"hash_balance":null}`, 200, `"options":{"hash_header":"X-Tenant","loadbalancing":"hash"}`),
		patch(`{"hash_header":null}`, 422, "Hash header must be present when loadbalancing is set to hash."),
		patch(`{"loadbalancing":"least-connection"}`, 200, `"options":{"loadbalancing":"least-connection"}`),
		patch(`{"hash_header":"X-Other"}`, 200, `"options":{"loadbalancing":"least-connection"}`),
		patch(`{"loadbalancing":null}`, 200, `"options":{}`),
		create("text", `{"loadbalancing":"hash","hash_header":"X-Tenant","hash_balance":"0"}`, 201, `"hash_balance":"0.0"`),

		push(`{loadbalancing: 7}`, 422,
			"Invalid value for 'loadbalancing' for Route 'hashed.apps.localhost'; Valid values are: 'round-robin, "+
				"least-connection, hash'"),
		push(`{loadbalancing: hash, hash_header: X, hash_balance: 0.5}`, 422,
			"Route 'hashed.apps.localhost': Hash balance must be either 0 or between 1.1 and 10.0"),
		push(`{loadbalancing: hash, hash_header: X-Tenant, hash_balance: 1.5}`, 202),
		{as: "dev", do: "GET /v3/routes?hosts=hashed", want: 200, save: "route",
			has: []string{`"options":{"hash_balance":"1.5","hash_header":"X-Tenant","loadbalancing":"hash"}`}},
		push(`{hash_balance: 3}`, 202),
		{as: "dev", do: "GET /v3/routes?hosts=hashed", want: 200,
			has: []string{`"options":{"hash_balance":"3.0","hash_header":"X-Tenant","loadbalancing":"hash"}`}},

		// What has it keeps it when the flag goes, and can be changed back.
		{do: "PATCH /v3/feature_flags/hash_based_routing", body: `{"enabled":false}`, want: 200},
		{as: "dev", do: "PATCH /v3/routes/$route", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"loadbalancing":"hash"`}},
		push(`{loadbalancing: round-robin}`, 202),
		{as: "dev", do: "GET /v3/routes?hosts=hashed", want: 200, has: []string{`"options":{"loadbalancing":"round-robin"}`}},
	})
}
