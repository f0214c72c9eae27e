package routes

import (
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
)

// API serves domains, routes, security groups and network policies.
type API struct {
	*rest.Server
	// Enforces returns a warning about a security group that the engine does not
	// enforce, or not all of it; nil means that it enforces everything.
	Enforces func(*platform.SecurityGroup) string
	// NoPolicies is why network policies cannot be created; empty if they can.
	NoPolicies string
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	a.domainRoutes(g)
	a.routeRoutes(g)
	a.sharingRoutes(g)
	a.securityGroupRoutes(g)
}
