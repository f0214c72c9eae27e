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
		a.saveSegment(http.StatusCreated, newSegment, a.Platform.CreateSegment))
	g.Handle(http.MethodGet, path, rest.Read, isolationSegments.Getter(a.Server))
	g.Handle(http.MethodPatch, path, rest.Admin,
		a.saveSegment(http.StatusOK, isolationSegments.Find, a.Platform.UpdateSegment))
	g.Handle(http.MethodDelete, path, rest.Admin, a.deleteSegment)
	g.Handle(http.MethodGet, path+"/organizations", rest.Read, rest.ListerOf(a.Server, Organizations,
		platform.Tx.IsolationSegments, "Isolation segment", "entitled_segment_guid"))
	g.Handle(http.MethodGet, path+"/relationships/organizations", rest.Read, a.segmentOrganizations)
	g.Handle(http.MethodPost, path+"/relationships/organizations", rest.Admin, a.entitleSegment)
	g.Handle(http.MethodDelete, path+"/relationships/organizations/{organization}", rest.Admin, a.revokeSegment)
	g.Handle(http.MethodGet, path+"/relationships/spaces", rest.Read, a.segmentSpaces)

	const ofOrg, ofSpace = "/v3/organizations/{guid}/relationships/default_isolation_segment",
		"/v3/spaces/{guid}/relationships/isolation_segment"
	g.Handle(http.MethodGet, ofOrg, rest.Read, func(w http.ResponseWriter, r *http.Request) error {
		return a.Show(w, r, func(req *rest.Request) (any, error) {
			org, err := Organizations.Find(req)
			return segmentOf(req, org, func(o *platform.Organization) string { return o.SegmentGUID }), err
		})
	})
	g.Handle(http.MethodPatch, ofOrg, rest.Write, a.setDefaultSegment)
	g.Handle(http.MethodGet, ofSpace, rest.Read, func(w http.ResponseWriter, r *http.Request) error {
		return a.Show(w, r, func(req *rest.Request) (any, error) {
			space, err := Spaces.Find(req)
			return segmentOf(req, space, func(s *platform.Space) string { return s.SegmentGUID }), err
		})
	})
	g.Handle(http.MethodPatch, ofSpace, rest.Write, a.setSpaceSegment)
}

// segmentOf presents which isolation segment an organization or a space has.
func segmentOf[T any](req *rest.Request, place *T, guidOf func(*T) string) any {
	if place == nil {
		return nil
	}
	guid, l := guidOf(place), rest.Links{"self": rest.Href(req.Base, req.HTTP.URL.Path)}
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
	if b.Name != nil {
		s.Name = *b.Name
	}
	return b.Metadata.Apply(&s.Metadata)
}

// saveSegment creates or changes the segment that find returns.
func (a *API) saveSegment(status int, find func(*rest.Request) (*platform.IsolationSegment, error),
	save func(platform.Tx, actions.Actor, *platform.IsolationSegment) error,
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body segmentRequest
		if err := web.DecodeStrict(r, &body); err != nil {
			return err
		}
		change := func(req *rest.Request) (*platform.IsolationSegment, error) {
			s, err := find(req)
			if err != nil {
				return nil, err
			}
			if err := body.apply(s); err != nil {
				return nil, err
			}
			return s, save(req.Tx, req.Caller.Actor(), s)
		}
		return rest.Answer(a.Server, w, r, isolationSegments, status, change)
	}
}

func newSegment(*rest.Request) (*platform.IsolationSegment, error) {
	return &platform.IsolationSegment{}, nil
}

func (a *API) deleteSegment(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		s, err := isolationSegments.Find(req)
		if err != nil {
			return nil, err
		}
		return nil, a.Platform.DeleteSegment(req.Tx, req.Caller.Actor(), s)
	})
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

func (a *API) segmentOrganizations(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		s, err := isolationSegments.Find(req)
		if err != nil {
			return nil, err
		}
		return presentEntitled(req, s)
	})
}

func (a *API) segmentSpaces(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		s, err := isolationSegments.Find(req)
		if err != nil {
			return nil, err
		}
		used, _, err := req.Tx.Spaces().
			List(platform.Query{Reader: req.Caller.Reader(), Where: []platform.Cond{platform.In("segment_guid", s.GUID)}})
		return map[string]any{
			"data":  rest.ToMany(rest.GUIDsOf(used, func(s *platform.Space) string { return s.GUID })).Data,
			"links": rest.Links{"self": rest.Href(req.Base, r.URL.Path)},
		}, err
	})
}

func (a *API) entitleSegment(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.ReadRelations(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		s, err := isolationSegments.Find(req)
		if err != nil {
			return nil, err
		}
		guids := make([]string, 0, len(body.Data))
		for _, one := range body.Data {
			guids = append(guids, one.GUID)
		}
		orgs, _, err := req.Tx.Organizations().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
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
	})
}

func (a *API) revokeSegment(w http.ResponseWriter, r *http.Request) error {
	return a.Perform(w, r, http.StatusNoContent, func(req *rest.Request) (any, error) {
		s, err := isolationSegments.Find(req)
		if err != nil {
			return nil, err
		}
		org, err := rest.Find(req.Caller, req.Tx.Organizations(), web.Param(r, "organization"), "Organization")
		if err != nil {
			return nil, err
		}
		return nil, a.Platform.RevokeSegment(req.Tx, req.Caller.Actor(), s, org)
	})
}

func (a *API) setDefaultSegment(w http.ResponseWriter, r *http.Request) error {
	guid, err := rest.ReadRelation(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		org, err := Organizations.Find(req)
		if err != nil {
			return nil, err
		}
		if err := req.Caller.ManagesOrg(req.Tx, org.GUID); err != nil {
			return nil, err
		}
		err = a.Platform.SetDefaultSegment(req.Tx, req.Caller.Actor(), org, guid)
		return segmentOf(req, org, func(o *platform.Organization) string { return o.SegmentGUID }), err
	})
}

func (a *API) setSpaceSegment(w http.ResponseWriter, r *http.Request) error {
	guid, err := rest.ReadRelation(r)
	if err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		space, err := req.Space(platform.ManageOrganization)
		if err != nil {
			return nil, err
		}
		err = a.Platform.SetSpaceSegment(req.Tx, req.Caller.Actor(), space, guid)
		return segmentOf(req, space, func(s *platform.Space) string { return s.SegmentGUID }), err
	})
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
