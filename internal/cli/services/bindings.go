package services

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type bindServiceFlags struct {
	Parameters string `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Name       string `long:"binding-name" value-name:"NAME" description:"Name of the binding in VCAP_SERVICES"`
	Strategy   string `long:"strategy" value-name:"single|multiple" choice:"single" choice:"multiple" description:"With multiple, an app that is bound gets a further binding, to change its credentials"` //nolint:staticcheck // go-flags repeats choice
	Wait       bool   `long:"wait" description:"Wait for the operation to complete"`
}

// both finds an app and a service instance by name.
func both(ctx context.Context, s *core.Session, appName,
	service string) (app cfapi.App, instance cfapi.ServiceInstance, err error) {
	err = core.Concurrently(
		func() (err error) {
			app, err = s.App(ctx, appName)
			return err
		},
		func() (err error) {
			instance, err = s.ServiceInstance(ctx, service)
			return err
		})
	return app, instance, err
}

func bindService(ctx context.Context, s *core.Session, w core.Words, f *bindServiceFlags) (core.Result, error) {
	parameters, err := parametersOf(s, f.Parameters)
	if err != nil {
		return nil, err
	}
	s.Doing("Binding service instance %s to app %s", w["SERVICE"], w["APP"])
	app, instance, err := both(ctx, s, w["APP"], w["SERVICE"])
	if err != nil {
		return nil, err
	}
	body := map[string]any{"type": "app", "relationships": map[string]any{"app": cfapi.Relate(app.GUID),
		"service_instance": cfapi.Relate(instance.GUID)}}
	cfapi.Add(body, "name", f.Name, "strategy", f.Strategy, "parameters", parameters)
	reply, err := s.API.Post(ctx, "/v3/service_credential_bindings", body, nil)
	if client.Says(err, "already bound") {
		s.Say("App %s is already bound to service instance %s.", app.Name, instance.Name)
		s.OK()
		return &operation{"binding", instance.Name, false, true}, nil
	}
	if err != nil {
		return nil, err
	}
	res, err := operate(ctx, s, reply, f.Wait, "binding", instance.Name, "Binding of service instance "+instance.Name)
	if err == nil {
		// An app that is not running uses the binding when it starts.
		how := map[bool]string{true: useCredentials(s), false: "start"}[app.State == "STARTED"]
		s.Say("TIP: Use '%s %s %s' to make the credentials available to the app.", s.Env.Program, how, app.Name)
	}
	return res, err
}

// useCredentials returns the command that gives running apps the credentials of their
// services. Ingot passes them on at each start; of Cloud Foundry the cf CLI says that apps
// have to be staged.
func useCredentials(s *core.Session) string {
	if s.Config.Links.Notifications != "" { // only Ingot has this link
		return "restart"
	}
	return "restage"
}

type unbindServiceFlags struct {
	Wait bool `long:"wait" description:"Wait for the operation to complete"`
}

func unbindService(ctx context.Context, s *core.Session, w core.Words, f *unbindServiceFlags) (core.Result, error) {
	s.Doing("Unbinding app %s from service instance %s", w["APP"], w["SERVICE"])
	app, instance, err := both(ctx, s, w["APP"], w["SERVICE"])
	if err != nil {
		return nil, err
	}
	bindings, err := client.List[cfapi.Binding](ctx, s.API, "/v3/service_credential_bindings",
		url.Values{"type": {"app"}, "app_guids": {app.GUID}, "service_instance_guids": {instance.GUID}})
	if err != nil {
		return nil, err
	}
	if len(bindings) == 0 {
		s.Say("App %s is not bound to service instance %s.", app.Name, instance.Name)
		s.OK()
		return &operation{"binding", instance.Name, false, false}, nil
	}
	var res core.Result
	for _, b := range bindings {
		res, err = start(ctx, s, http.MethodDelete, "/v3/service_credential_bindings/"+b.GUID, nil,
			f.Wait, "binding", instance.Name, "Unbinding of service instance "+instance.Name)
		if err != nil {
			return nil, err
		}
	}
	return res, nil
}

type createServiceKeyFlags struct {
	Parameters string `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Wait       bool   `long:"wait" description:"Wait for the operation to complete"`
}

func createServiceKey(ctx context.Context, s *core.Session, w core.Words,
	f *createServiceKeyFlags) (core.Result, error) {
	parameters, err := parametersOf(s, f.Parameters)
	if err != nil {
		return nil, err
	}
	s.Doing("Creating service key %s for service instance %s", w["KEY"], w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	body := map[string]any{"type": "key", "name": w["KEY"],
		"relationships": map[string]any{"service_instance": cfapi.Relate(instance.GUID)}}
	cfapi.Add(body, "parameters", parameters)
	reply, err := s.API.Post(ctx, "/v3/service_credential_bindings", body, nil)
	if client.Says(err, "Key binding names must be unique") {
		s.Say("Service key %s already exists.", w["KEY"])
		s.OK()
		return &operation{"key", w["KEY"], false, true}, nil
	}
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, reply, f.Wait, "key", w["KEY"], "Create of service key "+w["KEY"])
}

// credentials are the credentials of a service key. They are shown as JSON in
// text output too.
type credentials struct {
	Credentials json.RawMessage `json:"credentials"`
}

func (c *credentials) Show(p *term.Printer) {
	var pretty bytes.Buffer
	if json.Indent(&pretty, c.Credentials, "", "  ") != nil {
		return // it was part of valid JSON
	}
	p.Println("")
	p.Println(pretty.String())
}

func showServiceKey(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting key %s for service instance %s", w["KEY"], w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	key, err := keyOf(ctx, s, instance, w["KEY"])
	if err != nil {
		return nil, err
	}
	var out credentials
	if err := s.API.Get(ctx, "/v3/service_credential_bindings/"+key.GUID+"/details", nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

func bindingsCommands() []*core.Command {
	return core.InGroup(core.GroupServices,
		core.Entry("bind-service", "APP SERVICE [-c JSON]", "Bind a service instance to an app", core.NeedsSpace, bindService,
			"my-app my-db").Alias("bs").Slow(),
		core.Entry("unbind-service", "APP SERVICE", "Unbind a service instance from an app", core.NeedsSpace, unbindService,
			"my-app my-db").Alias("us").Slow(),
		core.Entry("create-service-key", "SERVICE KEY [-c JSON]", "Create a service key", core.NeedsSpace, createServiceKey,
			"my-db my-key").Alias("csk").Slow(),
		core.Entry("service-key", "SERVICE KEY", "Show a service key's credentials", core.NeedsSpace, showServiceKey,
			"my-db my-key"),
	)
}
