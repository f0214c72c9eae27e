package api

import (
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

var organizations = resource[platform.Organization, organizationBody]{
	noun: "Organization", repo: platform.Tx.Organizations, present: each(presentOrganization),
	list: listing{filters: map[string]filter{"names": byText("name")}, orders: []string{"name"}},
}

func (a *API) organizationRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/organizations", web.Scope(readers...), organizations.lister(a))
	g.Handle(http.MethodPost, "/v3/organizations", web.Scope(writers...), a.createOrganization)
	g.Handle(http.MethodGet, "/v3/organizations/{guid}", web.Scope(readers...), organizations.getter(a))
	g.Handle(http.MethodPatch, "/v3/organizations/{guid}", web.Scope(writers...), a.updateOrganization)
	g.Handle(http.MethodDelete, "/v3/organizations/{guid}", web.Scope(scopeAdmin), a.deleteOrganization)
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/usage_summary", web.Scope(readers...), usageOf(a, platform.Tx.Organizations, "Organization", "organization_guid"))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/relationships/default_isolation_segment", web.Scope(readers...), a.noIsolationSegment(organizationExists))
}

type organizationRequest struct {
	Name      *string                `json:"name"`
	Suspended *bool                  `json:"suspended"`
	Metadata  *actions.MetadataPatch `json:"metadata"`
}

func (b *organizationRequest) apply(o *platform.Organization) error {
	if b.Name != nil {
		o.Name = *b.Name
	}
	if b.Suspended != nil {
		o.Suspended = *b.Suspended
	}
	if err := b.Metadata.Apply(&o.Metadata); err != nil {
		return err
	}
	return validateName(o.Name)
}

func (a *API) createOrganization(w http.ResponseWriter, r *http.Request) error {
	var body organizationRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, organizations, http.StatusCreated, func(p *presenter) (*platform.Organization, error) {
		org := &platform.Organization{}
		if err := body.apply(org); err != nil {
			return nil, err
		}
		if !p.caller.Admin {
			if on, err := a.flagOn(p.tx, "user_org_creation"); err != nil || !on {
				return nil, orForbidden(err)
			}
		}
		return org, a.platform.CreateOrganization(p.tx, p.caller.actor(), org)
	})
}

func (a *API) updateOrganization(w http.ResponseWriter, r *http.Request) error {
	var body organizationRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, organizations, http.StatusOK, func(p *presenter) (*platform.Organization, error) {
		org, err := find(p.caller, p.tx.Organizations(), web.Param(r, "guid"), "Organization")
		if err != nil {
			return nil, err
		}
		if err := p.caller.mayInOrg(p.tx, org.GUID, platform.ManageOrganization); err != nil {
			return nil, err
		}
		if body.Suspended != nil && *body.Suspended != org.Suspended && !p.caller.Admin {
			return nil, forbidden()
		}
		if err := body.apply(org); err != nil {
			return nil, err
		}
		return org, a.platform.UpdateOrganization(p.tx, p.caller.actor(), org)
	})
}

func (a *API) deleteOrganization(w http.ResponseWriter, r *http.Request) error {
	var gone []string
	defer func() { a.signals.AppsChanged(gone...); a.signals.RoutesChanged() }()
	return a.conclude(w, r, "organization.delete", func(p *presenter) (*platform.Job, error) {
		org, err := find(p.caller, p.tx.Organizations(), web.Param(r, "guid"), "Organization")
		if err != nil {
			return nil, err
		}
		if gone, err = appsOf(p.tx, "organization_guid", org.GUID); err != nil {
			return nil, err
		}
		return a.services.DeleteOrganization(p.tx, p.caller.actor(), org)
	})
}

// usageOf answers with what an organization or space takes.
func usageOf[T any](a *API, repo func(platform.Tx) platform.Repo[T], noun, field string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.show(w, r, func(p *presenter) (any, error) {
			guid := web.Param(r, "guid")
			if _, err := find(p.caller, repo(p.tx), guid, noun); err != nil {
				return nil, err
			}
			u, err := actions.UsageOf(p.tx, field, guid)
			place := strings.TrimSuffix(r.URL.Path, "/usage_summary")
			return usageBody(u, links{"self": href(p.base, r.URL.Path), strings.ToLower(noun): href(p.base, place)}), err
		})
	}
}

// platformUsage answers with what everybody takes together.
func (a *API) platformUsage(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(p *presenter) (any, error) {
		u, err := actions.UsageOf(p.tx, "", "")
		return usageBody(u, links{"self": href(p.base, r.URL.Path)}), err
	})
}

func usageBody(u actions.Usage, l links) any {
	return map[string]any{"links": l, "usage_summary": map[string]int{
		"started_instances": u.Instances, "memory_in_mb": u.MemoryMB, "routes": u.Routes, "domains": u.Domains,
		"service_instances": u.ServiceInstances, "reserved_ports": u.ReservedPorts, "per_app_tasks": u.Tasks, "service_keys": u.ServiceKeys,
	}}
}

type organizationBody struct {
	resourceBody
	Name          string         `json:"name"`
	Suspended     bool           `json:"suspended"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

func presentOrganization(p *presenter, o *platform.Organization) organizationBody {
	self := "/organizations/" + escape(o.GUID)
	b := organizationBody{
		resourceBody: presentResource(&o.Resource), Name: o.Name, Suspended: o.Suspended, Metadata: presentMetadata(&o.Metadata),
		Relationships: map[string]any{"quota": toOne(o.QuotaGUID)},
		Links:         links{"self": p.v3(self), "domains": p.v3(self, "/domains"), "default_domain": p.v3(self, "/domains/default")},
	}
	if o.QuotaGUID != "" {
		b.Links["quota"] = p.v3("/organization_quotas/", escape(o.QuotaGUID))
	}
	return b
}

// validateName holds for organizations and spaces.
func validateName(name string) error {
	switch {
	case name == "":
		return fault.Invalid("Name is too short (minimum is 1 character)")
	case len([]rune(name)) > 255:
		return fault.Invalid("Name is too long (maximum is 255 characters)")
	case hasControl(name):
		return fault.Invalid("Name must not contain escaped characters")
	}
	return nil
}
