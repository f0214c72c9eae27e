package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
)

func (a *API) buildCacheRoutes(g *web.Group) {
	g.Handle(http.MethodPost, "/v3/admin/actions/clear_buildpack_cache", web.Scope(scopeAdmin), a.clearBuildCaches)
	g.Handle(http.MethodPost, "/v3/apps/{guid}/actions/clear_buildpack_cache", web.Scope(writers...), a.clearBuildCache)
}

// clearBuildCaches makes the next build of every app start from nothing.
func (a *API) clearBuildCaches(w http.ResponseWriter, r *http.Request) error {
	if err := a.blobs.ClearBuildCache(r.Context(), ""); err != nil {
		return err
	}
	return a.finish(w, r, "admin.clear_buildpack_cache", func(*request) error { return nil })
}

func (a *API) clearBuildCache(w http.ResponseWriter, r *http.Request) error {
	err := a.store.View(r.Context(), func(tx platform.Tx) error {
		_, err := newRequest(tx, r).app(platform.Operate)
		return err
	})
	if err != nil {
		return err
	}
	if err := a.blobs.ClearBuildCache(r.Context(), web.Param(r, "guid")); err != nil {
		return err
	}
	return a.finish(w, r, "app.clear_buildpack_cache", func(*request) error { return nil })
}
