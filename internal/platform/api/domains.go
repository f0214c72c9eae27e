package api

import (
	"net/http"
	"slices"
	"strconv"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var domains = resource[platform.Domain, domainBody]{
	noun: "Domain", repo: platform.Tx.Domains, present: each(presentDomain),
	list: listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")}, Orders: []string{"name"}},
}

func (a *API) domainRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/domains", web.Scope(readers...), domains.lister(a))
	g.Handle(http.MethodPost, "/v3/domains", web.Scope(writers...), a.createDomain)
	g.Handle(http.MethodGet, "/v3/domains/{guid}", web.Scope(readers...), domains.getter(a))
	g.Handle(http.MethodPatch, "/v3/domains/{guid}", web.Scope(writers...), metadataPatcher(a, domains, a.domainFor))
	g.Handle(http.MethodDelete, "/v3/domains/{guid}", web.Scope(writers...), a.deleteDomain)
	g.Handle(http.MethodPost, "/v3/domains/{guid}/relationships/shared_organizations", web.Scope(writers...), a.addSharedOrganizations)
	g.Handle(http.MethodDelete, "/v3/domains/{guid}/relationships/shared_organizations/{organization}", web.Scope(writers...), a.removeSharedOrganization)
	g.Handle(http.MethodGet, "/v3/domains/{guid}/route_reservations", web.Scope(readers...), a.routeReservations)
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/domains", web.Scope(readers...),
		listerOf(a, domains, platform.Tx.Organizations, "Organization", "visible_in_organization_guid"))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/domains/default", web.Scope(readers...), domains.getterBy(a, a.defaultDomain))
}

func (a *API) defaultDomain(req *request) (*platform.Domain, error) {
	if _, err := organizations.find(req); err != nil {
		return nil, err
	}
	return a.platform.DefaultDomain(req.tx, web.Param(req.r, "guid"))
}

type domainRequest struct {
	Name          string                 `json:"name"`
	Internal      bool                   `json:"internal"`
	RouterGroup   *relationData          `json:"router_group"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships struct {
		Organization        relation  `json:"organization"`
		SharedOrganizations relations `json:"shared_organizations"`
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

func (a *API) createDomain(w http.ResponseWriter, r *http.Request) error {
	var body domainRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.checkRouterGroup(); err != nil {
		return err
	}
	return answer(a, w, r, domains, http.StatusCreated, func(req *request) (*platform.Domain, error) {
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
			if _, err := find(req.caller, req.tx.Organizations(), org.GUID, "Organization"); err != nil {
				return nil, notAccessible(err, "Organization with guid '"+org.GUID+"' does not exist or you do not have access to it.")
			}
			if err := req.caller.managesOrg(req.tx, org.GUID); err != nil {
				return nil, err
			}
			if err := req.needFlag("private_domain_creation"); err != nil {
				return nil, err
			}
			d.OrgGUID = org.GUID
			var err error
			if shared, err = managedOrgs(req, body.Relationships.SharedOrganizations); err != nil {
				return nil, err
			}
		} else if !req.caller.Admin {
			return nil, platform.Forbidden()
		} else if len(body.Relationships.SharedOrganizations.Data) > 0 {
			return nil, fault.Invalid("Relationships cannot contain shared_organizations without an owning organization.")
		}
		return d, a.platform.CreateDomain(req.tx, req.caller.actor(), d, shared...)
	})
}

// managedOrgs returns the organizations that a domain is to be shared with. The
// caller must manage them, because the domain appears in their lists.
func managedOrgs(req *request, with relations) (guids []string, err error) {
	for _, org := range with.Data {
		_, err := find(req.caller, req.tx.Organizations(), org.GUID, "Organization")
		if err == nil {
			err = req.caller.managesOrg(req.tx, org.GUID)
		}
		switch {
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Forbidden):
			return nil, fault.Wrap(err, fault.Unprocessable, "Organization with guid '%s' does not exist, or you do not have access to it.", org.GUID)
		case err != nil:
			return nil, err
		}
		guids = append(guids, org.GUID)
	}
	return guids, nil
}

func (a *API) addSharedOrganizations(w http.ResponseWriter, r *http.Request) error {
	var body relations
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if len(body.Data) == 0 {
		return fault.Invalid("Data must be a list of organizations")
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		d, err := a.domainFor(req)
		if err != nil {
			return nil, err
		}
		orgs, err := managedOrgs(req, body)
		if err != nil {
			return nil, err
		}
		err = a.platform.ShareDomain(req.tx, d, orgs)
		return toMany(d.SharedOrgs), err
	})
}

func (a *API) removeSharedOrganization(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		d, err := find(req.caller, req.tx.Domains(), web.Param(r, "guid"), "Domain")
		if err != nil {
			return nil, err
		}
		org := web.Param(r, "organization")
		if !slices.Contains(d.SharedOrgs, org) {
			return nil, fault.Invalid("Unable to unshare domain from organization with guid '" + org + "'. Ensure the domain is shared to this organization.")
		}
		// Managers of either organization may unshare it.
		if req.caller.managesOrg(req.tx, d.OrgGUID) != nil {
			if err := req.caller.managesOrg(req.tx, org); err != nil {
				return nil, err
			}
		}
		return nil, a.platform.UnshareDomain(req.tx, d, org)
	})
}

// domainFor returns the domain of the path if the caller may change it.
func (a *API) domainFor(req *request) (*platform.Domain, error) {
	d, err := find(req.caller, req.tx.Domains(), web.Param(req.r, "guid"), "Domain")
	if err != nil {
		return nil, err
	}
	if d.OrgGUID == "" && !req.caller.Admin {
		return nil, platform.Forbidden()
	}
	if d.OrgGUID != "" {
		return d, req.caller.managesOrg(req.tx, d.OrgGUID)
	}
	return d, nil
}

func (a *API) deleteDomain(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "domain.delete", func(req *request) error {
		d, err := a.domainFor(req)
		if err != nil {
			return err
		}
		return a.platform.DeleteDomain(req.tx, req.caller.actor(), d)
	})
}

// routeReservations reports whether the route exists in any space.
func (a *API) routeReservations(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		d, err := find(req.caller, req.tx.Domains(), web.Param(r, "guid"), "Domain")
		if err != nil {
			return nil, err
		}
		q := r.URL.Query()
		port := 0
		if q.Get("port") != "" {
			if port, err = strconv.Atoi(q.Get("port")); err != nil {
				return nil, listing.BadQuery("Port must be an integer")
			}
		}
		n, err := req.tx.Routes().Count(platform.Where("domain_guid", d.GUID).And(platform.In("host", q.Get("host"))).And(platform.In("path", q.Get("path"))).And(platform.In("port", port)))
		return map[string]bool{"matching_route": n > 0}, err
	})
}

type domainBody struct {
	resourceBody
	Name          string         `json:"name"`
	Internal      bool           `json:"internal"`
	RouterGroup   *relationData  `json:"router_group"`
	Protocols     []string       `json:"supported_protocols"`
	Metadata      metadata       `json:"metadata"`
	Relationships map[string]any `json:"relationships"`
	Links         links          `json:"links"`
}

func presentDomain(req *request, d *platform.Domain) domainBody {
	self := "/domains/" + escape(d.GUID)
	b := domainBody{
		resourceBody: presentResource(&d.Resource), Name: d.Name, Internal: d.Internal, Protocols: []string{d.Protocol()},
		Metadata:      presentMetadata(&d.Metadata),
		Relationships: map[string]any{"organization": toOne(d.OrgGUID), "shared_organizations": toMany(d.SharedOrgs)},
		Links:         links{"self": req.v3(self), "route_reservations": req.v3(self, "/route_reservations")},
	}
	if d.RouterGroup != "" {
		b.RouterGroup = &relationData{GUID: d.RouterGroup}
		b.Links["router_group"] = href(req.base, "/routing/v1/router_groups/", escape(d.RouterGroup))
	}
	if d.OrgGUID != "" {
		b.Links["organization"] = req.v3("/organizations/", escape(d.OrgGUID))
		b.Links["shared_organizations"] = req.v3(self, "/relationships/shared_organizations")
	}
	return b
}
