package routes

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// scopeRouterGroups is the scope of Cloud Foundry's routing API for reading router
// groups.
const scopeRouterGroups = "routing.router_groups.read"

// RouterGroupRoutes are the part of Cloud Foundry's routing API that clients use.
func (a *API) RouterGroupRoutes(g *web.Group) {
	access := web.Scope(append([]string{scopeRouterGroups}, platform.ReadAllScopes...)...)
	g.Handle(http.MethodGet, "/routing/v1/router_groups", access, a.listRouterGroups)
	g.Handle(http.MethodGet, "/routing/v1/router_groups/{guid}", access, a.getRouterGroup)
}

type routerGroupBody struct {
	GUID  string `json:"guid"`
	Name  string `json:"name"`
	Type  string `json:"type"`
	Ports string `json:"reservable_ports"`
}

func (a *API) routerGroups() []routerGroupBody {
	group := a.Platform.TCP
	if group.GUID == "" {
		return []routerGroupBody{}
	}
	return []routerGroupBody{{group.GUID, group.Name, platform.ProtocolTCP, group.Ports.String()}}
}

func (a *API) listRouterGroups(w http.ResponseWriter, r *http.Request) error {
	groups := a.routerGroups()
	if name := r.URL.Query().Get("name"); name != "" && (len(groups) == 0 || groups[0].Name != name) {
		return fault.New(fault.NotFound, "Router Group '%s' not found", name)
	}
	return web.Answer(w, http.StatusOK, groups, nil)
}

func (a *API) getRouterGroup(w http.ResponseWriter, r *http.Request) error {
	for _, g := range a.routerGroups() {
		if g.GUID == web.Param(r, "guid") {
			return web.Answer(w, http.StatusOK, g, nil)
		}
	}
	return fault.New(fault.NotFound, "Router Group not found")
}
