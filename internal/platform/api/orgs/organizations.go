package orgs

import (
	"cmp"
	"net/http"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// Organizations are the organizations; other resources include them.
var Organizations = rest.Resource[platform.Organization, organizationBody]{
	Noun: "Organization", Repo: platform.Tx.Organizations, Present: rest.Each(presentOrganization),
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name")}, Orders: []string{"name"}},
}

func (a *API) organizationRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/organizations", rest.Read, Organizations.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/organizations", rest.Write, rest.Creator(a.Server, Organizations, a.createOrganization))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}", rest.Read, Organizations.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/organizations/{guid}", rest.Write,
		rest.Updater(a.Server, Organizations, a.updateOrganization))
	g.Handle(http.MethodDelete, "/v3/organizations/{guid}", rest.Admin,
		rest.JobDeleter(a.Server, "organization.delete", Organizations.Find, a.Services.DeleteOrganization))
	g.Handle(http.MethodGet, "/v3/organizations/{guid}/usage_summary", rest.Read,
		usageOf(a, Organizations, "organization_guid"))
	g.Handle(http.MethodGet, "/v3/info/usage_summary", web.Scope(platform.ReadAllScopes...), a.platformUsage)
}

type organizationRequest struct {
	Name      *string                `json:"name"`
	Suspended *bool                  `json:"suspended"`
	Metadata  *actions.MetadataPatch `json:"metadata"`
}

func (b *organizationRequest) apply(o *platform.Organization) error {
	web.Set(&o.Suspended, b.Suspended)
	return describe(&o.Name, b.Name, &o.Metadata, b.Metadata)
}

// describe sets the name and the metadata of an organization or space.
func describe(name, to *string, m *platform.Metadata, patch *actions.MetadataPatch) error {
	web.Set(name, to)
	if err := patch.Apply(m); err != nil {
		return err
	}
	return platform.CheckTenantName(*name)
}

func (a *API) createOrganization(req *rest.Request, body *organizationRequest) (*platform.Organization, error) {
	org := &platform.Organization{}
	if err := body.apply(org); err != nil {
		return nil, err
	}
	if !req.Caller.Admin {
		if on, err := rest.FlagOn(req.Tx, "user_org_creation"); err != nil || !on {
			return nil, cmp.Or(err, platform.Forbidden())
		}
	}
	return org, a.Platform.CreateOrganization(req.Tx, req.Caller.Actor(), org)
}

func (a *API) updateOrganization(req *rest.Request, body *organizationRequest) (*platform.Organization, error) {
	org, err := Organizations.Find(req)
	if err != nil {
		return nil, err
	}
	if err := req.Caller.ManagesOrg(req.Tx, org.GUID); err != nil {
		return nil, err
	}
	if body.Suspended != nil && *body.Suspended != org.Suspended && !req.Caller.Admin {
		return nil, platform.Forbidden()
	}
	if err := body.apply(org); err != nil {
		return nil, err
	}
	return org, a.Platform.UpdateOrganization(req.Tx, req.Caller.Actor(), org)
}

// usageOf responds with the usage of an organization or space.
func usageOf[T, B any](a *API, place rest.Resource[T, B], field string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.Show(w, r, func(req *rest.Request) (any, error) {
			if _, err := place.Find(req); err != nil {
				return nil, err
			}
			u, err := actions.UsageOf(req.Tx, field, web.Param(r, "guid"))
			path := strings.TrimSuffix(r.URL.Path, "/usage_summary")
			links := rest.Links{"self": rest.Href(req.Base, r.URL.Path), strings.ToLower(place.Noun): rest.Href(req.Base, path)}
			return usageBody(u, links), err
		})
	}
}

// platformUsage responds with the usage of the whole platform.
func (a *API) platformUsage(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		u, err := actions.UsageOf(req.Tx, "", "")
		return usageBody(u, rest.Links{"self": rest.Href(req.Base, r.URL.Path)}), err
	})
}

func usageBody(u actions.Usage, l rest.Links) any {
	return map[string]any{"links": l, "usage_summary": map[string]int{
		"started_instances": u.Instances, "memory_in_mb": u.MemoryMB, "routes": u.Routes, "domains": u.Domains,
		"service_instances": u.ServiceInstances, "reserved_ports": u.ReservedPorts, "per_app_tasks": u.Tasks,
		"service_keys": u.ServiceKeys,
	}}
}

type organizationBody struct {
	rest.ResourceBody
	Name          string         `json:"name"`
	Suspended     bool           `json:"suspended"`
	Relationships map[string]any `json:"relationships"`
	Metadata      rest.Metadata  `json:"metadata"`
	Links         rest.Links     `json:"links"`
}

func presentOrganization(req *rest.Request, o *platform.Organization) organizationBody {
	self := "/organizations/" + rest.Escape(o.GUID)
	b := organizationBody{
		ResourceBody: rest.PresentResource(&o.Resource), Name: o.Name, Suspended: o.Suspended,
		Metadata:      rest.PresentMetadata(&o.Metadata),
		Relationships: map[string]any{"quota": rest.ToOne(o.QuotaGUID)},
		Links: rest.Links{"self": req.Link(self), "domains": req.Link(self, "/domains"),
			"default_domain": req.Link(self, "/domains/default")},
	}
	if o.QuotaGUID != "" {
		b.Links["quota"] = req.Link("/organization_quotas/", rest.Escape(o.QuotaGUID))
	}
	return b
}
