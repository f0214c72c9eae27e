package services

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type brokerRow struct {
	Name string `json:"name"`
	GUID string `json:"guid"`
	URL  string `json:"url"`
}

type serviceBrokersCommand struct{}

func (c *serviceBrokersCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Say("Getting service brokers as %s...", s.Out.Bold(s.API.User().Name()))
	rows, err := client.List[brokerRow](ctx, s.API, "/v3/service_brokers", nil)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	return &core.Listing[brokerRow]{
		Key: "service brokers", Rows: rows, Heading: []string{"name", "url"},
		Cells: func(b brokerRow) []string { return []string{b.Name, b.URL} },
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

func (c *createBrokerCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	body := map[string]any{"name": c.Args.Broker, "url": c.Args.URL, "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": c.Args.User, "password": c.Args.Password},
	}}
	if c.SpaceScoped {
		if err := s.Check(core.NeedsSpace); err != nil {
			return nil, err
		}
		body["relationships"] = map[string]any{"space": client.Relate(s.Config.Space.GUID)}
	}
	s.Say("Creating service broker %s as %s...", s.Out.Bold(c.Args.Broker), s.Out.Bold(s.API.User().Name()))
	s.Progress.Step("Reading the catalog of "+c.Args.Broker, 0)
	reply, err := s.API.Post(ctx, "/v3/service_brokers", body, nil)
	if err == nil {
		err = s.API.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	if !c.SpaceScoped {
		s.Say("TIP: Use '%s enable-service-access OFFERING' to allow access to its offerings.", s.Env.Program)
	}
	return &core.Made{Kind: "broker", Name: c.Args.Broker, GUID: "", Existed: false}, nil
}

type deleteBrokerCommand struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Broker string `positional-arg-name:"BROKER" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteBrokerCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	return s.DeleteNamed(ctx, c.Force, "service broker", c.Args.Broker, "/v3/service_brokers", nil)
}

type serviceAccessCommand struct {
	give   bool
	Plan   string `short:"p" value-name:"PLAN" description:"Only this plan"`
	Org    string `short:"o" value-name:"ORG" description:"Only for this org"`
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
	Args   struct {
		Offering string `positional-arg-name:"OFFERING" required:"yes"`
	} `positional-args:"yes"`
}

func (c *serviceAccessCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	verb := map[bool]string{true: "Enabling", false: "Disabling"}[c.give]
	s.Say("%s access to offering %s as %s...", verb, s.Out.Bold(c.Args.Offering), s.Out.Bold(s.API.User().Name()))
	var of url.Values
	if c.Broker != "" {
		of = url.Values{"service_broker_names": {c.Broker}}
	}
	offering, err := core.Named(ctx, s, "Service offering", "/v3/service_offerings", c.Args.Offering, of, func(o client.Offering) string { return o.Name })
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	q := url.Values{"service_offering_guids": {offering.GUID}}
	var plans []client.Plan
	if c.Plan != "" {
		var one client.Plan
		one, err = core.Named(ctx, s, "Plan", "/v3/service_plans", c.Plan, q, func(p client.Plan) string { return p.Name })
		plans = []client.Plan{one}
	} else {
		plans, err = client.List[client.Plan](ctx, s.API, "/v3/service_plans", q)
	}
	if err != nil {
		return nil, err
	}
	var org client.Thing
	if c.Org != "" {
		if org, err = s.Org(ctx, c.Org); err != nil {
			return nil, err
		}
	}
	for _, p := range plans {
		at := "/v3/service_plans/" + p.GUID + "/visibility"
		switch {
		case org.GUID != "" && c.give:
			_, err = s.API.Post(ctx, at, map[string]any{"type": "organization", "organizations": []any{map[string]string{"guid": org.GUID}}}, nil)
		case org.GUID != "":
			err = s.API.Delete(ctx, at+"/"+org.GUID)
		default:
			_, err = s.API.Post(ctx, at, map[string]any{"type": map[bool]string{true: "public", false: "admin"}[c.give]}, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	s.OK()
	return s.JSONOnly(&core.JSONAs{JSON: map[string]any{"offering": offering.Name, "plans": len(plans), "org": c.Org, "enabled": c.give}}), nil
}

func updateBroker(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Updating service broker %s", w["BROKER"])
	return patchBroker(ctx, s, w["BROKER"], w["BROKER"], map[string]any{"url": w["URL"], "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": w["USER"], "password": w["PASSWORD"]},
	}})
}

func renameBroker(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Renaming service broker %s to %s", w["BROKER"], w["NEW_NAME"])
	return patchBroker(ctx, s, w["BROKER"], w["NEW_NAME"], map[string]any{"name": w["NEW_NAME"]})
}

func patchBroker(ctx context.Context, s *core.Session, name, now string, body map[string]any) (core.Result, error) {
	t, err := s.Thing(ctx, "Service broker", "/v3/service_brokers", name, nil)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	if err := s.Send(ctx, http.MethodPatch, "/v3/service_brokers/"+t.GUID, body); err != nil {
		return nil, err
	}
	return s.Done("name", now, "guid", t.GUID)
}

type purgeFlags struct {
	core.ForceFlag
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
}

func purgeOffering(ctx context.Context, s *core.Session, w core.Words, f *purgeFlags) (core.Result, error) {
	if !f.Force {
		if err := s.Confirm(ctx, "This removes the offering "+w["OFFERING"]+" and its instances without telling the broker, which may keep their resources. Continue"); err != nil {
			return nil, err
		}
	}
	s.Acting("Purging service offering %s", w["OFFERING"])
	q := url.Values{}
	if f.Broker != "" {
		q.Set("service_broker_names", f.Broker)
	}
	t, err := s.Thing(ctx, "Service offering", "/v3/service_offerings", w["OFFERING"], q)
	return purge(ctx, s, "Service offering", "service offering", w["OFFERING"], "/v3/service_offerings/"+t.GUID, err)
}

type accessFlags struct {
	Broker   string `short:"b" value-name:"BROKER" description:"Only offerings of this broker"`
	Offering string `short:"e" value-name:"OFFERING" description:"Only this offering"`
	Org      string `short:"o" value-name:"ORG" description:"Only plans that this org can use"`
}

type accessRow struct {
	Broker   string   `json:"broker"`
	Offering string   `json:"offering"`
	Plan     string   `json:"plan"`
	Access   string   `json:"access"`
	Orgs     []string `json:"orgs"`
}

type seenPlan struct {
	client.Plan
	Visibility string `json:"visibility_type"`
}

func serviceAccess(ctx context.Context, s *core.Session, _ core.Words, f *accessFlags) (core.Result, error) {
	s.Acting("Getting service access")
	q := url.Values{"include": {"service_offering"}, "fields[service_offering.service_broker]": {"name,guid"}, "per_page": {"5000"}}
	for key, value := range map[string]string{"service_broker_names": f.Broker, "service_offering_names": f.Offering} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.Org != "" {
		org, err := s.Org(ctx, f.Org)
		if err != nil {
			return nil, err
		}
		q.Set("organization_guids", org.GUID)
	}
	plans, included, err := client.ListWith[seenPlan](ctx, s.API, "/v3/service_plans", q)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	offerings, brokers := client.Of[client.Offering](included, "service_offerings"), client.Of[client.Thing](included, "service_brokers")
	out := &core.Listing[accessRow]{Key: "service plans", Heading: []string{"broker", "offering", "plan", "access", "orgs"}, Cells: func(r accessRow) []string {
		return []string{r.Broker, r.Offering, r.Plan, r.Access, strings.Join(r.Orgs, ",")}
	}}
	for _, p := range plans {
		offering := offerings[p.Relationships.Offering.GUID()]
		row := accessRow{brokers[offering.Relationships.Broker.GUID()].Name, offering.Name, p.Name, map[string]string{"public": "all", "admin": "none", "organization": "limited", "space": "limited"}[p.Visibility], []string{}}
		if p.Visibility == "organization" {
			var v struct {
				Orgs []client.Thing `json:"organizations"`
			}
			if err := s.API.Get(ctx, "/v3/service_plans/"+p.GUID+"/visibility", nil, &v); err != nil {
				return nil, err
			}
			for _, o := range v.Orgs {
				row.Orgs = append(row.Orgs, o.Name)
			}
		}
		out.Rows = append(out.Rows, row)
	}
	slices.SortStableFunc(out.Rows, func(a, b accessRow) int { return strings.Compare(a.Broker+" "+a.Offering, b.Broker+" "+b.Offering) })
	return out, nil
}
