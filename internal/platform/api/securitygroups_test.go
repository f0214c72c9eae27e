package api_test

import (
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/api"

	"ingot/internal/base/db"
)

func TestSecurityGroupScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const group = "/v3/security_groups/$group"
	w.play([]step{
		{do: "POST /v3/security_groups",
			body: `{"name":"db","rules":[{"protocol":"tcp","destination":"10.0.0.0/24","ports":"443,80,8080","log":true,"description":"d"},` +
				`{"protocol":"icmp","destination":"10.0.0.1-10.0.0.9","type":8,"code":0},{"protocol":"all","destination":"1.1.1.1,2.2.2.0/24,10.0.0.0-10.0.0.255"}]}`,
			want: 201, save: "group", has: []string{`"ports":"443,80,8080"`, `"log":true`, `"description":"d"`,
				`"type":8,"code":0`, `"globally_enabled":{"running":false,"staging":false}`,
				`"running_spaces":{"data":[]}`, "/v3/security_groups/"}},
		{do: "POST /v3/security_groups", body: `{"name":"DB"}`, want: 422,
			has: []string{"Security group with name 'DB' already exists."}},
		{do: "POST /v3/security_groups", body: `{}`, want: 422, has: []string{"Name can't be blank"}},
		{do: "POST /v3/security_groups", body: `{"name":"` + strings.Repeat("x", 251) + `"}`, want: 422,
			has: []string{"Name is too long (maximum is 250 characters)"}},
		{do: "POST /v3/security_groups", body: `{"name":"x","globally_enabled":{"nonsense":true}}`, want: 422,
			has: []string{"Globally enabled only allows keys 'running' or 'staging'"}},
		{do: "POST /v3/security_groups", body: `{"name":"x","globally_enabled":{"running":1}}`, want: 422,
			has: []string{"Globally enabled values must be booleans"}},
		{do: "POST /v3/security_groups", body: `{"name":"x","relationships":{"running_spaces":{"data":[{"guid":"$none"}]}}}`,
			want: 422, has: []string{"Spaces with guids"}},
		{as: "orgmanager", do: "POST /v3/security_groups", body: `{"name":"x"}`, want: 403},
		{do: "POST /v3/security_groups", body: `{"name":"all","globally_enabled":{"running":true},"relationships":{"staging_spaces":{"data":[{"guid":"$space2"},{"guid":"$space2"}]}}}`,
			want: 201, save: "all", has: []string{`"rules":[]`, `"running":true,"staging":false`,
				`"staging_spaces":{"data":[{"guid":"$space2"}]}`}},

		// Only an administrator sees a group that is bound nowhere.
		{as: "orgmanager", do: "GET " + group, want: 404, has: []string{"Security group not found"}},
		{as: "manager", do: "POST " + group + "/relationships/running_spaces",
			body: `{"data":[{"guid":"$space"}]}`, want: 404},
		{as: "dev", do: "GET /v3/security_groups", want: 200, has: []string{`"total_results":1`, "$all"},
			not: []string{"$group", "$space2"}},
		{do: "POST " + group + "/relationships/running_spaces", body: `{"data":[{"guid":"$space2"}]}`, want: 200,
			has: []string{`"data":[{"guid":"$space2"}]`, group + "/relationships/running_spaces"}},
		{do: "POST " + group + "/relationships/staging_spaces", body: `{"data":[{"guid":"$space"}]}`, want: 200,
			has: []string{`"data":[{"guid":"$space"}]`}},
		// Then managers of spaces bind it to others.
		{as: "dev", do: "GET " + group, want: 200, has: []string{`"staging_spaces":{"data":[{"guid":"$space"}]}`,
			`"running_spaces":{"data":[]}`}, not: []string{"$space2"}},
		{as: "dev", do: "POST " + group + "/relationships/running_spaces", body: `{"data":[{"guid":"$space"}]}`, want: 403},
		{as: "supporter", do: "DELETE " + group + "/relationships/staging_spaces/$space", want: 403},
		{as: "manager", do: "POST " + group + "/relationships/running_spaces", body: `{"data":[{"guid":"$space"}]}`,
			want: 200, has: []string{`"data":[{"guid":"$space"}]`}, not: []string{"$space2"}},
		{as: "manager", do: "POST " + group + "/relationships/running_spaces",
			body: `{"data":[{"guid":"$space"}]}`, want: 200},
		{as: "manager", do: "POST " + group + "/relationships/running_spaces", body: `{"data":[{"guid":"$space2"}]}`,
			want: 422, has: []string{"do not exist, or you do not have access to them."}},
		{as: "manager", do: "POST " + group + "/relationships/running_spaces", body: `{"data":[]}`, want: 422},
		{as: "orgmanager", do: "PATCH " + group, body: `{"name":"mine"}`, want: 403},
		{as: "orgmanager", do: "DELETE " + group, want: 403},

		{as: "dev", do: "GET /v3/spaces/$space/running_security_groups", want: 200, has: []string{`"total_results":2`,
			"$group", "$all"}},
		{as: "dev", do: "GET /v3/spaces/$space/running_security_groups?names=db", want: 200,
			has: []string{`"total_results":1`, "$group"}},
		{as: "dev", do: "GET /v3/spaces/$space/staging_security_groups", want: 200,
			has: []string{`"total_results":1`, "$group"}},
		{as: "dev", do: "GET /v3/spaces/$space2/staging_security_groups", want: 404},
		{do: "GET /v3/security_groups?globally_enabled_running=true", want: 200, has: []string{`"total_results":1`, "$all"}},
		{do: "GET /v3/security_groups?globally_enabled_staging=true", want: 200, has: []string{`"total_results":0`}},
		{do: "GET /v3/security_groups?running_space_guids=$space,$space2&names=db", want: 200,
			has: []string{`"total_results":1`}},
		{do: "GET /v3/security_groups?staging_space_guids=$space2", want: 200, has: []string{`"total_results":1`, "$all"}},
		{as: "dev", do: "GET /v3/security_groups?staging_space_guids=$space2", want: 200, has: []string{`"total_results":0`}},
		{do: "GET /v3/security_groups?order_by=-name", want: 200, has: []string{`"total_results":2`}},

		{do: "PATCH " + group, body: `{"name":"postgres","globally_enabled":{"staging":true}}`, want: 200,
			has: []string{`"name":"postgres"`, `"running":false,"staging":true`, `"ports":"443,80,8080"`}},
		{do: "PATCH " + group, body: `{"rules":[]}`, want: 200, has: []string{`"rules":[]`, `"staging":true`}},
		{do: "PATCH " + group, body: `{"name":"all"}`, want: 422,
			has: []string{"Security group with name 'all' already exists."}},
		{do: "PATCH " + group, body: `{"relationships":{}}`, want: 422, has: []string{"Unknown field(s): 'relationships'"}},
		{do: "PATCH /v3/security_groups/$none", body: `{}`, want: 404},

		{as: "manager", do: "DELETE " + group + "/relationships/running_spaces/$space", want: 204},
		{as: "manager", do: "DELETE " + group + "/relationships/running_spaces/$space", want: 422,
			has: []string{"Unable to unbind security group from space with guid '$space'. Ensure the space is bound to this " +
				"security group."}},
		{as: "manager", do: "DELETE " + group + "/relationships/running_spaces/$space2", want: 422,
			has: []string{"Ensure the space is bound to this security group."}},
		{do: "DELETE " + group + "/relationships/running_spaces/$none", want: 422,
			has: []string{"Ensure the space is bound to this security group."}},
		{do: "GET /v3/audit_events?target_guids=$group", want: 200, has: []string{"audit.security_group.create",
			"audit.security_group.apply", "audit.security_group.update", "audit.security_group.unapply"}},
		// A deleted space is bound no more.
		{do: "DELETE /v3/spaces/$space2", want: 202},
		{do: "GET /v3/security_groups", want: 200, has: []string{`"total_results":2`}, not: []string{"$space2"}},
	})
	if job := w.job(step{do: "DELETE " + group, want: 202}); job.at("state") != "COMPLETE" ||
		job.at("operation") != "security_group.delete" {
		t.Errorf("job %s", job.body)
	}
	w.one(step{do: "GET " + group, want: 404})
}

// Where an engine does not enforce rules, users are told.
func TestSecurityGroupWarnings(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, setupOptions(t, db.SQLite, func(o *api.Options) {
		o.Enforces = func(g *platform.SecurityGroup) string { return g.Name + " is not enforced" }
	}))
	warned := func(s step) {
		t.Helper()
		if got := w.one(s).header.Get("X-Cf-Warnings"); got != "open+is+not+enforced" {
			t.Errorf("%s: the warning is %q", s.do, got)
		}
	}
	warned(step{do: "POST /v3/security_groups", body: `{"name":"open"}`, want: 201, save: "group"})
	warned(step{do: "PATCH /v3/security_groups/$group", body: `{"globally_enabled":{"running":true}}`, want: 200})
	warned(step{do: "POST /v3/security_groups/$group/relationships/running_spaces",
		body: `{"data":[{"guid":"$space"}]}`, want: 200})
}
