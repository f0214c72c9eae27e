package api_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/db"
)

// step is one request of a scenario and what the answer has to be. In paths,
// bodies and expectations $name stands for what was remembered under it.
type step struct {
	as   string // a user; the administrator when empty
	do   string // "GET /v3/apps"
	body string // JSON, or YAML for manifests
	want int
	has  []string // all of it is in the answer, or in the details of the error
	not  []string // none of it is anywhere in the answer
	save string   // remembers the guid of the answer, or of the first of a list
}

var variable = regexp.MustCompile(`\$[a-z_]+[0-9]?`)

// world is a fixture in which scenarios play.
type world struct {
	*fixture
	vars map[string]string
}

// newWorld has an organization with a space and an app, one user of every role
// in it, and another organization with a space and an app that is none of their
// business.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, db.SQLite)
}

func newWorldOn(t *testing.T, dialect db.Dialect) *world {
	t.Helper()
	return newWorldIn(t, setupOn(t, dialect))
}

func newWorldIn(t *testing.T, f *fixture) *world {
	t.Helper()
	w := &world{f, map[string]string{"none": "00000000-0000-4000-8000-000000000000"}}
	w.vars["org"] = w.org("o")
	w.vars["space"] = w.space(w.vars["org"], "s")
	w.vars["app"] = w.app(w.vars["space"], "app",
		map[string]any{"environment_variables": map[string]string{"SECRET": "hunter2"}})
	w.vars["org2"] = w.org("elsewhere")
	w.vars["space2"] = w.space(w.vars["org2"], "s2")
	w.vars["app2"] = w.app(w.vars["space2"], "foreign")
	w.vars["domain"], _ = w.call(w.admin(), "GET", "/v3/domains?names=apps.localhost", nil).at("resources.0.guid").(string)
	for user, roles := range map[string][]string{
		"dev": {"organization_user", "space_developer"}, "supporter": {"organization_user", "space_supporter"},
		"auditor": {"organization_user", "space_auditor"}, "manager": {"organization_user", "space_manager"},
		"orgmanager": {"organization_manager"}, "member": {"organization_user"}, "orgauditor": {"organization_auditor"},
	} {
		for _, r := range roles {
			place := w.vars["space"]
			if strings.HasPrefix(r, "organization") {
				place = w.vars["org"]
			}
			w.role(user, r, place)
		}
	}
	return w
}

func (w *world) expand(s string) string {
	return variable.ReplaceAllStringFunc(s, func(v string) string {
		if value, ok := w.vars[v[1:]]; ok {
			return value
		}
		return v
	})
}

// play makes the requests one after another.
func (w *world) play(steps []step) {
	w.t.Helper()
	for _, s := range steps {
		w.one(s)
	}
}

func (w *world) one(s step) *answer {
	w.t.Helper()
	method, path, _ := strings.Cut(w.expand(s.do), " ")
	tok := w.admin()
	if s.as != "" {
		tok = w.as(s.as)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(w.expand(s.body)))
	r.Header.Set("Content-Type", "application/json")
	if strings.Contains(path, "manifest") {
		r.Header.Set("Content-Type", "application/x-yaml")
	}
	a := w.send(tok, r)
	w.check(s, a)
	return a
}

func (w *world) check(s step, a *answer) {
	w.t.Helper()
	if a.status != s.want {
		w.t.Errorf("%s as %q %s: %d, want %d\n%s", s.do, s.as, s.body, a.status, s.want, a.body)
		return
	}
	text := a.body
	if list, ok := a.json["errors"].([]any); ok {
		for _, e := range list {
			detail, _ := e.(map[string]any)["detail"].(string)
			text += "\n" + detail
		}
	}
	for _, want := range s.has {
		if !strings.Contains(text, w.expand(want)) {
			w.t.Errorf("%s as %q %s: the answer lacks %q\n%s", s.do, s.as, s.body, w.expand(want), text)
		}
	}
	for _, secret := range s.not {
		if strings.Contains(text, w.expand(secret)) {
			w.t.Errorf("%s as %q %s: the answer has %q\n%s", s.do, s.as, s.body, w.expand(secret), text)
		}
	}
	if s.save != "" {
		guid := a.guid()
		if guid == "" {
			guid, _ = a.at("resources.0.guid").(string)
		}
		if guid == "" {
			w.t.Fatalf("%s: no guid to remember: %s", s.do, a.body)
		}
		w.vars[s.save] = guid
	}
}

// job follows the Location of an answer.
func (w *world) job(s step) *answer {
	w.t.Helper()
	a := w.one(s)
	if a.status != http.StatusAccepted {
		w.t.Fatalf("%s answers %d, want 202: %s", s.do, a.status, a.body)
	}
	return w.want(w.call(w.admin(), "GET", strings.TrimPrefix(a.header.Get("Location"), "http://example.com"), nil), 200)
}

// Every resource answers an unknown guid with the words that clients compare,
// and a body that is no JSON, has another type or unknown members with what is
// wrong.
func TestUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, noun := range map[string]string{
		"apps": "App", "processes": "Process", "sidecars": "Sidecar", "packages": "Package", "builds": "Build",
		"droplets":    "Droplet",
		"deployments": "Deployment", "tasks": "Task", "organizations": "Organization", "spaces": "Space", "domains": "Domain",
		"routes": "Route", "users": "User",
		"roles": "Role", "jobs": "Job", "buildpacks": "Buildpack", "stacks": "Stack", "audit_events": "Event",
		"feature_flags":      "Feature flag",
		"isolation_segments": "Isolation segment", "environment_variable_groups": "Environment variable group",
	} {
		w.one(step{do: "GET /v3/" + path + "/$none", want: 404, has: []string{noun + " not found", `"code":10010`,
			`"title":"CF-ResourceNotFound"`}})
	}
	for _, nested := range []string{
		"tasks", "processes", "processes/web", "processes/web/stats", "sidecars", "packages", "builds", "droplets",
		"droplets/current", "routes", "features", "features/ssh",
		"env", "environment_variables", "ssh_enabled", "permissions", "manifest", "relationships/current_droplet",
		"processes/web/process_instances",
	} {
		w.one(step{do: "GET /v3/apps/$none/" + nested, want: 404, has: []string{"App not found"}})
	}
	w.play([]step{
		{do: "GET /v3/apps/$app/processes/nonsense", want: 404, has: []string{"Process not found"}},
		{do: "GET /v3/apps/$app/features/nonsense", want: 404, has: []string{"Feature not found"}},
		{do: "GET /v3/apps/$app/droplets/current", want: 404, has: []string{"Droplet not found"}},
		{do: "GET /v3/apps/$app/relationships/current_droplet", want: 404, has: []string{"Droplet not found"}},
		{do: "DELETE /v3/apps/$app/processes/web/instances/7", want: 404, has: []string{"Instance not found"}},
		{do: "DELETE /v3/apps/$app/processes/web/instances/x", want: 404, has: []string{"Instance not found"}},
		{do: "GET /v3/organizations/$none/domains", want: 404, has: []string{"Organization not found"}},
		{do: "GET /v3/spaces/$none/features/ssh", want: 404, has: []string{"Space not found"}},
		{do: "GET /v3/spaces/$space/features/nonsense", want: 404, has: []string{"Feature not found"}},
		{do: "GET /v3/packages/$none/droplets", want: 404, has: []string{"Package not found"}},
		{do: "GET /v3/routes/$none/destinations", want: 404, has: []string{"Route not found"}},
		{do: "GET /v3/nonsense", want: 404, has: []string{"Unknown request", `"code":10000`, "CF-NotFound"}},
		{do: "DELETE /v3/apps", want: 404, has: []string{"Unknown request"}},
	})
	for _, path := range []string{
		"POST /v3/apps", "PATCH /v3/apps/$app", "POST /v3/organizations", "PATCH /v3/organizations/$org", "POST /v3/spaces",
		"PATCH /v3/spaces/$space",
		"POST /v3/routes", "POST /v3/domains", "PATCH /v3/domains/$domain", "POST /v3/packages", "POST /v3/builds",
		"POST /v3/droplets", "POST /v3/roles",
		"POST /v3/users", "POST /v3/buildpacks", "PATCH /v3/processes/$app", "POST /v3/processes/$app/actions/scale",
		"POST /v3/apps/$app/sidecars", "POST /v3/apps/$app/tasks",
		"PATCH /v3/apps/$app/features/ssh", "PATCH /v3/spaces/$space/features/ssh", "PATCH /v3/feature_flags/app_scaling",
		"PATCH /v3/apps/$app/environment_variables", "PATCH /v3/environment_variable_groups/running",
		"PATCH /v3/apps/$app/relationships/current_droplet",
	} {
		w.play([]step{
			{do: path, body: `{`, want: 400, has: []string{`"code":1001`, "CF-MessageParseError"}},
			{do: path, body: ``, want: 400, has: []string{"Request invalid due to parse error"}},
			{do: path, body: `{"nonsense": 1}`, want: 422, has: []string{"Unknown field(s): 'nonsense'", `"code":10008`}},
			{do: path, body: `[]`, want: 422, has: []string{"must be an object"}},
		})
	}
}

// Every list refuses what it does not know and pages alike.
func TestEveryList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{
		"apps", "processes", "packages", "builds", "droplets", "deployments", "tasks", "organizations", "spaces", "domains",
		"routes", "users", "roles", "buildpacks",
		"stacks", "audit_events", "feature_flags", "isolation_segments", "security_groups", "organization_quotas",
		"space_quotas", "service_instances",
		"service_credential_bindings", "service_route_bindings", "apps/$app/processes", "apps/$app/sidecars",
		"apps/$app/packages", "apps/$app/droplets",
		"apps/$app/builds", "apps/$app/tasks", "apps/$app/routes", "processes/$app/sidecars", "organizations/$org/domains",
		"organizations/$org/users", "spaces/$space/users",
		"spaces/$space/running_security_groups",
	} {
		get := "GET /v3/" + path + "?"
		w.play([]step{
			{do: get + "nonsense=1", want: 400, has: []string{"Unknown query parameter(s): 'nonsense'", "Valid parameters are:",
				`"code":10005`, "CF-BadQueryParameter"}},
			{do: get + "include=nonsense", want: 400, has: []string{"'"}},
			{do: get + "per_page=5001", want: 400, has: []string{"Per page must be between 1 and 5000"}},
			{do: get + "page=0", want: 400, has: []string{"Page must be a positive integer"}},
			{do: get + "order_by=nonsense", want: 400, has: []string{"Order by can only be:"}},
			{do: get + "created_ats=yesterday", want: 400, has: []string{"YYYY-MM-DDThh:mm:ssZ"}},
			{do: get + "per_page=1&page=1000000", want: 200, has: []string{`"resources":[]`, `"next":null`}},
			{do: get + "per_page=5000&order_by=-created_at", want: 200, has: []string{`"pagination":{"total_results":`}},
			{do: get + "guids=$none&created_ats[lt]=2000-01-01T00:00:00Z&updated_ats[gte]=2000-01-01T00:00:00Z", want: 200},
		})
	}
	// A single resource has no filters. As in Cloud Controller, one that can include
	// something says so, and others do not look at parameters.
	for _, path := range []string{"organizations/$org", "domains/$domain", "domains/$domain/route_reservations"} {
		w.one(step{do: "GET /v3/" + path + "?names=x&page=1", want: 200})
	}
	for _, path := range []string{"apps/$app", "spaces/$space", "processes/$app"} {
		w.play([]step{
			{do: "GET /v3/" + path + "?names=x", want: 400, has: []string{"Unknown query parameter(s): 'names'"}},
			{do: "GET /v3/" + path + "?page=1", want: 400, has: []string{"Unknown query parameter(s): 'page'"}},
		})
	}
}

func TestManifestScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const apply, diff = "POST /v3/spaces/$space/actions/apply_manifest", "POST /v3/spaces/$space/manifest_diff"
	w.play([]step{
		{do: "POST /v3/spaces/$none/actions/apply_manifest", body: "applications: [{name: x}]", want: 404,
			has: []string{"Space not found"}},
		{do: "POST /v3/spaces/$none/manifest_diff", body: "applications: [{name: x}]", want: 404,
			has: []string{"Space not found"}},
		{as: "dev", do: "POST /v3/spaces/$space2/actions/apply_manifest", body: "applications: [{name: x}]", want: 404},
		{as: "supporter", do: apply, body: "applications: [{name: x}]", want: 403},
		{as: "auditor", do: diff, body: "applications: [{name: app, env: {SECRET: x}}]", want: 403, not: []string{"hunter2"}},
		{as: "dev", do: apply, body: "applications: [", want: 400, has: []string{"CF-MessageParseError", "not valid YAML"}},
		{as: "dev", do: apply, body: "applications: []", want: 422,
			has: []string{"Cannot parse manifest with no 'applications' field."}},
		{as: "dev", do: apply, body: "applications: [{name: m, memory: 5, env: {PORT: 1}}]", want: 422,
			has: []string{"For application 'm': Process \\\"web\\\": Memory", "For application 'm': Env cannot set PORT"}},
		{do: "GET /v3/apps?names=m", want: 200, has: []string{`"resources":[]`}},
		{as: "dev", do: diff,
			body: "applications: [{name: app, env: {SECRET: other, NEW: 1}, instances: 1, memory: 2G, stack: cflinuxfs4, " +
				"unknown: x}]", want: 201,
			has: []string{`{"op":"replace","path":"/applications/0/env/SECRET","was":"hunter2","value":"other"}`,
				`{"op":"add","path":"/applications/0/env/NEW","value":"1"}`},
			not: []string{"instances", "memory", "stack", "unknown"}},
		{as: "dev", do: diff,
			body: "applications: [{name: app, health_check_type: process, processes: [{type: worker, disk_quota: 1G}], " +
				"routes: [{route: x.apps.localhost}], metadata: {labels: {gone: null}}}]", want: 201,
			has: []string{`{"op":"replace","path":"/applications/0/health_check_type","was":"port","value":"process"}`,
				`"path":"/applications/0/processes/0"`, `"path":"/applications/0/routes/0"`}, not: []string{"gone"}},
		{as: "dev", do: diff, body: "applications: [{name: brand-new, memory: 1G}]", want: 201,
			has: []string{`"op":"add"`, "/applications/0/name"}},
		{do: "GET /v3/apps?names=brand-new", want: 200, has: []string{`"resources":[]`}},
		{as: "dev", do: diff, body: "applications: [{name: app, memory: lots}]", want: 422,
			has: []string{"must use a supported unit"}},
	})
	r := httptest.NewRequest(http.MethodPost, w.expand("/v3/spaces/$space/actions/apply_manifest"),
		strings.NewReader("applications: [{name: x}]"))
	r.Header.Set("Content-Type", "application/json")
	w.check(step{do: apply, want: 400, has: []string{"Content-Type must be yaml"}}, w.send(w.as("dev"), r))
	for text, want := range map[string]string{
		"applications: [{name: late, routes: [{route: x.nowhere.org}]}]": "For application 'late': The route " +
			"'x.nowhere.org' did not match any existing domains.",
		"applications: [{name: late, services: [db]}]": "For application 'late': Service " +
			"instance 'db' not found",
		"applications: [{name: late, memory: 64M, sidecars: [{name: s c, process_types: [web], command: x, " +
			"memory: 64M}]}]": "For application 'late': Sidecar \"s c\": The memory allocation defined is too " +
			"large to run with the dependent \"web\" process",
		"applications: [{name: late, processes: [{type: web, memory: 1G}], sidecars: [{name: a, process_types: [web], " +
			"command: x, memory: 2G}]}]": "For application 'late': Sidecar \"a\": The memory allocation defined is too large " +
			"to run with the dependent \"web\" process",
	} {
		job := w.job(step{as: "dev", do: apply, body: text, want: 202})
		if job.at("state") != "FAILED" || job.at("errors.0.detail") != want {
			t.Errorf("manifest %s: job is %s, want FAILED with %q", text, job.body, want)
		}
	}
	// A manifest that fails leaves nothing behind, also of the apps before.
	w.one(step{as: "dev", do: "GET /v3/apps?names=late", want: 200, has: []string{`"total_results":0`}})
	half := w.job(step{as: "dev", do: apply,
		body: "applications: [{name: first, default-route: true}, {name: app, env: {HALF: made}}, {name: late, services: " +
			"[db]}]", want: 202})
	if half.at("state") != "FAILED" {
		t.Errorf("job %s", half.body)
	}
	w.one(step{as: "dev", do: "GET /v3/apps?names=first,late", want: 200, has: []string{`"total_results":0`}})
	w.one(step{as: "dev", do: "GET /v3/routes?hosts=first", want: 200, has: []string{`"total_results":0`}})
	w.one(step{as: "dev", do: "GET /v3/apps/$app/environment_variables", want: 200, not: []string{"HALF"}})
	// Keys that do nothing are told.
	odd := w.job(step{as: "dev", do: apply,
		body: "applications: [{name: odd, memroy: 64M, host: odd, processes: [{type: worker, instnaces: 1}]}]", want: 202})
	if odd.at("state") != "COMPLETE" ||
		odd.at("warnings.0.detail") != "For application 'odd': manifest key 'host' is ignored: removed from Cloud Foundry; "+
			"use 'routes'" ||
		odd.at("warnings.1.detail") != "For application 'odd': manifest key 'memroy' is unknown and ignored; did you mean "+
			"'memory'?" ||
		odd.at("warnings.2.detail") != "For application 'odd': manifest key 'instnaces' is unknown and ignored; did you "+
			"mean 'instances'?" {
		t.Errorf("job %s", odd.body)
	}
	w.one(step{as: "dev", do: "GET /v3/audit_events?types=audit.app.apply_manifest", want: 200,
		has: []string{"did you mean 'memory'?"}})
	done := w.job(step{as: "dev", do: apply,
		body: "applications: [{name: late, random-route: true}, {name: two, instances: 0}]", want: 202})
	if done.at("state") != "COMPLETE" || done.at("links.space.href") != "http://example.com/v3/spaces/"+w.vars["space"] {
		t.Errorf("job %s", done.body)
	}
	w.one(step{as: "dev", do: "GET /v3/audit_events?types=audit.app.apply_manifest", want: 200,
		has: []string{`"name":"two"`}})
	// Every application leaves its events, also when it changes nothing, and the
	// case of hosts stays.
	text := "applications: [{name: two, instances: \"2\", features: {revisions: false}, routes: [{route: " +
		"MiXed.apps.localhost}]}]"
	for range 2 {
		job := w.job(step{as: "dev", do: apply, body: text, want: 202})
		if job.at("warnings.0.detail") != nil || job.at("state") != "COMPLETE" {
			t.Errorf("job %s", job.body)
		}
	}
	w.play([]step{
		{as: "dev", do: "GET /v3/apps?names=two", want: 200, save: "two"},
		{as: "dev", do: "GET /v3/audit_events?types=audit.app.update&target_guids=$two", want: 200,
			has: []string{`"total_results":3`, `"manifest_triggered":true`}},
		{as: "dev", do: "GET /v3/apps/$two/routes", want: 200, has: []string{`"url":"MiXed.apps.localhost"`,
			`"total_results":1`}},
		{as: "dev", do: "GET /v3/apps/$two/processes/web", want: 200, has: []string{`"instances":2`}},
		{as: "dev", do: "GET /v3/apps/$two/features/revisions", want: 200, has: []string{`"enabled":false`}},
		{as: "dev", do: diff, body: "applications: [{name: two, instances: \"2\", routes: [{route: mixed.apps.localhost}]}]",
			want: 201, has: []string{`"diff":[]`}},
	})
}
