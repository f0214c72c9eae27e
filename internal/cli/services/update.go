package services

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type updateServiceFlags struct {
	Plan       string  `short:"p" value-name:"PLAN" description:"New plan of the same offering"`
	Parameters string  `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Tags       *string `short:"t" value-name:"TAGS" description:"Comma-separated tags; an empty value removes them"`
	Wait       bool    `long:"wait" description:"Wait for the operation to complete"`
}

func updateService(ctx context.Context, s *core.Session, w core.Words, f *updateServiceFlags) (core.Result, error) {
	body := map[string]any{}
	parameters, err := parametersOf(s, f.Parameters)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		body["parameters"] = parameters
	}
	if f.Tags != nil {
		body["tags"] = append([]string{}, tags(*f.Tags)...)
	}
	if len(body) == 0 && f.Plan == "" {
		return nil, core.UsageError("nothing to update: pass -p, -c or -t")
	}
	s.Doing("Updating service instance %s", w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	if f.Plan != "" {
		plan, err := otherPlan(ctx, s, instance, f.Plan)
		if err != nil {
			return nil, err
		}
		body["relationships"] = map[string]any{"service_plan": cfapi.Relate(plan)}
	}
	return start(ctx, s, http.MethodPatch, "/v3/service_instances/"+instance.GUID, body,
		f.Wait, "service", instance.Name, "Update of service instance "+instance.Name)
}

// otherPlan finds another plan of the service instance's offering.
func otherPlan(ctx context.Context, s *core.Session, instance cfapi.ServiceInstance, name string) (string, error) {
	if instance.Type == "user-provided" {
		return "", &core.Problem{What: "Service instance " + instance.Name + " has no plan.", Why: "it is user-provided",
			Try: fmt.Sprintf("'%s update-user-provided-service %s'", s.Env.Program, instance.Name)}
	}
	var present cfapi.Plan
	if err := s.API.Get(ctx, "/v3/service_plans/"+instance.Relationships.Plan.GUID(), nil, &present); err != nil {
		return "", err
	}
	q := url.Values{"service_offering_guids": {present.Relationships.Offering.GUID()}}
	plan, err := core.Named[cfapi.Plan](ctx, s, "Plan", "/v3/service_plans", name, q)
	return plan.GUID, err
}

func renameService(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Renaming service instance %s to %s", w["SERVICE"], w["NEW_NAME"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	reply, err := s.API.Patch(ctx, "/v3/service_instances/"+instance.GUID, map[string]any{"name": w["NEW_NAME"]}, nil)
	if err == nil {
		err = s.API.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "service", Name: w["NEW_NAME"], GUID: instance.GUID, Existed: true}, nil
}

// providedFlags are the settings of a user-provided service instance.
type providedFlags struct {
	Credentials string  `short:"p" value-name:"JSON" description:"Credentials: JSON, or a path to a JSON file"`
	Drain       *string `short:"l" value-name:"URL" description:"Syslog drain URL that receives the logs of bound apps"`
	Route       *string `short:"r" value-name:"URL" description:"Route service URL that receives the requests of bound routes"`
	Tags        *string `short:"t" value-name:"TAGS" description:"Comma-separated tags"`
}

func (f *providedFlags) body(s *core.Session) (map[string]any, error) {
	body := map[string]any{}
	if f.Credentials != "" {
		credentials, err := parametersOf(s, f.Credentials)
		if err != nil {
			return nil, core.UsageError(strings.Replace(err.Error(), "-c", "-p", 1))
		}
		body["credentials"] = credentials
	}
	cfapi.Add(body, "syslog_drain_url", f.Drain, "route_service_url", f.Route)
	if f.Tags != nil {
		body["tags"] = append([]string{}, tags(*f.Tags)...)
	}
	return body, nil
}

func createProvided(ctx context.Context, s *core.Session, w core.Words, f *providedFlags) (core.Result, error) {
	body, err := f.body(s)
	if err != nil {
		return nil, err
	}
	s.Doing("Creating user provided service %s", w["SERVICE"])
	body["type"], body["name"] = "user-provided", w["SERVICE"]
	body["relationships"] = map[string]any{"space": cfapi.Relate(s.Config.Space.GUID)}
	var instance cfapi.Thing
	_, err = s.API.Post(ctx, "/v3/service_instances", body, &instance)
	if client.Says(err, "name is taken") {
		return nil, &core.Problem{
			What: "Service instance " + w["SERVICE"] + " already exists.", Why: "it was not changed",
			Try: fmt.Sprintf("'%s update-user-provided-service %s' changes it", s.Env.Program, w["SERVICE"]), Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "service", Name: w["SERVICE"], GUID: instance.GUID, Existed: false}, nil
}

func updateProvided(ctx context.Context, s *core.Session, w core.Words, f *providedFlags) (core.Result, error) {
	body, err := f.body(s)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, core.UsageError("nothing to update: pass -p, -l, -r or -t")
	}
	s.Doing("Updating user provided service %s", w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	if instance.Type != "user-provided" {
		return nil, &core.Problem{What: "Service instance " + instance.Name + " is not user-provided.",
			Why: "its broker sets the credentials", Try: fmt.Sprintf("'%s update-service %s'", s.Env.Program, instance.Name)}
	}
	if _, err := s.API.Patch(ctx, "/v3/service_instances/"+instance.GUID, body, nil); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("TIP: Use '%s %s APP' to make the change available to bound apps.", s.Env.Program, useCredentials(s))
	return &core.Made{Kind: "service", Name: instance.Name, GUID: instance.GUID, Existed: true}, nil
}

func updateCommands() []*core.Command {
	return core.InGroup(core.GroupServices,
		core.Entry("update-service", "SERVICE [-p PLAN] [-c JSON] [-t TAGS] [--wait]",
			"Update a service instance's plan, parameters or tags", core.NeedsSpace, updateService,
			"my-db -p large --wait").Slow(),
		core.Entry("rename-service", "SERVICE NEW_NAME", "Rename a service instance", core.NeedsSpace, renameService,
			"my-db your-db"),
		core.Entry("create-user-provided-service", "SERVICE [-p JSON] [-l URL] [-r URL] [-t TAGS]",
			"Create a service instance from your own credentials", core.NeedsSpace, createProvided,
			`my-api -p '{"url":"https://api.example.com"}'`, "my-drain -l syslog-tls://logs.example.com:6514").Alias("cups"),
		core.Entry("update-user-provided-service", "SERVICE [-p JSON] [-l URL] [-r URL] [-t TAGS]",
			"Update a user-provided service instance", core.NeedsSpace, updateProvided,
			"my-api -p credentials.json").Alias("uups"),
	)
}
