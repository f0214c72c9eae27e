package api_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/platform/api"
)

// Names of the system domain are the operator's: no app gets requests that are
// meant for the server.
func TestSystemDomainIsReserved(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, setupOptions(t, db.SQLite, func(o *api.Options) {
		o.Platform.SystemDomain, o.Platform.Reserved = "cf.example.org", []string{"api.cf.example.org", "uaa.cf.example.org"}
	}))
	private := func(name string) string {
		return `{"name":"` + name + `","relationships":{"organization":{"data":{"guid":"$org"}}}}`
	}
	route := func(host, domain string) string {
		return `{"host":"` + host + `","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"` +
			domain + `"}}}}`
	}
	for _, name := range []string{"cf.example.org", "CF.example.ORG", "example.org", "mine.cf.example.org",
		"a.b.cf.example.org", "api.cf.example.org", "x.api.cf.example.org"} {
		w.play([]step{{as: "orgmanager", do: "POST /v3/domains", body: private(name), want: 422,
			has: []string{"reserved for the platform"}}})
	}
	for _, name := range []string{"api.cf.example.org", "API.cf.example.org", "x.uaa.cf.example.org"} {
		w.play([]step{{do: "POST /v3/domains", body: `{"name":"` + name + `"}`, want: 422,
			has: []string{"reserved for the platform"}}})
	}
	w.play([]step{
		// The domain for apps of the server's is the default, even if another is older.
		{as: "dev", do: "GET /v3/organizations/$org/domains/default", want: 200, has: []string{"apps.localhost"}},
		{do: "POST /v3/domains", body: `{"name":"apps.cf.example.org"}`, want: 201, save: "apps"},
		{as: "dev", do: "GET /v3/organizations/$org/domains/default", want: 200, has: []string{"apps.cf.example.org"}},
		{do: "DELETE /v3/domains/$apps", want: 202},

		{as: "orgmanager", do: "POST /v3/domains", body: private("other.org"), want: 201},
		{as: "orgmanager", do: "POST /v3/domains", body: private("xcf.example.org"), want: 201},
		// An administrator may share the system domain with apps, as in Cloud
		// Foundry; its own names stay what they are.
		{do: "POST /v3/domains", body: `{"name":"cf.example.org"}`, want: 201, save: "system"},
		{as: "dev", do: "POST /v3/routes", body: route("shop", "$system"), want: 201},
		{as: "dev", do: "POST /v3/routes", body: route("api", "$system"), want: 422,
			has: []string{"Route conflicts with a reserved system route."}},
		{as: "dev", do: "POST /v3/routes", body: route("UAA", "$system"), want: 422, has: []string{"reserved system route"}},
		{do: "POST /v3/routes", body: route("api", "$system"), want: 422, has: []string{"reserved system route"}},
		{do: "POST /v3/domains", body: private("example.org"), want: 201, save: "above"},
		{do: "POST /v3/routes", body: route("cf", "$above"), want: 422},
		{do: "POST /v3/domains", body: private("sub.cf.example.org"), want: 201, save: "below"},
		{as: "dev", do: "POST /v3/routes", body: route("", "$below"), want: 201},
		{as: "dev", do: "POST /v3/routes", body: route("api", "$below"), want: 201},
	})
}

func TestDomainScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	private := func(name, org, more string) string {
		return `{"name":"` + name + `","relationships":{"organization":{"data":{"guid":"` + org + `"}}` + more + `}}`
	}
	w.play([]step{
		{do: "POST /v3/domains", body: `{"name":"Shared.Example.org","metadata":{"labels":{"k":"v"}}}`, want: 201,
			has: []string{`"name":"shared.example.org"`, `"supported_protocols":["http"]`, `"router_group":null`,
				`"organization":{"data":null}`}, save: "shared"},
		{do: "POST /v3/domains", body: `{"name":"shared.example.org"}`, want: 422,
			has: []string{`The domain name \"shared.example.org\" is already in use`}},
		{do: "POST /v3/domains", body: `{"name":"internal.local","internal":true}`, want: 201,
			has: []string{`"internal":true`}, save: "internal"},
		{do: "POST /v3/domains", body: `{"name":"tcp.example.org","router_group":{"guid":"x"}}`, want: 422,
			has: []string{"Router group with guid 'x' not found."}},
		{do: "POST /v3/domains", body: `{}`, want: 422, has: []string{"Name can't be blank"}},
		{do: "POST /v3/domains", body: `{"name":"nodot"}`, want: 422, has: []string{"at least one"}},
		{do: "POST /v3/domains", body: `{"name":"under score!.org"}`, want: 422, has: []string{"RFC 1035"}},
		{do: "POST /v3/domains", body: `{"name":"10.0.0.1"}`, want: 422, has: []string{"not an address"}},
		{do: "POST /v3/domains", body: `{"name":"` + strings.Repeat("a", 64) + `.org"}`, want: 422,
			has: []string{"RFC 1035"}},
		{do: "POST /v3/domains", body: `{"name":"x.org","internal":"yes"}`, want: 422,
			has: []string{"internal must be a boolean"}},
		{as: "orgmanager", do: "POST /v3/domains", body: `{"name":"x.org"}`, want: 403},
		{as: "orgmanager", do: "POST /v3/domains", body: private("mine.org", "$org", ""), want: 201,
			has: []string{`"organization":{"data":{"guid":"$org"}}`}, save: "mine"},
		{as: "orgmanager", do: "POST /v3/domains", body: private("sub.mine.org", "$org", ""), want: 201},
		{do: "POST /v3/domains", body: private("other.mine.org", "$org2", ""), want: 422,
			has: []string{`cannot be created because \"mine.org\" is already reserved by another domain`}},
		{do: "POST /v3/domains", body: `{"name":"public.mine.org"}`, want: 422,
			has: []string{"already reserved by another domain"}},
		{as: "dev", do: "POST /v3/domains", body: private("x.org", "$org", ""), want: 403},
		{as: "orgmanager", do: "POST /v3/domains", body: private("x.org", "$org2", ""), want: 422,
			has: []string{"does not exist or you do not have access"}},
		{do: "POST /v3/domains", body: strings.Replace(private("x.org", "$org", ""), `{"name"`, `{"internal":true,"name"`, 1),
			want: 422, has: []string{"Internal domains cannot be scoped to an organization."}},
		{do: "POST /v3/domains", body: `{"name":"x.org","relationships":{"shared_organizations":{"data":[{"guid":"$org"}]}}}`,
			want: 422, has: []string{"without an owning organization"}},
		{as: "orgmanager", do: "POST /v3/domains",
			body: private("x.org", "$org", `,"shared_organizations":{"data":[{"guid":"$org2"}]}`), want: 422,
			has: []string{"Organization with guid '$org2' does not exist, or you do not have access to it."}},
		{do: "POST /v3/domains", body: private("both.org", "$org", `,"shared_organizations":{"data":[{"guid":"$org2"}]}`),
			want: 201, has: []string{`"shared_organizations":{"data":[{"guid":"$org2"}]}`}, save: "both"},
		{do: "POST /v3/domains/$both/relationships/shared_organizations", body: `{"data":[{"guid":"$org"}]}`, want: 422,
			has: []string{"Domain cannot be shared with owning organization."}},
		{do: "POST /v3/domains/$both/relationships/shared_organizations", body: `{"data":[]}`, want: 422},
		{do: "POST /v3/domains/$both/relationships/shared_organizations", body: `{"data":[{"guid":"$none"}]}`, want: 422,
			has: []string{"does not exist"}},
		{do: "POST /v3/domains/$domain/relationships/shared_organizations", body: `{"data":[{"guid":"$org"}]}`, want: 422,
			has: []string{"unless they are scoped"}},
		{as: "dev", do: "POST /v3/domains/$both/relationships/shared_organizations",
			body: `{"data":[{"guid":"$org2"}]}`, want: 403},
		{do: "DELETE /v3/domains/$both/relationships/shared_organizations/$org", want: 422,
			has: []string{"Ensure the domain is shared to this organization"}},
		{as: "dev", do: "DELETE /v3/domains/$both/relationships/shared_organizations/$org2", want: 403},
		{as: "orgmanager", do: "DELETE /v3/domains/$both/relationships/shared_organizations/$org2", want: 204},
		{do: "POST /v3/domains/$mine/relationships/shared_organizations", body: `{"data":[{"guid":"$org2"}]}`, want: 200,
			has: []string{"$org2"}},
		{do: "PATCH /v3/feature_flags/private_domain_creation", body: `{"enabled":false}`, want: 200},
		{as: "orgmanager", do: "POST /v3/domains", body: private("x.org", "$org", ""), want: 403,
			has: []string{"Feature Disabled: private_domain_creation"}},

		{as: "dev", do: "GET /v3/organizations/$org/domains?order_by=name", want: 200, has: []string{"apps.localhost",
			"mine.org"}},
		{as: "dev", do: "GET /v3/organizations/$org/domains/default", want: 200, has: []string{"apps.localhost"}},
		{as: "stranger", do: "GET /v3/domains", want: 200, has: []string{"apps.localhost"}, not: []string{"mine.org"}},
		{as: "stranger", do: "GET /v3/domains/$mine", want: 404, has: []string{"Domain not found"}},
		{do: "GET /v3/domains?names=mine.org&organization_guids=$org&label_selector=!k", want: 200,
			has: []string{`"total_results":1`}},
		{as: "orgmanager", do: "PATCH /v3/domains/$mine", body: `{"metadata":{"labels":{"k":"v"}}}`, want: 200,
			has: []string{`"k":"v"`}},
		{as: "orgmanager", do: "PATCH /v3/domains/$shared", body: `{"metadata":{}}`, want: 403},
		{as: "dev", do: "GET /v3/domains/$domain/route_reservations?host=x", want: 200,
			has: []string{`"matching_route":false`}},
		{as: "dev", do: "GET /v3/domains/$domain/route_reservations?host=x&page=1&per_page=50", want: 200,
			has: []string{`"matching_route":false`}},
		{as: "dev", do: "GET /v3/domains/$domain?page=1&per_page=50", want: 200, has: []string{"$domain"}},
		{as: "dev", do: "DELETE /v3/domains/$mine", want: 403},
		{as: "orgmanager", do: "DELETE /v3/domains/$shared", want: 403},
		{do: "DELETE /v3/domains/$shared", want: 202},
		{do: "GET /v3/domains/$shared", want: 404, has: []string{"Domain not found"}},
	})
	// A shared private domain goes with its organization, and routes of others
	// on it with them.
	w.play([]step{
		{do: "POST /v3/routes",
			body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space2"}},"domain":{"data":{"guid":"$mine"}}}}`,
			want: 201, save: "route"},
		{do: "DELETE /v3/organizations/$org", want: 202},
		{do: "GET /v3/domains/$mine", want: 404},
		{do: "GET /v3/routes/$route", want: 404},
	})
}

func TestRouteScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play([]step{
		{do: "POST /v3/domains", body: `{"name":"mine.org","relationships":{"organization":{"data":{"guid":"$org"}}}}`,
			want: 201, save: "private"},
		{do: "POST /v3/domains", body: `{"name":"theirs.org","relationships":{"organization":{"data":{"guid":"$org2"}}}}`,
			want: 201, save: "theirs"},
		{do: "POST /v3/domains", body: `{"name":"in.internal","internal":true}`, want: 201, save: "internal"},
	})
	on := func(domain, more string) step {
		return step{as: "dev", do: "POST /v3/routes",
			body: `{"relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"` + domain +
				`"}}}` + more + `}`}
	}
	try := func(s step, want int, has ...string) step {
		s.want, s.has = want, has
		return s
	}
	first := try(on("$domain", `,"host":"Web","path":"/a","metadata":{"labels":{"k":"v"}},"options":{"loadbalancing":"least-connection"}`), 201,
		`"host":"Web"`, `"url":"Web.apps.localhost/a"`, `"protocol":"http"`, `"port":null`, `"destinations":[]`, `"loadbalancing":"least-connection"`)
	first.save = "route"
	w.play([]step{
		first,
		try(on("$domain", `,"host":"web","path":"/a"`), 422,
			"Route already exists with host 'Web' and path '/a' for domain 'apps.localhost'."),
		// The router takes these for the same address.
		try(on("$domain", `,"host":"web","path":"/A"`), 422, "Route already exists with host 'Web' and path '/a'"),
		try(on("$domain", `,"host":"web","path":"/a/"`), 422, "Route already exists with host 'Web' and path '/a'"),
		// On a shared domain a host belongs to the space that has it.
		{do: "POST /v3/routes",
			body: `{"host":"web","path":"/login","relationships":{"space":{"data":{"guid":"$space2"}},"domain":{"data":{"guid":"$domain"}}}}`, want: 422, has: []string{"Routes for this host and domain have been reserved for another space."}},
		try(on("$domain", `,"host":"web"`), 201, `"path":""`),
		try(on("$domain", `,"host":"WEB"`), 422, "Route already exists with host 'web' for domain 'apps.localhost'."),
		{as: "dev", do: "GET /v3/routes?hosts=wEB&paths=/a", want: 200, has: []string{`"total_results":1`, `"host":"Web"`}},
		try(on("$private", ``), 201, `"host":""`, `"url":"mine.org"`),
		try(on("$private", ``), 422, "Route already exists for domain 'mine.org'."),
		try(on("$private", `,"path":"/p"`), 201),
		try(on("$private", `,"path":"/p"`), 422, "Route already exists with path '/p' for domain 'mine.org'."),
		try(on("$private", `,"host":"*"`), 201, `"url":"*.mine.org"`),
		try(on("$domain", `,"host":"*"`), 422, "Wildcard"),
		try(on("$domain", ``), 422, "Missing host. Routes in shared domains must have a host defined."),
		try(on("$domain", `,"host":"a.b"`), 422, "Host must be either"),
		try(on("$domain", `,"host":"-a"`), 422, "Host must be either"),
		try(on("$domain", `,"host":"`+strings.Repeat("h", 64)+`"`), 422, "Host must be either"),
		try(on("$domain", `,"host":5`), 422, "host must be a string"),
		try(on("$domain", `,"host":"p","path":"/"`), 422, "single slash"),
		try(on("$domain", `,"host":"p","path":"a"`), 422, "start with a slash"),
		try(on("$domain", `,"host":"p","path":"/a?b"`), 422, "question mark"),
		try(on("$domain", `,"host":"p","path":"/`+strings.Repeat("x", 128)+`"`), 422, "128 characters"),
		try(on("$domain", `,"host":"p","path":"/a b"`), 422, "valid path"),
		try(on("$domain", `,"host":"p","port":8080`), 422, "do not support ports"),
		try(on("$domain", `,"host":"p","options":{"loadbalancing":"magic"}`), 422, "Options Loadbalancing must be one of"),
		try(on("$domain", `,"host":"p","options":{"nonsense":"x"}`), 422, "Options Unknown field(s): 'nonsense'"),
		try(on("$internal", `,"host":"*"`), 422, "Wildcard host names are not supported for internal domains."),
		try(on("$internal", `,"host":"x","path":"/a"`), 422, "Paths are not supported for internal domains."),
		try(on("$internal", `,"host":"x"`), 201),
		try(on("$none", `,"host":"x"`), 422, "Invalid domain. Ensure that the domain exists and you have access to it."),
		try(on("$theirs", `,"host":"x"`), 422, "Invalid domain."),
		{do: "POST /v3/routes",
			body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$theirs"}}}}`,
			want: 422, has: []string{"is not available in organization"}},
		{do: "POST /v3/routes", body: `{"host":"x"}`, want: 422, has: []string{"must include 'space' and 'domain'"}},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space2"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 422, has: []string{"Invalid space. Ensure that the space exists and you have access to it."}},
		{as: "auditor", do: "POST /v3/routes",
			body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 403},
		{do: "POST /v3/domains", body: `{"name":"web.apps.localhost"}`, want: 422,
			has: []string{"already in use by a route"}},
		{do: "POST /v3/domains", body: `{"name":"taken.apps.localhost"}`, want: 201},
		try(on("$domain", `,"host":"taken"`), 422, "Route conflicts with domain 'taken.apps.localhost'."),

		{as: "dev", do: "GET /v3/routes/$route?include=domain,space.organization", want: 200,
			has: []string{`"domains":[`, `"spaces":[`, `"organizations":[`}},
		{as: "dev", do: "GET /v3/routes?hosts=&domain_guids=$private", want: 200, has: []string{`"total_results":2`}},
		{as: "dev", do: "GET /v3/routes?paths=/a&hosts=WEB", want: 200, has: []string{`"total_results":1`}},
		{as: "dev", do: "GET /v3/routes?ports=x", want: 400},
		{as: "dev", do: "GET /v3/routes?label_selector=k=v&space_guids=$space&organization_guids=$org", want: 200,
			has: []string{`"total_results":1`}},
		{as: "dev", do: "GET /v3/domains/$domain/route_reservations?host=web&path=/a", want: 200,
			has: []string{`"matching_route":true`}},
		{as: "dev", do: "PATCH /v3/routes/$route",
			body: `{"options":{"loadbalancing":null},"metadata":{"labels":{"k":null}}}`, want: 200,
			has: []string{`"options":{}`, `"labels":{}`}},
		{as: "dev", do: "PATCH /v3/routes/$route", body: `{"host":"x"}`, want: 422,
			has: []string{"Unknown field(s): 'host'"}},
		{as: "auditor", do: "PATCH /v3/routes/$route", body: `{}`, want: 403},
		{as: "member", do: "GET /v3/routes/$route", want: 404, has: []string{"Route not found"}},
		{as: "dev", do: "DELETE /v3/spaces/$space/routes", want: 422, has: []string{"unmapped=true"}},
		{as: "auditor", do: "DELETE /v3/routes/$route", want: 403},
		{as: "supporter", do: "DELETE /v3/routes/$route", want: 202},
		{as: "dev", do: "DELETE /v3/spaces/$space/routes?unmapped=true", want: 202},
		{do: "GET /v3/routes?space_guids=$space", want: 200, has: []string{`"resources":[]`}},
	})
}

func TestDestinationScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vars["second"] = w.app(w.vars["space"], "second")
	w.one(step{do: "POST /v3/routes",
		body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
		want: 201, save: "route"})
	dest := func(parts ...string) string { return `{"destinations":[` + strings.Join(parts, ",") + `]}` }
	to := func(app, more string) string { return `{"app":{"guid":"` + app + `"}` + more + `}` }
	add := func(body string, want int, has ...string) step {
		return step{as: "dev", do: "POST /v3/routes/$route/destinations", body: body, want: want, has: has}
	}
	put := func(body string, want int, has ...string) step {
		return step{as: "dev", do: "PATCH /v3/routes/$route/destinations", body: body, want: want, has: has}
	}
	many := func(n int, make func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, make(i))
		}
		return dest(all...)
	}
	w.play([]step{
		add(dest(to("$app", "")), 200, `"port":8080`, `"protocol":"http1"`, `"weight":null`, `"process":{"type":"web"}`,
			"/v3/routes/$route/destinations"),
		add(dest(to("$app", "")), 200, `"destinations":[{`),
		add(dest(to("$app", `,"port":8080`)), 200),
		add(dest(to("$app", `,"protocol":"http2"`)), 422, "different protocol"),
		add(dest(to("$app", `,"port":9090,"protocol":"http2"`)), 200, `"port":9090`, `"protocol":"http2"`, `"port":8080`),
		add(dest(`{"app":{"guid":"$app","process":{"type":"worker"}}}`), 200, `"type":"worker"`),
		// Clients send back what they were given: of the app only guid and process count.
		add(dest(`{"app":{"guid":"$app","name":"app","links":{"self":{"href":"x"}},"process":{"type":"cron"}}}`), 200,
			`"type":"cron"`),
		add(dest(), 422, "between 1 and 100 destination objects"),
		add(`{}`, 422, "between 1 and 100 destination objects"),
		add(many(101, func(i int) string { return to("$app", fmt.Sprintf(`,"port":%d`, 2000+i)) }), 422, "between 1 and 100"),
		add(many(11, func(i int) string { return to("$second", fmt.Sprintf(`,"port":%d`, 2000+i)) }), 422,
			"at most 10 ports"),
		add(dest(`{}`), 422, "must have the structure"),
		add(dest(`{"app":{}}`), 422, "must have the structure"),
		add(dest(`{"app":{"guid":5}}`), 422, "must be a string"),
		add(dest(`{"app":{"guid":"$app","process":{}}}`), 422, "process must have the structure"),
		add(dest(`{"app":{"guid":"$app","process":{"type":"web","x":1}}}`), 422, "Unknown field(s): 'x'"),
		add(dest(to("$app", `,"nonsense":1`)), 422, "Unknown field(s): 'nonsense'"),
		add(`{"destinations":[],"nonsense":1}`, 422, "Unknown field(s): 'nonsense'"),
		add(dest(to("$app", `,"port":80`)), 422, "port must be an integer between 1024 and 65535"),
		add(dest(to("$app", `,"port":65536`)), 422, "port must be an integer between 1024 and 65535"),
		add(dest(to("$app", `,"port":"9000"`)), 422, "must be a number"),
		add(dest(to("$app", `,"protocol":"gopher"`)), 422, "protocol must be 'http1', 'http2' or 'tcp'"),
		add(dest(to("$app", `,"protocol":"tcp"`)), 422, "Cannot use 'tcp' protocol for http routes"),
		add(dest(to("$app", `,"weight":100`)), 422, "can only be used when replacing"),
		add(dest(to("$app", `,"port":7000`), to("$app", `,"port":7000`)), 422, "cannot contain duplicates"),
		add(dest(to("$none", "")), 422, `App(s) with guid(s) \"$none\" do not exist or you do not have access.`),
		add(dest(to("$app2", "")), 422, `App(s) with guid(s) \"$app2\" do not exist or you do not have access.`),
		{do: "POST /v3/routes/$route/destinations", body: dest(to("$app2", "")), want: 422,
			has: []string{"must be in either the route's space or the route's shared spaces"}},
		{as: "auditor", do: "POST /v3/routes/$route/destinations", body: dest(to("$app", "")), want: 403},
		{as: "dev", do: "POST /v3/routes/$none/destinations", body: dest(to("$app", "")), want: 404,
			has: []string{"Route not found"}},
		{as: "dev", do: "GET /v3/audit_events?target_guids=$app&types=audit.app.map-route", want: 200,
			has: []string{`"app_port":8080`, `"weight":null`, `"destination_guid"`}},

		put(dest(to("$app", `,"weight":60`), to("$second", `,"weight":40`)), 200, `"weight":60`, `"weight":40`),
		put(dest(to("$app", `,"weight":60`), to("$second", "")), 422, "both weighted and unweighted"),
		put(dest(to("$app", `,"weight":60`), to("$second", `,"weight":41`)), 422, "add up to 100"),
		put(dest(to("$app", `,"weight":0`), to("$second", `,"weight":100`)), 422, "between 1 and 100"),
		put(dest(to("$app", `,"weight":101`)), 422, "between 1 and 100"),
		add(dest(to("$app", `,"port":9999`)), 422, "when there are weighted destinations already configured"),
	})
	list := w.one(step{as: "dev", do: "GET /v3/routes/$route/destinations?app_guids=$app", want: 200,
		has: []string{"$app"}, not: []string{"$second"}})
	w.vars["dest"], _ = list.at("destinations.0.guid").(string)
	w.play([]step{
		{as: "dev", do: "GET /v3/routes/$route/destinations?guids=$dest", want: 200, has: []string{"$dest"}},
		{as: "dev", do: "GET /v3/routes/$route/destinations?nonsense=1", want: 400},
		{as: "dev", do: "DELETE /v3/routes/$route/destinations/$dest", want: 422,
			has: []string{"Weighted destinations cannot be deleted individually."}},
		put(dest(), 200, `"destinations":[]`),
		put(dest(to("$app", `,"port":9001`)), 200, `"port":9001`),
	})
	list = w.one(step{as: "dev", do: "GET /v3/routes/$route/destinations", want: 200})
	w.vars["dest"], _ = list.at("destinations.0.guid").(string)
	w.play([]step{
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$dest", body: `{"protocol":"http2"}`, want: 200,
			has: []string{`"protocol":"http2"`, `"links"`}},
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$dest", body: `{"protocol":null}`, want: 200,
			has: []string{`"protocol":"http1"`}},
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$dest", body: `{"protocol":"tcp"}`, want: 422,
			has: []string{"must be 'http1' or 'http2'"}},
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$dest", body: `{"port":1}`, want: 422,
			has: []string{"Unknown field(s): 'port'"}},
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$none", body: `{"protocol":"http2"}`, want: 404,
			has: []string{"Destination not found"}},
		{as: "dev", do: "DELETE /v3/routes/$route/destinations/$none", want: 422,
			has: []string{"Unable to unmap route from destination. Ensure the route has a destination with this guid."}},
		{as: "auditor", do: "DELETE /v3/routes/$route/destinations/$dest", want: 403},
		{as: "dev", do: "GET /v3/apps/$app/routes", want: 200, has: []string{"$route"}},
		{as: "dev", do: "GET /v3/routes?app_guids=$app", want: 200, has: []string{"$route"}},
		{as: "dev", do: "DELETE /v3/routes/$route/destinations/$dest", want: 204},
		{as: "dev", do: "GET /v3/apps/$app/routes", want: 200, has: []string{`"resources":[]`}},
	})
}
