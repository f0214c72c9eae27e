package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/web"
)

// mixed are further bodies and queries for attack, for which it matters that
// some of what they name is the caller's own and some is not.
var mixed = map[string][]string{
	"POST /v3/droplets?source_guid=$droplets": {`{"relationships":{"app":{"data":{"guid":"$apps"}}}}`},
	"POST /v3/packages?source_guid=$packages": {`{"relationships":{"app":{"data":{"guid":"$apps"}}}}`},
	"POST /v3/deployments": {
		`{"droplet":{"guid":"$droplets"},"relationships":{"app":{"data":{"guid":"$apps"}}}}`},
	"POST /v3/apps/{guid}/tasks": {`{"command":"x","droplet_guid":"$droplets"}`,
		`{"template":{"process":{"guid":"$processes"}}}`},
	"PATCH /v3/routes/{guid}/destinations": {`{"destinations":[{"app":{"guid":"$apps"}}]}`},
	"PATCH /v3/service_plans/{guid}/visibility": {
		`{"type":"organization","organizations":[{"guid":"$organizations"}]}`},
	"PATCH /v3/service_instances/{guid}": {
		`{"relationships":{"service_plan":{"data":{"guid":"$service_plans"}}}}`},
	"POST /v3/spaces/{guid}/actions/apply_manifest": {`applications: [{name: zebra-app, instances: 9}]`},
	"POST /v3/roles": {
		`{"type":"organization_user","relationships":{"user":{"data":{"guid":"$users"}},"organization":{"data":{"guid":"$organizations"}}}}`,
		`{"type":"space_developer","relationships":{"user":{"data":{"guid":"$users"}},"space":{"data":{"guid":"$spaces"}}}}`,
		`{"type":"space_developer","relationships":{"user":{"data":{"guid":"$caller"}},"space":{"data":{"guid":"$spaces"}}}}`,
	},
	"POST /v3/domains": {`{"name":"more.org","relationships":{"organization":{"data":{"guid":"$organizations"}},"shared_organizations":{"data":[{"guid":"$organizations"}]}}}`},
	"POST /v3/space_quotas": {
		`{"name":"more","relationships":{"organization":{"data":{"guid":"$organizations"}},"spaces":{"data":[{"guid":"$spaces"}]}}}`,
	},
	"POST /v3/service_instances": {
		`{"type":"managed","name":"more","relationships":{"space":{"data":{"guid":"$spaces"}},"service_plan":{"data":{"guid":"$service_plans"}}}}`,
	},
	"POST /v3/service_credential_bindings": {
		`{"type":"key","name":"more","relationships":{"service_instance":{"data":{"guid":"$managed"}}}}`,
		`{"type":"app","relationships":{"app":{"data":{"guid":"$apps"}},"service_instance":{"data":{"guid":"$managed"}}}}`,
	},
}

// A caller is a user who may do nothing with the foreign organization.
type caller struct {
	name, token string
	reads       bool // everything: the global roles
}

// attack is the API with two organizations full of data, and callers that have
// roles in one of them only.
type attack struct {
	*fixture
	foreign, home map[string]string
	untouched     string // all that was stored when there was only the foreign organization
	callers       []caller
	told          map[string]bool // rows that were reported already
}

func newAttack(t *testing.T) *attack {
	t.Helper()
	m := &attack{fixture: setup(t), told: map[string]bool{}}
	m.loose = true
	m.want(m.call(m.admin(), "PATCH", "/v3/feature_flags/service_instance_sharing", map[string]any{"enabled": true}), 200)
	m.foreign = foreign(m.fixture)
	m.untouched = m.everything()
	m.home = fullOrg(m.fixture, "home")
	m.callers = []caller{
		{"no-token", "", false}, {"no-role", m.as("no-role"), false},
		{"reader", m.as("reader", "cloud_controller.admin_read_only"), true},
		{"auditor", m.as("auditor", "cloud_controller.global_auditor"), true},
		{"writing-auditor", m.as("writing-auditor", "cloud_controller.global_auditor", "cloud_controller.read",
			"cloud_controller.write"), true},
		{"other-scope", m.as("other-scope", "openid"), false},
	}
	all := []string{
		"organization_user", "organization_manager", "organization_auditor", "organization_billing_manager",
		"space_developer", "space_manager", "space_auditor", "space_supporter",
	}
	for _, role := range append(all, "every-role") {
		roles := []string{role}
		if role == "every-role" {
			roles = all
		} else if strings.HasPrefix(role, "space") {
			roles = []string{"organization_user", role}
		}
		for _, r := range roles {
			place := "spaces"
			if strings.HasPrefix(r, "organization") {
				place = "organizations"
			}
			m.role("home-"+role, r, m.home[place])
		}
		m.callers = append(m.callers, caller{"home-" + role, m.as("home-" + role), false})
	}
	return m
}

// compare holds that everything foreign is as it was, and that nothing new has
// to do with it.
func (m *attack) compare(after string) {
	m.t.Helper()
	now, was := strings.Split(m.everything(), "\n"), strings.Split(m.untouched, "\n")
	for _, line := range was {
		if !slices.Contains(now, line) {
			m.t.Errorf("%s: changed or gone: %s", after, line)
		}
	}
	for _, line := range now {
		if slices.Contains(was, line) || m.told[line] || expected.MatchString(line) {
			continue
		}
		for kind, guid := range m.foreign {
			if kind != "stacks" && kind != "buildpacks" && guid != "" && strings.Contains(line, guid) ||
				strings.Contains(line, marker) {
				m.t.Errorf("%s: new, and about what is foreign: %s", after, line)
				m.told[line] = true
				break
			}
		}
	}
}

// expected are rows about what is foreign that are right: that a global role
// read secrets, and the failed job of a manifest in the caller's own space.
var expected = regexp.MustCompile(`"Type":"audit\.[a-z_.]+\.show","ActorGUID":"reader-guid"|"Operation":"space\.apply_manifest","State":"FAILED"`)

var reference = regexp.MustCompile(`\$[a-z_]+`)

// expansions are all ways to fill the references of a text with foreign guids
// and guids of the caller's own organization, but for the one with only his own.
func (m *attack) expansions(c caller, text string) []string {
	text = strings.ReplaceAll(text, "$caller", c.name+"-guid")
	n := len(reference.FindAllString(text, -1))
	if n == 0 {
		return []string{text}
	}
	var out []string
	for own := range 1<<n - 1 {
		i := -1
		out = append(out, reference.ReplaceAllStringFunc(text, func(ref string) string {
			i++
			if own&(1<<i) != 0 {
				return m.home[ref[1:]]
			}
			return m.foreign[ref[1:]]
		}))
	}
	return out
}

// try sends a request, whose references are filled already, and judges the answer.
func (m *attack) try(c caller, route web.Route, path, body string) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), route.Method, "http://example.com"+path, strings.NewReader(body))
	if err != nil {
		return // nothing that a client could send
	}
	served := httptest.NewRequest(route.Method, "/", strings.NewReader(body))
	served.URL, served.RequestURI = r.URL, r.URL.RequestURI()
	served.Header.Set("Content-Type", "application/json")
	if strings.Contains(path, "manifest") {
		served.Header.Set("Content-Type", "application/x-yaml")
	}
	m.judge(c, route, path+" "+body, m.send(c.token, served))
}

func (m *attack) judge(c caller, route web.Route, sent string, a *answer) {
	m.t.Helper()
	pattern := route.Method + " " + route.Pattern
	if c.reads && route.Method == http.MethodGet {
		if a.status >= 500 {
			m.t.Errorf("%s: %s with %s: %d %s", c.name, pattern, sent, a.status, a.body)
		}
		if strings.Contains(c.name, "auditor") && strings.Contains(a.body, secret) {
			m.t.Errorf("%s: %s shows secrets: %s", c.name, pattern, a.body)
		}
		return
	}
	m.harmless(c.name, pattern, sent, m.foreign, a)
}

// path has references for the parameters of a route's path.
func (m *attack) path(route web.Route) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(route.Pattern, "/v3/"), "/")
	return strings.NewReplacer("{guid}", "$"+kind, "{type}", "web", "{index}", "0", "{destination}", "$destination",
		"{organization}", "$organizations", "{space}", "$spaces", "{name}", nameOf(kind)).Replace(route.Pattern)
}

// filters are queries that name what is foreign.
var filters = []string{
	"", "?per_page=5000", "?label_selector=" + marker, "?include=space", "?include=space.organization",
	"?include=organization", "?include=org", "?include=user",
	"?include=domain", "?include=app", "?include=route", "?include=service_instance", "?include=service_offering",
	"?embed=process_instances",
	"?space_guids=$spaces", "?organization_guids=$organizations", "?app_guids=$apps", "?target_guids=$apps",
	"?usernames=zebra-dev", "?names=zebra-app", "?names=" + marker,
	"?service_instance_guids=$service_instances", "?service_plan_guids=$service_plans",
	"?service_broker_guids=$service_brokers", "?service_offering_guids=$service_offerings",
	"?package_guids=$packages", "?droplet_guids=$droplets", "?domain_guids=$domains", "?route_guids=$routes",
	"?user_guids=$users", "?hosts=" + marker,
	"?fields[space]=guid,name&fields[space.organization]=guid,name",
	"?fields[service_plan.service_offering.service_broker]=guid,name",
}

// templates are what is sent to a route, with references: a path and a body each.
func (m *attack) templates(route web.Route) [][2]string {
	what, path := route.Method+" "+route.Pattern, m.path(route)
	out := [][2]string{{path, attempts[what]}}
	for key, bodies := range mixed {
		pattern, query, _ := strings.Cut(key, "?")
		if pattern != what {
			continue
		}
		if query != "" {
			query = "?" + query
		}
		for _, body := range bodies {
			out = append(out, [2]string{path + query, body})
		}
	}
	switch {
	case route.Method == http.MethodGet && !strings.Contains(route.Pattern, "{"):
		kind, _, _ := strings.Cut(strings.TrimPrefix(route.Pattern, "/v3/"), "/")
		for _, query := range append([]string{"?guids=$" + kind}, filters...) {
			out = append(out, [2]string{path + query, ""})
		}
	case route.Method == http.MethodDelete && strings.HasSuffix(route.Pattern, "/routes"):
		out[0][0] += "?unmapped=true"
	}
	return out
}

// TestSoakAttack calls every route as every kind of caller who has no role in the
// foreign organization, with guids of it and of the caller's own organization in
// every combination (the short form has combinations only for the caller with all
// roles): nothing foreign is shown, changed or connected with what is
// the caller's own. INGOT_SOAK=1 adds many generated requests.
func TestSoakAttack(t *testing.T) {
	t.Parallel()
	long := os.Getenv("INGOT_SOAK") == "1"
	m := newAttack(t)
	for _, route := range m.routes {
		for i, template := range m.templates(route) {
			for _, c := range m.callers {
				if !long && i > 0 && route.Method == http.MethodGet && c.name != "home-every-role" && c.name != "auditor" {
					continue // one list is enough
				}
				all := m.expansions(c, template[0]+"\x00"+template[1])
				if !long && c.name != "home-every-role" {
					all = all[:1] // only what is foreign
				}
				for _, sent := range all {
					path, body, _ := strings.Cut(sent, "\x00")
					m.try(c, route, path, body)
				}
			}
		}
	}
	m.compare("the table")
	m.uploads()
	m.manifests()
	m.compare("uploads and manifests")
	if long {
		m.generated(200)
	} else {
		m.generated(1)
	}
}

// uploads sends files for what is foreign.
func (m *attack) uploads() {
	for _, kind := range []string{"packages", "droplets", "buildpacks"} {
		route := web.Route{Method: http.MethodPost, Pattern: "/v3/" + kind + "/{guid}/upload"}
		path := "/v3/" + kind + "/" + m.foreign[kind] + "/upload"
		for _, c := range m.callers {
			m.judge(c, route, path, m.upload(c.token, path, "a.zip", "content", nil))
		}
	}
}

// manifests names what is foreign in manifests of the caller's own space: the
// job must fail.
func (m *attack) manifests() {
	developer := m.as("home-every-role")
	for i, app := range []string{
		`routes: [{route: ` + marker + `.` + marker + `.example.org}]`, `routes: [{route: other.` + marker + `.example.org}]`,
		`services: [` + marker + `]`,
	} {
		w := m.want(m.call(developer, "POST", "/v3/spaces/"+m.home["spaces"]+"/actions/apply_manifest",
			fmt.Sprintf("applications: [{name: manifest-%d, %s}]", i, app)), 202)
		location, err := url.Parse(w.header.Get("Location"))
		if err != nil {
			m.t.Fatal(err)
		}
		if job := m.want(m.call(developer, "GET", location.Path, nil), 200); job.at("state") != "FAILED" {
			m.t.Errorf("manifest %s: job is %s, want FAILED", app, job.body)
		}
	}
}

// generated sends requests that are derived from the attempts: wrong types,
// foreign guids in every place, paths that are not quite those of the table.
func (m *attack) generated(rounds int) {
	seed := rand.Uint64() //nolint:gosec // not a secret
	m.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
	var guids []string
	for kind, guid := range m.foreign {
		if guid != "" && kind != "stacks" && kind != "buildpacks" {
			guids = append(guids, guid)
		}
	}
	slices.Sort(guids)
	foreignOnly := func(c caller, text string) string { return m.expansions(c, text)[0] }
	for _, route := range m.routes {
		for range rounds {
			for _, template := range m.templates(route) {
				c := m.callers[random.IntN(len(m.callers))]
				path, body := foreignOnly(c, template[0]), foreignOnly(c, template[1])
				if strings.Contains(template[0], "$") && random.IntN(2) == 0 {
					path = mutatePath(random, path, guids)
				} else if route.Method == http.MethodGet && !strings.Contains(template[0], "?") {
					path += foreignOnly(c, filters[random.IntN(len(filters))])
				}
				var v any
				if json.Unmarshal([]byte(body), &v) == nil {
					for range 1 + random.IntN(3) {
						v = mutate(random, v, guids)
					}
					text, err := json.Marshal(v)
					if err != nil {
						m.t.Fatal(err)
					}
					body = string(text)
				}
				m.try(c, route, path, body)
			}
		}
		if rounds > 1 {
			m.compare("generated requests to " + route.Method + " " + route.Pattern)
		}
	}
	m.compare("generated requests")
}

// mutate returns a value with one of its nodes replaced.
func mutate(random *rand.Rand, v any, guids []string) any {
	guid := guids[random.IntN(len(guids))]
	if random.IntN(3) == 0 {
		return []any{
			nil, true, 0, -1, 1e30, "", guid, strings.Repeat("x", 5000), "\x00", "zażółć'\";--", []any{}, map[string]any{},
			[]any{v}, map[string]any{"guid": guid},
			map[string]any{"data": map[string]any{"guid": guid}}, map[string]any{"data": []any{map[string]any{"guid": guid}}},
			[]any{[]any{[]any{guid}}},
		}[random.IntN(17)]
	}
	switch node := v.(type) {
	case map[string]any:
		var keys []string
		for k := range node {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if len(keys) == 0 || random.IntN(6) == 0 {
			node[[]string{"guid", "relationships", "space", "organization", "app", "state",
				"metadata"}[random.IntN(7)]] = map[string]any{"data": map[string]any{"guid": guid}}
			return node
		}
		k := keys[random.IntN(len(keys))]
		node[k] = mutate(random, node[k], guids)
		return node
	case []any:
		if len(node) == 0 {
			return []any{guid}
		}
		i := random.IntN(len(node))
		node[i] = mutate(random, node[i], guids)
		return node
	default:
		return guid
	}
}

// mutatePath replaces a guid in a path by another, or writes it otherwise.
func mutatePath(random *rand.Rand, path string, guids []string) string {
	for _, guid := range guids {
		if !strings.Contains(path, guid) {
			continue
		}
		return strings.Replace(path, guid, []string{
			guids[random.IntN(len(guids))], strings.ToUpper(guid), guid + "/", "./" + guid, "x/../" + guid, "%2e%2e",
			guid + "%00", guid + "%20", "%25", "*", "'%20OR%201=1--",
			url.PathEscape(guid + "'"), strings.Repeat("a", 5000), guid + "," + guid, "%2F" + guid,
		}[random.IntN(15)], 1)
	}
	return path
}
