package apps

import (
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
)

// API serves apps, their processes, tasks and deployments.
type API struct {
	*rest.Server
	Runtime Runtime
	Traffic Traffic // nil means that requests are not counted
	Series  Series  // nil means that nothing is recorded
	SSH     bool    // there is an ssh gateway
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	a.appRoutes(g)
	a.processRoutes(g)
	a.sidecarRoutes(g)
	a.envGroupRoutes(g)
	a.deploymentRoutes(g)
	a.revisionRoutes(g)
	a.taskRoutes(g)
	a.manifestRoutes(g)
	a.seriesRoutes(g)
}
