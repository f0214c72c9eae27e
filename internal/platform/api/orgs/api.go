package orgs

import (
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
)

// API serves organizations and spaces, with their users, roles and quotas.
type API struct {
	*rest.Server
	Directory Directory
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	a.organizationRoutes(g)
	a.spaceRoutes(g)
	a.quotaRoutes(g)
	a.userRoutes(g)
	a.roleRoutes(g)
	a.isolationRoutes(g)
}
