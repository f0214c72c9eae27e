package orgs

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
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
	g.Handle(http.MethodPost, "/v3/organization_quotas", rest.Admin,
		rest.Creator(a.Server, organizationQuotas, a.createOrganizationQuota))
	g.Handle(http.MethodGet, "/v3/organization_quotas/{guid}", rest.Read, organizationQuotas.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/organization_quotas/{guid}", rest.Admin,
		rest.Updater(a.Server, organizationQuotas, a.updateOrganizationQuota))
	g.Handle(http.MethodDelete, "/v3/organization_quotas/{guid}", rest.Admin,
		rest.Deleter(a.Server, "organization_quota.delete", organizationQuotas.Find, a.Platform.DeleteOrganizationQuota))
	g.Handle(http.MethodPost, "/v3/organization_quotas/{guid}/relationships/organizations", rest.Admin,
		quotaApplier(a, organizationQuotas.Find, Organizations, a.Platform.ApplyOrganizationQuota, quotaOfOrg))

	g.Handle(http.MethodGet, "/v3/space_quotas", rest.Read,
		spaceQuotas.ListerWhere(a.Server, rest.AppliedTo(Spaces, "space_guids", "space_guid")))
	g.Handle(http.MethodPost, "/v3/space_quotas", rest.Write,
		rest.Creator(a.Server, spaceQuotas, a.createSpaceQuota))
	g.Handle(http.MethodGet, "/v3/space_quotas/{guid}", rest.Read, spaceQuotas.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/space_quotas/{guid}", rest.Write,
		rest.Updater(a.Server, spaceQuotas, a.updateSpaceQuota))
	g.Handle(http.MethodDelete, "/v3/space_quotas/{guid}", rest.Write,
		rest.Deleter(a.Server, "space_quota.delete", a.spaceQuotaFor, a.Platform.DeleteSpaceQuota))
	g.Handle(http.MethodPost, "/v3/space_quotas/{guid}/relationships/spaces", rest.Write,
		quotaApplier(a, a.spaceQuotaFor, Spaces, a.Platform.ApplySpaceQuota, quotaOfSpace))
	g.Handle(http.MethodDelete, "/v3/space_quotas/{guid}/relationships/spaces/{space}", rest.Write,
		rest.Remover(a.Server, a.spaceQuotaFor, a.removeSpaceQuota))
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
	web.Set(name, b.Name)
	setLimit(&l.MemoryMB, b.Apps.MemoryMB)
	setLimit(&l.ProcessMemoryMB, b.Apps.ProcessMemoryMB)
	setLimit(&l.Instances, b.Apps.Instances)
	setLimit(&l.Tasks, b.Apps.Tasks)
	setLimit(&l.LogRate, b.Apps.LogRate)
	setLimit(&l.ServiceInstances, b.Services.Instances)
	setLimit(&l.ServiceKeys, b.Services.Keys)
	setLimit(&l.Routes, b.Routes.Routes)
	setLimit(&l.ReservedPorts, b.Routes.Ports)
	web.Set(&l.PaidServices, b.Services.Paid)
	if b.Domains != nil {
		setLimit(&l.Domains, b.Domains.Domains)
	}
}

// check refuses relationships other than the allowed ones.
func (b *quotaRequest) check(allowed ...string) error {
	if b.Relationships == nil {
		return nil
	}
	for name, given := range map[string]bool{
		"organization":  b.Relationships.Organization != nil,
		"organizations": b.Relationships.Organizations != nil,
		"spaces":        b.Relationships.Spaces != nil,
	} {
		if given && !slices.Contains(allowed, name) {
			return fault.Invalid("Relationships Unknown field(s): '" + name + "'")
		}
	}
	if len(allowed) == 0 {
		return fault.Invalid("Unknown field(s): 'relationships'")
	}
	return nil
}

func (a *API) createOrganizationQuota(req *rest.Request, body *quotaRequest) (*platform.OrganizationQuota, error) {
	if err := body.check("organizations"); err != nil {
		return nil, err
	}
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
}

func (a *API) updateOrganizationQuota(req *rest.Request, body *quotaRequest) (*platform.OrganizationQuota, error) {
	if err := body.check(); err != nil {
		return nil, err
	}
	quota, err := organizationQuotas.Find(req)
	if err != nil {
		return nil, err
	}
	body.apply(&quota.Name, &quota.Limits)
	return quota, a.Platform.UpdateOrganizationQuota(req.Tx, req.Caller.Actor(), quota)
}

// quotaApplier applies the quota that find returns to the organizations or spaces of the body.
func quotaApplier[T, P, B any](a *API, find func(*rest.Request) (*T, error), places rest.Resource[P, B],
	apply func(platform.Tx, actions.Actor, *T, []*P) error, quotaOf func(*P) string,
) web.Handler {
	return rest.Changer(a.Server, rest.ReadRelations, find,
		func(req *rest.Request, quota *T, body *rest.Relations) (any, error) {
			to, err := rest.Related(req, places.Repo(req.Tx), body, places.Noun+"s")
			if err != nil {
				return nil, err
			}
			if err := apply(req.Tx, req.Caller.Actor(), quota, to); err != nil {
				return nil, err
			}
			guid := req.Param("guid")
			applied, err := appliedPlaces(req, places.Repo(req.Tx), []string{guid}, quotaOf)
			return req.Relationship(applied[guid]), err
		})
}

func quotaOfOrg(o *platform.Organization) string { return o.QuotaGUID }

func quotaOfSpace(s *platform.Space) string { return s.QuotaGUID }

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

// spaceQuotaFor returns the space quota of the path if the caller manages its
// organization.
func (a *API) spaceQuotaFor(req *rest.Request) (*platform.SpaceQuota, error) {
	quota, err := spaceQuotas.Find(req)
	if err != nil {
		return nil, err
	}
	return quota, req.Caller.ManagesOrg(req.Tx, quota.OrgGUID)
}

// checkOfSpace is like check, for space quotas: domains belong to organizations.
func (b *quotaRequest) checkOfSpace(allowed ...string) error {
	if err := b.check(allowed...); err != nil {
		return err
	}
	if b.Domains != nil {
		return fault.Invalid("Unknown field(s): 'domains'")
	}
	return nil
}

func (a *API) createSpaceQuota(req *rest.Request, body *quotaRequest) (*platform.SpaceQuota, error) {
	if err := body.checkOfSpace("organization", "spaces"); err != nil {
		return nil, err
	}
	if body.Relationships == nil || body.Relationships.Organization == nil || body.Relationships.Organization.Data == nil {
		return nil, fault.Invalid("Relationships Organization must be structured like this: \"organization: {\"data\": " +
			"{\"guid\": \"valid-guid\"}}\"")
	}
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
}

func (a *API) updateSpaceQuota(req *rest.Request, body *quotaRequest) (*platform.SpaceQuota, error) {
	if err := body.checkOfSpace(); err != nil {
		return nil, err
	}
	quota, err := a.spaceQuotaFor(req)
	if err != nil {
		return nil, err
	}
	body.apply(&quota.Name, &quota.Limits)
	return quota, a.Platform.UpdateSpaceQuota(req.Tx, req.Caller.Actor(), quota)
}

func (a *API) removeSpaceQuota(req *rest.Request, quota *platform.SpaceQuota) error {
	space, err := rest.Find(req.Caller, req.Tx.Spaces(), req.Param("space"), "Space")
	if err != nil {
		return rest.NotAccessible(err, "Unable to remove quota from space with guid '"+req.Param("space")+
			"'. Ensure the space quota is applied to this space.")
	}
	return a.Platform.RemoveSpaceQuota(req.Tx, req.Caller.Actor(), quota, space)
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
		rest.GUIDsOf(items, func(q *platform.OrganizationQuota) string { return q.GUID }), quotaOfOrg)
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
		rest.GUIDsOf(items, func(q *platform.SpaceQuota) string { return q.GUID }), quotaOfSpace)
	return rest.PresentAll(items, func(q *platform.SpaceQuota) quotaBody {
		b := presentQuota(&q.Resource, q.Name, q.Limits)
		b.Relationships = map[string]any{"organization": rest.ToOne(q.OrgGUID), "spaces": rest.ToMany(to[q.GUID])}
		b.Links = rest.Links{"self": req.Link("/space_quotas/", rest.Escape(q.GUID)),
			"organization": req.Link("/organizations/", rest.Escape(q.OrgGUID))}
		return b
	}), err
}
