package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"ingot/internal/cli/client"
)

type updateServiceCommand struct {
	Plan       string  `short:"p" value-name:"PLAN" description:"New plan of the same offering"`
	Parameters string  `short:"c" value-name:"JSON" description:"Broker parameters: JSON, or a path to a JSON file"`
	Tags       *string `short:"t" value-name:"TAGS" description:"Comma-separated tags; an empty value removes them"`
	Wait       bool    `long:"wait" description:"Wait for the operation to complete"`
	Args       struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *updateServiceCommand) run(ctx context.Context, s *session) (result, error) {
	body := map[string]any{}
	parameters, err := s.parameters(c.Parameters)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		body["parameters"] = parameters
	}
	if c.Tags != nil {
		body["tags"] = append([]string{}, tags(*c.Tags)...)
	}
	if len(body) == 0 && c.Plan == "" {
		return nil, &usage{"nothing to update: pass -p, -c or -t", "update-service"}
	}
	s.doing("Updating service instance %s", c.Args.Service)
	instance, err := s.instance(ctx, c.Args.Service)
	if err != nil {
		return nil, noServices(s, err)
	}
	if c.Plan != "" {
		plan, err := s.otherPlan(ctx, instance, c.Plan)
		if err != nil {
			return nil, err
		}
		body["relationships"] = map[string]any{"service_plan": client.Relate(plan)}
	}
	reply, err := s.api.Patch(ctx, "/v3/service_instances/"+instance.GUID, body, nil)
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, reply, c.Wait, "service", instance.Name, "Update of service instance "+instance.Name)
}

// otherPlan finds another plan of the service instance's offering.
func (s *session) otherPlan(ctx context.Context, instance client.ServiceInstance, name string) (string, error) {
	if instance.Type == "user-provided" {
		return "", &problem{What: "Service instance " + instance.Name + " has no plan.", Why: "it is user-provided", Try: fmt.Sprintf("'%s update-user-provided-service %s'", s.w.Program, instance.Name)}
	}
	var present client.Plan
	if err := s.api.Get(ctx, "/v3/service_plans/"+instance.Relationships.Plan.GUID(), nil, &present); err != nil {
		return "", err
	}
	q := url.Values{"service_offering_guids": {present.Relationships.Offering.GUID()}}
	plan, err := named(ctx, s, "Plan", "/v3/service_plans", name, q, func(p client.Plan) string { return p.Name })
	return plan.GUID, err
}

type renameServiceCommand struct {
	Args struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
		Name    string `positional-arg-name:"NEW_NAME" required:"yes"`
	} `positional-args:"yes"`
}

func (c *renameServiceCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Renaming service instance %s to %s", c.Args.Service, c.Args.Name)
	instance, err := s.instance(ctx, c.Args.Service)
	if err != nil {
		return nil, noServices(s, err)
	}
	reply, err := s.api.Patch(ctx, "/v3/service_instances/"+instance.GUID, map[string]any{"name": c.Args.Name}, nil)
	if err == nil {
		err = s.api.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return &made{"service", c.Args.Name, instance.GUID, true}, nil
}

// providedFlags are the settings of a user-provided service instance.
type providedFlags struct {
	Credentials string  `short:"p" value-name:"JSON" description:"Credentials: JSON, or a path to a JSON file"`
	Drain       *string `short:"l" value-name:"URL" description:"Syslog drain URL that receives the logs of bound apps"`
	Route       *string `short:"r" value-name:"URL" description:"Route service URL that receives the requests of bound routes"`
	Tags        *string `short:"t" value-name:"TAGS" description:"Comma-separated tags"`
}

func (f *providedFlags) body(s *session) (map[string]any, error) {
	body := map[string]any{}
	if f.Credentials != "" {
		credentials, err := s.parameters(f.Credentials)
		if err != nil {
			return nil, &usage{strings.Replace(err.Error(), "-c", "-p", 1), ""}
		}
		body["credentials"] = credentials
	}
	if f.Drain != nil {
		body["syslog_drain_url"] = *f.Drain
	}
	if f.Route != nil {
		body["route_service_url"] = *f.Route
	}
	if f.Tags != nil {
		body["tags"] = append([]string{}, tags(*f.Tags)...)
	}
	return body, nil
}

type createProvidedCommand struct {
	providedFlags
	Args struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createProvidedCommand) run(ctx context.Context, s *session) (result, error) {
	body, err := c.body(s)
	if err != nil {
		return nil, err
	}
	s.doing("Creating user provided service %s", c.Args.Service)
	body["type"], body["name"] = "user-provided", c.Args.Service
	body["relationships"] = map[string]any{"space": client.Relate(s.cfg.Space.GUID)}
	var instance client.Thing
	_, err = s.api.Post(ctx, "/v3/service_instances", body, &instance)
	if client.Says(err, "name is taken") {
		return nil, &problem{
			What: "Service instance " + c.Args.Service + " already exists.", Why: "it was not changed",
			Try: fmt.Sprintf("'%s update-user-provided-service %s' changes it", s.w.Program, c.Args.Service), cause: err,
		}
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return &made{"service", c.Args.Service, instance.GUID, false}, nil
}

type updateProvidedCommand struct {
	providedFlags
	Args struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *updateProvidedCommand) run(ctx context.Context, s *session) (result, error) {
	body, err := c.body(s)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, &usage{"nothing to update: pass -p, -l, -r or -t", "update-user-provided-service"}
	}
	s.doing("Updating user provided service %s", c.Args.Service)
	instance, err := s.instance(ctx, c.Args.Service)
	if err != nil {
		return nil, noServices(s, err)
	}
	if instance.Type != "user-provided" {
		return nil, &problem{What: "Service instance " + instance.Name + " is not user-provided.", Why: "its broker sets the credentials", Try: fmt.Sprintf("'%s update-service %s'", s.w.Program, instance.Name)}
	}
	if _, err := s.api.Patch(ctx, "/v3/service_instances/"+instance.GUID, body, nil); err != nil {
		return nil, err
	}
	s.ok()
	s.say("TIP: Use '%s %s APP' to make the change available to bound apps.", s.w.Program, s.useCredentials())
	return &made{"service", instance.Name, instance.GUID, true}, nil
}
