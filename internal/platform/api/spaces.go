package api

import (
	"maps"
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var spaces = resource[platform.Space, spaceBody]{
	noun: "Space", repo: platform.Tx.Spaces, present: presentSpaces,
	list: listing.Params{
		Filters:  listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")},
		Orders:   []string{"name"},
		Includes: []string{"org", "organization"},
	},
	include: func(req *request, l *listing.Request, items []*platform.Space) (map[string]any, error) {
		if len(l.Include) == 0 {
			return nil, nil
		}
		return included(req, "organizations", organizations, guidsOf(items, func(s *platform.Space) string { return s.OrgGUID }))
	},
}

func (a *API) spaceRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/spaces", web.Scope(readers...), spaces.lister(a))
	g.Handle(http.MethodPost, "/v3/spaces", web.Scope(writers...), a.createSpace)
	g.Handle(http.MethodGet, "/v3/spaces/{guid}", web.Scope(readers...), spaces.getter(a))
	g.Handle(http.MethodPatch, "/v3/spaces/{guid}", web.Scope(writers...), a.updateSpace)
	g.Handle(http.MethodDelete, "/v3/spaces/{guid}", web.Scope(writers...), a.deleteSpace)
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/usage_summary", web.Scope(readers...), usageOf(a, platform.Tx.Spaces, "Space", "space_guid"))
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/features", web.Scope(readers...), a.listSpaceFeatures)
	g.Handle(http.MethodGet, "/v3/spaces/{guid}/features/{name}", web.Scope(readers...), a.getSpaceFeature)
	g.Handle(http.MethodPatch, "/v3/spaces/{guid}/features/{name}", web.Scope(writers...), a.setSpaceFeature)
}

type spaceRequest struct {
	Name          *string                `json:"name"`
	Metadata      *actions.MetadataPatch `json:"metadata"`
	Relationships *struct {
		Organization relation `json:"organization"`
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
	return answer(a, w, r, spaces, http.StatusCreated, func(req *request) (*platform.Space, error) {
		space := &platform.Space{OrgGUID: body.Relationships.Organization.Data.GUID}
		if err := body.apply(space); err != nil {
			return nil, err
		}
		if _, err := find(req.caller, req.tx.Organizations(), space.OrgGUID, "Organization"); err != nil {
			return nil, notAccessible(err, "Invalid organization. Ensure the organization exists and you have access to it.")
		}
		if err := req.caller.managesOrg(req.tx, space.OrgGUID); err != nil {
			return nil, err
		}
		return space, a.platform.CreateSpace(req.tx, req.caller.actor(), space)
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
	return answer(a, w, r, spaces, http.StatusOK, func(req *request) (*platform.Space, error) {
		space, err := req.space(platform.ManageSpace)
		if err != nil {
			return nil, err
		}
		if err := body.apply(space); err != nil {
			return nil, err
		}
		return space, a.platform.UpdateSpace(req.tx, req.caller.actor(), space)
	})
}

func (a *API) deleteSpace(w http.ResponseWriter, r *http.Request) error {
	var gone []string
	defer func() { a.signals.AppsChanged(gone...) }()
	return a.conclude(w, r, "space.delete", func(req *request) (*platform.Job, error) {
		space, err := req.space(platform.ManageOrganization)
		if err != nil {
			return nil, err
		}
		if gone, err = appsOf(req.tx, "space_guid", space.GUID); err != nil {
			return nil, err
		}
		return a.services.DeleteSpace(req.tx, req.caller.actor(), space)
	})
}

// appsOf returns the guids of the apps of a space or organization.
func appsOf(tx platform.Tx, field, guid string) ([]string, error) {
	apps, _, err := tx.Apps().List(platform.Where(field, guid))
	return guidsOf(apps, func(app *platform.App) string { return app.GUID }), err
}

type spaceBody struct {
	resourceBody
	Name          string         `json:"name"`
	Suspended     bool           `json:"suspended"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

// presentSpaces reads the organizations of all spaces of the page at once: a space is
// suspended if its organization is.
func presentSpaces(req *request, items []*platform.Space) ([]spaceBody, error) {
	orgs, _, err := req.tx.Organizations().List(platform.Query{Where: []platform.Cond{
		platform.InStrings("guid", guidsOf(items, func(s *platform.Space) string { return s.OrgGUID })), platform.In("suspended", true),
	}})
	if err != nil {
		return nil, err
	}
	return presentAll(items, func(s *platform.Space) spaceBody {
		b := presentSpace(req, s)
		b.Suspended = slices.ContainsFunc(orgs, func(o *platform.Organization) bool { return o.GUID == s.OrgGUID })
		return b
	}), nil
}

func presentSpace(req *request, s *platform.Space) spaceBody {
	self := "/spaces/" + escape(s.GUID)
	b := spaceBody{
		resourceBody: presentResource(&s.Resource), Name: s.Name, Metadata: presentMetadata(&s.Metadata),
		Relationships: map[string]any{"organization": toOne(s.OrgGUID), "quota": toOne(s.QuotaGUID)},
		Links: links{
			"self": req.v3(self), "organization": req.v3("/organizations/", escape(s.OrgGUID)), "features": req.v3(self, "/features"),
			"apply_manifest": {Href: req.v3(self, "/actions/apply_manifest").Href, Method: http.MethodPost},
		},
	}
	if s.QuotaGUID != "" {
		b.Links["quota"] = req.v3("/space_quotas/", escape(s.QuotaGUID))
	}
	return b
}

func sshFeature(s *platform.Space) featureBody {
	return featureBody{"ssh", "Enable SSHing into apps in the space.", s.SSHAllowed}
}

func (a *API) listSpaceFeatures(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		space, err := find(req.caller, req.tx.Spaces(), web.Param(r, "guid"), "Space")
		if err != nil {
			return nil, err
		}
		return map[string]any{"resources": []featureBody{sshFeature(space)}}, nil
	})
}

func (a *API) getSpaceFeature(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		space, err := find(req.caller, req.tx.Spaces(), web.Param(r, "guid"), "Space")
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
	var body featureRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		space, err := req.space(platform.ManageSpace)
		if err == nil && web.Param(r, "name") != "ssh" {
			err = fault.New(fault.NotFound, "Feature not found")
		}
		if err != nil {
			return nil, err
		}
		space.SSHAllowed = *body.Enabled
		return sshFeature(space), a.platform.UpdateSpace(req.tx, req.caller.actor(), space)
	})
}

func organizationExists(req *request) error {
	_, err := find(req.caller, req.tx.Organizations(), web.Param(req.r, "guid"), "Organization")
	return err
}

func spaceExists(req *request) error {
	_, err := find(req.caller, req.tx.Spaces(), web.Param(req.r, "guid"), "Space")
	return err
}

// includePlaces includes the spaces of resources and their organizations if the
// request asks for them.
func includePlaces(req *request, l *listing.Request, spaceGUIDs []string) (map[string]any, error) {
	asks := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(l.Include, n) })
	}
	out := map[string]any{}
	if asks("space", "space.organization") {
		more, err := included(req, "spaces", spaces, spaceGUIDs)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, more)
	}
	if asks("org", "space.organization") {
		inside, _, err := req.tx.Spaces().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", spaceGUIDs)}})
		if err != nil {
			return nil, err
		}
		more, err := included(req, "organizations", organizations, guidsOf(inside, func(s *platform.Space) string { return s.OrgGUID }))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, more)
	}
	return out, nil
}
