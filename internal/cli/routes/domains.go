package routes

import (
	"context"
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/core"
)

type routerGroup struct {
	GUID  string `json:"guid"`
	Name  string `json:"name"`
	Type  string `json:"type"`
	Ports string `json:"reservable_ports"`
}

func routerGroups(ctx context.Context, s *core.Session, q url.Values) ([]routerGroup, error) {
	at, err := s.Link(ctx, "routing", "router groups")
	if err != nil {
		return nil, err
	}
	var found []routerGroup
	err = s.API.Get(ctx, at+"/v1/router_groups", q, &found)
	return found, err
}

func listRouterGroups(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting router groups")
	rows, err := routerGroups(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	return &core.Listing[routerGroup]{Key: "router groups", Rows: rows, Heading: []string{"name", "type", "ports"},
		Cells: func(g routerGroup) []string {
			return []string{g.Name, g.Type, g.Ports}
		}}, nil
}

func createPrivateDomain(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Creating private domain %s for org %s", w["DOMAIN"], w["ORG"])
	org, err := s.Org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	return s.Create(ctx, "domain", w["DOMAIN"], "/v3/domains", map[string]any{"name": w["DOMAIN"],
		"relationships": map[string]any{"organization": cfapi.Relate(org.GUID)}}, "")
}

type sharedDomainFlags struct {
	RouterGroup string `long:"router-group" value-name:"GROUP" description:"Router group, for TCP routes"`
	Internal    bool   `long:"internal" description:"Routes of the domain are for connections between apps"`
}

func createSharedDomain(ctx context.Context, s *core.Session, w core.Words, f *sharedDomainFlags) (core.Result, error) {
	if f.Internal && f.RouterGroup != "" {
		return nil, core.UsageError("--internal and --router-group cannot be combined")
	}
	s.Acting("Creating shared domain %s", w["DOMAIN"])
	body := map[string]any{"name": w["DOMAIN"]}
	if f.Internal {
		body["internal"] = true
	}
	if f.RouterGroup != "" {
		groups, err := routerGroups(ctx, s, url.Values{"name": {f.RouterGroup}})
		if err != nil {
			return nil, err
		}
		if len(groups) == 0 {
			return nil, &core.Problem{What: "Router group '" + f.RouterGroup + "' not found.", Try: "'" + s.Env.Program +
				" router-groups' lists them"}
		}
		body["router_group"] = map[string]string{"guid": groups[0].GUID}
	}
	return s.Create(ctx, "domain", w["DOMAIN"], "/v3/domains", body, "")
}

// deleteDomain deletes a private or a shared domain, and refuses the other kind.
func deleteDomain(private bool) core.Action[core.ForceFlag] {
	return func(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
		kind, other := "shared", "private"
		if private {
			kind, other = other, kind
		}
		name := w["DOMAIN"]
		if err := s.Confirm(ctx, f.Force, "Really delete the "+kind+" domain "+name+" and its routes"); err != nil {
			return nil, err
		}
		s.Acting("Deleting "+kind+" domain %s", name)
		d, err := core.Named[cfapi.Domain](ctx, s, "Domain", "/v3/domains", name, nil)
		if core.IsNotFound(err) {
			return s.Absent("Domain", "domain", name)
		}
		if err != nil {
			return nil, err
		}
		if (d.Relationships.Organization.GUID() != "") != private {
			return nil, &core.Problem{What: "Nothing was deleted.", Why: name + " is a " + other + " domain",
				Try: "'" + s.Env.Program + " delete-" + other + "-domain " + name + "'"}
		}
		s.Progress.Step("Deleting "+name, 0)
		if err := s.API.Delete(ctx, "/v3/domains/"+d.GUID); err != nil {
			return nil, err
		}
		s.OK()
		return &core.Removed{Kind: "domain", Name: name, Gone: true}, nil
	}
}

func sharePrivateDomain(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Sharing domain %s with org %s", w["DOMAIN"], w["ORG"])
	domain, org, err := domainAndOrg(ctx, s, w)
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodPost, "/v3/domains/"+domain.GUID+"/relationships/shared_organizations",
		cfapi.RelateAll(org.GUID), "domain", domain.Name, "org", org.Name)
}

func domainAndOrg(ctx context.Context, s *core.Session, w core.Words) (domain, org cfapi.Thing, err error) {
	if domain, err = s.Domain(ctx, w["DOMAIN"]); err != nil {
		return domain, org, err
	}
	org, err = s.Org(ctx, w["ORG"])
	return domain, org, err
}

func unsharePrivateDomain(ctx context.Context, s *core.Session, w core.Words, f *core.ForceFlag) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really unshare the domain "+w["DOMAIN"]+" with the org "+w["ORG"]); err != nil {
		return nil, err
	}
	s.Acting("Unsharing domain %s from org %s", w["DOMAIN"], w["ORG"])
	domain, org, err := domainAndOrg(ctx, s, w)
	if err != nil {
		return nil, err
	}
	return s.Change(ctx, http.MethodDelete, "/v3/domains/"+domain.GUID+"/relationships/shared_organizations/"+org.GUID,
		nil, "domain", domain.Name, "org", org.Name)
}

func domainCommands() []*core.Command {
	return core.InGroup(core.GroupRoutes,
		core.Entry("create-private-domain", "ORG DOMAIN", "Create a domain for an org", core.NeedsLogin, createPrivateDomain,
			"acme shop.example.com").Alias("create-domain"),
		core.Entry("delete-private-domain", "DOMAIN [-f]", "Delete a private domain", core.NeedsLogin, deleteDomain(true),
			"shop.example.com -f").Alias("delete-domain").Slow(),
		core.Entry("share-private-domain", "ORG DOMAIN", "Share a private domain with an org", core.NeedsLogin,
			sharePrivateDomain, "globex shop.example.com"),
		core.Entry("unshare-private-domain", "ORG DOMAIN [-f]", "Unshare a private domain with an org", core.NeedsLogin,
			unsharePrivateDomain, "globex shop.example.com -f"),
		core.Entry("create-shared-domain", "DOMAIN [--router-group GROUP | --internal]", "Create a domain for all orgs",
			core.NeedsLogin, createSharedDomain, "apps.example.com", "tcp.example.com --router-group default-tcp"),
		core.Entry("delete-shared-domain", "DOMAIN [-f]", "Delete a shared domain", core.NeedsLogin, deleteDomain(false),
			"apps.example.com -f").Slow(),
		core.Entry("router-groups", "", "List router groups", core.NeedsLogin, listRouterGroups, ""),
	)
}
