package api_test

import (
	"errors"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
)

// tcpWorld is a world with the TCP ports 1024 to 1027, of which another program has the
// last.
func tcpWorld(t *testing.T) *world {
	t.Helper()
	ports, err := platform.ParsePorts("1024-1027")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, setupOptions(t, db.SQLite, func(o *api.Options) {
		o.Platform.TCP = platform.DefaultTCPGroup(ports)
		o.Platform.PortFree = func(port int) error {
			if port == 1027 {
				return errors.New("in use")
			}
			return nil
		}
	}))
	w.vars["group"] = platform.DefaultTCPGroup(ports).GUID
	w.play([]step{
		{do: "POST /v3/domains", body: `{"name":"tcp.example.org","router_group":{"guid":"$group"}}`, want: 201, save: "tcp",
			has: []string{`"supported_protocols":["tcp"]`, `"router_group":{"guid":"$group"}`,
				`/routing/v1/router_groups/$group`}},
	})
	return w
}

func tcpRoute(more string) string {
	return `{` + more + `"relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$tcp"}}}}`
}

func TestRouterGroups(t *testing.T) {
	t.Parallel()
	w := tcpWorld(t)
	w.play([]step{
		{do: "GET /routing/v1/router_groups", want: 200, has: []string{`"name":"default-tcp"`, `"type":"tcp"`,
			`"reservable_ports":"1024-1027"`, `"guid":"$group"`}},
		{do: "GET /routing/v1/router_groups?name=default-tcp", want: 200, has: []string{"default-tcp"}},
		{do: "GET /routing/v1/router_groups?name=other", want: 404, has: []string{"Router Group 'other' not found"}},
		{do: "GET /routing/v1/router_groups/$group", want: 200, has: []string{"default-tcp"}},
		{do: "GET /routing/v1/router_groups/$none", want: 404},
		{as: "dev", do: "GET /routing/v1/router_groups", want: 401,
			has: []string{"You are not authorized to perform the requested action"}},
		{do: "POST /v3/domains", body: `{"name":"a.org","internal":true,"router_group":{"guid":"$group"}}`, want: 422,
			has: []string{"Internal domains cannot be associated to a router group."}},
		{do: "POST /v3/domains",
			body: `{"name":"a.org","router_group":{"guid":"$group"},"relationships":{"organization":{"data":{"guid":"$org"}}}}`,
			want: 422, has: []string{"Domains scoped to an organization cannot be associated to a router group."}},
		{do: "POST /v3/domains", body: `{"name":"a.org","router_group":{"guid":"$none"}}`, want: 422,
			has: []string{"Router group with guid '$none' not found."}},
		{as: "orgmanager", do: "POST /v3/domains", body: `{"name":"a.org","router_group":{"guid":"$group"}}`, want: 403},
		{do: "GET /v3/organizations/$org/domains/default", want: 200, not: []string{"tcp.example.org"}},
	})
	off := newWorld(t)
	off.play([]step{{do: "GET /routing/v1/router_groups", want: 200, has: []string{"[]"}, not: []string{"default-tcp"}}})
	if got := w.call("", "GET", "/routing/v1/router_groups", nil); got.status != 401 ||
		!strings.Contains(got.body, "Token is expired") {
		t.Errorf("without a token: %d %s", got.status, got.body)
	}
}

func TestTCPRoutes(t *testing.T) {
	t.Parallel()
	w := tcpWorld(t)
	w.play([]step{
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":1024,`), want: 201, save: "route",
			has: []string{`"protocol":"tcp"`, `"port":1024`, `"url":"tcp.example.org:1024"`, `"host":""`}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":1024,`), want: 422,
			has: []string{"Route already exists with port '1024' for domain 'tcp.example.org'."}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":1028,`), want: 422,
			has: []string{"Port '1028' is not available. Try a different port or use a different domain.", "1024-1027"}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":1027,`), want: 422,
			has: []string{"Port '1027' is not available. Try a different port or use a different domain.", "another program"}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":-1,`), want: 422},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"host":"x","port":1025,`), want: 422,
			has: []string{"Hosts are not supported for TCP routes."}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"host":"x",`), want: 422,
			has: []string{"Hosts are not supported for TCP routes."}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"path":"/x","port":1025,`), want: 422,
			has: []string{"Paths are not supported for TCP routes."}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":1025,"options":{"proxy_protocol":"v3"},`), want: 422,
			has: []string{"Options Proxy protocol must be one of 'v1, v2' if present"}},
		{as: "auditor", do: "POST /v3/routes", body: tcpRoute(`"port":1025,`), want: 403},
		{do: "POST /v3/domains", body: `{"name":"more.example.org","router_group":{"guid":"$group"}}`, want: 201,
			save: "more"},
		{do: "POST /v3/routes", body: strings.Replace(tcpRoute(`"port":1024,`), "$tcp", "$more", 1), want: 422,
			has: []string{"Port '1024' is not available", "another domain"}},
		{as: "dev", do: "POST /v3/routes",
			body: `{"port":1025,"host":"x","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`, want: 422, has: []string{"Routes with protocol 'http' do not support ports."}},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"x","options":{"proxy_protocol":"v1"},"relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`, want: 422, has: []string{"Options Proxy protocol can only be set for TCP routes"}},
		{as: "dev", do: "GET /v3/routes?ports=1024", want: 200, has: []string{`"guid":"$route"`, `"total_results":1`}},
		{as: "dev", do: "GET /v3/routes?domain_guids=$tcp&ports=0", want: 200, has: []string{`"total_results":0`}},
		{as: "dev", do: "GET /v3/domains/$tcp/route_reservations?port=1024", want: 200,
			has: []string{`"matching_route":true`}},
		{as: "dev", do: "GET /v3/domains/$tcp/route_reservations?port=1025", want: 200,
			has: []string{`"matching_route":false`}},
		{as: "dev", do: "GET /v3/domains/$tcp/route_reservations?port=x", want: 400,
			has: []string{"Port must be an integer"}},
		// Destinations.
		{as: "dev", do: "POST /v3/routes/$route/destinations",
			body: `{"destinations":[{"app":{"guid":"$app"},"protocol":"http1"}]}`, want: 422,
			has: []string{"Cannot use 'http1' protocol for tcp routes; valid options are: [tcp]."}},
		{as: "dev", do: "POST /v3/routes/$route/destinations", body: `{"destinations":[{"app":{"guid":"$app"}}]}`, want: 200,
			has: []string{`"protocol":"tcp"`, `"port":8080`}},
		{as: "dev", do: "PATCH /v3/routes/$route", body: `{"options":{"proxy_protocol":"v2"}}`, want: 200,
			has: []string{`"options":{"proxy_protocol":"v2"}`}},
		{as: "dev", do: "PATCH /v3/routes/$route", body: `{"options":{"proxy_protocol":null}}`, want: 200,
			has: []string{`"options":{}`}},
		// Two ports are left that no program has; random ones take them.
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(``), want: 201, has: []string{`"protocol":"tcp"`}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":0,`), want: 201, save: "random",
			has: []string{`"protocol":"tcp"`}},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(``), want: 422,
			has: []string{"There are no more ports available for router group: default-tcp. Please contact your administrator " +
				"for more information."}},
		{as: "dev", do: "DELETE /v3/routes/$random", want: 202},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(``), want: 201},
	})
	destination, _ := w.call(w.admin(), "GET", "/v3/routes/"+w.vars["route"]+"/destinations", nil).
		at("destinations.0.guid").(string)
	w.vars["destination"] = destination
	w.play([]step{
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$destination", body: `{"protocol":"http2"}`, want: 422,
			has: []string{"Destination protocol must be 'tcp' if the parent route's protocol is 'tcp'"}},
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$destination", body: `{"protocol":"tcp"}`, want: 200},
		{as: "dev", do: "PATCH /v3/routes/$route/destinations/$destination", body: `{"protocol":null}`, want: 200,
			has: []string{`"protocol":"tcp"`}},
	})
}

// The quota of reserved ports counts the routes with a port only.
func TestReservedPortsQuota(t *testing.T) {
	t.Parallel()
	w := tcpWorld(t)
	w.play([]step{
		{do: "POST /v3/organization_quotas",
			body: `{"name":"one port","routes":{"total_reserved_ports":1},"relationships":{"organizations":{"data":[{"guid":"$org"}]}}}`, want: 201},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"x","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(`"port":1024,`), want: 201},
		{as: "dev", do: "POST /v3/routes", body: tcpRoute(``), want: 422,
			has: []string{"Reserved route ports quota exceeded for organization 'o'."}},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"y","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201},
		{do: "POST /v3/space_quotas",
			body: `{"name":"no port","routes":{"total_reserved_ports":0},"relationships":{"organization":{"data":{"guid":"$org2"}},"spaces":{"data":[{"guid":"$space2"}]}}}`, want: 201},
		{do: "POST /v3/routes", body: strings.Replace(tcpRoute(`"port":1025,`), "$space", "$space2", 1), want: 422,
			has: []string{"Reserved route ports quota exceeded for space 's2'."}},
	})
}

// One space, or one organization, does not get all ports, unless a quota allows it.
func TestPortsOfOneTenant(t *testing.T) {
	t.Parallel()
	ports, err := platform.ParsePorts("1024-1123")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, setupOptions(t, db.SQLite,
		func(o *api.Options) { o.Platform.TCP = platform.DefaultTCPGroup(ports) }))
	w.vars["group"] = platform.DefaultTCPGroup(ports).GUID
	w.play([]step{
		{do: "POST /v3/domains", body: `{"name":"tcp.example.org","router_group":{"guid":"$group"}}`, want: 201, save: "tcp"},
	})
	first := w.vars["space"]
	for i, of := range []struct {
		space string
		takes int
		says  string
	}{{"", 10, "space '"}, {"b", 10, "space 'b'"}, {"c", 5, "organization '"}} {
		if of.space != "" {
			w.play([]step{{do: "POST /v3/spaces", body: `{"name":"` + of.space +
				`","relationships":{"organization":{"data":{"guid":"$org"}}}}`, want: 201, save: "space"}})
		}
		for range of.takes {
			w.play([]step{{do: "POST /v3/routes", body: tcpRoute(""), want: 201}})
		}
		w.play([]step{{do: "POST /v3/routes", body: tcpRoute(""), want: 422,
			has: []string{"Reserved route ports quota exceeded for " + of.says}}})
		if i == 2 {
			w.vars["space"] = first
		}
	}
	w.play([]step{
		{do: "POST /v3/organization_quotas",
			body: `{"name":"many","routes":{"total_routes":200,"total_reserved_ports":27},"relationships":{"organizations":{"data":[{"guid":"$org"}]}}}`, want: 201},
		{do: "POST /v3/routes", body: tcpRoute(""), want: 201},
		{do: "POST /v3/routes", body: tcpRoute(""), want: 201},
		{do: "POST /v3/routes", body: tcpRoute(""), want: 422,
			has: []string{"Reserved route ports quota exceeded for organization"}},
	})
}
