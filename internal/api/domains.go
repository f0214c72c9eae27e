package api

import (
	"net/http"

	"ingot/internal/cf"
	"ingot/internal/fault"
	"ingot/internal/web"
)

var domains = resource[cf.Domain, domainBody]{
	noun: "Domain", repo: cf.Tx.Domains, present: each(presentDomain),
	list: listing{filters: map[string]filter{"names": byText("name"), "organization_guids": byText("organization_guid")}, orders: []string{"name"}},
}

func (a *API) domainRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/domains", web.Scope(readers...), domains.lister(a))
	g.Handle(http.MethodPost, "/v3/domains", web.Scope(writers...), a.createDomain)
	g.Handle(http.MethodGet, "/v3/domains/{guid}", web.Scope(readers...), domains.getter(a))
	g.Handle(http.MethodPatch, "/v3/domains/{guid}", web.Scope(writers...), a.updateDomain)
	g.Handle(http.MethodDelete, "/v3/domains/{guid}", web.Scope(writers...), a.deleteDomain)
	g.Handle(http.MethodGet, "/v3/domains/{guid}/route_reservations", web.Scope(readers...), a.routeReservations)
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/domains", web.Scope(readers...),
		listerOf(a, domains, cf.Tx.Organizations, "Organization", "visible_in_organization_guid"))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/domains/default", web.Scope(readers...), domains.getterBy(a, a.defaultDomain))
}

func (a *API) defaultDomain(p *presenter) (*cf.Domain, error) {
	if err := organizationExists(p); err != nil {
		return nil, err
	}
	return a.platform.DefaultDomain(p.tx, web.Param(p.r, "guid"))
}

type domainRequest struct {
	Name          string         `json:"name"`
	Internal      bool           `json:"internal"`
	RouterGroup   *relationData  `json:"router_group"`
	Metadata      *metadataPatch `json:"metadata"`
	Relationships struct {
		Organization        relation  `json:"organization"`
		SharedOrganizations relations `json:"shared_organizations"`
	} `json:"relationships"`
}

func (a *API) createDomain(w http.ResponseWriter, r *http.Request) error {
	var body domainRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.RouterGroup != nil {
		return fault.Invalid("Router group: TCP routes are not supported by this platform")
	}
	return answer(a, w, r, domains, http.StatusCreated, func(p *presenter) (*cf.Domain, error) {
		d := &cf.Domain{Name: body.Name, Internal: body.Internal}
		if err := body.Metadata.apply(&d.Metadata); err != nil {
			return nil, err
		}
		if org := body.Relationships.Organization.Data; org != nil {
			if body.Internal {
				return nil, fault.Invalid("Internal domains cannot be scoped to an organization.")
			}
			if _, err := find(p.caller, p.tx.Organizations(), org.GUID, "Organization"); err != nil {
				return nil, notAccessible(err, "Organization with guid '"+org.GUID+"' does not exist or you do not have access to it.")
			}
			if err := p.caller.mayInOrg(p.tx, org.GUID, cf.OrgManager); err != nil {
				return nil, err
			}
			if err := a.needFlag(p, "private_domain_creation"); err != nil {
				return nil, err
			}
			d.OrgGUID = org.GUID
			for _, shared := range body.Relationships.SharedOrganizations.Data {
				d.SharedOrgs = append(d.SharedOrgs, shared.GUID)
			}
		} else if !p.caller.admin {
			return nil, forbidden()
		}
		return d, a.platform.CreateDomain(p.tx, d)
	})
}

// domainFor is the domain of the path, for those who may change it.
func (a *API) domainFor(p *presenter) (*cf.Domain, error) {
	d, err := find(p.caller, p.tx.Domains(), web.Param(p.r, "guid"), "Domain")
	if err != nil {
		return nil, err
	}
	if d.OrgGUID == "" && !p.caller.admin {
		return nil, forbidden()
	}
	if d.OrgGUID != "" {
		return d, p.caller.mayInOrg(p.tx, d.OrgGUID, cf.OrgManager)
	}
	return d, nil
}

func (a *API) updateDomain(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Metadata *metadataPatch `json:"metadata"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, domains, http.StatusOK, func(p *presenter) (*cf.Domain, error) {
		d, err := a.domainFor(p)
		if err != nil {
			return nil, err
		}
		if err := body.Metadata.apply(&d.Metadata); err != nil {
			return nil, err
		}
		return d, p.tx.Domains().Update(d)
	})
}

func (a *API) deleteDomain(w http.ResponseWriter, r *http.Request) error {
	err := a.finish(w, r, "domain.delete", func(p *presenter) error {
		d, err := a.domainFor(p)
		if err != nil {
			return err
		}
		return a.platform.DeleteDomain(p.tx, p.caller.actor(), d)
	})
	if err == nil {
		a.signals.RoutesChanged()
	}
	return err
}

// routeReservations tells whether somebody, anywhere, has the route.
func (a *API) routeReservations(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(p *presenter) (any, error) {
		d, err := find(p.caller, p.tx.Domains(), web.Param(r, "guid"), "Domain")
		if err != nil {
			return nil, err
		}
		q := r.URL.Query()
		n, err := p.tx.Routes().Count(cf.Where("domain_guid", d.GUID).And(cf.In("host", q.Get("host"))).And(cf.In("path", q.Get("path"))))
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

func presentDomain(p *presenter, d *cf.Domain) domainBody {
	self := "/domains/" + escape(d.GUID)
	b := domainBody{
		resourceBody: presentResource(&d.Resource), Name: d.Name, Internal: d.Internal, Protocols: []string{"http"},
		Metadata:      presentMetadata(&d.Metadata),
		Relationships: map[string]any{"organization": toOne(d.OrgGUID), "shared_organizations": toMany(d.SharedOrgs)},
		Links:         links{"self": p.v3(self), "route_reservations": p.v3(self, "/route_reservations")},
	}
	if d.OrgGUID != "" {
		b.Links["organization"] = p.v3("/organizations/", escape(d.OrgGUID))
		b.Links["shared_organizations"] = p.v3(self, "/relationships/shared_organizations")
	}
	return b
}
