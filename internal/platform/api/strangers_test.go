package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform"
)

// marker is in every name and value of the data that is none of a stranger's
// business.
const marker = "zebra"

// secret is in every value that even a global auditor may not see.
const secret = "-secret"

// foreign is an organization full of data of others.
func foreign(f *fixture) map[string]string {
	f.t.Helper()
	return fullOrg(f, marker)
}

// fullOrg creates an organization full of data, all with a name, and returns
// the guids of all of it by the first part of the path below /v3.
func fullOrg(f *fixture, name string) map[string]string {
	f.t.Helper()
	guids := map[string]string{"jobs": "", "stacks": "", "buildpacks": ""}
	guids["organizations"] = f.org(name + "-org")
	guids["spaces"] = f.space(guids["organizations"], name+"-space")
	labels := map[string]any{"labels": map[string]string{name: name}}
	app := f.app(guids["spaces"], name+"-app",
		map[string]any{"environment_variables": map[string]string{"SECRET": name + secret}, "metadata": labels})
	guids["apps"], guids["processes"] = app, app
	f.role(name+"-dev", "organization_user", guids["organizations"])
	f.role(name+"-dev", "space_developer", guids["spaces"])
	guids["users"] = name + "-dev-guid"
	admin := f.admin()
	create := func(kind string, body map[string]any) {
		guids[kind] = f.want(f.call(admin, "POST", "/v3/"+kind, body), 201).guid()
	}
	create("organization_quotas", map[string]any{"name": fmt.Sprint("medium-", len(name)),
		"relationships": map[string]any{"organizations": map[string]any{
			"data": []any{map[string]string{"guid": guids["organizations"]}}}}})
	ofOrg := rel("organization", guids["organizations"])
	ofOrg["spaces"] = map[string]any{"data": []any{map[string]string{"guid": guids["spaces"]}}}
	create("space_quotas", map[string]any{"name": name, "relationships": ofOrg})
	create("isolation_segments", map[string]any{"name": name})
	f.want(f.call(admin, "POST", "/v3/isolation_segments/"+guids["isolation_segments"]+"/relationships/organizations",
		map[string]any{"data": []any{map[string]string{"guid": guids["organizations"]}}}), 200)
	create("security_groups", map[string]any{"name": name, "rules": []any{map[string]string{"protocol": "all",
		"destination": "10.0.0.0/8"}},
		"relationships": map[string]any{"running_spaces": ofOrg["spaces"], "staging_spaces": ofOrg["spaces"]}})
	create("domains", map[string]any{"name": name + ".example.org",
		"relationships": rel("organization", guids["organizations"])})
	create("routes", map[string]any{"host": name, "relationships": rel("space", guids["spaces"], "domain",
		guids["domains"])})
	mapped := f.want(f.call(admin, "POST", "/v3/routes/"+guids["routes"]+"/destinations",
		map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": app}}}}), 200)
	guids["destination"], _ = mapped.at("destinations.0.guid").(string)
	create("packages", map[string]any{"type": "bits", "metadata": labels, "relationships": rel("app", app)})
	f.want(f.upload(admin, "/v3/packages/"+guids["packages"]+"/upload", name+".zip", name, nil), 200)
	create("builds", map[string]any{"package": map[string]string{"guid": guids["packages"]}})
	guids["sidecars"] = f.want(f.call(admin, "POST", "/v3/apps/"+app+"/sidecars",
		map[string]any{"name": name, "command": name, "process_types": []string{"web"}}), 201).guid()
	guids["droplets"] = f.droplet(app, &platform.Droplet{PackageGUID: guids["packages"],
		ProcessTypes: map[string]string{"web": name}})
	f.blobs.packages[guids["droplets"]] = []byte(name)
	f.want(f.call(admin, "PATCH", "/v3/apps/"+app+"/relationships/current_droplet", rel("x", guids["droplets"])["x"]), 200)
	f.want(f.call(admin, "POST", "/v3/apps/"+app+"/actions/start", nil), 200)
	guids["tasks"] = f.want(f.call(admin, "POST", "/v3/apps/"+app+"/tasks", map[string]any{"name": name, "command": name,
		"metadata": labels}), 202).guid()
	first := func(path string) string {
		guid, _ := f.want(f.call(admin, "GET", path, nil), 200).at("resources.0.guid").(string)
		return guid
	}
	fullOrgServices(f, name, guids)
	guids["roles"] = first("/v3/roles?space_guids=" + guids["spaces"])
	guids["audit_events"] = first("/v3/audit_events?target_guids=" + app)
	guids["revisions"] = first("/v3/apps/" + app + "/revisions")
	guids["stacks"], guids["buildpacks"] = first("/v3/stacks"), first("/v3/buildpacks")
	err := f.store.Update(f.t.Context(), func(tx platform.Tx) error {
		d := &platform.Deployment{AppGUID: app, Strategy: "rolling", Status: "ACTIVE", Reason: "DEPLOYING",
			DropletGUID: guids["droplets"], WebGUID: app, PriorGUID: app, Original: 1}
		if err := tx.Deployments().Insert(d); err != nil {
			return err
		}
		guids["deployments"] = d.GUID
		return tx.Instances().Insert(&platform.Instance{AppGUID: app, ProcessGUID: app, State: platform.InstanceRunning,
			Host: name, Details: name})
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return guids
}

// attempts are bodies that would do something if they were let. $kind is the
// guid of the foreign resource of that kind.
var attempts = map[string]string{
	"POST /v3/organizations":                                          `{"name":"new"}`,
	"POST /v3/ingot/apps/{guid}/changes":                              ``, // the form follows the decision
	"POST /v3/ingot/spaces/{guid}/deploy":                             `{"name":"new","sample":true}`,
	"POST /v3/ingot/apps/{guid}/deploy":                               `{"sample":true}`,
	"POST /v3/ingot/apps/{guid}/git-source/secret":                    `{}`,
	"POST /v3/ingot/git-hooks/{guid}":                                 `{"ref":"refs/heads/main","after":"1111111111111111111111111111111111111111"}`,
	"POST /v3/ingot/service_instances/{guid}/rotate":                  `{}`,
	"PATCH /v3/organizations/{guid}":                                  `{"name":"taken"}`,
	"POST /v3/spaces":                                                 `{"name":"new","relationships":{"organization":{"data":{"guid":"$organizations"}}}}`,
	"PATCH /v3/spaces/{guid}":                                         `{"name":"taken"}`,
	"PATCH /v3/spaces/{guid}/features/{name}":                         `{"enabled":false}`,
	"POST /v3/spaces/{guid}/actions/apply_manifest":                   `applications: [{name: new}]`,
	"POST /v3/spaces/{guid}/manifest_diff":                            `applications: [{name: zebra-app, env: {SECRET: guess}}]`,
	"POST /v3/organization_quotas":                                    `{"name":"new"}`,
	"PATCH /v3/organization_quotas/{guid}":                            `{"name":"taken"}`,
	"POST /v3/organization_quotas/{guid}/relationships/organizations": `{"data":[{"guid":"$organizations"}]}`,
	"POST /v3/space_quotas":                                           `{"name":"new","relationships":{"organization":{"data":{"guid":"$organizations"}}}}`,
	"PATCH /v3/space_quotas/{guid}":                                   `{"name":"taken"}`,
	"POST /v3/space_quotas/{guid}/relationships/spaces":               `{"data":[{"guid":"$spaces"}]}`,
	"POST /v3/security_groups":                                        `{"name":"new"}`,
	"PATCH /v3/security_groups/{guid}":                                `{"name":"taken"}`,
	"POST /v3/security_groups/{guid}/relationships/running_spaces":    `{"data":[{"guid":"$spaces"}]}`,
	"POST /v3/security_groups/{guid}/relationships/staging_spaces":    `{"data":[{"guid":"$spaces"}]}`,
	"POST /networking/v1/external/policies":                           `{"policies":[{"source":{"id":"$apps"},"destination":{"id":"$apps","protocol":"tcp","ports":{"start":1,"end":2}}}]}`,
	"POST /networking/v1/external/policies/delete":                    `{"policies":[{"source":{"id":"$apps"},"destination":{"id":"$apps","protocol":"tcp","ports":{"start":1,"end":2}}}]}`,
	"POST /v3/users":                                                  `{"guid":"new"}`,
	"PATCH /v3/users/{guid}":                                          `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/roles":                                                  `{"type":"organization_manager","relationships":{"user":{"data":{"guid":"$caller"}},"organization":{"data":{"guid":"$organizations"}}}}`,
	"PATCH /v3/feature_flags/{name}":                                  `{"enabled":false}`,
	"PATCH /v3/environment_variable_groups/{name}":                    `{"var":{"A":"b"}}`,
	"POST /v3/domains":                                                `{"name":"new.org","relationships":{"organization":{"data":{"guid":"$organizations"}}}}`,
	"PATCH /v3/domains/{guid}":                                        `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/domains/{guid}/relationships/shared_organizations":      `{"data":[{"guid":"$organizations"}]}`,
	"POST /v3/routes":                                                 `{"host":"new","relationships":{"space":{"data":{"guid":"$spaces"}},"domain":{"data":{"guid":"$domains"}}}}`,
	"PATCH /v3/routes/{guid}":                                         `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/routes/{guid}/destinations":                             `{"destinations":[{"app":{"guid":"$apps"},"port":9000}]}`,
	"PATCH /v3/routes/{guid}/destinations":                            `{"destinations":[]}`,
	"PATCH /v3/routes/{guid}/destinations/{destination}":              `{"protocol":"http2"}`,
	"POST /v3/apps":                                                   `{"name":"new","relationships":{"space":{"data":{"guid":"$spaces"}}}}`,
	"PATCH /v3/apps/{guid}":                                           `{"name":"taken"}`,
	"PATCH /v3/apps/{guid}/environment_variables":                     `{"var":{"A":"b"}}`,
	"PATCH /v3/apps/{guid}/features/{name}":                           `{"enabled":false}`,
	"PATCH /v3/apps/{guid}/relationships/current_droplet":             `{"data":{"guid":"$droplets"}}`,
	"POST /v3/apps/{guid}/actions/start":                              ``,
	"POST /v3/apps/{guid}/actions/stop":                               ``,
	"POST /v3/apps/{guid}/actions/restart":                            ``,
	"POST /v3/apps/{guid}/tasks":                                      `{"command":"evil"}`,
	"PATCH /v3/revisions/{guid}":                                      `{"metadata":{"labels":{"a":"b"}}}`,
	"PATCH /v3/tasks/{guid}":                                          `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/tasks/{guid}/actions/cancel":                            ``,
	"PUT /v3/tasks/{guid}/actions/cancel":                             ``,
	"PUT /v3/tasks/{guid}/cancel":                                     ``,
	"POST /v3/apps/{guid}/sidecars":                                   `{"name":"new","command":"x","process_types":["web"]}`,
	"PATCH /v3/sidecars/{guid}":                                       `{"command":"evil"}`,
	"PATCH /v3/processes/{guid}":                                      `{"command":"evil"}`,
	"PATCH /v3/apps/{guid}/processes/{type}":                          `{"command":"evil"}`,
	"POST /v3/processes/{guid}/actions/scale":                         `{"instances":7}`,
	"POST /v3/apps/{guid}/processes/{type}/actions/scale":             `{"instances":7}`,
	"POST /v3/packages":                                               `{"type":"bits","relationships":{"app":{"data":{"guid":"$apps"}}}}`,
	"PATCH /v3/packages/{guid}":                                       `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/packages/{guid}/upload":                                 ``,
	"POST /v3/resource_matches":                                       `{"resources":[{"path":"a","checksum":{"value":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"size_in_bytes":1}]}`,
	"POST /v3/builds":                                                 `{"package":{"guid":"$packages"}}`,
	"PATCH /v3/builds/{guid}":                                         `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/droplets":                                               `{"relationships":{"app":{"data":{"guid":"$apps"}}}}`,
	"PATCH /v3/droplets/{guid}":                                       `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/droplets/{guid}/upload":                                 ``,
	"POST /v3/buildpacks":                                             `{"name":"new"}`,
	"PATCH /v3/buildpacks/{guid}":                                     `{"enabled":false}`,
	"POST /v3/buildpacks/{guid}/upload":                               ``,
	"POST /v3/deployments":                                            `{"relationships":{"app":{"data":{"guid":"$apps"}}}}`,
	"PATCH /v3/deployments/{guid}":                                    `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/deployments/{guid}/actions/cancel":                      ``,
	"POST /v3/deployments/{guid}/actions/continue":                    ``,
	"POST /v3/stacks":                                                 `{"name":"new"}`,
	"PATCH /v3/stacks/{guid}":                                         `{"metadata":{"labels":{"a":"b"}}}`,
	"POST /v3/admin/actions/clear_buildpack_cache":                    ``,
	"POST /v3/apps/{guid}/actions/clear_buildpack_cache":              ``,

	"POST /v3/isolation_segments":                                              `{"name":"new"}`,
	"PATCH /v3/isolation_segments/{guid}":                                      `{"name":"taken"}`,
	"POST /v3/isolation_segments/{guid}/relationships/organizations":           `{"data":[{"guid":"$organizations"}]}`,
	"PATCH /v3/organizations/{guid}/relationships/default_isolation_segment":   `{"data":{"guid":"$isolation_segments"}}`,
	"PATCH /v3/spaces/{guid}/relationships/isolation_segment":                  `{"data":{"guid":"$isolation_segments"}}`,
	"POST /v3/routes/{guid}/relationships/shared_spaces":                       `{"data":[{"guid":"$spaces"}]}`,
	"POST /v3/app_usage_events/actions/destructively_purge_all_and_reseed":     ``,
	"POST /v3/service_usage_events/actions/destructively_purge_all_and_reseed": ``,
	"PATCH /v3/routes/{guid}/relationships/space":                              `{"data":{"guid":"$spaces"}}`,
}

func init() {
	meta := `{"metadata":{"labels":{"a":"b"}}}`
	for what, body := range map[string]string{
		"POST /v3/service_brokers": `{"name":"new","url":"http://127.0.0.1:1","authentication":{"type":"basic","credentials":{"username":"u","password":"p"}},` +
			`"relationships":{"space":{"data":{"guid":"$spaces"}}}}`,
		"PATCH /v3/service_brokers/{guid}":                              `{"name":"taken"}`,
		"PATCH /v3/service_offerings/{guid}":                            meta,
		"PATCH /v3/service_plans/{guid}":                                meta,
		"PATCH /v3/service_plans/{guid}/visibility":                     `{"type":"public"}`,
		"POST /v3/service_plans/{guid}/visibility":                      `{"type":"public"}`,
		"POST /v3/service_instances":                                    `{"type":"user-provided","name":"new","relationships":{"space":{"data":{"guid":"$spaces"}}}}`,
		"PATCH /v3/service_instances/{guid}":                            `{"name":"taken"}`,
		"POST /v3/service_instances/{guid}/relationships/shared_spaces": `{"data":[{"guid":"$spaces"}]}`,
		"POST /v3/service_credential_bindings":                          `{"type":"app","relationships":{"app":{"data":{"guid":"$apps"}},"service_instance":{"data":{"guid":"$service_instances"}}}}`,
		"PATCH /v3/service_credential_bindings/{guid}":                  meta,
		"POST /v3/service_route_bindings":                               `{"relationships":{"route":{"data":{"guid":"$routes"}},"service_instance":{"data":{"guid":"$service_instances"}}}}`,
		"PATCH /v3/service_route_bindings/{guid}":                       meta,
	} {
		attempts[what] = body
	}
}

// fullOrgServices adds a broker of the space, with an offering and a
// plan, and instances, of which one is bound to the app and to a route.
func fullOrgServices(f *fixture, name string, guids map[string]string) {
	f.t.Helper()
	// The other route has no binding yet.
	bound := f.want(f.call(f.admin(), "POST", "/v3/routes", map[string]any{"host": name + "-bound",
		"relationships": rel("space", guids["spaces"], "domain", guids["domains"])}), 201).guid()
	err := f.store.Update(f.t.Context(), func(tx platform.Tx) error {
		done := platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationSucceeded, Description: name}
		b := &platform.ServiceBroker{Name: name, URL: "http://" + name, Username: name, Password: name + secret,
			SpaceGUID: guids["spaces"]}
		if err := tx.ServiceBrokers().Insert(b); err != nil {
			return err
		}
		o := &platform.ServiceOffering{Name: name, BrokerGUID: b.GUID, CatalogID: name, Available: true}
		if err := tx.ServiceOfferings().Insert(o); err != nil {
			return err
		}
		plan := &platform.ServicePlan{Name: name, OfferingGUID: o.GUID, CatalogID: name, Available: true,
			Visibility: platform.VisibleSpace}
		if err := tx.ServicePlans().Insert(plan); err != nil {
			return err
		}
		managed := &platform.ServiceInstance{Type: platform.ServiceManaged, Name: name + "-managed",
			SpaceGUID: guids["spaces"], PlanGUID: plan.GUID, Last: done}
		if err := tx.ServiceInstances().Insert(managed); err != nil {
			return err
		}
		guids["managed"] = managed.GUID
		i := &platform.ServiceInstance{Type: platform.ServiceUserProvided, Name: name, SpaceGUID: guids["spaces"],
			RouteServiceURL: "https://" + name, Credentials: map[string]any{"p": name + secret}, Last: done}
		if err := tx.ServiceInstances().Insert(i); err != nil {
			return err
		}
		app := &platform.ServiceBinding{Type: platform.BindingApp, InstanceGUID: i.GUID, AppGUID: guids["apps"],
			SpaceGUID: guids["spaces"], Last: done}
		if err := tx.ServiceBindings().Insert(app); err != nil {
			return err
		}
		route := &platform.ServiceBinding{Type: platform.BindingRoute, InstanceGUID: i.GUID, RouteGUID: bound,
			SpaceGUID: guids["spaces"], Last: done}
		if err := tx.ServiceBindings().Insert(route); err != nil {
			return err
		}
		guids["service_brokers"], guids["service_offerings"], guids["service_plans"] = b.GUID, o.GUID, plan.GUID
		guids["service_instances"], guids["service_credential_bindings"], guids["service_route_bindings"] = i.GUID,
			app.GUID, route.GUID
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// public are the routes whose answers are the same for every user.
var public = map[string]bool{
	"GET /networking/v1/external/policies": true, // only those of the caller's own apps
	"GET /":                                true, "GET /v3": true, "GET /v3/info": true, "GET /v2/info": true,
	"GET /v2/stacks/{guid}": true, "GET /v3/stacks/{guid}": true, "GET /v3/stacks/{guid}/apps": true,
	"GET /v3/buildpacks/{guid}":          true,
	"GET /v3/organization_quotas/{guid}": true, // without the organizations that have it
	"GET /v3/feature_flags/{name}":       true, "GET /v3/environment_variable_groups/{name}": true,
	"POST /v3/resource_matches": true, // among what the caller uploaded himself
}

// Every route of the API, called by a user without any role about data of
// others, refuses or shows nothing, and changes nothing.
func TestStrangers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	guids := foreign(f)
	guids["caller"] = "stranger-guid"
	expand := func(s string) string {
		for kind, guid := range guids {
			s = strings.ReplaceAll(s, "$"+kind, guid)
		}
		return s
	}
	before := f.everything()
	for _, route := range f.routes {
		what := route.Method + " " + route.Pattern
		body, told := attempts[what]
		if !told && (route.Method == http.MethodPost || route.Method == http.MethodPatch) {
			t.Errorf("%s: say in attempts what a stranger would send", what)
			continue
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(route.Pattern, "/v3/"), "ingot/"), "/")
		path := strings.NewReplacer("{guid}", guids[kind], "{type}", "web", "{index}", "0", "{destination}",
			guids["destination"],
			"{organization}", guids["organizations"], "{space}", guids["spaces"], "{name}", nameOf(kind)).Replace(route.Pattern)
		queries := []string{""}
		if route.Method == http.MethodGet && !strings.Contains(route.Pattern, "{") {
			queries = append(queries, "?per_page=5000", "?guids="+guids[kind], "?label_selector="+marker)
			for _, include := range []string{"space", "space.organization", "organization", "org", "user", "domain", "app"} {
				queries = append(queries, "?include="+include)
			}
			for _, filter := range []string{"space_guids=$spaces", "organization_guids=$organizations", "app_guids=$apps",
				"target_guids=$apps", "usernames=zebra-dev", "names=zebra-app"} {
				queries = append(queries, "?"+expand(filter))
			}
			queries = append(queries, "?embed=process_instances")
		}
		if route.Method == http.MethodDelete && strings.HasSuffix(route.Pattern, "/routes") {
			queries = []string{"?unmapped=true"}
		}
		for _, query := range queries {
			r := httptest.NewRequest(route.Method, path+query, strings.NewReader(expand(body)))
			r.Header.Set("Content-Type", "application/json")
			if strings.Contains(path, "manifest") {
				r.Header.Set("Content-Type", "application/x-yaml")
			}
			a := f.send(f.as("stranger"), r)
			f.harmless("a stranger", what, path+query+expand(body), guids, a)
		}
	}
	if after := f.everything(); after != before {
		t.Errorf("a stranger changed something:\n%s\nwas\n%s", after, before)
	}
}

func nameOf(kind string) string {
	return map[string]string{"feature_flags": "app_scaling", "environment_variable_groups": "running"}[kind] +
		map[bool]string{true: "ssh"}[kind == "apps" || kind == "spaces"]
}

// harmless holds that an answer refuses, or shows nothing of others. sent is what
// the caller knew already.
func (f *fixture) harmless(who, pattern, sent string, guids map[string]string, a *answer) {
	f.t.Helper()
	what := who + ": " + pattern + " with " + sent
	list, isList := a.json["resources"].([]any)
	isList = isList && a.status == 200
	switch {
	case a.status >= 400 && a.status < 500:
	case isList && (len(list) == 0 || !strings.Contains(pattern, "{")):
	case public[pattern] && a.status < 300:
	default:
		f.t.Errorf("%s: the answer is %d %s", what, a.status, a.body)
	}
	text, known := a.body, sent
	if isList { // the links to other pages repeat what was sent, the rest must not
		shown, _ := json.Marshal([]any{list, a.json["included"]})
		text, known = string(shown), ""
	}
	if strings.Contains(text, marker) && !strings.Contains(known, marker) {
		f.t.Errorf("%s: names of others are shown: %s", what, a.body)
	}
	for kind, guid := range guids {
		if kind != "caller" && kind != "stacks" && kind != "buildpacks" && kind != "organization_quotas" && guid != "" &&
			strings.Contains(text, guid) && !strings.Contains(known, guid) {
			f.t.Errorf("%s: the guid of one of the %s is shown: %s", what, kind, a.body)
		}
	}
}

// everything is all that is stored, as text, but for the times.
func (f *fixture) everything() string {
	f.t.Helper()
	var out strings.Builder
	err := f.store.View(f.t.Context(), func(tx platform.Tx) error {
		out.Reset()
		for _, part := range []func() error{
			func() error { return dump(&out, tx.Organizations()) }, func() error { return dump(&out, tx.Spaces()) },
			func() error { return dump(&out, tx.Users()) },
			func() error { return dump(&out, tx.Roles()) }, func() error { return dump(&out, tx.Domains()) },
			func() error { return dump(&out, tx.Routes()) },
			func() error { return dump(&out, tx.Destinations()) }, func() error { return dump(&out, tx.Apps()) },
			func() error { return dump(&out, tx.Processes()) },
			func() error { return dump(&out, tx.Sidecars()) }, func() error { return dump(&out, tx.Packages()) },
			func() error { return dump(&out, tx.Builds()) },
			func() error { return dump(&out, tx.Droplets()) }, func() error { return dump(&out, tx.Buildpacks()) },
			func() error { return dump(&out, tx.Stacks()) },
			func() error { return dump(&out, tx.Deployments()) }, func() error { return dump(&out, tx.Tasks()) },
			func() error { return dump(&out, tx.AuditEvents()) }, func() error { return dump(&out, tx.Jobs()) },
			func() error { return dump(&out, tx.ServiceBrokers()) }, func() error { return dump(&out, tx.ServiceOfferings()) },
			func() error { return dump(&out, tx.ServicePlans()) },
			func() error { return dump(&out, tx.OrganizationQuotas()) }, func() error { return dump(&out, tx.SpaceQuotas()) },
			func() error { return dump(&out, tx.SecurityGroups()) }, func() error { return dump(&out, tx.NetworkPolicies()) },
			func() error { return dump(&out, tx.ServiceInstances()) }, func() error { return dump(&out, tx.ServiceBindings()) },
			func() error { return dump(&out, tx.Instances()) }, func() error { return dumpSettings(&out, tx) },
		} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.String()
}

func dumpSettings(out *strings.Builder, tx platform.Tx) error {
	flags, err := tx.FeatureFlags()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "flags %+v\n", flags)
	for _, name := range []string{"running", "staging"} {
		group, err := tx.EnvGroup(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "group %+v\n", group)
	}
	return nil
}

func dump[T any](out *strings.Builder, repo platform.Repo[T]) error {
	all, _, err := repo.List(platform.Query{})
	if err != nil {
		return err
	}
	for _, row := range all {
		if r, ok := any(row).(interface{ Base() *platform.Resource }); ok {
			r.Base().Updated = time.Time{}
		}
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		out.Write(append(text, '\n'))
	}
	return nil
}
