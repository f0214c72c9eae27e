package cli

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/cli/client"
)

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

func updateBroker(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Updating service broker %s", w["BROKER"])
	return s.patchBroker(ctx, w["BROKER"], w["BROKER"], map[string]any{"url": w["URL"], "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": w["USER"], "password": w["PASSWORD"]},
	}})
}

func renameBroker(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Renaming service broker %s to %s", w["BROKER"], w["NEW_NAME"])
	return s.patchBroker(ctx, w["BROKER"], w["NEW_NAME"], map[string]any{"name": w["NEW_NAME"]})
}

func (s *session) patchBroker(ctx context.Context, name, now string, body map[string]any) (result, error) {
	t, err := s.thing(ctx, "Service broker", "/v3/service_brokers", name, nil)
	if err != nil {
		return nil, noServices(s, err)
	}
	if err := s.send(ctx, http.MethodPatch, "/v3/service_brokers/"+t.GUID, body); err != nil {
		return nil, err
	}
	return s.done("name", now, "guid", t.GUID)
}

type purgeFlags struct {
	forceFlag
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
}

func purgeOffering(ctx context.Context, s *session, w words, f *purgeFlags) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "This removes the offering "+w["OFFERING"]+" and its instances without telling the broker, which may keep their resources. Continue"); err != nil {
			return nil, err
		}
	}
	s.acting("Purging service offering %s", w["OFFERING"])
	q := url.Values{}
	if f.Broker != "" {
		q.Set("service_broker_names", f.Broker)
	}
	t, err := s.thing(ctx, "Service offering", "/v3/service_offerings", w["OFFERING"], q)
	return s.purge(ctx, "Service offering", "service offering", w["OFFERING"], "/v3/service_offerings/"+t.GUID, err)
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

func serviceAccess(ctx context.Context, s *session, _ words, f *accessFlags) (result, error) {
	s.acting("Getting service access")
	q := url.Values{"include": {"service_offering"}, "fields[service_offering.service_broker]": {"name,guid"}, "per_page": {"5000"}}
	for key, value := range map[string]string{"service_broker_names": f.Broker, "service_offering_names": f.Offering} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.Org != "" {
		org, err := s.org(ctx, f.Org)
		if err != nil {
			return nil, err
		}
		q.Set("organization_guids", org.GUID)
	}
	plans, included, err := client.ListWith[seenPlan](ctx, s.api, "/v3/service_plans", q)
	if err != nil {
		return nil, noServices(s, err)
	}
	offerings, brokers := client.Of[client.Offering](included, "service_offerings"), client.Of[client.Thing](included, "service_brokers")
	out := &listing[accessRow]{key: "service plans", heading: []string{"broker", "offering", "plan", "access", "orgs"}, cells: func(r accessRow) []string {
		return []string{r.Broker, r.Offering, r.Plan, r.Access, strings.Join(r.Orgs, ",")}
	}}
	for _, p := range plans {
		offering := offerings[p.Relationships.Offering.GUID()]
		row := accessRow{brokers[offering.Relationships.Broker.GUID()].Name, offering.Name, p.Name, map[string]string{"public": "all", "admin": "none", "organization": "limited", "space": "limited"}[p.Visibility], []string{}}
		if p.Visibility == "organization" {
			var v struct {
				Orgs []client.Thing `json:"organizations"`
			}
			if err := s.api.Get(ctx, "/v3/service_plans/"+p.GUID+"/visibility", nil, &v); err != nil {
				return nil, err
			}
			for _, o := range v.Orgs {
				row.Orgs = append(row.Orgs, o.Name)
			}
		}
		out.rows = append(out.rows, row)
	}
	slices.SortStableFunc(out.rows, func(a, b accessRow) int { return strings.Compare(a.Broker+" "+a.Offering, b.Broker+" "+b.Offering) })
	return out, nil
}
