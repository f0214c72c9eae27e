package actions

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/platform"
)

// environment returns the variables of the fixture's web process after a change.
func environment(t *testing.T, change func(tx platform.Tx, app *platform.App) error) map[string]string {
	t.Helper()
	store, app, process := fixture(t)
	process.Version = "v1"
	var env map[string]string
	update(t, store, func(tx platform.Tx) error {
		if err := change(tx, app); err != nil {
			return err
		}
		info, err := AppInfoOf(tx, app)
		if err != nil {
			return err
		}
		env, err = New().RunEnvironment(tx, info, process, "https://api.example.org", 40)
		return err
	})
	return env
}

func TestRunEnvironmentPrecedence(t *testing.T) {
	t.Parallel()
	env := environment(t, func(tx platform.Tx, app *platform.App) error {
		app.Env = map[string]string{"BOTH": "user", "USER": "user", "MEMORY_LIMIT": "9g", "LANG": "C"}
		return errors.Join(
			tx.SetEnvGroup(platform.EnvGroup{Name: "running", Var: map[string]string{"BOTH": "group", "GROUP": "group",
				"VCAP_SERVICES": "mine"}}),
			tx.SetEnvGroup(platform.EnvGroup{Name: "staging", Var: map[string]string{"STAGING": "group"}}),
		)
	})
	delete(env, "VCAP_APPLICATION")
	want := map[string]string{"BOTH": "user", "USER": "user", "GROUP": "group", "LANG": "C", "MEMORY_LIMIT": "40m",
		"VCAP_SERVICES": "{}"}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestVCAPApplication(t *testing.T) {
	t.Parallel()
	env := environment(t, func(tx platform.Tx, app *platform.App) error {
		route := &platform.Route{Resource: platform.Resource{GUID: "route"}, SpaceGUID: "space", DomainGUID: "domain",
			Host: "www", Path: "/shop"}
		return errors.Join(tx.Domains().Insert(&platform.Domain{Resource: platform.Resource{GUID: "domain"},
			Name: "example.org"}), tx.Routes().Insert(route),
			tx.Destinations().Insert(&platform.Destination{RouteGUID: "route", AppGUID: app.GUID,
				ProcessType: platform.WebProcess}))
	})
	var got map[string]any
	if err := json.Unmarshal([]byte(env["VCAP_APPLICATION"]), &got); err != nil {
		t.Fatal(err)
	}
	uris := []any{"www.example.org/shop"}
	want := map[string]any{
		"cf_api": "https://api.example.org", "limits": map[string]any{"fds": 16384.0, "mem": 40.0, "disk": 1.0},
		"application_id": "app", "application_name": "a", "name": "a", "application_uris": uris, "uris": uris,
		"space_id": "space", "space_name": "s", "organization_id": "org", "organization_name": "o",
		"process_id": "app", "process_type": "web", "application_version": "v1", "version": "v1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("VCAP_APPLICATION (-want +got):\n%s", diff)
	}
}

func TestVCAPServices(t *testing.T) {
	t.Parallel()
	id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
	done := platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationSucceeded}
	failed := platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationFailed}
	bind := func(tx platform.Tx, app *platform.App) error {
		return errors.Join(
			tx.ServiceOfferings().Insert(&platform.ServiceOffering{Resource: id("offering"), Name: "postgres",
				Tags: []string{"sql", "db"}}),
			tx.ServicePlans().Insert(&platform.ServicePlan{Resource: id("plan"), Name: "small", OfferingGUID: "offering"}),
			tx.ServiceInstances().Insert(&platform.ServiceInstance{Resource: id("db"), Type: platform.ServiceManaged,
				Name: "orders", SpaceGUID: "space", PlanGUID: "plan", Tags: []string{"db", "main"}, Last: done}),
			tx.ServiceInstances().Insert(&platform.ServiceInstance{Resource: id("ups"), Type: platform.ServiceUserProvided,
				Name: "logs", SpaceGUID: "space", SyslogDrainURL: "syslog://example.org", Last: done}),
			tx.ServiceInstances().Insert(&platform.ServiceInstance{Resource: id("other"), Type: platform.ServiceUserProvided,
				Name: "broken", SpaceGUID: "space", Last: done}),
			tx.ServiceBindings().Insert(&platform.ServiceBinding{Resource: id("b1"), Type: platform.BindingApp, Name: "primary",
				InstanceGUID: "db", AppGUID: app.GUID, Credentials: map[string]any{"uri": "postgresql://u:p@db/orders"},
				Last: done}),
			tx.ServiceBindings().Insert(&platform.ServiceBinding{Resource: id("b2"), Type: platform.BindingApp,
				InstanceGUID: "ups", AppGUID: app.GUID, Last: done}),
			tx.ServiceBindings().Insert(&platform.ServiceBinding{Resource: id("b3"), Type: platform.BindingApp,
				InstanceGUID: "other", AppGUID: app.GUID, Last: failed}),
		)
	}
	env := environment(t, bind)
	var got map[string]any
	if err := json.Unmarshal([]byte(env["VCAP_SERVICES"]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"postgres": []any{map[string]any{
			"label": "postgres", "provider": nil, "plan": "small", "name": "primary", "tags": []any{"sql", "db", "main"},
			"instance_guid": "db", "instance_name": "orders",
			"binding_guid": "b1", "binding_name": "primary", "credentials": map[string]any{"uri": "postgresql://u:p@db/orders"},
			"syslog_drain_url": nil, "volume_mounts": []any{},
		}},
		"user-provided": []any{map[string]any{
			"label": "user-provided", "name": "logs", "tags": []any{}, "instance_guid": "ups", "instance_name": "logs",
			"binding_guid": "b2", "binding_name": nil, "credentials": map[string]any{},
			"syslog_drain_url": "syslog://example.org", "volume_mounts": []any{},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("VCAP_SERVICES (-want +got):\n%s", diff)
	}
	if got, want := env["DATABASE_URL"], "postgres://u:p@db/orders"; got != want {
		t.Errorf("DATABASE_URL is %q, want %q", got, want)
	}
	env = environment(t, func(tx platform.Tx, app *platform.App) error {
		app.Features = map[string]bool{platform.FeatureFileBasedVCAP: true}
		return bind(tx, app)
	})
	if got, set := env["VCAP_SERVICES"]; set {
		t.Errorf("with services in files VCAP_SERVICES is %q, want it unset", got)
	}
}
