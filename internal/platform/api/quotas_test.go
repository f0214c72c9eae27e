package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/services/brokertest"
)

func TestOrganizationQuotaScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const all = `{"name":"small","apps":{"total_memory_in_mb":5120,"per_process_memory_in_mb":1024,"total_instances":10,"per_app_tasks":5,"log_rate_limit_in_bytes_per_second":16000},` +
		`"services":{"paid_services_allowed":false,"total_service_instances":3,"total_service_keys":20},"routes":{"total_routes":8,"total_reserved_ports":4},"domains":{"total_domains":7}`
	w.play([]step{
		// New organizations have the default.
		{as: "dev", do: "GET /v3/organization_quotas?names=default", want: 200, save: "default", has: []string{
			`"total_results":1`, `"total_memory_in_mb":null`, `"paid_services_allowed":true`, `"data":[{"guid":"$org"}]`},
			not: []string{"$org2"}},
		{do: "GET /v3/organizations/$org", want: 200, has: []string{`"quota":{"data":{"guid":"$default"}}`,
			"/v3/organization_quotas/$default"}},

		{do: "POST /v3/organization_quotas", body: all + `,"relationships":{"organizations":{"data":[{"guid":"$org2"}]}}}`,
			want: 201, save: "small", has: []string{
				`"total_memory_in_mb":5120`, `"per_process_memory_in_mb":1024`, `"total_instances":10`, `"per_app_tasks":5`,
				`"log_rate_limit_in_bytes_per_second":16000`,
				`"paid_services_allowed":false`, `"total_service_instances":3`, `"total_service_keys":20`, `"total_routes":8`,
				`"total_reserved_ports":4`, `"total_domains":7`, `"data":[{"guid":"$org2"}]`}},
		{do: "GET /v3/organizations/$org2", want: 200, has: []string{`"quota":{"data":{"guid":"$small"}}`}},
		{do: "POST /v3/organization_quotas", body: all + `}`, want: 422,
			has: []string{"Organization Quota 'small' already exists."}},
		{do: "POST /v3/organization_quotas", body: `{"name":"open"}`, want: 201, save: "open", has: []string{
			`"total_memory_in_mb":null`, `"total_routes":null`, `"total_domains":null`, `"paid_services_allowed":true`,
			`"organizations":{"data":[]}`}},
		{do: "POST /v3/organization_quotas", body: `{}`, want: 422, has: []string{"Name"}},
		{do: "POST /v3/organization_quotas", body: `{"name":"` + strings.Repeat("x", 251) + `"}`, want: 422,
			has: []string{"Name is too long"}},
		{do: "POST /v3/organization_quotas",
			body: `{"name":"x","apps":{"total_memory_in_mb":-1},"routes":{"total_routes":-1}}`, want: 422, has: []string{
				"Apps Total memory in mb must be greater than or equal to 0",
				"Routes Total routes must be greater than or equal to 0"}},
		{do: "POST /v3/organization_quotas", body: `{"name":"x","apps":{"total_memory_in_mb":"lots"}}`, want: 422,
			has: []string{"apps.total_memory_in_mb must be a number"}},
		{do: "POST /v3/organization_quotas", body: `{"name":"x","apps":{"total_memory_in_mb":"512"}}`, want: 201,
			has: []string{`"total_memory_in_mb":512`}, save: "text"},
		{do: "POST /v3/organization_quotas", body: `{"name":"y","apps":{"nonsense":1}}`, want: 422,
			has: []string{"Unknown field(s): 'nonsense'"}},
		{do: "POST /v3/organization_quotas", body: `{"name":"y","services":{"paid_services_allowed":"yes"}}`, want: 422,
			has: []string{"must be a boolean"}},
		{do: "POST /v3/organization_quotas",
			body: `{"name":"y","relationships":{"organizations":{"data":[{"guid":"$none"}]}}}`, want: 422,
			has: []string{`Organizations with guids ["$none"] do not exist`}},
		{do: "GET /v3/organization_quotas?names=y", want: 200, has: []string{`"total_results":0`}},
		{as: "orgmanager", do: "POST /v3/organization_quotas", body: `{"name":"z"}`, want: 403},
		{as: "orgmanager", do: "PATCH /v3/organization_quotas/$small", body: `{"name":"z"}`, want: 403},
		{as: "orgmanager", do: "DELETE /v3/organization_quotas/$small", want: 403},
		{as: "orgmanager", do: "POST /v3/organization_quotas/$small/relationships/organizations",
			body: `{"data":[{"guid":"$org"}]}`, want: 403},
		// Everybody sees quotas, and only his own organizations with them.
		{as: "dev", do: "GET /v3/organization_quotas/$small", want: 200, not: []string{"$org2"}},
		{as: "dev", do: "GET /v3/organization_quotas?organization_guids=$org2", want: 200,
			has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/organization_quotas?organization_guids=$org", want: 200, has: []string{`"total_results":1`,
			"$default"}},
		{do: "GET /v3/organization_quotas?organization_guids=$org,$org2&order_by=-name", want: 200,
			has: []string{`"total_results":2`}},

		{do: "PATCH /v3/organization_quotas/$small",
			body: `{"name":"tiny","apps":{"total_memory_in_mb":null,"total_instances":2}}`, want: 200, has: []string{
				`"name":"tiny"`, `"total_memory_in_mb":null`, `"total_instances":2`, `"total_routes":8`}},
		{do: "PATCH /v3/organization_quotas/$small", body: `{"name":"open"}`, want: 422,
			has: []string{"Organization Quota 'open' already exists."}},
		{do: "PATCH /v3/organization_quotas/$small", body: `{"relationships":{}}`, want: 422,
			has: []string{"Unknown field(s): 'relationships'"}},
		{do: "PATCH /v3/organization_quotas/$none", body: `{"name":"x"}`, want: 404,
			has: []string{"Organization quota not found"}},
		{do: "POST /v3/organization_quotas/$small/relationships/organizations", body: `{"data":[{"guid":"$org"}]}`, want: 200,
			has: []string{"$org", "$org2", "/v3/organization_quotas/$small/relationships/organizations"}},
		{do: "POST /v3/organization_quotas/$small/relationships/organizations", body: `{"data":[]}`, want: 422},
		{do: "POST /v3/organization_quotas/$small/relationships/organizations",
			body: `{"data":[{"guid":"$none"}]}`, want: 422},
		{do: "GET /v3/organizations/$org", want: 200, has: []string{`"quota":{"data":{"guid":"$small"}}`}},
		{do: "DELETE /v3/organization_quotas/$small", want: 422,
			has: []string{"This quota is applied to one or more organizations. Apply different quotas to those organizations " +
				"before deleting."}},
		{do: "DELETE /v3/organization_quotas/$none", want: 404},
	})
	if job := w.job(step{do: "DELETE /v3/organization_quotas/$open", want: 202}); job.at("state") != "COMPLETE" ||
		job.at("operation") != "organization_quota.delete" {
		t.Errorf("job %s", job.body)
	}
	w.one(step{do: "GET /v3/organization_quotas/$open", want: 404, has: []string{"Organization quota not found"}})
}

func TestSpaceQuotaScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create := func(as, name, org, more string, want int, has ...string) step {
		return step{as: as, do: "POST /v3/space_quotas", body: `{"name":"` + name + `"` + more +
			`,"relationships":{"organization":{"data":{"guid":"` + org + `"}}}}`, want: want, has: has}
	}
	first := create("orgmanager", "q", "$org",
		`,"apps":{"total_memory_in_mb":100},"services":{"paid_services_allowed":false}`, 201,
		`"total_memory_in_mb":100`, `"total_instances":null`, `"paid_services_allowed":false`,
		`"organization":{"data":{"guid":"$org"}}`, `"spaces":{"data":[]}`)
	first.save = "quota"
	w.play([]step{
		first,
		create("orgmanager", "q", "$org", "", 422, "Space Quota 'q' already exists."),
		create("", "q", "$org2", "", 201),
		create("orgmanager", "q", "$org2", "", 422, "does not exist, or you do not have access to it."),
		create("dev", "mine", "$org", "", 403),
		create("manager", "mine", "$org", "", 403),
		create("orgmanager", "d", "$org", `,"domains":{"total_domains":1}`, 422, "Unknown field(s): 'domains'"),
		{as: "orgmanager", do: "POST /v3/space_quotas", body: `{"name":"x"}`, want: 422,
			has: []string{"Relationships Organization must be structured like this"}},
		{as: "orgmanager", do: "POST /v3/space_quotas",
			body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$org"}},"spaces":{"data":[{"guid":"$space2"}]}}}`, want: 422, has: []string{"Spaces with guids"}},
		{do: "POST /v3/space_quotas",
			body: `{"name":"x","relationships":{"organization":{"data":{"guid":"$org"}},"spaces":{"data":[{"guid":"$space2"}]}}}`, want: 422, has: []string{"Space quotas cannot be applied outside of their owning organization."}},
		// Who sees it: managers of the organization, and those of its spaces.
		{as: "dev", do: "GET /v3/space_quotas", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/space_quotas/$quota", want: 404, has: []string{"Space quota not found"}},
		{as: "dev", do: "POST /v3/space_quotas/$quota/relationships/spaces", body: `{"data":[{"guid":"$space"}]}`, want: 404},
		{as: "orgmanager", do: "POST /v3/space_quotas/$quota/relationships/spaces", body: `{"data":[{"guid":"$space"}]}`,
			want: 200, has: []string{"$space", "/relationships/spaces"}},
		{as: "dev", do: "GET /v3/spaces/$space", want: 200, has: []string{`"quota":{"data":{"guid":"$quota"}}`,
			"/v3/space_quotas/$quota"}},
		{as: "dev", do: "GET /v3/space_quotas/$quota", want: 200, has: []string{"$space"}},
		{as: "dev", do: "GET /v3/space_quotas?space_guids=$space&organization_guids=$org&names=q", want: 200,
			has: []string{`"total_results":1`}},
		{as: "dev", do: "PATCH /v3/space_quotas/$quota", body: `{"name":"x"}`, want: 403},
		{as: "dev", do: "DELETE /v3/space_quotas/$quota", want: 403},
		{as: "dev", do: "DELETE /v3/space_quotas/$quota/relationships/spaces/$space", want: 403},
		{as: "member", do: "GET /v3/space_quotas", want: 200, has: []string{`"total_results":0`}},
		{as: "orgmanager", do: "PATCH /v3/space_quotas/$quota",
			body: `{"apps":{"total_memory_in_mb":"200","per_app_tasks":1}}`, want: 200, has: []string{`"total_memory_in_mb":200`,
				`"per_app_tasks":1`, `"name":"q"`}},
		{as: "orgmanager", do: "PATCH /v3/space_quotas/$quota", body: `{"domains":{}}`, want: 422},
		{as: "orgmanager", do: "DELETE /v3/space_quotas/$quota/relationships/spaces/$space2", want: 422,
			has: []string{"Ensure the space quota is applied to this space."}},
		{as: "orgmanager", do: "DELETE /v3/space_quotas/$quota/relationships/spaces/$space", want: 204},
		{as: "orgmanager", do: "DELETE /v3/space_quotas/$quota/relationships/spaces/$space", want: 422,
			has: []string{"Ensure the space quota is applied to this space."}},
		{as: "orgmanager", do: "POST /v3/space_quotas/$quota/relationships/spaces",
			body: `{"data":[{"guid":"$space"}]}`, want: 200},
	})
	if job := w.job(step{as: "orgmanager", do: "DELETE /v3/space_quotas/$quota",
		want: 202}); job.at("state") != "COMPLETE" {
		t.Errorf("job %s", job.body)
	}
	w.play([]step{
		{as: "dev", do: "GET /v3/spaces/$space", want: 200, has: []string{`"quota":{"data":null}`}},
		{do: "DELETE /v3/organizations/$org2", want: 202},
		{do: "GET /v3/space_quotas", want: 200, has: []string{`"total_results":0`}},
	})
}

// quotas applies a quota to the organization and to the space of the world.
func (w *world) quotas() {
	w.t.Helper()
	w.play([]step{
		{do: "POST /v3/organization_quotas",
			body: `{"name":"org","relationships":{"organizations":{"data":[{"guid":"$org"}]}}}`, want: 201,
			save: "organization"},
		{do: "POST /v3/space_quotas",
			body: `{"name":"space","relationships":{"organization":{"data":{"guid":"$org"}},"spaces":{"data":[{"guid":"$space"}]}}}`, want: 201, save: "space_"},
	})
	w.vars["space_quota"] = w.vars["space_"]
}

func TestQuotaOfProcesses(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct{ name, total, one, instances, logs string }{
		{"organization", "memory quota_exceeded", "memory instance_memory_limit_exceeded",
			"app_instance_limit app_instance_limit_exceeded", "log_rate_limit exceeds organization log rate quota"},
		{"space", "memory space_quota_exceeded", "memory space_instance_memory_limit_exceeded",
			"app_instance_limit space_app_instance_limit_exceeded", "log_rate_limit exceeds space log rate quota"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.quotas()
			quota := map[string]string{"organization": "$organization", "space": "$space_quota"}[kind.name]
			limit := func(limits string) step {
				return step{do: "PATCH /v3/" + kind.name + "_quotas/" + quota, body: `{"apps":` + limits + `}`, want: 200}
			}
			scale := func(body string, want int, has ...string) step {
				return step{as: "dev", do: "POST /v3/processes/$app/actions/scale", body: body, want: want, has: has}
			}
			w.staged()
			w.play([]step{
				limit(`{"total_memory_in_mb":300,"per_process_memory_in_mb":200,"total_instances":4}`),
				// Of one process, whether it runs or not.
				scale(`{"memory_in_mb":201}`, 422, kind.one, "allows 200 MB for one instance, not 201 MB"),
				scale(`{"memory_in_mb":100,"instances":9}`, 202),
				// Of all that runs: only started apps count.
				{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 422, has: []string{kind.total, "allows 300 MB",
					"it would be 900 MB"}},
				{as: "dev", do: "GET /v3/apps/$app", want: 200, has: []string{`"state":"STOPPED"`}},
				scale(`{"instances":3}`, 202),
				{as: "dev", do: "POST /v3/apps/$app/actions/start", want: 200},
				scale(`{"instances":4}`, 422, kind.total),
				scale(`{"memory_in_mb":101}`, 422, kind.total),
				scale(`{"memory_in_mb":75,"instances":4}`, 202),
				scale(`{"memory_in_mb":10,"instances":5}`, 422, kind.instances, "allows 4 instances"),
				// The default fits.
				{as: "dev", do: "POST /v3/apps", body: `{"name":"other","relationships":{"space":{"data":{"guid":"$space"}}}}`,
					want: 201, save: "other"},
				{as: "dev", do: "GET /v3/processes/$other", want: 200, has: []string{`"memory_in_mb":200`}},
				// A manifest and a deployment are scaled as well.
				{as: "dev", do: "POST /v3/deployments",
					body: `{"relationships":{"app":{"data":{"guid":"$app"}}},"options":{"memory_in_mb":80}}`, want: 422,
					has: []string{kind.total}},
				// Less is always allowed, also when it is more than a smaller quota has.
				limit(`{"total_memory_in_mb":10,"total_instances":1}`),
				scale(`{"instances":3}`, 202),
				scale(`{"instances":4}`, 422),
				{as: "dev", do: "POST /v3/apps/$app/actions/restart", want: 200},
				// Log rates.
				limit(`{"total_memory_in_mb":null,"total_instances":null,"log_rate_limit_in_bytes_per_second":1000}`).
					refused("contain apps running with an unlimited log rate limit"),
				scale(`{"log_rate_limit_in_bytes_per_second":100}`, 202),
				limit(`{"total_memory_in_mb":null,"total_instances":null,"log_rate_limit_in_bytes_per_second":1000}`),
				scale(`{"log_rate_limit_in_bytes_per_second":333}`, 202),
				scale(`{"log_rate_limit_in_bytes_per_second":334}`, 422, kind.logs),
				scale(`{"log_rate_limit_in_bytes_per_second":-1}`, 422, "log_rate_limit cannot be unlimited in "+kind.name),
				scale(`{"instances":4}`, 422, kind.logs),
				scale(`{"instances":2}`, 202),
			})
			job := w.job(step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest",
				body: "applications: [{name: app, instances: 4}]", want: 202})
			if detail, _ := job.at("errors.0.detail").(string); job.at("state") != "FAILED" ||
				!strings.Contains(detail, kind.logs) {
				t.Errorf("job %s", job.body)
			}
		})
	}
}

// refused is a step that is refused with 422.
func (s step) refused(has ...string) step {
	s.want, s.has = 422, has
	return s
}

func TestQuotaOfTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.quotas()
	w.staged()
	run := func(body string, want int, has ...string) step {
		return step{as: "dev", do: runTask, body: body, want: want, has: has}
	}
	w.play([]step{
		{do: "PATCH /v3/organization_quotas/$organization",
			body: `{"apps":{"total_memory_in_mb":300,"per_process_memory_in_mb":200}}`, want: 200},
		run(`{"command":"x","memory_in_mb":201}`, 422,
			"The task request is invalid: memory_in_mb exceeds organization instance memory quota"),
		run(`{"command":"x"}`, 202, `"memory_in_mb":200`),
		run(`{"command":"x","memory_in_mb":101}`, 422,
			"The task request is invalid: memory_in_mb exceeds organization memory quota"),
		run(`{"command":"x","memory_in_mb":100}`, 202),
		{do: "PATCH /v3/organization_quotas/$organization",
			body: `{"apps":{"total_memory_in_mb":null,"per_process_memory_in_mb":null}}`, want: 200},
		{do: "PATCH /v3/space_quotas/$space_quota", body: `{"apps":{"per_app_tasks":3}}`, want: 200},
		run(`{"command":"x"}`, 202),
		run(`{"command":"x"}`, 422, "app_task_limit space quota exceeded"),
		{as: "dev", do: "GET /v3/tasks?per_page=1", want: 200, has: []string{`"total_results":3`}, save: "task"},
	})
	// One that is over makes room.
	w.setTask(w.vars["task"], func(t *platform.Task) { t.State = platform.TaskSucceeded })
	w.one(run(`{"command":"x"}`, 202))
}

func TestQuotaOfRoutesAndDomains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.quotas()
	route := func(host string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/routes", body: `{"host":"` + host +
			`","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`, want: want, has: has}
	}
	domain := func(name string, want int, has ...string) step {
		return step{as: "orgmanager", do: "POST /v3/domains", body: `{"name":"` + name +
			`","relationships":{"organization":{"data":{"guid":"$org"}}}}`, want: want, has: has}
	}
	w.play([]step{
		{do: "PATCH /v3/organization_quotas/$organization",
			body: `{"routes":{"total_routes":2},"domains":{"total_domains":1}}`, want: 200},
		{do: "PATCH /v3/space_quotas/$space_quota", body: `{"routes":{"total_routes":1}}`, want: 200},
		route("a", 201),
		route("b", 422, "Routes quota exceeded for space 's'."),
		{do: "PATCH /v3/space_quotas/$space_quota", body: `{"routes":{"total_routes":null}}`, want: 200},
		route("b", 201),
		route("c", 422, "Routes quota exceeded for organization 'o'."),
		domain("one.org", 201),
		domain("two.org", 422, `The number of private domains exceeds the quota for organization \"o\"`),
		{do: "POST /v3/domains", body: `{"name":"shared.org"}`, want: 201},
	})
}

// TestQuotaRace creates routes at the same time: no more than the quota allows
// are there.
func TestQuotaRace(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const clients, most = 12, 5
		w := newWorldOn(t, d.Dialect())
		w.quotas()
		w.one(step{do: "PATCH /v3/organization_quotas/$organization", body: fmt.Sprintf(`{"routes":{"total_routes":%d}}`,
			most), want: 200})
		tok := w.as("dev")
		var made sync.Map
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				a := w.call(tok, "POST", "/v3/routes", map[string]any{"host": fmt.Sprint("race-", i),
					"relationships": rel("space", w.vars["space"], "domain", w.vars["domain"])})
				made.Store(i, a.status)
			})
		}
		all.Wait()
		n := 0
		made.Range(func(_, status any) bool {
			switch status {
			case 201:
				n++
			case 422:
			default:
				t.Errorf("status %v", status)
			}
			return true
		})
		if n != most {
			t.Errorf("%d routes were made, the quota allows %d", n, most)
		}
	})
}

func TestQuotaOfServices(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{})
	m.quotas()
	create := func(name, plan string, has ...string) step {
		return step{as: "dev", do: "POST /v3/service_instances", want: 422, has: has,
			body: `{"type":"managed","name":"` + name +
				`","relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$` + plan + `"}}}}`}
	}
	key := func(name string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/service_credential_bindings", want: want, has: has, body: `{"type":"key","name":"` + name + `","relationships":{"service_instance":{"data":{"guid":"$db"}}}}`}
	}
	m.one(step{do: "PATCH /v3/organization_quotas/$organization",
		body: `{"services":{"paid_services_allowed":false,"total_service_instances":1,"total_service_keys":1}}`, want: 200})
	m.one(create("dear", "paid", "paid service plans are not allowed for your organization"))
	m.create("db", "sync")
	m.one(create("more", "sync", "You have exceeded your organization's services limit."))
	// What a user provides himself is not counted.
	m.one(step{as: "dev", do: "POST /v3/service_instances",
		body: `{"type":"user-provided","name":"ups","relationships":{"space":{"data":{"guid":"$space"}}}}`, want: 201})
	m.one(step{as: "dev", do: "PATCH /v3/service_instances/$db",
		body: `{"relationships":{"service_plan":{"data":{"guid":"$paid"}}}}`, want: 422,
		has: []string{"paid service plans are not allowed"}})
	m.done(key("one", 202))
	m.one(key("two", 422, "You have exceeded your organization's limit for service binding of type key."))
	m.one(step{do: "GET /v3/organizations/$org/usage_summary", want: 200, has: []string{`"service_instances":1`,
		`"service_keys":1`}})
	m.play([]step{
		{do: "PATCH /v3/organization_quotas/$organization",
			body: `{"services":{"paid_services_allowed":true,"total_service_instances":null,"total_service_keys":null}}`,
			want: 200},
		{do: "PATCH /v3/space_quotas/$space_quota",
			body: `{"services":{"paid_services_allowed":false,"total_service_instances":1,"total_service_keys":0}}`, want: 200},
		create("dear", "paid", "paid service plans are not allowed for your space"),
		create("more", "sync", "You have exceeded your space's services limit."),
		key("two", 422, "You have exceeded your space's limit for service binding of type key."),
	})
}
