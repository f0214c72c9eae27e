package api_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/brokertest"
)

// market is a world with a broker whose plans everybody may use.
type market struct {
	*world
	broker *brokertest.Broker
}

func newMarket(t *testing.T, b *brokertest.Broker) *market {
	t.Helper()
	return newMarketIn(t, newWorld(t), b)
}

func newMarketIn(t *testing.T, w *world, b *brokertest.Broker) *market {
	t.Helper()
	m := &market{w, brokertest.New(t, b)}
	m.vars["url"] = m.broker.URL
	m.done(step{do: "POST /v3/service_brokers", want: 202,
		body: `{"name":"b","url":"$url","authentication":{"type":"basic","credentials":{"username":"broker-user","password":"broker-password"}}}`})
	for _, plan := range []string{"sync", "paid", "async", "fails", "breaks", "garbage"} {
		m.one(step{do: "GET /v3/service_plans?service_broker_names=b&names=" + plan, want: 200, has: []string{plan},
			save: plan})
		if plan != "garbage" {
			m.one(step{do: "POST /v3/service_plans/$" + plan + "/visibility", body: `{"type":"public"}`, want: 200,
				has: []string{"public"}})
		}
	}
	return m
}

// job makes a request and waits for its job to end.
func (m *market) job(s step) *answer {
	m.t.Helper()
	a := m.one(s)
	if a.status != 202 {
		m.t.Fatalf("%s answers %d, want 202: %s", s.do, a.status, a.body)
	}
	where, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		m.t.Fatal(err)
	}
	for {
		j := m.call(m.admin(), "GET", where.Path, nil)
		switch j.at("state") {
		case "COMPLETE", "FAILED":
			return j
		case "PROCESSING", "POLLING":
			m.services.Wait(m.t.Context(), strings.TrimPrefix(where.Path, "/v3/jobs/"))
		default:
			m.t.Fatalf("job: %s", j.body)
		}
	}
}

// done makes a request whose job must succeed; it returns the guid of what it
// was about.
func (m *market) done(s step) string {
	m.t.Helper()
	j := m.job(s)
	if j.at("state") != "COMPLETE" {
		m.t.Fatalf("job of %s is %s, want COMPLETE", s.do, j.body)
	}
	links, _ := j.json["links"].(map[string]any)
	for name, l := range links {
		if name == "self" {
			continue
		}
		href, _ := l.(map[string]any)["href"].(string)
		return href[strings.LastIndex(href, "/")+1:]
	}
	return ""
}

// fails makes a request whose job must fail and say why.
func (m *market) fails(s step, why string) {
	m.t.Helper()
	j := m.job(s)
	if j.at("state") != "FAILED" || !strings.Contains(j.detail(), why) {
		m.t.Errorf("%s: %s, want it to fail with %q", s.do, j.body, why)
	}
}

func (m *market) create(name, plan string) string {
	m.t.Helper()
	guid := m.done(step{as: "dev", do: "POST /v3/service_instances", want: 202,
		body: `{"type":"managed","name":"` + name +
			`","tags":["mine","db"],"relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$` +
			plan + `"}}}}`})
	m.vars[strings.ReplaceAll(name, "-", "_")] = guid
	return guid
}

const bindApp = `{"type":"app","relationships":{"app":{"data":{"guid":"$app"}},"service_instance":{"data":{"guid":"$db"}}}}`

func TestServiceLife(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{Polls: 1})
	m.play([]step{
		{as: "dev", do: "GET /v3/service_plans?include=service_offering&fields[service_offering.service_broker]=name,guid&per_page=5000&space_guids=$space&available=true", want: 200,
			has: []string{`"service_offerings"`, `"service_brokers":[{"guid"`, `"currency":"USD"`, `"amount":9.5`},
			not: []string{"garbage", "broker-password"}},
		{as: "dev", do: "GET /v3/service_offerings?names=fake&fields[service_broker]=name,guid", want: 200,
			has: []string{`"shareable":true`, "https://example.org/docs", `"name":"b"`}, save: "offering"},
		{as: "dev", do: "GET /v3/service_offerings/$offering", want: 200},
		{as: "dev", do: "GET /v3/service_plans/$sync", want: 200,
			has: []string{`"maintenance_info":{"description":"first","version":"1.0.0"}`}},
		{as: "dev", do: "GET /v3/service_plans/$sync/visibility", want: 200, has: []string{`"type":"public"`}},
		{as: "dev", do: "GET /v3/service_brokers", want: 200, not: []string{`"name":"b"`}},
		{do: "GET /v3/service_brokers?names=b", want: 200, has: []string{`"name":"b"`}, not: []string{"broker-password"},
			save: "broker"},
		{do: "GET /v3/service_brokers/$broker", want: 200},
		{as: "dev", do: "POST /v3/service_instances", want: 422, has: []string{"Invalid service plan"},
			body: `{"type":"managed","name":"no","relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$garbage"}}}}`},
		{as: "dev", do: "POST /v3/service_instances", want: 422, has: []string{"Parameters are not valid", "/size"},
			body: `{"type":"managed","name":"no","parameters":{"size":0},"relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$sync"}}}}`},
		{as: "auditor", do: "POST /v3/service_instances", want: 403,
			body: `{"type":"managed","name":"no","relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$sync"}}}}`},
	})
	a := m.one(step{as: "dev", do: "POST /v3/service_instances", want: 202,
		body: `{"type":"managed","name":"dear","parameters":{"n":12345678901234567890},"relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$paid"}}}}`})
	if text, err := url.QueryUnescape(a.header.Get("X-Cf-Warnings")); err != nil || !strings.Contains(text, "not free") {
		t.Errorf("warning: %q, %v", text, err)
	}
	m.create("db", "sync")
	m.play([]step{
		{as: "dev", do: "POST /v3/service_instances", want: 422, has: []string{"The service instance name is taken: db"},
			body: `{"type":"managed","name":"db","relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$sync"}}}}`},
		{as: "dev", do: "GET /v3/service_instances/$db", want: 200, has: []string{`"state":"succeeded"`,
			`"upgrade_available":false`, "https://example.org/dashboard"}},
		{as: "auditor", do: "GET /v3/service_instances?names=db&space_guids=$space&fields[service_plan]=name,guid,relationships.service_offering&fields[service_plan.service_offering]=name,guid,description,tags,documentation_url" +
			"&fields[service_plan.service_offering.service_broker]=name,guid&fields[space]=name,guid&fields[space.organization]=name,guid", want: 200,
			has: []string{`"service_plans":[{"guid"`, `"service_brokers":[{"guid"`, `"organizations":[{"guid"`,
				`"tags":["fake","db"]`}, not: []string{`"costs"`}},
		{as: "dev", do: "GET /v3/service_instances/$db/parameters", want: 200},
		{as: "auditor", do: "GET /v3/service_instances/$db/parameters", want: 403},
		{as: "dev", do: "GET /v3/service_instances/$db/permissions", want: 200, has: []string{`"manage":true`}},
		{as: "auditor", do: "GET /v3/service_instances/$db/permissions", want: 200, has: []string{`"manage":false`,
			`"read":true`}},
		{do: "PATCH /v3/organizations/$org", body: `{"suspended":true}`, want: 200},
		{as: "dev", do: "GET /v3/service_instances/$db/permissions", want: 200, has: []string{`"manage":false`,
			`"read":true`}},
		{do: "GET /v3/service_instances/$db/permissions", want: 200, has: []string{`"manage":true`}},
		{do: "PATCH /v3/organizations/$org", body: `{"suspended":false}`, want: 200},
		{as: "dev", do: "GET /v3/service_instances/$db/relationships/shared_spaces?fields[space]=guid,name,relationships.organization&fields[space.organization]=guid,name", want: 200, has: []string{`"data":[]`}},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"tags":["other"]}`, want: 200, has: []string{`"other"`}},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"name":"db2"}`, want: 200, has: []string{`"db2"`}},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"name":"dear"}`, want: 422,
			has: []string{"name is taken"}},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"name":"db"}`, want: 200},
	})
	m.done(step{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"parameters":{"size":7}}`, want: 202})
	m.one(step{as: "dev", do: "GET /v3/service_instances/$db/parameters", want: 200, has: []string{`"size":7`}})
	m.done(step{as: "dev", do: "PATCH /v3/service_instances/$db",
		body: `{"relationships":{"service_plan":{"data":{"guid":"$paid"}}}}`, want: 202})
	m.fails(step{as: "dev", do: "PATCH /v3/service_instances/$db",
		body: `{"relationships":{"service_plan":{"data":{"guid":"$fails"}}}}`, want: 202}, "not to this plan")
	m.one(step{as: "dev", do: "GET /v3/service_instances/$db", want: 200, has: []string{`"state":"failed"`,
		"not to this plan", `"service_plan":{"data":{"guid":"$paid"}}`}})

	// Bound, it is in the app's environment.
	m.vars["bound"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 202})
	m.vars["key"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings",
		body: `{"type":"key","name":"k","relationships":{"service_instance":{"data":{"guid":"$db"}}}}`, want: 202})
	m.play([]step{
		{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 422,
			has: []string{"The app is already bound to the service instance"}},
		{as: "dev", do: "POST /v3/service_credential_bindings",
			body: `{"type":"key","name":"k","relationships":{"service_instance":{"data":{"guid":"$db"}}}}`, want: 422,
			has: []string{"Key binding names must be unique"}},
		{as: "auditor", do: "POST /v3/service_credential_bindings", body: bindApp, want: 403},
		{as: "dev", do: "GET /v3/service_credential_bindings?include=app,service_instance&service_instance_guids=$db&type=app", want: 200, has: []string{`"apps"`, `"service_instances"`}, not: []string{"secret-"}},
		{as: "dev", do: "GET /v3/service_credential_bindings/$bound", want: 200, has: []string{`"name":null`}},
		{as: "dev", do: "GET /v3/service_credential_bindings/$bound/details", want: 200,
			has: []string{`"port":5432`, "secret-$bound"}},
		{as: "auditor", do: "GET /v3/service_credential_bindings/$bound/details", want: 403, not: []string{"secret"}},
		{as: "supporter", do: "GET /v3/service_credential_bindings/$key/details", want: 403, not: []string{"secret"}},
		{as: "dev", do: "GET /v3/service_credential_bindings/$bound/parameters", want: 200},
		{as: "dev", do: "PATCH /v3/service_credential_bindings/$bound", body: `{"metadata":{"labels":{"a":"b"}}}`, want: 200},
		{as: "dev", do: "GET /v3/service_route_bindings/$bound", want: 404},
		{do: "DELETE /v3/service_brokers/$broker", want: 422, has: []string{"associated service instances"}},
		{do: "DELETE /v3/service_offerings/$offering", want: 400},
	})
	env := m.one(step{as: "dev", do: "GET /v3/apps/$app/env", want: 200, has: []string{"secret-$bound"}})
	entry, _ := env.at("system_env_json.VCAP_SERVICES.fake.0").(map[string]any)
	want := map[string]string{
		"label": `"fake"`, "provider": "null", "plan": `"paid"`, "name": `"db"`, "tags": `["fake","db","other"]`,
		"instance_guid": `"` + m.vars["db"] + `"`, "instance_name": `"db"`,
		"binding_guid": `"` + m.vars["bound"] + `"`, "binding_name": "null", "syslog_drain_url": "null",
		"volume_mounts": "[]",
	}
	for k, v := range want {
		if text, err := json.Marshal(entry[k]); err != nil || string(text) != v {
			t.Errorf("VCAP_SERVICES has %s: %s, want %s", k, text, v)
		}
	}
	if len(entry) != len(want)+1 {
		t.Errorf("VCAP_SERVICES has other keys: %v", entry)
	}
	m.one(step{as: "auditor", do: "GET /v3/apps/$app/env", want: 403, not: []string{"secret-"}})

	m.done(step{as: "dev", do: "DELETE /v3/service_credential_bindings/$bound", want: 202})
	m.done(step{as: "dev", do: "DELETE /v3/service_credential_bindings/$key", want: 202})
	m.one(step{as: "dev", do: "GET /v3/apps/$app/env", want: 200, has: []string{`"VCAP_SERVICES":{}`}})
	m.done(step{as: "dev", do: "DELETE /v3/service_instances/$db", want: 202})
	m.one(step{as: "dev", do: "GET /v3/service_instances/$db", want: 404})
	for _, kind := range []string{"audit.service_instance.create", "audit.service_instance.update",
		"audit.service_instance.delete",
		"audit.service_binding.create", "audit.service_binding.delete", "audit.service_key.create",
		"audit.service_broker.create"} {
		m.one(step{do: "GET /v3/audit_events?types=" + kind, want: 200, has: []string{kind}, not: []string{"secret"}})
	}
}

func TestServiceFailures(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{Polls: 2})
	create := func(name, plan string) step {
		return step{as: "dev", do: "POST /v3/service_instances", want: 202,
			body: `{"type":"managed","name":"` + name +
				`","relationships":{"space":{"data":{"guid":"$space"}},"service_plan":{"data":{"guid":"$` + plan + `"}}}}`}
	}
	m.fails(create("f", "fails"), "this plan never works")
	m.fails(create("g", "breaks"), "it broke")
	m.one(step{as: "dev", do: "GET /v3/service_instances?names=g", want: 200, has: []string{`"state":"failed"`,
		"it broke"}, save: "db"})
	m.one(step{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 422,
		has: []string{"was not created"}})
	m.done(step{as: "dev", do: "DELETE /v3/service_instances/$db", want: 202})

	// Asynchronous ones work, and are busy meanwhile.
	m.vars["db"] = m.create("slow", "async")
	m.vars["bound"] = m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 202})
	m.one(step{as: "dev", do: "GET /v3/service_credential_bindings/$bound/details", want: 200,
		has: []string{"secret-$bound"}})
	err := m.store.Update(t.Context(), func(tx platform.Tx) error {
		i, err := tx.ServiceInstances().Get(m.vars["db"])
		if err != nil {
			return err
		}
		i.Last.Type, i.Last.State = platform.OperationUpdate, platform.OperationInProgress
		return tx.ServiceInstances().Update(i)
	})
	if err != nil {
		t.Fatal(err)
	}
	m.play([]step{
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"parameters":{}}`, want: 409,
			has: []string{"CF-AsyncServiceInstanceOperationInProgress", "60016",
				"An operation for service instance slow is in progress."}},
		{as: "dev", do: "DELETE /v3/service_credential_bindings/$bound", want: 409, has: []string{"in progress"}},
		{do: "DELETE /v3/service_instances/$db?purge=true", want: 204},
		{as: "dev", do: "GET /v3/service_instances/$db", want: 404},
		{as: "dev", do: "GET /v3/service_credential_bindings/$bound", want: 404},
	})

	// Brokers that cannot be used.
	auth := `"authentication":{"type":"basic","credentials":{"username":"broker-user","password":"broker-password"}}`
	m.fails(step{do: "POST /v3/service_brokers", want: 202, body: `{"name":"unreachable","url":"http://127.0.0.1:1",` +
		auth + `}`}, "could not be reached")
	m.fails(step{do: "POST /v3/service_brokers", want: 202,
		body: `{"name":"wrong","url":"$url","authentication":{"type":"basic","credentials":{"username":"u","password":"hunter3"}}}`}, "Authentication with the service broker 'wrong' failed")
	m.one(step{do: "POST /v3/service_brokers", want: 422, has: []string{"Name must be unique"},
		body: `{"name":"unreachable","url":"http://127.0.0.1:1",` + auth + `}`})
	m.one(step{do: "POST /v3/service_brokers", want: 422, has: []string{"not a valid URL"},
		body: `{"name":"x","url":"ftp://x",` + auth + `}`})
	for _, address := range []string{"http://x?a=b", "http://x#f", "http://x?", "http://x/#"} {
		m.one(step{do: "POST /v3/service_brokers", want: 422, has: []string{"query or a fragment"},
			body: `{"name":"x","url":"` + address + `",` + auth + `}`})
	}
	m.one(step{as: "dev", do: "POST /v3/service_brokers", want: 403, body: `{"name":"x","url":"$url",` + auth + `}`})
	empty := brokertest.New(t, &brokertest.Broker{Change: func(c map[string]any) { c["services"] = []any{} }})
	m.vars["empty"] = empty.URL
	m.fails(step{do: "POST /v3/service_brokers", want: 202, body: `{"name":"empty","url":"$empty",` + auth + `}`},
		"catalog is invalid")
}

func TestUserProvidedServices(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{})
	ups := `{"type":"user-provided","name":"ups","credentials":{"uri":"mysql://u:hunter4@h/d","n":12345678901234567890},"syslog_drain_url":"syslog://h:1","route_service_url":"https://r.example","tags":["t"],"relationships":{"space":{"data":{"guid":"$space"}}}}`
	m.play([]step{
		{as: "dev", do: "POST /v3/service_instances", body: ups, want: 201,
			has: []string{`"syslog_drain_url":"syslog://h:1"`}, not: []string{"hunter4"}, save: "db"},
		{as: "dev", do: "POST /v3/service_instances", body: ups, want: 422, has: []string{"name is taken"}},
		{as: "dev", do: "GET /v3/service_instances/$db/credentials", want: 200,
			has: []string{"hunter4", "12345678901234567890"}},
		{as: "auditor", do: "GET /v3/service_instances/$db/credentials", want: 403, not: []string{"hunter4"}},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"syslog_drain_url":"gopher://x"}`, want: 422},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"syslog_drain_url":"https-batch://h/in"}`, want: 200},
		{as: "dev", do: "PATCH /v3/service_instances/$db", body: `{"syslog_drain_url":"syslog://h:1"}`, want: 200},
		{as: "dev", do: "POST /v3/service_credential_bindings", body: strings.Replace(bindApp, `"app",`,
			`"app","name":"primary",`, 1), want: 201, has: []string{`"name":"primary"`}, save: "bound"},
		{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 422, has: []string{"already bound"}},
		{as: "dev", do: "GET /v3/service_credential_bindings/$bound/details", want: 200,
			has: []string{"hunter4", "syslog://h:1"}},
		{as: "dev", do: "GET /v3/apps/$app/env", want: 200, has: []string{`"user-provided":[{`, "hunter4",
			`"binding_name":"primary"`, `"name":"primary"`, "12345678901234567890", `"instance_name":"ups"`},
			not: []string{`"provider"`, `"plan"`}},
		{as: "dev", do: "POST /v3/routes",
			body: `{"host":"r","relationships":{"space":{"data":{"guid":"$space"}},"domain":{"data":{"guid":"$domain"}}}}`,
			want: 201, save: "route"},
		{as: "dev", do: "POST /v3/service_route_bindings",
			body: `{"relationships":{"route":{"data":{"guid":"$route"}},"service_instance":{"data":{"guid":"$db"}}}}`, want: 201,
			has: []string{"https://r.example"}, save: "rb"},
		{as: "dev", do: "POST /v3/service_route_bindings",
			body: `{"relationships":{"route":{"data":{"guid":"$route"}},"service_instance":{"data":{"guid":"$db"}}}}`, want: 422,
			has: []string{"CF-ServiceInstanceAlreadyBoundToSameRoute"}},
		{as: "dev", do: "GET /v3/service_route_bindings?route_guids=$route&include=service_instance,route", want: 200,
			has: []string{`"routes"`, `"service_instances"`}},
		{as: "dev", do: "GET /v3/service_route_bindings/$rb", want: 200},
		{as: "dev", do: "PATCH /v3/service_route_bindings/$rb", body: `{"metadata":{"labels":{"a":"b"}}}`, want: 200},
		{as: "dev", do: "GET /v3/service_credential_bindings?service_instance_guids=$db", want: 200,
			not: []string{"route_service_url"}},
		{as: "dev", do: "PATCH /v3/service_instances/$db",
			body: `{"credentials":{"uri":"postgresql://u:hunter5@h/d","cert":"C","key":7,"ca":"A"}}`, want: 200},
	})
	if m.signals.mu.Lock(); !slices.Contains(m.signals.apps, m.vars["app"]) {
		t.Error("the binding was not announced: the drain would begin late")
	}
	m.signals.apps = nil
	m.signals.mu.Unlock()
	err := m.store.View(t.Context(), func(tx platform.Tx) error {
		app, err := tx.Apps().Get(m.vars["app"])
		if err != nil {
			return err
		}
		database, err := actions.DatabaseURL(tx, app)
		if database != "postgres://u:hunter5@h/d" {
			t.Errorf("DATABASE_URL is %q", database)
		}
		if err != nil {
			return err
		}
		drains, err := actions.DrainsOf(tx, app.GUID)
		if len(drains) != 1 || drains[0].URL != "syslog://h:1" {
			t.Errorf("drains: %v", drains)
		}
		if d := drains[0]; d.Certificate != "C" || d.CA != "A" || d.Key != "" { // a number is no key
			t.Errorf("drain is %+v, want certificate C, CA A and no key", d)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Files in place of variables.
	m.one(step{as: "dev", do: "PATCH /v3/apps/$app/features/service-binding-k8s", body: `{"enabled":true}`, want: 200})
	m.one(step{as: "dev", do: "PATCH /v3/apps/$app/features/file-based-vcap-services", body: `{"enabled":true}`, want: 422,
		has: []string{"at the same time"}})
	m.files(map[string]string{"primary/uri": "postgresql://u:hunter5@h/d", "primary/type": "user-provided",
		"primary/tags": `["t"]`, "primary/instance_name": "ups", "primary/binding_guid": m.vars["bound"],
		"primary/binding_name":  "primary",
		"primary/instance_guid": m.vars["db"], "primary/label": "user-provided", "primary/name": "primary",
		"primary/provider": "user-provided", "primary/syslog_drain_url": "syslog://h:1"})
	m.one(step{as: "dev", do: "PATCH /v3/apps/$app/features/service-binding-k8s", body: `{"enabled":false}`, want: 200})
	m.one(step{as: "dev", do: "PATCH /v3/apps/$app/features/file-based-vcap-services",
		body: `{"enabled":true}`, want: 200})
	m.files(map[string]string{"vcap_services": `{"user-provided":[{"binding_guid":"` + m.vars["bound"]})
	m.play([]step{
		{as: "dev", do: "DELETE /v3/service_route_bindings/$rb", want: 204},
		{as: "dev", do: "DELETE /v3/service_credential_bindings/$bound", want: 204},
		{as: "dev", do: "DELETE /v3/service_instances/$db", want: 204},
	})
	m.signals.mu.Lock()
	defer m.signals.mu.Unlock()
	if !slices.Contains(m.signals.apps, m.vars["app"]) {
		t.Error("the deletion of the binding was not announced: the drain would go on")
	}
}

// files are those of the app, which have to begin so.
func (m *market) files(want map[string]string) {
	m.t.Helper()
	err := m.store.View(m.t.Context(), func(tx platform.Tx) error {
		app, err := tx.Apps().Get(m.vars["app"])
		if err != nil {
			return err
		}
		files, err := actions.ServiceFiles(tx, app)
		for name, text := range want {
			if !strings.HasPrefix(string(files[name]), text) {
				m.t.Errorf("file %s is %q, want %q", name, files[name], text)
			}
		}
		for name := range files {
			if strings.Contains(name[strings.Index(name, "/")+1:], "-") {
				m.t.Errorf("file %s is not named as in VCAP_SERVICES", name)
			}
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func TestServiceAccessAndSharing(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{})
	m.create("db", "sync")
	m.play([]step{
		{do: "PATCH /v3/service_plans/$paid/visibility", body: `{"type":"organization","organizations":[{"guid":"$org2"}]}`,
			want: 200, has: []string{`"name":"elsewhere"`}},
		{as: "dev", do: "GET /v3/service_plans/$paid", want: 404},
		{do: "POST /v3/service_plans/$paid/visibility", body: `{"type":"organization","organizations":[{"guid":"$org"}]}`,
			want: 200, has: []string{"$org2", `"name":"o"`}},
		{as: "dev", do: "GET /v3/service_plans/$paid/visibility", want: 200, has: []string{`"name":"o"`},
			not: []string{"elsewhere"}},
		{as: "dev", do: "PATCH /v3/service_plans/$paid/visibility", body: `{"type":"public"}`, want: 403},
		{do: "DELETE /v3/service_plans/$paid/visibility/$org", want: 204},
		{do: "DELETE /v3/service_plans/$paid/visibility/$org", want: 404},
		{do: "GET /v3/service_plans?include=space.organization", want: 200},
		{as: "dev", do: "POST /v3/service_instances/$db/relationships/shared_spaces", body: `{"data":[{"guid":"$space2"}]}`,
			want: 403, has: []string{"service_instance_sharing"}},
		{do: "PATCH /v3/feature_flags/service_instance_sharing", body: `{"enabled":true}`, want: 200},
		{as: "dev", do: "POST /v3/service_instances/$db/relationships/shared_spaces", body: `{"data":[{"guid":"$space2"}]}`,
			want: 422, has: []string{"Ensure the spaces exist"}},
		{do: "POST /v3/service_instances/$db/relationships/shared_spaces", body: `{"data":[{"guid":"$space2"}]}`, want: 200,
			has: []string{"$space2"}},
		{do: "GET /v3/service_instances/$db/relationships/shared_spaces?fields[space]=guid,name,relationships.organization&fields[space.organization]=guid,name", want: 200, has: []string{`"name":"s2"`, "elsewhere"}},
	})
	m.vars["across"] = m.done(step{do: "POST /v3/service_credential_bindings", want: 202,
		body: `{"type":"app","relationships":{"app":{"data":{"guid":"$app2"}},"service_instance":{"data":{"guid":"$db"}}}}`})
	m.one(step{as: "dev", do: "GET /v3/service_credential_bindings/$across", want: 404})
	m.one(step{as: "dev", do: "GET /v3/service_instances/$db/relationships/shared_spaces/usage_summary", want: 200,
		has: []string{`"bound_app_count":1`}})
	m.one(step{as: "dev", do: "DELETE /v3/service_instances/$db/relationships/shared_spaces/$space2", want: 204})
	if n := m.broker.Bindings(); n != 0 {
		t.Errorf("%d bindings are left at the broker", n)
	}
	// A broker of a space, by its developer.
	own := brokertest.New(t, &brokertest.Broker{Offering: "own"})
	m.vars["own"] = own.URL
	m.vars["ownbroker"] = m.done(step{as: "dev", do: "POST /v3/service_brokers", want: 202,
		body: `{"name":"own","url":"$own","authentication":{"type":"basic","credentials":{"username":"broker-user","password":"broker-password"}},"relationships":{"space":{"data":{"guid":"$space"}}}}`})
	m.play([]step{
		{as: "dev", do: "GET /v3/service_brokers?names=own", want: 200, has: []string{`"name":"own"`}},
		{as: "dev", do: "GET /v3/service_plans?service_offering_names=own&names=sync&space_guids=$space&include=space.organization", want: 200, has: []string{`"visibility_type":"space"`, `"spaces"`}, save: "ownplan"},
		{do: "PATCH /v3/service_plans/$ownplan/visibility", body: `{"type":"public"}`, want: 422},
		{as: "dev", do: "GET /v3/service_plans/$ownplan/visibility", want: 200, has: []string{`"type":"space"`}},
		{as: "dev", do: "PATCH /v3/service_brokers/$ownbroker", body: `{"metadata":{"labels":{"a":"b"}}}`, want: 200},
		{as: "dev", do: "PATCH /v3/service_plans/$ownplan", body: `{"metadata":{"labels":{"a":"b"}}}`, want: 200},
		{as: "auditor", do: "PATCH /v3/service_brokers/$ownbroker", body: `{"name":"x"}`, want: 403},
	})
	m.done(step{as: "dev", do: "PATCH /v3/service_brokers/$ownbroker", body: `{"name":"renamed"}`, want: 202})
	m.done(step{as: "dev", do: "DELETE /v3/service_brokers/$ownbroker", want: 202})
}

// TestDeleteWithServices sees that what is deleted takes its services with it,
// at the broker too, and that manifests bind.
func TestDeleteWithServices(t *testing.T) {
	t.Parallel()
	m := newMarket(t, &brokertest.Broker{Polls: 1})
	m.create("db", "sync")
	m.create("slow", "async")
	m.one(step{as: "dev", do: "POST /v3/service_instances",
		body: `{"type":"user-provided","name":"ups","relationships":{"space":{"data":{"guid":"$space"}}}}`, want: 201})
	m.fails(step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest",
		body: "applications: [{name: app, services: [none]}]", want: 202},
		"For application 'app': Service instance 'none' not found")
	m.fails(step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest",
		body: "applications: [{name: app, services: [{name: db, parameters: {fail: true}}]}]", want: 202},
		"For application 'app': Service broker error: no such binding")
	manifest := "applications: [{name: app, services: [ups, slow, {name: db, binding_name: main, parameters: {deep: {x: " +
		"[1]}}}]}]"
	m.one(step{as: "dev", do: "POST /v3/spaces/$space/manifest_diff", body: manifest, want: 201,
		has: []string{"/applications/0/services/0"}})
	m.done(step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest", body: manifest, want: 202})
	m.one(step{as: "dev", do: "POST /v3/spaces/$space/manifest_diff", body: manifest, want: 201,
		has: []string{`"diff":[]`}})
	m.done(step{as: "dev", do: "POST /v3/spaces/$space/actions/apply_manifest", body: manifest, want: 202})
	m.one(step{as: "dev", do: "GET /v3/apps/$app/manifest", want: 200,
		has: []string{"services:\n", "- name: db\n    binding_name: main\n  - slow\n  - ups\n"}})
	if n := m.broker.Bindings(); n != 2 {
		t.Errorf("%d bindings at the broker, want 2", n)
	}
	m.done(step{as: "dev", do: "DELETE /v3/apps/$app", want: 202})
	m.one(step{as: "dev", do: "GET /v3/apps/$app", want: 404})
	if n := m.broker.Bindings(); n != 0 {
		t.Errorf("%d bindings are left at the broker", n)
	}
	m.one(step{as: "dev", do: "GET /v3/service_credential_bindings", want: 200, has: []string{`"total_results":0`}})
	m.vars["app"] = m.app(m.vars["space"], "other")
	m.done(step{as: "dev", do: "POST /v3/service_credential_bindings", body: bindApp, want: 202})
	m.done(step{as: "orgmanager", do: "DELETE /v3/spaces/$space", want: 202})
	m.one(step{do: "GET /v3/spaces/$space", want: 404})
	if left := m.broker.Instances(); len(left) != 0 {
		t.Errorf("left at the broker: %v", left)
	}
	m.one(step{do: "GET /v3/service_instances", want: 200, has: []string{`"total_results":0`}})
}
