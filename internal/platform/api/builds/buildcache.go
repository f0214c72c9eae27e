package builds

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
)

func (a *API) buildCacheRoutes(g *web.Group) {
	g.Handle(http.MethodPost, "/v3/admin/actions/clear_buildpack_cache", rest.Admin, a.clearBuildCaches)
	g.Handle(http.MethodPost, "/v3/apps/{guid}/actions/clear_buildpack_cache", rest.Write, a.clearBuildCache)
}

// clearBuildCaches makes the next build of every app start from nothing.
func (a *API) clearBuildCaches(w http.ResponseWriter, r *http.Request) error {
	if err := a.Blobs.ClearBuildCache(r.Context(), ""); err != nil {
		return err
	}
	return a.Finish(w, r, "admin.clear_buildpack_cache", func(*rest.Request) error { return nil })
}

func (a *API) clearBuildCache(w http.ResponseWriter, r *http.Request) error {
	if _, err := rest.View(a.Server, r, rest.AppFor(platform.Operate)); err != nil {
		return err
	}
	if err := a.Blobs.ClearBuildCache(r.Context(), web.Param(r, "guid")); err != nil {
		return err
	}
	return a.Finish(w, r, "app.clear_buildpack_cache", func(*rest.Request) error { return nil })
}
