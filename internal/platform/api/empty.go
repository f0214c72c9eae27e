package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// emptyRoutes serve empty lists of resources that are not implemented and that
// clients list in other commands: `cf space` lists security groups.
func (a *API) emptyRoutes(g *web.Group) {
	for path, l := range map[string]listing.Params{
		"/v3/security_groups": {Extra: []string{"names", "globally_enabled_running", "globally_enabled_staging", "running_space_guids", "staging_space_guids"}},
	} {
		g.Handle(http.MethodGet, path, web.Scope(readers...), emptyList(l))
	}
	for _, path := range []string{"/v3/spaces/{guid}/running_security_groups", "/v3/spaces/{guid}/staging_security_groups"} {
		g.Handle(http.MethodGet, path, web.Scope(readers...), func(w http.ResponseWriter, r *http.Request) error {
			err := a.store.View(r.Context(), func(tx platform.Tx) error { return spaceExists(newRequest(tx, r)) })
			if err != nil {
				return err
			}
			return emptyList(listing.Params{Extra: []string{"names"}})(w, r)
		})
	}
}

func emptyList(of listing.Params) web.Handler {
	of.Orders = []string{"name"}
	return func(w http.ResponseWriter, r *http.Request) error {
		l, err := of.Parse(r, baseURL(r))
		if err != nil {
			return err
		}
		l.Write(w, 0, []any{}, nil)
		return nil
	}
}
