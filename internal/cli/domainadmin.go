package cli

import (
	"context"
	"net/http"
	"net/url"

	"ingot/internal/cli/client"
)

type routerGroup struct {
	GUID  string `json:"guid"`
	Name  string `json:"name"`
	Type  string `json:"type"`
	Ports string `json:"reservable_ports"`
}

func (s *session) routerGroups(ctx context.Context, q url.Values) ([]routerGroup, error) {
	at, err := s.link(ctx, "routing", "router groups")
	if err != nil {
		return nil, err
	}
	var found []routerGroup
	err = s.api.Get(ctx, at+"/v1/router_groups", q, &found)
	return found, err
}

func listRouterGroups(ctx context.Context, s *session, _ words, _ *noFlags) (result, error) {
	s.acting("Getting router groups")
	rows, err := s.routerGroups(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &listing[routerGroup]{key: "router groups", rows: rows, heading: []string{"name", "type", "ports"}, cells: func(g routerGroup) []string {
		return []string{g.Name, g.Type, g.Ports}
	}}, nil
}

func createPrivateDomain(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Creating private domain %s for org %s", w["DOMAIN"], w["ORG"])
	org, err := s.org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	return s.create(ctx, "domain", w["DOMAIN"], "/v3/domains", map[string]any{"name": w["DOMAIN"], "relationships": map[string]any{"organization": client.Relate(org.GUID)}}, "")
}

type sharedDomainFlags struct {
	RouterGroup string `long:"router-group" value-name:"GROUP" description:"Router group, for TCP routes"`
	Internal    bool   `long:"internal" description:"Routes of the domain are for connections between apps"`
}

func createSharedDomain(ctx context.Context, s *session, w words, f *sharedDomainFlags) (result, error) {
	if f.Internal && f.RouterGroup != "" {
		return nil, &usage{"--internal and --router-group cannot be combined", "create-shared-domain"}
	}
	s.acting("Creating shared domain %s", w["DOMAIN"])
	body := map[string]any{"name": w["DOMAIN"]}
	if f.Internal {
		body["internal"] = true
	}
	if f.RouterGroup != "" {
		groups, err := s.routerGroups(ctx, url.Values{"name": {f.RouterGroup}})
		if err != nil {
			return nil, err
		}
		if len(groups) == 0 {
			return nil, &problem{What: "Router group '" + f.RouterGroup + "' not found.", Try: "'" + s.w.Program + " router-groups' lists them"}
		}
		body["router_group"] = map[string]string{"guid": groups[0].GUID}
	}
	return s.create(ctx, "domain", w["DOMAIN"], "/v3/domains", body, "")
}

type ownedDomain struct {
	client.Thing
	Relationships struct {
		Org client.To `json:"organization"`
	} `json:"relationships"`
}

// deleteDomain deletes a private or a shared domain, and refuses the other kind.
func deleteDomain(private bool) func(context.Context, *session, words, *forceFlag) (result, error) {
	return func(ctx context.Context, s *session, w words, f *forceFlag) (result, error) {
		kind, other := "shared", "private"
		if private {
			kind, other = other, kind
		}
		name := w["DOMAIN"]
		if !f.Force {
			if err := s.confirm(ctx, "Really delete the "+kind+" domain "+name+" and its routes"); err != nil {
				return nil, err
			}
		}
		s.acting("Deleting "+kind+" domain %s", name)
		d, err := named(ctx, s, "Domain", "/v3/domains", name, nil, func(d ownedDomain) string { return d.Name })
		if isNotFound(err) {
			s.say("Domain %s does not exist.", name)
			s.ok()
			return &removed{Kind: "domain", Name: name}, nil
		}
		if err != nil {
			return nil, err
		}
		if (d.Relationships.Org.GUID() != "") != private {
			return nil, &problem{What: "Nothing was deleted.", Why: name + " is a " + other + " domain", Try: "'" + s.w.Program + " delete-" + other + "-domain " + name + "'"}
		}
		s.progress.Step("Deleting "+name, 0)
		if err := s.api.Delete(ctx, "/v3/domains/"+d.GUID); err != nil {
			return nil, err
		}
		s.ok()
		return &removed{Kind: "domain", Name: name, Gone: true}, nil
	}
}

func sharePrivateDomain(ctx context.Context, s *session, w words, _ *noFlags) (result, error) {
	s.acting("Sharing domain %s with org %s", w["DOMAIN"], w["ORG"])
	domain, org, err := s.domainAndOrg(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodPost, "/v3/domains/"+domain.GUID+"/relationships/shared_organizations", relateAll(org.GUID)); err != nil {
		return nil, err
	}
	return s.done("domain", domain.Name, "org", org.Name)
}

func (s *session) domainAndOrg(ctx context.Context, w words) (domain, org client.Thing, err error) {
	if domain, err = s.domain(ctx, w["DOMAIN"]); err != nil {
		return domain, org, err
	}
	org, err = s.org(ctx, w["ORG"])
	return domain, org, err
}

func unsharePrivateDomain(ctx context.Context, s *session, w words, f *forceFlag) (result, error) {
	if !f.Force {
		if err := s.confirm(ctx, "Really unshare the domain "+w["DOMAIN"]+" with the org "+w["ORG"]); err != nil {
			return nil, err
		}
	}
	s.acting("Unsharing domain %s from org %s", w["DOMAIN"], w["ORG"])
	domain, org, err := s.domainAndOrg(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := s.send(ctx, http.MethodDelete, "/v3/domains/"+domain.GUID+"/relationships/shared_organizations/"+org.GUID, nil); err != nil {
		return nil, err
	}
	return s.done("domain", domain.Name, "org", org.Name)
}

func domainCommands() []*command {
	return inGroup(groupRoutes,
		entry("create-private-domain", "ORG DOMAIN", "Create a domain for an org", aLogin, createPrivateDomain, "acme shop.example.com").alias("create-domain"),
		entry("delete-private-domain", "DOMAIN [-f]", "Delete a private domain", aLogin, deleteDomain(true), "shop.example.com -f").alias("delete-domain").slow(),
		entry("share-private-domain", "ORG DOMAIN", "Share a private domain with an org", aLogin, sharePrivateDomain, "globex shop.example.com"),
		entry("unshare-private-domain", "ORG DOMAIN [-f]", "Unshare a private domain with an org", aLogin, unsharePrivateDomain, "globex shop.example.com -f"),
		entry("create-shared-domain", "DOMAIN [--router-group GROUP | --internal]", "Create a domain for all orgs", aLogin, createSharedDomain, "apps.example.com", "tcp.example.com --router-group default-tcp"),
		entry("delete-shared-domain", "DOMAIN [-f]", "Delete a shared domain", aLogin, deleteDomain(false), "apps.example.com -f").slow(),
		entry("router-groups", "", "List router groups", aLogin, listRouterGroups, ""),
	)
}
