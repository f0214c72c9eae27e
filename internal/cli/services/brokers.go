package services

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type brokerRow struct {
	Name string `json:"name"`
	GUID string `json:"guid"`
	URL  string `json:"url"`
}

func listBrokers(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting service brokers")
	list, err := (&core.Listing[brokerRow]{
		Key: "service brokers", Heading: []string{"name", "url"},
		Cells: func(b brokerRow) []string { return []string{b.Name, b.URL} },
	}).List(ctx, s, "/v3/service_brokers", nil)
	return list, core.NoServices(s, err)
}

type createBrokerFlags struct {
	SpaceScoped bool `long:"space-scoped" description:"Register the broker in the targeted space only; needs no admin"`
}

func createBroker(ctx context.Context, s *core.Session, w core.Words, f *createBrokerFlags) (core.Result, error) {
	body := map[string]any{"name": w["BROKER"], "url": w["URL"], "authentication": map[string]any{
		"type": "basic", "credentials": map[string]string{"username": w["USER"], "password": w["PASSWORD"]},
	}}
	if f.SpaceScoped {
		if err := s.Check(core.NeedsSpace); err != nil {
			return nil, err
		}
		body["relationships"] = map[string]any{"space": cfapi.Relate(s.Config.Space.GUID)}
	}
	s.Acting("Creating service broker %s", w["BROKER"])
	s.Progress.Step("Reading the catalog of "+w["BROKER"], 0)
	reply, err := s.API.Post(ctx, "/v3/service_brokers", body, nil)
	if err == nil {
		err = s.API.Job(ctx, reply)
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	if !f.SpaceScoped {
		s.Say("TIP: Use '%s enable-service-access OFFERING' to allow access to its offerings.", s.Env.Program)
	}
	return &core.Made{Kind: "broker", Name: w["BROKER"], GUID: "", Existed: false}, nil
}

func deleteBroker(ctx context.Context, s *core.Session, w core.Words, f *core.ForceOnlyFlag) (core.Result, error) {
	return s.DeleteNamed(ctx, f.Force, "service broker", w["BROKER"], "/v3/service_brokers", nil)
}

type serviceAccessFlags struct {
	Plan   string `short:"p" value-name:"PLAN" description:"Only this plan"`
	Org    string `short:"o" value-name:"ORG" description:"Only for this org"`
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
}

func changeServiceAccess(give bool) core.Action[serviceAccessFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, f *serviceAccessFlags) (core.Result, error) {
		verb := map[bool]string{true: "Enabling", false: "Disabling"}[give]
		s.Say("%s access to offering %s as %s...", verb, s.Out.Bold(w["OFFERING"]), s.Out.Bold(s.API.User().Name()))
		of := url.Values{}
		cfapi.Filter(of, "service_broker_names", f.Broker)
		offering, err := core.Named[cfapi.Offering](ctx, s, "Service offering", "/v3/service_offerings", w["OFFERING"], of)
		if err != nil {
			return nil, core.NoServices(s, err)
		}
		q := url.Values{"service_offering_guids": {offering.GUID}}
		var plans []cfapi.Plan
		if f.Plan != "" {
			var one cfapi.Plan
			one, err = core.Named[cfapi.Plan](ctx, s, "Plan", "/v3/service_plans", f.Plan, q)
			plans = []cfapi.Plan{one}
		} else {
			plans, err = client.List[cfapi.Plan](ctx, s.API, "/v3/service_plans", q)
		}
		if err != nil {
			return nil, err
		}
		var org cfapi.Thing
		if f.Org != "" {
			if org, err = s.Org(ctx, f.Org); err != nil {
				return nil, err
			}
		}
		for _, p := range plans {
			at := "/v3/service_plans/" + p.GUID + "/visibility"
			switch {
			case org.GUID != "" && give:
				_, err = s.API.Post(ctx, at, map[string]any{"type": "organization",
					"organizations": []any{map[string]string{"guid": org.GUID}}}, nil)
			case org.GUID != "":
				err = s.API.Delete(ctx, at+"/"+org.GUID)
			default:
				_, err = s.API.Post(ctx, at, map[string]any{"type": map[bool]string{true: "public", false: "admin"}[give]}, nil)
			}
			if err != nil {
				return nil, err
			}
		}
		s.OK()
		return s.JSONOnly(&core.JSONAs{JSON: map[string]any{"offering": offering.Name, "plans": len(plans), "org": f.Org,
			"enabled": give}}), nil
	}
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
	return s.Change(ctx, http.MethodPatch, "/v3/service_brokers/"+t.GUID, body, "name", now, "guid", t.GUID)
}

type purgeFlags struct {
	core.ForceFlag
	Broker string `short:"b" value-name:"BROKER" description:"Broker to use when several offer this service"`
}

func purgeOffering(ctx context.Context, s *core.Session, w core.Words, f *purgeFlags) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "This removes the offering "+w["OFFERING"]+
		" and its instances without telling the broker, which may keep their resources. Continue"); err != nil {
		return nil, err
	}
	s.Acting("Purging service offering %s", w["OFFERING"])
	q := url.Values{}
	cfapi.Filter(q, "service_broker_names", f.Broker)
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

func serviceAccess(ctx context.Context, s *core.Session, _ core.Words, f *accessFlags) (core.Result, error) {
	s.Acting("Getting service access")
	q := url.Values{"include": {"service_offering"}, "fields[service_offering.service_broker]": {"name,guid"},
		"per_page": {"5000"}}
	cfapi.Filter(q, "service_broker_names", f.Broker, "service_offering_names", f.Offering)
	if f.Org != "" {
		org, err := s.Org(ctx, f.Org)
		if err != nil {
			return nil, err
		}
		q.Set("organization_guids", org.GUID)
	}
	plans, included, err := client.ListWith[cfapi.Plan](ctx, s.API, "/v3/service_plans", q)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	offerings, brokers := client.Of[cfapi.Offering](included, "service_offerings"),
		client.Of[cfapi.Thing](included, "service_brokers")
	out := &core.Listing[accessRow]{Key: "service plans", Heading: []string{"broker", "offering", "plan", "access",
		"orgs"}, Cells: func(r accessRow) []string {
		return []string{r.Broker, r.Offering, r.Plan, r.Access, strings.Join(r.Orgs, ",")}
	}}
	for _, p := range plans {
		offering := offerings[p.Relationships.Offering.GUID()]
		row := accessRow{brokers[offering.Relationships.Broker.GUID()].Name, offering.Name, p.Name,
			map[string]string{"public": "all", "admin": "none", "organization": "limited", "space": "limited"}[p.Visibility],
			[]string{}}
		if p.Visibility == "organization" {
			var v struct {
				Orgs []cfapi.Thing `json:"organizations"`
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
	slices.SortStableFunc(out.Rows, func(a, b accessRow) int {
		return strings.Compare(a.Broker+" "+a.Offering,
			b.Broker+" "+b.Offering)
	})
	return out, nil
}

func brokersCommands() []*core.Command {
	return core.InGroup(core.GroupOperate,
		core.Entry("service-brokers", "", "List service brokers", core.NeedsLogin, listBrokers, ""),
		core.Entry("create-service-broker", "BROKER USER PASSWORD URL [--space-scoped]", "Register a service broker",
			core.NeedsLogin, createBroker,
			"my-broker user password https://broker.example.com").Alias("csb").Slow(),
		core.Entry("delete-service-broker", "BROKER [-f]", "Remove a service broker", core.NeedsLogin, deleteBroker,
			"my-broker -f").Slow(),
		core.Entry("enable-service-access", "OFFERING [-p PLAN] [-o ORG]", "Allow access to a service offering",
			core.NeedsLogin, changeServiceAccess(true),
			"postgres", "postgres -p large -o acme"),
		core.Entry("disable-service-access", "OFFERING [-p PLAN] [-o ORG]", "Revoke access to a service offering",
			core.NeedsLogin, changeServiceAccess(false),
			"postgres"),
		core.Entry("update-service-broker", "BROKER USER PASSWORD URL", "Update a service broker and read its catalog",
			core.NeedsLogin, updateBroker, "my-broker user password https://broker.example.com").Slow(),
		core.Entry("rename-service-broker", "BROKER NEW_NAME", "Rename a service broker", core.NeedsLogin, renameBroker,
			"my-broker your-broker"),
		core.Entry("purge-service-offering", "OFFERING [-b BROKER] [-f]", "Remove an offering without telling its broker",
			core.NeedsLogin, purgeOffering, "postgres -f").Slow(),
		core.Entry("service-access", "[-b BROKER] [-e OFFERING] [-o ORG]", "List access to service plans by org",
			core.NeedsLogin, serviceAccess, "", "-e postgres"),
	)
}
