package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform/api/listing"
)

// There are no isolation segments, because there is one kind of cell. Clients list
// them anyway.
func (a *API) isolationRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/isolation_segments", web.Scope(readers...), a.listIsolationSegments)
	g.Handle(http.MethodGet, "/v3/isolation_segments/{guid}", web.Scope(readers...), func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.NotFound, "Isolation segment not found")
	})
}

func (a *API) listIsolationSegments(w http.ResponseWriter, r *http.Request) error {
	l, err := listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "organization_guids": listing.Text("organization_guid")}, Orders: []string{"name"}}.Parse(r, baseURL(r))
	if err != nil {
		return err
	}
	l.Write(w, 0, []any{}, nil)
	return nil
}

// noIsolationSegment shows that an organization or space has no isolation segment.
func (a *API) noIsolationSegment(exists func(*request) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.show(w, r, func(req *request) (any, error) {
			return map[string]any{"data": nil, "links": links{"self": href(req.base, r.URL.Path)}}, exists(req)
		})
	}
}
