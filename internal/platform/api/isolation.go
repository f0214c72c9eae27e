package api

import (
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
)

var isolationSegments = resource[platform.IsolationSegment, segmentBody]{
	noun: "Isolation segment", repo: platform.Tx.IsolationSegments, present: each(presentSegment),
	list: listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")}, Orders: []string{"name"}},
}

func (a *API) isolationRoutes(g *web.Group) {
	read, write, admin := web.Scope(readers...), web.Scope(writers...), web.Scope(scopeAdmin)
	const path = "/v3/isolation_segments/{guid}"
	g.Handle(http.MethodGet, "/v3/isolation_segments", read, isolationSegments.lister(a))
	g.Handle(http.MethodPost, "/v3/isolation_segments", admin, a.createSegment)
	g.Handle(http.MethodGet, path, read, isolationSegments.getter(a))
	g.Handle(http.MethodPatch, path, admin, a.updateSegment)
	g.Handle(http.MethodDelete, path, admin, a.deleteSegment)
	g.Handle(http.MethodGet, path+"/organizations", read, listerOf(a, organizations, platform.Tx.IsolationSegments, "Isolation segment", "entitled_segment_guid"))
	g.Handle(http.MethodGet, path+"/relationships/organizations", read, a.segmentOrganizations)
	g.Handle(http.MethodPost, path+"/relationships/organizations", admin, a.entitleSegment)
	g.Handle(http.MethodDelete, path+"/relationships/organizations/{organization}", admin, a.revokeSegment)
	g.Handle(http.MethodGet, path+"/relationships/spaces", read, a.segmentSpaces)

	const ofOrg, ofSpace = "/v3/organizations/{guid}/relationships/default_isolation_segment", "/v3/spaces/{guid}/relationships/isolation_segment"
	g.Handle(http.MethodGet, ofOrg, read, func(w http.ResponseWriter, r *http.Request) error {
		return a.show(w, r, func(req *request) (any, error) {
			org, err := organizations.find(req)
			return segmentOf(req, org, func(o *platform.Organization) string { return o.SegmentGUID }), err
		})
	})
	g.Handle(http.MethodPatch, ofOrg, write, a.setDefaultSegment)
	g.Handle(http.MethodGet, ofSpace, read, func(w http.ResponseWriter, r *http.Request) error {
		return a.show(w, r, func(req *request) (any, error) {
			space, err := spaces.find(req)
			return segmentOf(req, space, func(s *platform.Space) string { return s.SegmentGUID }), err
		})
	})
	g.Handle(http.MethodPatch, ofSpace, write, a.setSpaceSegment)
}

// segmentOf presents which isolation segment an organization or a space has.
func segmentOf[T any](req *request, place *T, guidOf func(*T) string) any {
	if place == nil {
		return nil
	}
	guid, l := guidOf(place), links{"self": href(req.base, req.r.URL.Path)}
	if guid != "" {
		l["related"] = req.v3("/isolation_segments/", escape(guid))
	}
	return map[string]any{"data": toOne(guid).Data, "links": l}
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

func (a *API) createSegment(w http.ResponseWriter, r *http.Request) error {
	var body segmentRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, isolationSegments, http.StatusCreated, func(req *request) (*platform.IsolationSegment, error) {
		s := &platform.IsolationSegment{}
		if err := body.apply(s); err != nil {
			return nil, err
		}
		return s, a.platform.CreateSegment(req.tx, req.caller.actor(), s)
	})
}

func (a *API) updateSegment(w http.ResponseWriter, r *http.Request) error {
	var body segmentRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return answer(a, w, r, isolationSegments, http.StatusOK, func(req *request) (*platform.IsolationSegment, error) {
		s, err := isolationSegments.find(req)
		if err != nil {
			return nil, err
		}
		if err := body.apply(s); err != nil {
			return nil, err
		}
		return s, a.platform.UpdateSegment(req.tx, req.caller.actor(), s)
	})
}

func (a *API) deleteSegment(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		s, err := isolationSegments.find(req)
		if err != nil {
			return nil, err
		}
		return nil, a.platform.DeleteSegment(req.tx, req.caller.actor(), s)
	})
}

// presentEntitled presents the organizations of a segment that the caller may see.
func presentEntitled(req *request, s *platform.IsolationSegment) (any, error) {
	orgs, _, err := req.tx.Organizations().List(platform.Query{Reader: req.caller.Reader(), Where: []platform.Cond{platform.In("entitled_segment_guid", s.GUID)}})
	self := "/isolation_segments/" + escape(s.GUID)
	return map[string]any{
		"data":  toMany(guidsOf(orgs, func(o *platform.Organization) string { return o.GUID })).Data,
		"links": links{"self": req.v3(self, "/relationships/organizations"), "related": req.v3(self, "/organizations")},
	}, err
}

func (a *API) segmentOrganizations(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		s, err := isolationSegments.find(req)
		if err != nil {
			return nil, err
		}
		return presentEntitled(req, s)
	})
}

func (a *API) segmentSpaces(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		s, err := isolationSegments.find(req)
		if err != nil {
			return nil, err
		}
		used, _, err := req.tx.Spaces().List(platform.Query{Reader: req.caller.Reader(), Where: []platform.Cond{platform.In("segment_guid", s.GUID)}})
		return map[string]any{
			"data":  toMany(guidsOf(used, func(s *platform.Space) string { return s.GUID })).Data,
			"links": links{"self": href(req.base, r.URL.Path)},
		}, err
	})
}

func (a *API) entitleSegment(w http.ResponseWriter, r *http.Request) error {
	body, err := readRelations(r)
	if err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		s, err := isolationSegments.find(req)
		if err != nil {
			return nil, err
		}
		guids := make([]string, 0, len(body.Data))
		for _, one := range body.Data {
			guids = append(guids, one.GUID)
		}
		orgs, _, err := req.tx.Organizations().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}})
		if err != nil {
			return nil, err
		}
		missing := slices.DeleteFunc(guids, func(g string) bool {
			return slices.ContainsFunc(orgs, func(o *platform.Organization) bool { return o.GUID == g })
		})
		if len(missing) > 0 {
			return nil, fault.Invalid("Unable to entitle organizations ['" + strings.Join(missing, "', '") + "'] for the isolation segment. Ensure the organizations exist.")
		}
		if err := a.platform.EntitleSegment(req.tx, req.caller.actor(), s, orgs); err != nil {
			return nil, err
		}
		return presentEntitled(req, s)
	})
}

func (a *API) revokeSegment(w http.ResponseWriter, r *http.Request) error {
	return a.perform(w, r, http.StatusNoContent, func(req *request) (any, error) {
		s, err := isolationSegments.find(req)
		if err != nil {
			return nil, err
		}
		org, err := find(req.caller, req.tx.Organizations(), web.Param(r, "organization"), "Organization")
		if err != nil {
			return nil, err
		}
		return nil, a.platform.RevokeSegment(req.tx, req.caller.actor(), s, org)
	})
}

func (a *API) setDefaultSegment(w http.ResponseWriter, r *http.Request) error {
	guid, err := readRelation(r)
	if err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		org, err := organizations.find(req)
		if err != nil {
			return nil, err
		}
		if err := req.caller.managesOrg(req.tx, org.GUID); err != nil {
			return nil, err
		}
		err = a.platform.SetDefaultSegment(req.tx, req.caller.actor(), org, guid)
		return segmentOf(req, org, func(o *platform.Organization) string { return o.SegmentGUID }), err
	})
}

func (a *API) setSpaceSegment(w http.ResponseWriter, r *http.Request) error {
	guid, err := readRelation(r)
	if err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		space, err := req.space(platform.ManageOrganization)
		if err != nil {
			return nil, err
		}
		err = a.platform.SetSpaceSegment(req.tx, req.caller.actor(), space, guid)
		return segmentOf(req, space, func(s *platform.Space) string { return s.SegmentGUID }), err
	})
}

type segmentBody struct {
	resourceBody
	Name     string   `json:"name"`
	Metadata metadata `json:"metadata"`
	Links    links    `json:"links"`
}

func presentSegment(req *request, s *platform.IsolationSegment) segmentBody {
	self := "/isolation_segments/" + escape(s.GUID)
	return segmentBody{
		resourceBody: presentResource(&s.Resource), Name: s.Name, Metadata: presentMetadata(&s.Metadata),
		Links: links{"self": req.v3(self), "organizations": req.v3(self, "/organizations")},
	}
}
