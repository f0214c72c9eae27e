package orgs

import (
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// Spaces are the spaces; other resources include them.
var Spaces = rest.Resource[platform.Space, spaceBody]{
	Noun: "Space", Repo: platform.Tx.Spaces, Present: presentSpaces,
	List: listing.Params{
		Filters:  listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")},
		Orders:   []string{"name"},
		Includes: []string{"org", "organization"},
	},
	Include: rest.IncludeBy(map[string]rest.Includer[platform.Space]{"org": orgOfSpace, "organization": orgOfSpace}),
}

var orgOfSpace = rest.Referred("organizations", Organizations, func(s *platform.Space) string { return s.OrgGUID })

func (a *API) spaceRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/spaces", rest.Read, Spaces.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/spaces", rest.Write, rest.Creator(a.Server, Spaces, a.createSpace))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}", rest.Read, Spaces.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/spaces/{guid}", rest.Write, rest.Updater(a.Server, Spaces, a.updateSpace))
	g.Handle(http.MethodDelete, "/v3/spaces/{guid}", rest.Write,
		rest.JobDeleter(a.Server, "space.delete", rest.SpaceFor(platform.ManageOrganization), a.Services.DeleteSpace))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/usage_summary", rest.Read, usageOf(a, Spaces, "space_guid"))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/features", rest.Read,
		rest.Viewer(a.Server, Spaces.Find, listSpaceFeatures))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/features/{name}", rest.Read,
		rest.Viewer(a.Server, Spaces.Find, getSpaceFeature))
	g.Handle(http.MethodPatch, "/v3/spaces/{guid}/features/{name}", rest.Write,
		rest.Changer(a.Server, rest.ReadFeature, rest.SpaceFor(platform.ManageSpace), a.setSpaceFeature))
}

type spaceRequest struct {
	Name          *string                `json:"name"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Organization rest.Relation `json:"organization"`
	} `json:"relationships"`
}

func (a *API) createSpace(req *rest.Request, body *spaceRequest) (*platform.Space, error) {
	if body.Relationships == nil || body.Relationships.Organization.Data == nil {
		return nil, fault.Invalid("Relationships 'relationships' must include 'organization'")
	}
	space := &platform.Space{OrgGUID: body.Relationships.Organization.Data.GUID}
	if err := describe(&space.Name, body.Name, &space.Metadata, body.Metadata); err != nil {
		return nil, err
	}
	if _, err := rest.Find(req.Caller, req.Tx.Organizations(), space.OrgGUID, "Organization"); err != nil {
		return nil, rest.NotAccessible(err,
			"Invalid organization. Ensure the organization exists and you have access to it.")
	}
	if err := req.Caller.ManagesOrg(req.Tx, space.OrgGUID); err != nil {
		return nil, err
	}
	return space, a.Platform.CreateSpace(req.Tx, req.Caller.Actor(), space)
}

func (a *API) updateSpace(req *rest.Request, body *spaceRequest) (*platform.Space, error) {
	if body.Relationships != nil {
		return nil, fault.Invalid("Unknown field(s): 'relationships'")
	}
	space, err := req.Space(platform.ManageSpace)
	if err != nil {
		return nil, err
	}
	if err := describe(&space.Name, body.Name, &space.Metadata, body.Metadata); err != nil {
		return nil, err
	}
	return space, a.Platform.UpdateSpace(req.Tx, req.Caller.Actor(), space)
}

type spaceBody struct {
	rest.ResourceBody
	Name          string         `json:"name"`
	Suspended     bool           `json:"suspended"`
	Relationships map[string]any `json:"relationships"`
	Metadata      rest.Metadata  `json:"metadata"`
	Links         rest.Links     `json:"links"`
}

// presentSpaces reads the organizations of all spaces of the page at once: a space is
// suspended if its organization is.
func presentSpaces(req *rest.Request, items []*platform.Space) ([]spaceBody, error) {
	orgs, _, err := req.Tx.Organizations().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", rest.GUIDsOf(items, func(s *platform.Space) string { return s.OrgGUID })),
		platform.In("suspended", true),
	}})
	if err != nil {
		return nil, err
	}
	return rest.PresentAll(items, func(s *platform.Space) spaceBody {
		b := presentSpace(req, s)
		b.Suspended = slices.ContainsFunc(orgs, func(o *platform.Organization) bool { return o.GUID == s.OrgGUID })
		return b
	}), nil
}

func presentSpace(req *rest.Request, s *platform.Space) spaceBody {
	self := "/spaces/" + rest.Escape(s.GUID)
	b := spaceBody{
		ResourceBody: rest.PresentResource(&s.Resource), Name: s.Name, Metadata: rest.PresentMetadata(&s.Metadata),
		Relationships: map[string]any{"organization": rest.ToOne(s.OrgGUID), "quota": rest.ToOne(s.QuotaGUID)},
		Links: rest.Links{
			"self": req.Link(self), "organization": req.Link("/organizations/", rest.Escape(s.OrgGUID)),
			"features":       req.Link(self, "/features"),
			"apply_manifest": {Href: req.Link(self, "/actions/apply_manifest").Href, Method: http.MethodPost},
		},
	}
	if s.QuotaGUID != "" {
		b.Links["quota"] = req.Link("/space_quotas/", rest.Escape(s.QuotaGUID))
	}
	return b
}

func sshFeature(s *platform.Space) rest.Feature {
	return rest.Feature{Name: "ssh", Description: "Enable SSHing into apps in the space.", Enabled: s.SSHAllowed}
}

func listSpaceFeatures(_ *rest.Request, space *platform.Space) (any, error) {
	return map[string]any{"resources": []rest.Feature{sshFeature(space)}}, nil
}

func getSpaceFeature(req *rest.Request, space *platform.Space) (any, error) {
	if req.Param("name") != "ssh" {
		return nil, fault.New(fault.NotFound, "Feature not found")
	}
	return sshFeature(space), nil
}

func (a *API) setSpaceFeature(req *rest.Request, space *platform.Space, enabled bool) (any, error) {
	space.SSHAllowed = enabled
	if shown, err := getSpaceFeature(req, space); err != nil {
		return shown, err
	}
	return sshFeature(space), a.Platform.UpdateSpace(req.Tx, req.Caller.Actor(), space)
}

// Places include the space that spaceOf returns, its organization, or both.
func Places[T any](spaceOf func(*T) string) map[string]rest.Includer[T] {
	space := rest.Referred("spaces", Spaces, spaceOf)
	org := func(req *rest.Request, items []*T) (map[string]any, error) {
		inside, err := rest.Named(req.Tx.Spaces(), rest.GUIDsOf(items, spaceOf))
		if err != nil {
			return nil, err
		}
		return orgOfSpace(req, inside)
	}
	both := func(req *rest.Request, items []*T) (map[string]any, error) {
		out, err := space(req, items)
		if err != nil {
			return nil, err
		}
		more, err := org(req, items)
		maps.Copy(out, more)
		return out, err
	}
	return map[string]rest.Includer[T]{"space": space, "org": org, "space.organization": both}
}
