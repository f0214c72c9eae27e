package api_test

import "testing"

// TestV2ForPlugins: what the cf CLI reads for its plugins, in the form that it decodes.
func TestV2ForPlugins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{as: "dev", do: "GET /v2/organizations?q=name%3Ao&inline-relations-depth=1", want: 200,
			has: []string{`"total_results":1`, `"total_pages":1`, `"next_url":null`, `"metadata":{`, `"guid":"$org"`,
				`"entity":{`, `"name":"o"`, `"status":"active"`}},
		{as: "dev", do: "GET /v2/organizations?q=name:absent", want: 200, has: []string{`"total_results":0`,
			`"resources":[]`}},
		{as: "dev", do: "GET /v2/organizations/$org2", want: 404,
			has: []string{`"code":10010`, `"description":"Organization not found"`, `"error_code":"CF-ResourceNotFound"`}},
		{as: "stranger", do: "GET /v2/organizations", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v2/organizations/$org/spaces?order-by=name&q=name:S", want: 200,
			has: []string{`"guid":"$space"`, `"organization":{"entity":{"name":"o"}`, `"allow_ssh":true`}},
		{as: "dev", do: "GET /v2/organizations/$org2/spaces", want: 404},
		{as: "dev", do: "GET /v2/spaces?q=organization_guid:$org;name%20IN%20s,t", want: 200,
			has: []string{`"total_results":1`}},
		{as: "dev", do: "GET /v2/spaces/$space/apps?q=name%3Aapp&inline-relations-depth=1", want: 200,
			has: []string{`"guid":"$app"`, `"name":"app"`, `"memory":`, `"instances":1`, `"stack":{"entity":{"description":`,
				`"name":"cflinuxfs4"`, `"enable_ssh":true`}, not: []string{"environment_json", `"command"`}},
		{as: "dev", do: "GET /v2/spaces/$space/apps?q=name:absent", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v2/apps?q=space_guid:$space&results-per-page=1", want: 200, has: []string{`"guid":"$app"`}},
		{as: "dev", do: "GET /v2/apps/$app2", want: 404},
		{as: "dev", do: "GET /v2/apps/$app", want: 200, has: []string{`"url":"/v2/apps/$app"`}},
		{as: "dev", do: "GET /v2/stacks?q=name:cflinuxfs4", want: 200, has: []string{`"total_results":1`}},

		{as: "dev", do: "PATCH /v3/apps/$app/environment_variables", body: `{"var":{"TOKEN":"hush"}}`, want: 200},
		{as: "dev", do: "GET /v2/apps/$app/summary", want: 200, has: []string{`"environment_json":{`, `"TOKEN":"hush"`,
			`"running_instances":0`, `"routes":[`, `"services":[]`}},
		{as: "auditor", do: "GET /v2/apps/$app/summary", want: 200, has: []string{`"name":"app"`},
			not: []string{"hush", "environment_json", `"command"`}},
		{as: "stranger", do: "GET /v2/apps/$app/summary", want: 404},
		{as: "dev", do: "GET /v2/spaces/$space/summary", want: 200, has: []string{`"apps":[{`, `"guid":"$app"`,
			`"services":[]`}, not: []string{"hush"}},
		{as: "dev", do: "GET /v2/apps/$app/instances", want: 400,
			has: []string{`"code":220001`, `"error_code":"CF-InstancesError"`}},
		{as: "dev", do: "GET /v2/apps/$app/stats", want: 400, has: []string{`"code":220001`}},

		{as: "dev", do: "GET /v2/apps?q=nonsense", want: 400, has: []string{"q must be NAME:VALUE"}},
		{as: "dev", do: "GET /v2/apps?q=color:red", want: 400, has: []string{`q cannot filter by`}},
		{as: "dev", do: "GET /v2/apps?results-per-page=101", want: 400},
		{as: "dev", do: "GET /v2/apps?page=0", want: 400},
		{as: "dev", do: "POST /v2/apps", body: `{}`, want: 404},
		{as: "dev", do: "DELETE /v2/apps/$app", want: 404},
	})
	w.staged()
	w.play([]step{
		{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200},
		{as: "dev", do: "GET /v2/apps/$app/instances", want: 200, has: []string{`"0":{`, `"state":"DOWN"`}},
		{as: "dev", do: "GET /v2/apps/$app/stats", want: 200, has: []string{`"0":{`, `"mem_quota":`}},
	})
}
