package routes

import (
	"net/http"
	"slices"
	"strconv"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
)

var domains = rest.Resource[platform.Domain, domainBody]{
	Noun: "Domain", Repo: platform.Tx.Domains, Present: rest.Each(presentDomain),
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name"),
		"organization_guids": listing.Text("organization_guid")}, Orders: []string{"name"}},
}

func (a *API) domainRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/domains", rest.Read, domains.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/domains", rest.Write, rest.Creator(a.Server, domains, a.createDomain))
	g.Handle(http.MethodGet, "/v3/domains/{guid}", rest.Read, domains.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/domains/{guid}", rest.Write, rest.MetadataPatcher(a.Server, domains, a.domainFor))
	g.Handle(http.MethodDelete, "/v3/domains/{guid}", rest.Write,
		rest.Deleter(a.Server, "domain.delete", a.domainFor, a.Platform.DeleteDomain))
	g.Handle(http.MethodPost, "/v3/domains/{guid}/relationships/shared_organizations", rest.Write,
		rest.Changer(a.Server, rest.RelationsOr("Data must be a list of organizations"), a.domainFor,
			a.addSharedOrganizations))
	g.Handle(http.MethodDelete, "/v3/domains/{guid}/relationships/shared_organizations/{organization}", rest.Write,
		rest.Remover(a.Server, domains.Find, a.removeSharedOrganization))
	g.Handle(http.MethodGet, "/v3/domains/{guid}/route_reservations", rest.Read,
		rest.Viewer(a.Server, domains.Find, routeReservations))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/domains", rest.Read,
		rest.ListerOf(a.Server, domains, platform.Tx.Organizations, "Organization", "visible_in_organization_guid"))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/domains/default", rest.Read,
		domains.GetterBy(a.Server, a.defaultDomain))
}

func (a *API) defaultDomain(req *rest.Request) (*platform.Domain, error) {
	if _, err := orgs.Organizations.Find(req); err != nil {
		return nil, err
	}
	return a.Platform.DefaultDomain(req.Tx, web.Param(req.HTTP, "guid"))
}

type domainRequest struct {
	Name          string                 `json:"name"`
	Internal      bool                   `json:"internal"`
	RouterGroup   *rest.RelationData     `json:"router_group"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships struct {
		Organization        rest.Relation  `json:"organization"`
		SharedOrganizations rest.Relations `json:"shared_organizations"`
	} `json:"relationships"`
}

// checkRouterGroup returns an error if the domain cannot have a router group.
func (b *domainRequest) checkRouterGroup() error {
	switch {
	case b.RouterGroup == nil:
		return nil
	case b.RouterGroup.GUID == "":
		return fault.Invalid("Router group guid must be a string")
	case b.Internal:
		return fault.Invalid("Internal domains cannot be associated to a router group.")
	case b.Relationships.Organization.Data != nil || len(b.Relationships.SharedOrganizations.Data) > 0:
		return fault.Invalid("Domains scoped to an organization cannot be associated to a router group.")
	}
	return nil
}

func (a *API) createDomain(req *rest.Request, body *domainRequest) (*platform.Domain, error) {
	if err := body.checkRouterGroup(); err != nil {
		return nil, err
	}
	d := &platform.Domain{Name: body.Name, Internal: body.Internal}
	if body.RouterGroup != nil {
		d.RouterGroup = body.RouterGroup.GUID
	}
	var shared []string
	if err := body.Metadata.Apply(&d.Metadata); err != nil {
		return nil, err
	}
	if org := body.Relationships.Organization.Data; org != nil {
		if body.Internal {
			return nil, fault.Invalid("Internal domains cannot be scoped to an organization.")
		}
		if _, err := rest.Find(req.Caller, req.Tx.Organizations(), org.GUID, "Organization"); err != nil {
			return nil, rest.NotAccessible(err, "Organization with guid '"+org.GUID+
				"' does not exist or you do not have access to it.")
		}
		if err := req.Caller.ManagesOrg(req.Tx, org.GUID); err != nil {
			return nil, err
		}
		if err := req.NeedFlag("private_domain_creation"); err != nil {
			return nil, err
		}
		d.OrgGUID = org.GUID
		var err error
		if shared, err = managedOrgs(req, body.Relationships.SharedOrganizations); err != nil {
			return nil, err
		}
	} else if !req.Caller.Admin {
		return nil, platform.Forbidden()
	} else if len(body.Relationships.SharedOrganizations.Data) > 0 {
		return nil, fault.Invalid("Relationships cannot contain shared_organizations without an owning organization.")
	}
	return d, a.Platform.CreateDomain(req.Tx, req.Caller.Actor(), d, shared...)
}

// managedOrgs returns the organizations that a domain is to be shared with. The
// caller must manage them, because the domain appears in their lists.
func managedOrgs(req *rest.Request, with rest.Relations) (guids []string, err error) {
	for _, org := range with.Data {
		_, err := rest.Find(req.Caller, req.Tx.Organizations(), org.GUID, "Organization")
		if err == nil {
			err = req.Caller.ManagesOrg(req.Tx, org.GUID)
		}
		switch {
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Forbidden):
			return nil, fault.Wrap(err, fault.Unprocessable,
				"Organization with guid '%s' does not exist, or you do not have access to it.", org.GUID)
		case err != nil:
			return nil, err
		}
		guids = append(guids, org.GUID)
	}
	return guids, nil
}

func (a *API) addSharedOrganizations(req *rest.Request, d *platform.Domain, body *rest.Relations) (any, error) {
	orgs, err := managedOrgs(req, *body)
	if err != nil {
		return nil, err
	}
	err = a.Platform.ShareDomain(req.Tx, d, orgs)
	return rest.ToMany(d.SharedOrgs), err
}

func (a *API) removeSharedOrganization(req *rest.Request, d *platform.Domain) error {
	org := req.Param("organization")
	if !slices.Contains(d.SharedOrgs, org) {
		return fault.Invalid("Unable to unshare domain from organization with guid '" + org +
			"'. Ensure the domain is shared to this organization.")
	}
	// Managers of either organization may unshare it.
	if req.Caller.ManagesOrg(req.Tx, d.OrgGUID) != nil {
		if err := req.Caller.ManagesOrg(req.Tx, org); err != nil {
			return err
		}
	}
	return a.Platform.UnshareDomain(req.Tx, d, org)
}

// domainFor returns the domain of the path if the caller may change it.
func (a *API) domainFor(req *rest.Request) (*platform.Domain, error) {
	d, err := domains.Find(req)
	if err != nil {
		return nil, err
	}
	if d.OrgGUID == "" && !req.Caller.Admin {
		return nil, platform.Forbidden()
	}
	if d.OrgGUID != "" {
		return d, req.Caller.ManagesOrg(req.Tx, d.OrgGUID)
	}
	return d, nil
}

// routeReservations reports whether the route exists in any space.
func routeReservations(req *rest.Request, d *platform.Domain) (any, error) {
	q := req.HTTP.URL.Query()
	port := 0
	if q.Get("port") != "" {
		var err error
		if port, err = strconv.Atoi(q.Get("port")); err != nil {
			return nil, listing.BadQuery("Port must be an integer")
		}
	}
	n, err := req.Tx.Routes().Count(platform.Where("domain_guid", d.GUID).And(platform.In("host", q.Get("host"))).
		And(platform.In("path", q.Get("path"))).And(platform.In("port", port)))
	return map[string]bool{"matching_route": n > 0}, err
}

type domainBody struct {
	rest.ResourceBody
	Name          string             `json:"name"`
	Internal      bool               `json:"internal"`
	RouterGroup   *rest.RelationData `json:"router_group"`
	Protocols     []string           `json:"supported_protocols"`
	Metadata      rest.Metadata      `json:"metadata"`
	Relationships map[string]any     `json:"relationships"`
	Links         rest.Links         `json:"links"`
}

func presentDomain(req *rest.Request, d *platform.Domain) domainBody {
	self := "/domains/" + rest.Escape(d.GUID)
	b := domainBody{
		ResourceBody: rest.PresentResource(&d.Resource), Name: d.Name, Internal: d.Internal,
		Protocols: []string{d.Protocol()},
		Metadata:  rest.PresentMetadata(&d.Metadata),
		Relationships: map[string]any{"organization": rest.ToOne(d.OrgGUID),
			"shared_organizations": rest.ToMany(d.SharedOrgs)},
		Links: rest.Links{"self": req.Link(self), "route_reservations": req.Link(self, "/route_reservations")},
	}
	if d.RouterGroup != "" {
		b.RouterGroup = &rest.RelationData{GUID: d.RouterGroup}
		b.Links["router_group"] = rest.Href(req.Base, "/routing/v1/router_groups/", rest.Escape(d.RouterGroup))
	}
	if d.OrgGUID != "" {
		b.Links["organization"] = req.Link("/organizations/", rest.Escape(d.OrgGUID))
		b.Links["shared_organizations"] = req.Link(self, "/relationships/shared_organizations")
	}
	return b
}
