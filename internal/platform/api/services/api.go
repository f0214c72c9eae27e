package services

import (
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
)

// DashboardAudience is the audience of tokens of service dashboards, which may only
// read the permissions of their users.
const DashboardAudience = "cloud_controller_service_permissions"

// API serves service brokers, and the service instances and bindings that they create.
type API struct {
	*rest.Server
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	a.brokerRoutes(g)
	a.offeringRoutes(g)
	a.planRoutes(g)
	a.instanceRoutes(g)
	a.sharingRoutes(g)
	a.bindingRoutes(g)
	a.routeBindingRoutes(g)
	a.rotationRoutes(g)
}
