package orgs

import (
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var isolationSegments = rest.Resource[platform.IsolationSegment, segmentBody]{
	Noun: "Isolation segment", Repo: platform.Tx.IsolationSegments, Present: rest.Each(presentSegment),
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name"),
		"organization_guids": listing.Text("organization_guid")}, Orders: []string{"name"}},
}

func (a *API) isolationRoutes(g *web.Group) {
	const path = "/v3/isolation_segments/{guid}"
	g.Handle(http.MethodGet, "/v3/isolation_segments", rest.Read, isolationSegments.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/isolation_segments", rest.Admin,
		rest.Creator(a.Server, isolationSegments,
			rest.Applied(rest.New(platform.IsolationSegment{}), (*segmentRequest).apply, a.Platform.CreateSegment)))
	g.Handle(http.MethodGet, path, rest.Read, isolationSegments.Getter(a.Server))
	g.Handle(http.MethodPatch, path, rest.Admin,
		rest.Updater(a.Server, isolationSegments,
			rest.Applied(isolationSegments.Find, (*segmentRequest).apply, a.Platform.UpdateSegment)))
	g.Handle(http.MethodDelete, path, rest.Admin,
		rest.Remover(a.Server, isolationSegments.Find, rest.By(a.Platform.DeleteSegment)))
	g.Handle(http.MethodGet, path+"/organizations", rest.Read, rest.ListerOf(a.Server, Organizations,
		platform.Tx.IsolationSegments, "Isolation segment", "entitled_segment_guid"))
	g.Handle(http.MethodGet, path+"/relationships/organizations", rest.Read,
		rest.Viewer(a.Server, isolationSegments.Find, presentEntitled))
	g.Handle(http.MethodPost, path+"/relationships/organizations", rest.Admin,
		rest.Changer(a.Server, rest.ReadRelations, isolationSegments.Find, a.entitleSegment))
	g.Handle(http.MethodDelete, path+"/relationships/organizations/{organization}", rest.Admin,
		rest.Remover(a.Server, isolationSegments.Find, a.revokeSegment))
	g.Handle(http.MethodGet, path+"/relationships/spaces", rest.Read,
		rest.Viewer(a.Server, isolationSegments.Find, segmentSpaces))

	const ofOrg, ofSpace = "/v3/organizations/{guid}/relationships/default_isolation_segment",
		"/v3/spaces/{guid}/relationships/isolation_segment"
	g.Handle(http.MethodGet, ofOrg, rest.Read, rest.Viewer(a.Server, Organizations.Find, segmentOfOrg))
	g.Handle(http.MethodPatch, ofOrg, rest.Write,
		rest.Changer(a.Server, rest.ReadRelation, Organizations.Find, a.setDefaultSegment))
	g.Handle(http.MethodGet, ofSpace, rest.Read, rest.Viewer(a.Server, Spaces.Find, segmentOfSpace))
	g.Handle(http.MethodPatch, ofSpace, rest.Write,
		rest.Changer(a.Server, rest.ReadRelation, rest.SpaceFor(platform.ManageOrganization), a.setSpaceSegment))
}

func segmentOfOrg(req *rest.Request, org *platform.Organization) (any, error) {
	return presentSegmentOf(req, org.SegmentGUID), nil
}

func segmentOfSpace(req *rest.Request, space *platform.Space) (any, error) {
	return presentSegmentOf(req, space.SegmentGUID), nil
}

// presentSegmentOf presents which isolation segment an organization or a space has.
func presentSegmentOf(req *rest.Request, guid string) any {
	l := rest.Links{"self": rest.Href(req.Base, req.HTTP.URL.Path)}
	if guid != "" {
		l["related"] = req.Link("/isolation_segments/", rest.Escape(guid))
	}
	return map[string]any{"data": rest.ToOne(guid).Data, "links": l}
}

type segmentRequest struct {
	Name     *string                `json:"name"`
	Metadata *actions.MetadataPatch `json:"metadata"`
}

func (b *segmentRequest) apply(s *platform.IsolationSegment) error {
	web.Set(&s.Name, b.Name)
	return b.Metadata.Apply(&s.Metadata)
}

// presentEntitled presents the organizations of a segment that the caller may see.
func presentEntitled(req *rest.Request, s *platform.IsolationSegment) (any, error) {
	orgs, _, err := req.Tx.Organizations().
		List(platform.Query{Reader: req.Caller.Reader(),
			Where: []platform.Cond{platform.In("entitled_segment_guid", s.GUID)}})
	self := "/isolation_segments/" + rest.Escape(s.GUID)
	return map[string]any{
		"data": rest.ToMany(rest.GUIDsOf(orgs, func(o *platform.Organization) string { return o.GUID })).Data,
		"links": rest.Links{"self": req.Link(self, "/relationships/organizations"),
			"related": req.Link(self, "/organizations")},
	}, err
}

func segmentSpaces(req *rest.Request, s *platform.IsolationSegment) (any, error) {
	used, _, err := req.Tx.Spaces().
		List(platform.Query{Reader: req.Caller.Reader(), Where: []platform.Cond{platform.In("segment_guid", s.GUID)}})
	return req.Relationship(rest.GUIDsOf(used, func(s *platform.Space) string { return s.GUID })), err
}

func (a *API) entitleSegment(req *rest.Request, s *platform.IsolationSegment, body *rest.Relations) (any, error) {
	guids := make([]string, 0, len(body.Data))
	for _, one := range body.Data {
		guids = append(guids, one.GUID)
	}
	orgs, err := rest.Named(req.Tx.Organizations(), guids)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(guids, func(g string) bool {
		return slices.ContainsFunc(orgs, func(o *platform.Organization) bool { return o.GUID == g })
	})
	if len(missing) > 0 {
		return nil, fault.Invalid("Unable to entitle organizations ['" + strings.Join(missing, "', '") +
			"'] for the isolation segment. Ensure the organizations exist.")
	}
	if err := a.Platform.EntitleSegment(req.Tx, req.Caller.Actor(), s, orgs); err != nil {
		return nil, err
	}
	return presentEntitled(req, s)
}

func (a *API) revokeSegment(req *rest.Request, s *platform.IsolationSegment) error {
	org, err := rest.Find(req.Caller, req.Tx.Organizations(), req.Param("organization"), "Organization")
	if err != nil {
		return err
	}
	return a.Platform.RevokeSegment(req.Tx, req.Caller.Actor(), s, org)
}

func (a *API) setDefaultSegment(req *rest.Request, org *platform.Organization, guid string) (any, error) {
	if err := req.Caller.ManagesOrg(req.Tx, org.GUID); err != nil {
		return nil, err
	}
	err := a.Platform.SetDefaultSegment(req.Tx, req.Caller.Actor(), org, guid)
	return presentSegmentOf(req, org.SegmentGUID), err
}

func (a *API) setSpaceSegment(req *rest.Request, space *platform.Space, guid string) (any, error) {
	err := a.Platform.SetSpaceSegment(req.Tx, req.Caller.Actor(), space, guid)
	return presentSegmentOf(req, space.SegmentGUID), err
}

type segmentBody struct {
	rest.ResourceBody
	Name     string        `json:"name"`
	Metadata rest.Metadata `json:"metadata"`
	Links    rest.Links    `json:"links"`
}

func presentSegment(req *rest.Request, s *platform.IsolationSegment) segmentBody {
	self := "/isolation_segments/" + rest.Escape(s.GUID)
	return segmentBody{
		ResourceBody: rest.PresentResource(&s.Resource), Name: s.Name, Metadata: rest.PresentMetadata(&s.Metadata),
		Links: rest.Links{"self": req.Link(self), "organizations": req.Link(self, "/organizations")},
	}
}
