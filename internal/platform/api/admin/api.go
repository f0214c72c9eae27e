package admin

import (
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
)

// API serves feature flags, jobs, audit events and usage events.
type API struct {
	*rest.Server
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	a.jobRoutes(g)
	a.flagRoutes(g)
	a.eventRoutes(g)
	a.usageEventRoutes(g)
}
