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
	Include: func(req *rest.Request, l *listing.Request, items []*platform.Space) (map[string]any, error) {
		if len(l.Include) == 0 {
			return nil, nil
		}
		return rest.Included(req, "organizations", Organizations,
			rest.GUIDsOf(items, func(s *platform.Space) string { return s.OrgGUID }))
	},
}

func (a *API) spaceRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/spaces", rest.Read, Spaces.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/spaces", rest.Write, a.createSpace)
	g.Handle(http.MethodGet, "/v3/spaces/{guid}", rest.Read, Spaces.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/spaces/{guid}", rest.Write, a.updateSpace)
	g.Handle(http.MethodDelete, "/v3/spaces/{guid}", rest.Write, a.deleteSpace)
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/usage_summary", rest.Read, usageOf(a, Spaces, "space_guid"))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/features", rest.Read, a.listSpaceFeatures)
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/features/{name}", rest.Read, a.getSpaceFeature)
	g.Handle(http.MethodPatch, "/v3/spaces/{guid}/features/{name}", rest.Write, a.setSpaceFeature)
}

type spaceRequest struct {
	Name          *string                `json:"name"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Organization rest.Relation `json:"organization"`
	} `json:"relationships"`
}

func (b *spaceRequest) apply(s *platform.Space) error {
	if b.Name != nil {
		s.Name = *b.Name
	}
	if err := b.Metadata.Apply(&s.Metadata); err != nil {
		return err
	}
	return platform.CheckTenantName(s.Name)
}

func (a *API) createSpace(w http.ResponseWriter, r *http.Request) error {
	var body spaceRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships == nil || body.Relationships.Organization.Data == nil {
		return fault.Invalid("Relationships 'relationships' must include 'organization'")
	}
	return rest.Answer(a.Server, w, r, Spaces, http.StatusCreated, func(req *rest.Request) (*platform.Space, error) {
		space := &platform.Space{OrgGUID: body.Relationships.Organization.Data.GUID}
		if err := body.apply(space); err != nil {
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
	})
}

func (a *API) updateSpace(w http.ResponseWriter, r *http.Request) error {
	var body spaceRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships != nil {
		return fault.Invalid("Unknown field(s): 'relationships'")
	}
	return rest.Answer(a.Server, w, r, Spaces, http.StatusOK, func(req *rest.Request) (*platform.Space, error) {
		space, err := req.Space(platform.ManageSpace)
		if err != nil {
			return nil, err
		}
		if err := body.apply(space); err != nil {
			return nil, err
		}
		return space, a.Platform.UpdateSpace(req.Tx, req.Caller.Actor(), space)
	})
}

func (a *API) deleteSpace(w http.ResponseWriter, r *http.Request) error {
	var gone []string
	defer func() { a.Signals.AppsChanged(gone...) }()
	return a.Conclude(w, r, "space.delete", func(req *rest.Request) (*platform.Job, error) {
		space, err := req.Space(platform.ManageOrganization)
		if err != nil {
			return nil, err
		}
		if gone, err = appsOf(req.Tx, "space_guid", space.GUID); err != nil {
			return nil, err
		}
		return a.Services.DeleteSpace(req.Tx, req.Caller.Actor(), space)
	})
}

// appsOf returns the guids of the apps of a space or organization.
func appsOf(tx platform.Tx, field, guid string) ([]string, error) {
	apps, _, err := tx.Apps().List(platform.Where(field, guid))
	return rest.GUIDsOf(apps, func(app *platform.App) string { return app.GUID }), err
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

func (a *API) listSpaceFeatures(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		space, err := Spaces.Find(req)
		if err != nil {
			return nil, err
		}
		return map[string]any{"resources": []rest.Feature{sshFeature(space)}}, nil
	})
}

func (a *API) getSpaceFeature(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		space, err := Spaces.Find(req)
		if err == nil && web.Param(r, "name") != "ssh" {
			err = fault.New(fault.NotFound, "Feature not found")
		}
		if err != nil {
			return nil, err
		}
		return sshFeature(space), nil
	})
}

func (a *API) setSpaceFeature(w http.ResponseWriter, r *http.Request) error {
	enabled, err := rest.ReadFeature(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		space, err := req.Space(platform.ManageSpace)
		if err == nil && web.Param(r, "name") != "ssh" {
			err = fault.New(fault.NotFound, "Feature not found")
		}
		if err != nil {
			return nil, err
		}
		space.SSHAllowed = enabled
		return sshFeature(space), a.Platform.UpdateSpace(req.Tx, req.Caller.Actor(), space)
	})
}

// IncludePlaces includes the spaces of resources and their organizations if the
// request asks for them.
func IncludePlaces(req *rest.Request, l *listing.Request, spaceGUIDs []string) (map[string]any, error) {
	asks := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(l.Include, n) })
	}
	out := map[string]any{}
	if asks("space", "space.organization") {
		more, err := rest.Included(req, "spaces", Spaces, spaceGUIDs)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, more)
	}
	if asks("org", "space.organization") {
		inside, _, err := req.Tx.Spaces().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", spaceGUIDs)}})
		if err != nil {
			return nil, err
		}
		more, err := rest.Included(req, "organizations", Organizations,
			rest.GUIDsOf(inside, func(s *platform.Space) string { return s.OrgGUID }))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, more)
	}
	return out, nil
}
