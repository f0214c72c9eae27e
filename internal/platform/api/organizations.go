package api

import (
	"cmp"
	"net/http"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var organizations = resource[platform.Organization, organizationBody]{
	noun: "Organization", repo: platform.Tx.Organizations, present: each(presentOrganization),
	list: listing.Params{Filters: listing.Filters{"names": listing.Text("name")}, Orders: []string{"name"}},
}

func (a *API) organizationRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/organizations", web.Scope(readers...), organizations.lister(a))
	g.Handle(http.MethodPost, "/v3/organizations", web.Scope(writers...), a.createOrganization)
	g.Handle(http.MethodGet, "/v3/organizations/{guid}", web.Scope(readers...), organizations.getter(a))
	g.Handle(http.MethodPatch, "/v3/organizations/{guid}", web.Scope(writers...), a.updateOrganization)
	g.Handle(http.MethodDelete, "/v3/organizations/{guid}", web.Scope(scopeAdmin), a.deleteOrganization)
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/usage_summary", web.Scope(readers...), usageOf(a, platform.Tx.Organizations, "Organization", "organization_guid"))
	g.Handle(http.MethodGet, "/v3/info/usage_summary", web.Scope(scopeAdmin, scopeAdminReadOnly, scopeGlobalAuditor), a.platformUsage)
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
	return platform.CheckTenantName(o.Name)
}

func (a *API) createOrganization(w http.ResponseWriter, r *http.Request) error {
	var body organizationRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, organizations, http.StatusCreated, func(req *request) (*platform.Organization, error) {
		org := &platform.Organization{}
		if err := body.apply(org); err != nil {
			return nil, err
		}
		if !req.caller.Admin {
			if on, err := flagOn(req.tx, "user_org_creation"); err != nil || !on {
				return nil, cmp.Or(err, platform.Forbidden())
			}
		}
		return org, a.platform.CreateOrganization(req.tx, req.caller.actor(), org)
	})
}

func (a *API) updateOrganization(w http.ResponseWriter, r *http.Request) error {
	var body organizationRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, organizations, http.StatusOK, func(req *request) (*platform.Organization, error) {
		org, err := find(req.caller, req.tx.Organizations(), web.Param(r, "guid"), "Organization")
		if err != nil {
			return nil, err
		}
		if err := req.caller.managesOrg(req.tx, org.GUID); err != nil {
			return nil, err
		}
		if body.Suspended != nil && *body.Suspended != org.Suspended && !req.caller.Admin {
			return nil, platform.Forbidden()
		}
		if err := body.apply(org); err != nil {
			return nil, err
		}
		return org, a.platform.UpdateOrganization(req.tx, req.caller.actor(), org)
	})
}

func (a *API) deleteOrganization(w http.ResponseWriter, r *http.Request) error {
	var gone []string
	defer func() { a.signals.AppsChanged(gone...) }()
	return a.conclude(w, r, "organization.delete", func(req *request) (*platform.Job, error) {
		org, err := find(req.caller, req.tx.Organizations(), web.Param(r, "guid"), "Organization")
		if err != nil {
			return nil, err
		}
		if gone, err = appsOf(req.tx, "organization_guid", org.GUID); err != nil {
			return nil, err
		}
		return a.services.DeleteOrganization(req.tx, req.caller.actor(), org)
	})
}

// usageOf responds with the usage of an organization or space.
func usageOf[T any](a *API, repo func(platform.Tx) platform.Repo[T], noun, field string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.show(w, r, func(req *request) (any, error) {
			guid := web.Param(r, "guid")
			if _, err := find(req.caller, repo(req.tx), guid, noun); err != nil {
				return nil, err
			}
			u, err := actions.UsageOf(req.tx, field, guid)
			place := strings.TrimSuffix(r.URL.Path, "/usage_summary")
			return usageBody(u, links{"self": href(req.base, r.URL.Path), strings.ToLower(noun): href(req.base, place)}), err
		})
	}
}

// platformUsage responds with the usage of the whole platform.
func (a *API) platformUsage(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		u, err := actions.UsageOf(req.tx, "", "")
		return usageBody(u, links{"self": href(req.base, r.URL.Path)}), err
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

func presentOrganization(req *request, o *platform.Organization) organizationBody {
	self := "/organizations/" + escape(o.GUID)
	b := organizationBody{
		resourceBody: presentResource(&o.Resource), Name: o.Name, Suspended: o.Suspended, Metadata: presentMetadata(&o.Metadata),
		Relationships: map[string]any{"quota": toOne(o.QuotaGUID)},
		Links:         links{"self": req.v3(self), "domains": req.v3(self, "/domains"), "default_domain": req.v3(self, "/domains/default")},
	}
	if o.QuotaGUID != "" {
		b.Links["quota"] = req.v3("/organization_quotas/", escape(o.QuotaGUID))
	}
	return b
}
