package orgs

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var organizationQuotas = rest.Resource[platform.OrganizationQuota, quotaBody]{
	Noun: "Organization quota", Repo: platform.Tx.OrganizationQuotas, Present: presentOrganizationQuotas,
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name")}, Orders: []string{"name"},
		Extra: []string{"organization_guids"}, NoLabels: true},
}

var spaceQuotas = rest.Resource[platform.SpaceQuota, quotaBody]{
	Noun: "Space quota", Repo: platform.Tx.SpaceQuotas, Present: presentSpaceQuotas,
	List: listing.Params{
		Filters: listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")},
		Orders:  []string{"name"}, Extra: []string{"space_guids"}, NoLabels: true,
	},
}

func (a *API) quotaRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/organization_quotas", rest.Read,
		organizationQuotas.ListerWhere(a.Server, rest.AppliedTo(Organizations, "organization_guids", "organization_guid")))
	g.Handle(http.MethodPost, "/v3/organization_quotas", rest.Admin, a.createOrganizationQuota)
	g.Handle(http.MethodGet, "/v3/organization_quotas/{guid}", rest.Read, organizationQuotas.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/organization_quotas/{guid}", rest.Admin, a.updateOrganizationQuota)
	g.Handle(http.MethodDelete, "/v3/organization_quotas/{guid}", rest.Admin,
		rest.Deleter(a.Server, "organization_quota.delete", organizationQuotas.Find, a.Platform.DeleteOrganizationQuota))
	g.Handle(http.MethodPost, "/v3/organization_quotas/{guid}/relationships/organizations", rest.Admin,
		a.applyOrganizationQuota)

	g.Handle(http.MethodGet, "/v3/space_quotas", rest.Read,
		spaceQuotas.ListerWhere(a.Server, rest.AppliedTo(Spaces, "space_guids", "space_guid")))
	g.Handle(http.MethodPost, "/v3/space_quotas", rest.Write, a.createSpaceQuota)
	g.Handle(http.MethodGet, "/v3/space_quotas/{guid}", rest.Read, spaceQuotas.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/space_quotas/{guid}", rest.Write, a.updateSpaceQuota)
	g.Handle(http.MethodDelete, "/v3/space_quotas/{guid}", rest.Write,
		rest.Deleter(a.Server, "space_quota.delete", a.spaceQuotaFor, a.Platform.DeleteSpaceQuota))
	g.Handle(http.MethodPost, "/v3/space_quotas/{guid}/relationships/spaces", rest.Write, a.applySpaceQuota)
	g.Handle(http.MethodDelete, "/v3/space_quotas/{guid}/relationships/spaces/{space}", rest.Write, a.removeSpaceQuota)
}

// quotaRequest is a request to create or update a quota. Null means no limit; absent
// members stay unchanged.
type quotaRequest struct {
	Name *string `json:"name"`
	Apps struct {
		MemoryMB        rest.Optional[rest.Whole[int]]   `json:"total_memory_in_mb"`
		ProcessMemoryMB rest.Optional[rest.Whole[int]]   `json:"per_process_memory_in_mb"`
		Instances       rest.Optional[rest.Whole[int]]   `json:"total_instances"`
		Tasks           rest.Optional[rest.Whole[int]]   `json:"per_app_tasks"`
		LogRate         rest.Optional[rest.Whole[int64]] `json:"log_rate_limit_in_bytes_per_second"`
	} `json:"apps"`
	Services struct {
		Paid      *bool                          `json:"paid_services_allowed"`
		Instances rest.Optional[rest.Whole[int]] `json:"total_service_instances"`
		Keys      rest.Optional[rest.Whole[int]] `json:"total_service_keys"`
	} `json:"services"`
	Routes struct {
		Routes rest.Optional[rest.Whole[int]] `json:"total_routes"`
		Ports  rest.Optional[rest.Whole[int]] `json:"total_reserved_ports"`
	} `json:"routes"`
	Domains *struct {
		Domains rest.Optional[rest.Whole[int]] `json:"total_domains"`
	} `json:"domains"`
	Relationships *struct {
		Organization  *rest.Relation  `json:"organization"`
		Organizations *rest.Relations `json:"organizations"`
		Spaces        *rest.Relations `json:"spaces"`
	} `json:"relationships"`
}

func setLimit[T int | int64](to **T, from rest.Optional[rest.Whole[T]]) {
	if !from.Set {
		return
	}
	*to = nil
	if from.Given {
		value := from.Value.Value
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
			"organization":  b.Relationships.Organization != nil && !organization,
			"organizations": b.Relationships.Organizations != nil && !organizations,
			"spaces":        b.Relationships.Spaces != nil && !spaces,
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
	return rest.Answer(a.Server, w, r, organizationQuotas, http.StatusCreated,
		func(req *rest.Request) (*platform.OrganizationQuota, error) {
			quota := &platform.OrganizationQuota{Limits: platform.Limits{PaidServices: true}}
			body.apply(&quota.Name, &quota.Limits)
			var orgs []*platform.Organization
			if body.Relationships != nil {
				var err error
				if orgs, err = rest.Related(req, req.Tx.Organizations(), body.Relationships.Organizations,
					"Organizations"); err != nil {
					return nil, err
				}
			}
			return quota, a.Platform.CreateOrganizationQuota(req.Tx, req.Caller.Actor(), quota, orgs)
		})
}

func (a *API) updateOrganizationQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := readQuota(r, false, false, false)
	if err != nil {
		return err
	}
	return rest.Answer(a.Server, w, r, organizationQuotas, http.StatusOK,
		func(req *rest.Request) (*platform.OrganizationQuota, error) {
			quota, err := organizationQuotas.Find(req)
			if err != nil {
				return nil, err
			}
			body.apply(&quota.Name, &quota.Limits)
			return quota, a.Platform.UpdateOrganizationQuota(req.Tx, req.Caller.Actor(), quota)
		})
}

func (a *API) applyOrganizationQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.ReadRelations(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		quota, err := organizationQuotas.Find(req)
		if err != nil {
			return nil, err
		}
		orgs, err := rest.Related(req, req.Tx.Organizations(), body, "Organizations")
		if err != nil {
			return nil, err
		}
		if err := a.Platform.ApplyOrganizationQuota(req.Tx, req.Caller.Actor(), quota, orgs); err != nil {
			return nil, err
		}
		applied, err := appliedPlaces(req, req.Tx.Organizations(), []string{quota.GUID},
			func(o *platform.Organization) string { return o.QuotaGUID })
		return applied.body(req, quota.GUID), err
	})
}

// applied are the guids of the organizations or spaces that the caller may see, by
// quota.
type applied map[string][]string

func appliedPlaces[T any](req *rest.Request, repo platform.Repo[T], quotas []string,
	quotaOf func(*T) string) (applied, error) {
	found, _, err := repo.List(platform.Query{Reader: req.Caller.Reader(),
		Where: []platform.Cond{platform.InStrings("quota_guid", quotas)}})
	out := applied{}
	for _, place := range found {
		quota := quotaOf(place)
		out[quota] = append(out[quota], any(place).(interface{ Base() *platform.Resource }).Base().GUID)
	}
	return out, err
}

// body presents the relationship of a quota.
func (to applied) body(req *rest.Request, quota string) any {
	return map[string]any{"data": rest.ToMany(to[quota]).Data,
		"links": rest.Links{"self": rest.Href(req.Base, req.HTTP.URL.Path)}}
}

// spaceQuotaFor returns the space quota of the path if the caller manages its
// organization.
func (a *API) spaceQuotaFor(req *rest.Request) (*platform.SpaceQuota, error) {
	quota, err := spaceQuotas.Find(req)
	if err != nil {
		return nil, err
	}
	return quota, req.Caller.ManagesOrg(req.Tx, quota.OrgGUID)
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
		return fault.Invalid("Relationships Organization must be structured like this: \"organization: {\"data\": " +
			"{\"guid\": \"valid-guid\"}}\"")
	}
	return rest.Answer(a.Server, w, r, spaceQuotas, http.StatusCreated,
		func(req *rest.Request) (*platform.SpaceQuota, error) {
			quota := &platform.SpaceQuota{OrgGUID: body.Relationships.Organization.Data.GUID,
				Limits: platform.Limits{PaidServices: true}}
			body.apply(&quota.Name, &quota.Limits)
			if _, err := rest.Find(req.Caller, req.Tx.Organizations(), quota.OrgGUID, "Organization"); err != nil {
				return nil, rest.NotAccessible(err, "Organization with guid '"+quota.OrgGUID+
					"' does not exist, or you do not have access to it.")
			}
			if err := req.Caller.ManagesOrg(req.Tx, quota.OrgGUID); err != nil {
				return nil, err
			}
			to, err := rest.Related(req, req.Tx.Spaces(), body.Relationships.Spaces, "Spaces")
			if err != nil {
				return nil, err
			}
			return quota, a.Platform.CreateSpaceQuota(req.Tx, req.Caller.Actor(), quota, to)
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
	return rest.Answer(a.Server, w, r, spaceQuotas, http.StatusOK, func(req *rest.Request) (*platform.SpaceQuota, error) {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return nil, err
		}
		body.apply(&quota.Name, &quota.Limits)
		return quota, a.Platform.UpdateSpaceQuota(req.Tx, req.Caller.Actor(), quota)
	})
}

func (a *API) applySpaceQuota(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.ReadRelations(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return nil, err
		}
		to, err := rest.Related(req, req.Tx.Spaces(), body, "Spaces")
		if err != nil {
			return nil, err
		}
		if err := a.Platform.ApplySpaceQuota(req.Tx, req.Caller.Actor(), quota, to); err != nil {
			return nil, err
		}
		applied, err := appliedPlaces(req, req.Tx.Spaces(), []string{quota.GUID},
			func(s *platform.Space) string { return s.QuotaGUID })
		return applied.body(req, quota.GUID), err
	})
}

func (a *API) removeSpaceQuota(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		quota, err := a.spaceQuotaFor(req)
		if err != nil {
			return nil, err
		}
		space, err := rest.Find(req.Caller, req.Tx.Spaces(), web.Param(r, "space"), "Space")
		if err != nil {
			return nil, rest.NotAccessible(err, "Unable to remove quota from space with guid '"+web.Param(r, "space")+
				"'. Ensure the space quota is applied to this space.")
		}
		return nil, a.Platform.RemoveSpaceQuota(req.Tx, req.Caller.Actor(), quota, space)
	})
}

type quotaBody struct {
	rest.ResourceBody
	Name          string         `json:"name"`
	Apps          map[string]any `json:"apps"`
	Services      map[string]any `json:"services"`
	Routes        map[string]any `json:"routes"`
	Domains       map[string]any `json:"domains,omitempty"`
	Relationships map[string]any `json:"relationships"`
	Links         rest.Links     `json:"links"`
}

func presentQuota(r *platform.Resource, name string, l platform.Limits) quotaBody {
	return quotaBody{
		ResourceBody: rest.PresentResource(r), Name: name,
		Apps: map[string]any{
			"total_memory_in_mb": l.MemoryMB, "per_process_memory_in_mb": l.ProcessMemoryMB, "total_instances": l.Instances,
			"per_app_tasks":                      l.Tasks,
			"log_rate_limit_in_bytes_per_second": l.LogRate,
		},
		Services: map[string]any{"paid_services_allowed": l.PaidServices, "total_service_instances": l.ServiceInstances,
			"total_service_keys": l.ServiceKeys},
		Routes: map[string]any{"total_routes": l.Routes, "total_reserved_ports": l.ReservedPorts},
	}
}

func presentOrganizationQuotas(req *rest.Request, items []*platform.OrganizationQuota) ([]quotaBody, error) {
	to, err := appliedPlaces(req, req.Tx.Organizations(),
		rest.GUIDsOf(items, func(q *platform.OrganizationQuota) string { return q.GUID }),
		func(o *platform.Organization) string { return o.QuotaGUID })
	return rest.PresentAll(items, func(q *platform.OrganizationQuota) quotaBody {
		b := presentQuota(&q.Resource, q.Name, q.Limits)
		b.Domains = map[string]any{"total_domains": q.Limits.Domains}
		b.Relationships = map[string]any{"organizations": rest.ToMany(slices.Clone(to[q.GUID]))}
		b.Links = rest.Links{"self": req.Link("/organization_quotas/", rest.Escape(q.GUID))}
		return b
	}), err
}

func presentSpaceQuotas(req *rest.Request, items []*platform.SpaceQuota) ([]quotaBody, error) {
	to, err := appliedPlaces(req, req.Tx.Spaces(),
		rest.GUIDsOf(items, func(q *platform.SpaceQuota) string { return q.GUID }),
		func(s *platform.Space) string { return s.QuotaGUID })
	return rest.PresentAll(items, func(q *platform.SpaceQuota) quotaBody {
		b := presentQuota(&q.Resource, q.Name, q.Limits)
		b.Relationships = map[string]any{"organization": rest.ToOne(q.OrgGUID), "spaces": rest.ToMany(to[q.GUID])}
		b.Links = rest.Links{"self": req.Link("/space_quotas/", rest.Escape(q.GUID)),
			"organization": req.Link("/organizations/", rest.Escape(q.OrgGUID))}
		return b
	}), err
}
