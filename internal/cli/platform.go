package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
)

// Commands that show and change platform settings.

type buildpackRow struct {
	Position int    `json:"position"`
	Name     string `json:"name"`
	Stack    string `json:"stack"`
	Enabled  bool   `json:"enabled"`
	Locked   bool   `json:"locked"`
	State    string `json:"state"`
	Filename string `json:"filename"`
}

type buildpacksCommand struct{}

func (c *buildpacksCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting buildpacks as %s...", s.out.Bold(s.api.User().Name()))
	rows, err := client.List[buildpackRow](ctx, s.api, "/v3/buildpacks", url.Values{"order_by": {"position"}})
	if err != nil {
		return nil, err
	}
	return &listing[buildpackRow]{
		key: "buildpacks", rows: rows, heading: []string{"name", "position", "stack", "enabled", "locked", "state"},
		cells: func(b buildpackRow) []string {
			return []string{b.Name, strconv.Itoa(b.Position), b.Stack, yesNo(b.Enabled), yesNo(b.Locked), b.State}
		},
	}, nil
}

type stackRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type stacksCommand struct{}

func (c *stacksCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting stacks as %s...", s.out.Bold(s.api.User().Name()))
	rows, err := client.List[stackRow](ctx, s.api, "/v3/stacks", nil)
	if err != nil {
		return nil, err
	}
	return &listing[stackRow]{
		key: "stacks", rows: rows, heading: []string{"name", "description"},
		cells: func(r stackRow) []string { return []string{r.Name, r.Description} },
	}, nil
}

type flagRow struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

type featureFlagsCommand struct{}

func (c *featureFlagsCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting feature flags as %s...", s.out.Bold(s.api.User().Name()))
	rows, err := client.List[flagRow](ctx, s.api, "/v3/feature_flags", nil)
	if err != nil {
		return nil, err
	}
	return &listing[flagRow]{
		key: "feature flags", rows: rows, heading: []string{"name", "state"},
		cells: func(r flagRow) []string {
			return []string{r.Name, map[bool]string{true: "enabled", false: "disabled"}[r.Enabled]}
		},
	}, nil
}

type switchFlagCommand struct {
	on   bool
	Args struct {
		Flag string `positional-arg-name:"FLAG" required:"yes"`
	} `positional-args:"yes"`
}

func (c *switchFlagCommand) run(ctx context.Context, s *session) (result, error) {
	verb := map[bool]string{true: "Enabling", false: "Disabling"}[c.on]
	s.say("%s feature flag %s as %s...", verb, s.out.Bold(c.Args.Flag), s.out.Bold(s.api.User().Name()))
	_, err := s.api.Patch(ctx, "/v3/feature_flags/"+url.PathEscape(c.Args.Flag), map[string]bool{"enabled": c.on}, nil)
	if client.Status(err) == http.StatusNotFound {
		return nil, &problem{What: "Feature flag '" + c.Args.Flag + "' not found.", Try: fmt.Sprintf("'%s feature-flags' lists them", s.w.Program), cause: err}
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return s.jsonOnly(&jsonAs{nil, flagRow{c.Args.Flag, c.on}}), nil
}

// service brokers

type brokerRow struct {
	Name string `json:"name"`
	GUID string `json:"guid"`
	URL  string `json:"url"`
}

type serviceBrokersCommand struct{}

func (c *serviceBrokersCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting service brokers as %s...", s.out.Bold(s.api.User().Name()))
	rows, err := client.List[brokerRow](ctx, s.api, "/v3/service_brokers", nil)
	if err != nil {
		return nil, noServices(s, err)
	}
	return &listing[brokerRow]{
		key: "service brokers", rows: rows, heading: []string{"name", "url"},
		cells: func(b brokerRow) []string { return []string{b.Name, b.URL} },
	}, nil
}

type createBrokerCommand struct {
	SpaceScoped bool `long:"space-scoped" description:"Register the broker in the targeted space only; needs no admin"`
	Args        struct {
		Broker   string `positional-arg-name:"BROKER" required:"yes"`
		User     string `positional-arg-name:"USER" required:"yes"`
		Password string `positional-arg-name:"PASSWORD" required:"yes"`
		URL      string `positional-arg-name:"URL" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createBrokerCommand) run(ctx context.Context, s *session) (result, error) {
	body := map[string]any{"name": c.Args.Broker, "url": c.Args.URL, "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": c.Args.User, "password": c.Args.Password},
	}}
	if c.SpaceScoped {
		if err := s.check(aSpace); err != nil {
			return nil, err
		}
		body["relationships"] = map[string]any{"space": client.Relate(s.cfg.Space.GUID)}
	}
	s.say("Creating service broker %s as %s...", s.out.Bold(c.Args.Broker), s.out.Bold(s.api.User().Name()))
	s.progress.Step("Reading the catalog of "+c.Args.Broker, 0)
	reply, err := s.api.Post(ctx, "/v3/service_brokers", body, nil)
	if err == nil {
		err = s.api.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	if !c.SpaceScoped {
		s.say("TIP: Use '%s enable-service-access OFFERING' to allow access to its offerings.", s.w.Program)
	}
	return &made{"broker", c.Args.Broker, "", false}, nil
}

type deleteBrokerCommand struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Broker string `positional-arg-name:"BROKER" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteBrokerCommand) run(ctx context.Context, s *session) (result, error) {
	return s.deleteNamed(ctx, c.Force, "service broker", c.Args.Broker, "/v3/service_brokers", nil)
}

// deleteNamed deletes a resource that is identified by its name alone.
func (s *session) deleteNamed(ctx context.Context, force bool, kind, name, path string, q url.Values) (result, error) {
	if !force {
		if err := s.confirm(ctx, fmt.Sprintf("Really delete the %s %s and everything in it", kind, name)); err != nil {
			return nil, err
		}
	}
	s.say("Deleting %s %s as %s...", kind, s.out.Bold(name), s.out.Bold(s.api.User().Name()))
	t, err := named(ctx, s, kind, path, name, q, func(t client.Thing) string { return t.Name })
	if isNotFound(err) {
		s.say("%s %s does not exist.", kind, name)
		s.ok()
		return &removed{Kind: kind, Name: name}, nil
	}
	if err != nil {
		return nil, err
	}
	s.progress.Step("Deleting "+name, 0)
	if err := s.api.Delete(ctx, path+"/"+t.GUID); err != nil {
		return nil, err
	}
	s.ok()
	return &removed{Kind: kind, Name: name, Gone: true}, nil
}

type deleteOrgCommand struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Org string `positional-arg-name:"ORG" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteOrgCommand) run(ctx context.Context, s *session) (result, error) {
	res, err := s.deleteNamed(ctx, c.Force, "org", c.Args.Org, "/v3/organizations", nil)
	if err == nil && s.cfg.Org.Name == c.Args.Org {
		s.cfg.Org, s.cfg.Space = config.Named{}, config.Named{} // a deleted org or space cannot stay targeted
		err = s.cfg.Save()
	}
	return res, err
}

type deleteSpaceCommand struct {
	Org   string `short:"o" value-name:"ORG" description:"Org (default: the targeted org)"`
	Force bool   `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Space string `positional-arg-name:"SPACE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteSpaceCommand) run(ctx context.Context, s *session) (result, error) {
	org := client.Thing{GUID: s.cfg.Org.GUID, Name: s.cfg.Org.Name}
	var err error
	if c.Org != "" {
		if org, err = s.org(ctx, c.Org); err != nil {
			return nil, err
		}
	}
	if org.GUID == "" {
		return nil, s.check(anOrg)
	}
	res, err := s.deleteNamed(ctx, c.Force, "space", c.Args.Space, "/v3/spaces", url.Values{"organization_guids": {org.GUID}})
	if err == nil && s.cfg.Org.GUID == org.GUID && s.cfg.Space.Name == c.Args.Space {
		s.cfg.Space = config.Named{}
		err = s.cfg.Save()
	}
	return res, err
}

// access to services

type serviceAccessCommand struct {
	give   bool
	Plan   string `short:"p" value-name:"PLAN" description:"Only this plan"`
	Org    string `short:"o" value-name:"ORG" description:"Only for this org"`
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
	Args   struct {
		Offering string `positional-arg-name:"OFFERING" required:"yes"`
	} `positional-args:"yes"`
}

func (c *serviceAccessCommand) run(ctx context.Context, s *session) (result, error) {
	verb := map[bool]string{true: "Enabling", false: "Disabling"}[c.give]
	s.say("%s access to offering %s as %s...", verb, s.out.Bold(c.Args.Offering), s.out.Bold(s.api.User().Name()))
	var of url.Values
	if c.Broker != "" {
		of = url.Values{"service_broker_names": {c.Broker}}
	}
	offering, err := named(ctx, s, "Service offering", "/v3/service_offerings", c.Args.Offering, of, func(o client.Offering) string { return o.Name })
	if err != nil {
		return nil, noServices(s, err)
	}
	q := url.Values{"service_offering_guids": {offering.GUID}}
	var plans []client.Plan
	if c.Plan != "" {
		var one client.Plan
		one, err = named(ctx, s, "Plan", "/v3/service_plans", c.Plan, q, func(p client.Plan) string { return p.Name })
		plans = []client.Plan{one}
	} else {
		plans, err = client.List[client.Plan](ctx, s.api, "/v3/service_plans", q)
	}
	if err != nil {
		return nil, err
	}
	var org client.Thing
	if c.Org != "" {
		if org, err = s.org(ctx, c.Org); err != nil {
			return nil, err
		}
	}
	for _, p := range plans {
		at := "/v3/service_plans/" + p.GUID + "/visibility"
		switch {
		case org.GUID != "" && c.give:
			_, err = s.api.Post(ctx, at, map[string]any{"type": "organization", "organizations": []any{map[string]string{"guid": org.GUID}}}, nil)
		case org.GUID != "":
			err = s.api.Delete(ctx, at+"/"+org.GUID)
		default:
			_, err = s.api.Post(ctx, at, map[string]any{"type": map[bool]string{true: "public", false: "admin"}[c.give]}, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	s.ok()
	return s.jsonOnly(&jsonAs{nil, map[string]any{"offering": offering.Name, "plans": len(plans), "org": c.Org, "enabled": c.give}}), nil
}
