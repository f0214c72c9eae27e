package api

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var organizationQuotas = resource[platform.OrganizationQuota, quotaBody]{
	noun: "Organization quota", repo: platform.Tx.OrganizationQuotas, present: presentOrganizationQuotas,
	list: listing.Params{Filters: listing.Filters{"names": listing.Text("name")}, Orders: []string{"name"}, Extra: []string{"organization_guids"}, NoLabels: true},
}

var spaceQuotas = resource[platform.SpaceQuota, quotaBody]{
	noun: "Space quota", repo: platform.Tx.SpaceQuotas, present: presentSpaceQuotas,
	list: listing.Params{
		Filters: listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")},
		Orders:  []string{"name"}, Extra: []string{"space_guids"}, NoLabels: true,
	},
}

func (a *API) quotaRoutes(g *web.Group) {
	read, write, admin := web.Scope(readers...), web.Scope(writers...), web.Scope(scopeAdmin)
	g.Handle(http.MethodGet, "/v3/organization_quotas", read, organizationQuotas.listerWhere(a, appliedTo(organizations, "organization_guids", "organization_guid")))
	g.Handle(http.MethodPost, "/v3/organization_quotas", admin, a.createOrganizationQuota)
	g.Handle(http.MethodGet, "/v3/organization_quotas/{guid}", read, organizationQuotas.getter(a))
	g.Handle(http.MethodPatch, "/v3/organization_quotas/{guid}", admin, a.updateOrganizationQuota)
	g.Handle(http.MethodDelete, "/v3/organization_quotas/{guid}", admin, a.deleteOrganizationQuota)
	g.Handle(http.MethodPost, "/v3/organization_quotas/{guid}/relationships/organizations", admin, a.applyOrganizationQuota)

	g.Handle(http.MethodGet, "/v3/space_quotas", read, spaceQuotas.listerWhere(a, appliedTo(spaces, "space_guids", "space_guid")))
	g.Handle(http.MethodPost, "/v3/space_quotas", write, a.createSpaceQuota)
	g.Handle(http.MethodGet, "/v3/space_quotas/{guid}", read, spaceQuotas.getter(a))
	g.Handle(http.MethodPatch, "/v3/space_quotas/{guid}", write, a.updateSpaceQuota)
	g.Handle(http.MethodDelete, "/v3/space_quotas/{guid}", write, a.deleteSpaceQuota)
	g.Handle(http.MethodPost, "/v3/space_quotas/{guid}/relationships/spaces", write, a.applySpaceQuota)
	g.Handle(http.MethodDelete, "/v3/space_quotas/{guid}/relationships/spaces/{space}", write, a.removeSpaceQuota)
}

// quotaRequest is a request to create or update a quota. Null means no limit; absent
// members stay unchanged.
type quotaRequest struct {
	Name *string `json:"name"`
	Apps struct {
		MemoryMB        optional[whole[int]]   `json:"total_memory_in_mb"`
		ProcessMemoryMB optional[whole[int]]   `json:"per_process_memory_in_mb"`
		Instances       optional[whole[int]]   `json:"total_instances"`
		Tasks           optional[whole[int]]   `json:"per_app_tasks"`
		LogRate         optional[whole[int64]] `json:"log_rate_limit_in_bytes_per_second"`
	} `json:"apps"`
	Services struct {
		Paid      *bool                `json:"paid_services_allowed"`
		Instances optional[whole[int]] `json:"total_service_instances"`
		Keys      optional[whole[int]] `json:"total_service_keys"`
	} `json:"services"`
	Routes struct {
		Routes optional[whole[int]] `json:"total_routes"`
		Ports  optional[whole[int]] `json:"total_reserved_ports"`
	} `json:"routes"`
	Domains *struct {
		Domains optional[whole[int]] `json:"total_domains"`
	} `json:"domains"`
	Relationships *struct {
		Organization  *relation  `json:"organization"`
		Organizations *relations `json:"organizations"`
		Spaces        *relations `json:"spaces"`
	} `json:"relationships"`
}

func setLimit[T int | int64](to **T, from optional[whole[T]]) {
	if !from.set {
		return
	}
	*to = nil
	if from.given {
		value := from.value.value
		*to = &value
	}
}

func (b *quotaRequest) apply(name *string, l *platform.Limits) {
	if b.Name != nil {
		*name = *b.Name
	}
	setLimit(&l.MemoryMB, b.Apps.MemoryMB)
	setLimit(&l.ProcessMemoryMB, b.Apps.ProcessMemoryMB)
	setLimit(&l.Instances, b.Apps.Instances)
	setLimit(&l.Tasks, b.Apps.Tasks)
	setLimit(&l.LogRate, b.Apps.LogRate)
	setLimit(&l.ServiceInstances, b.Services.Instances)
	setLimit(&l.ServiceKeys, b.Services.Keys)
	setLimit(&l.Routes, b.Routes.Routes)
	setLimit(&l.ReservedPorts, b.Routes.Ports)
	if b.Services.Paid != nil {
		l.PaidServices = *b.Services.Paid
	}
	if b.Domains != nil {
		setLimit(&l.Domains, b.Domains.Domains)
	}
}

// readQuota decodes a request, which may have only the given relationships.
func readQuota(r *http.Request, organization, organizations, spaces bool) (*quotaRequest, error) {
	var b quotaRequest
	if err := web.DecodeStrict(r, &b); err != nil {
		return nil, err
	}
	if b.Relationships != nil {
		for name, wrong := range map[string]bool{
			"organization": b.Relationships.Organization != nil && !organization, "organizations": b.Relationships.Organizations != nil && !organizations,
			"spaces": b.Relationships.Spaces != nil && !spaces,
		} {
			if wrong {
				return nil, fault.Invalid("Relationships Unknown field(s): '" + name + "'")
			}
		}
		if !organization && !organizations && !spaces {
			return nil, fault.Invalid("Unknown field(s): 'relationships'")
		}
	}
	return &b, nil
}

func (a *API) createOrganizationQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readQuota(r, false, true, false)
	if err != nil {
		return err
	}
	return answer(a, w, r, organizationQuotas, http.StatusCreated, func(req *request) (*platform.OrganizationQuota, error) {
		quota := &platform.OrganizationQuota{Limits: platform.Limits{PaidServices: true}}
		body.apply(&quota.Name, &quota.Limits)
		var orgs []*platform.Organization
		if body.Relationships != nil {
			var err error
			if orgs, err = related(req, req.tx.Organizations(), body.Relationships.Organizations, "Organizations"); err != nil {
				return nil, err
			}
		}
		return quota, a.platform.CreateOrganizationQuota(req.tx, req.caller.actor(), quota, orgs)
	})
}

func (a *API) updateOrganizationQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readQuota(r, false, false, false)
	if err != nil {
		return err
	}
	return answer(a, w, r, organizationQuotas, http.StatusOK, func(req *request) (*platform.OrganizationQuota, error) {
		quota, err := find(req.caller, req.tx.OrganizationQuotas(), web.Param(r, "guid"), "Organization quota")
		if err != nil {
			return nil, err
		}
		body.apply(&quota.Name, &quota.Limits)
		return quota, a.platform.UpdateOrganizationQuota(req.tx, req.caller.actor(), quota)
	})
}

func (a *API) deleteOrganizationQuota(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "organization_quota.delete", func(req *request) error {
		quota, err := find(req.caller, req.tx.OrganizationQuotas(), web.Param(r, "guid"), "Organization quota")
		if err != nil {
			return err
		}
		return a.platform.DeleteOrganizationQuota(req.tx, req.caller.actor(), quota)
	})
}

func (a *API) applyOrganizationQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readRelations(r)
	if err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		quota, err := find(req.caller, req.tx.OrganizationQuotas(), web.Param(r, "guid"), "Organization quota")
		if err != nil {
			return nil, err
		}
		orgs, err := related(req, req.tx.Organizations(), body, "Organizations")
		if err != nil {
			return nil, err
		}
		if err := a.platform.ApplyOrganizationQuota(req.tx, req.caller.actor(), quota, orgs); err != nil {
			return nil, err
		}
		applied, err := appliedPlaces(req, req.tx.Organizations(), []string{quota.GUID}, func(o *platform.Organization) string { return o.QuotaGUID })
		return applied.body(req, quota.GUID), err
	})
}

// applied are the guids of the organizations or spaces that the caller may see, by
// quota.
type applied map[string][]string

func appliedPlaces[T any](req *request, repo platform.Repo[T], quotas []string, quotaOf func(*T) string) (applied, error) {
	found, _, err := repo.List(platform.Query{Reader: req.caller.Reader(), Where: []platform.Cond{platform.InStrings("quota_guid", quotas)}})
	out := applied{}
	for _, place := range found {
		quota := quotaOf(place)
		out[quota] = append(out[quota], any(place).(interface{ Base() *platform.Resource }).Base().GUID)
	}
	return out, err
}

// body presents the relationship of a quota.
func (to applied) body(req *request, quota string) any {
	return map[string]any{"data": toMany(to[quota]).Data, "links": links{"self": href(req.base, req.r.URL.Path)}}
}

// spaceQuotaFor returns the space quota of the path if the caller manages its
// organization.
func (a *API) spaceQuotaFor(req *request) (*platform.SpaceQuota, error) {
	quota, err := find(req.caller, req.tx.SpaceQuotas(), web.Param(req.r, "guid"), "Space quota")
	if err != nil {
		return nil, err
	}
	return quota, req.caller.managesOrg(req.tx, quota.OrgGUID)
}

func (a *API) createSpaceQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readQuota(r, true, false, true)
	if err != nil {
		return err
	}
	if body.Domains != nil {
		return fault.Invalid("Unknown field(s): 'domains'")
	}
	if body.Relationships == nil || body.Relationships.Organization == nil || body.Relationships.Organization.Data == nil {
		return fault.Invalid("Relationships Organization must be structured like this: \"organization: {\"data\": {\"guid\": \"valid-guid\"}}\"")
	}
	return answer(a, w, r, spaceQuotas, http.StatusCreated, func(req *request) (*platform.SpaceQuota, error) {
		quota := &platform.SpaceQuota{OrgGUID: body.Relationships.Organization.Data.GUID, Limits: platform.Limits{PaidServices: true}}
		body.apply(&quota.Name, &quota.Limits)
		if _, err := find(req.caller, req.tx.Organizations(), quota.OrgGUID, "Organization"); err != nil {
			return nil, notAccessible(err, "Organization with guid '"+quota.OrgGUID+"' does not exist, or you do not have access to it.")
		}
		if err := req.caller.managesOrg(req.tx, quota.OrgGUID); err != nil {
			return nil, err
		}
		to, err := related(req, req.tx.Spaces(), body.Relationships.Spaces, "Spaces")
		if err != nil {
			return nil, err
		}
		return quota, a.platform.CreateSpaceQuota(req.tx, req.caller.actor(), quota, to)
	})
}

func (a *API) updateSpaceQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readQuota(r, false, false, false)
	if err != nil {
		return err
	}
	if body.Domains != nil {
		return fault.Invalid("Unknown field(s): 'domains'")
	}
	return answer(a, w, r, spaceQuotas, http.StatusOK, func(req *request) (*platform.SpaceQuota, error) {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return nil, err
		}
		body.apply(&quota.Name, &quota.Limits)
		return quota, a.platform.UpdateSpaceQuota(req.tx, req.caller.actor(), quota)
	})
}

func (a *API) deleteSpaceQuota(w http.ResponseWriter, r *http.Request) error {
	return a.finish(w, r, "space_quota.delete", func(req *request) error {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return err
		}
		return a.platform.DeleteSpaceQuota(req.tx, req.caller.actor(), quota)
	})
}

func (a *API) applySpaceQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readRelations(r)
	if err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return nil, err
		}
		to, err := related(req, req.tx.Spaces(), body, "Spaces")
		if err != nil {
			return nil, err
		}
		if err := a.platform.ApplySpaceQuota(req.tx, req.caller.actor(), quota, to); err != nil {
			return nil, err
		}
		applied, err := appliedPlaces(req, req.tx.Spaces(), []string{quota.GUID}, func(s *platform.Space) string { return s.QuotaGUID })
		return applied.body(req, quota.GUID), err
	})
}

func (a *API) removeSpaceQuota(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return nil, err
		}
		space, err := find(req.caller, req.tx.Spaces(), web.Param(r, "space"), "Space")
		if err != nil {
			return nil, notAccessible(err, "Unable to remove quota from space with guid '"+web.Param(r, "space")+"'. Ensure the space quota is applied to this space.")
		}
		return nil, a.platform.RemoveSpaceQuota(req.tx, req.caller.actor(), quota, space)
	})
}

type quotaBody struct {
	resourceBody
	Name          string         `json:"name"`
	Apps          map[string]any `json:"apps"`
	Services      map[string]any `json:"services"`
	Routes        map[string]any `json:"routes"`
	Domains       map[string]any `json:"domains,omitempty"`
	Relationships map[string]any `json:"relationships"`
	Links         links          `json:"links"`
}

func presentQuota(r *platform.Resource, name string, l platform.Limits) quotaBody {
	return quotaBody{
		resourceBody: presentResource(r), Name: name,
		Apps: map[string]any{
			"total_memory_in_mb": l.MemoryMB, "per_process_memory_in_mb": l.ProcessMemoryMB, "total_instances": l.Instances, "per_app_tasks": l.Tasks,
			"log_rate_limit_in_bytes_per_second": l.LogRate,
		},
		Services: map[string]any{"paid_services_allowed": l.PaidServices, "total_service_instances": l.ServiceInstances, "total_service_keys": l.ServiceKeys},
		Routes:   map[string]any{"total_routes": l.Routes, "total_reserved_ports": l.ReservedPorts},
	}
}

func presentOrganizationQuotas(req *request, items []*platform.OrganizationQuota) ([]quotaBody, error) {
	to, err := appliedPlaces(req, req.tx.Organizations(), guidsOf(items, func(q *platform.OrganizationQuota) string { return q.GUID }), func(o *platform.Organization) string { return o.QuotaGUID })
	return presentAll(items, func(q *platform.OrganizationQuota) quotaBody {
		b := presentQuota(&q.Resource, q.Name, q.Limits)
		b.Domains = map[string]any{"total_domains": q.Limits.Domains}
		b.Relationships = map[string]any{"organizations": toMany(slices.Clone(to[q.GUID]))}
		b.Links = links{"self": req.v3("/organization_quotas/", escape(q.GUID))}
		return b
	}), err
}

func presentSpaceQuotas(req *request, items []*platform.SpaceQuota) ([]quotaBody, error) {
	to, err := appliedPlaces(req, req.tx.Spaces(), guidsOf(items, func(q *platform.SpaceQuota) string { return q.GUID }), func(s *platform.Space) string { return s.QuotaGUID })
	return presentAll(items, func(q *platform.SpaceQuota) quotaBody {
		b := presentQuota(&q.Resource, q.Name, q.Limits)
		b.Relationships = map[string]any{"organization": toOne(q.OrgGUID), "spaces": toMany(to[q.GUID])}
		b.Links = links{"self": req.v3("/space_quotas/", escape(q.GUID)), "organization": req.v3("/organizations/", escape(q.OrgGUID))}
		return b
	}), err
}
