package routes

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return slices.Concat([]*core.Command{
		{Name: "routes", Aliases: []string{"r"}, Group: core.GroupRoutes, Summary: "List the routes in the target space", Need: core.NeedsSpace, Example: []string{"routes"}, Make: func() core.Runner { return &routesCommand{} }},
		{Name: "map-route", Group: core.GroupRoutes, Summary: "Map a route to an app", Args: "APP DOMAIN [-n HOST] [--app-port PORT | --sidecar NAME]", Need: core.NeedsSpace, Example: []string{"map-route my-app apps.localhost -n blue", "map-route my-app apps.localhost -n dump --app-port 8082", "map-route my-app apps.localhost -n proxy --sidecar proxy"}, Make: func() core.Runner { return &mapRouteCommand{} }},
		{Name: "unmap-route", Group: core.GroupRoutes, Summary: "Unmap a route from an app", Args: "APP DOMAIN [-n HOST]", Need: core.NeedsSpace, Example: []string{"unmap-route my-app apps.localhost -n blue"}, Make: func() core.Runner { return &unmapRouteCommand{} }},
		{Name: "create-route", Group: core.GroupRoutes, Summary: "Create a route", Args: "DOMAIN [-n HOST] [--path PATH]", Need: core.NeedsSpace, Example: []string{"create-route apps.localhost -n blue"}, Make: func() core.Runner { return &createRouteCommand{} }},
		{Name: "delete-route", Group: core.GroupRoutes, Summary: "Delete a route", Args: "DOMAIN [-n HOST] [-f]", Need: core.NeedsSpace, Progress: true, Example: []string{"delete-route apps.localhost -n blue -f"}, Make: func() core.Runner { return &deleteRouteCommand{} }},
		{Name: "domains", Group: core.GroupRoutes, Summary: "List the domains of the target org", Need: core.NeedsOrg, Example: []string{"domains"}, Make: func() core.Runner { return &domainsCommand{} }},
	}, routeCommands(), domainCommands(), securityGroupCommands(), networkPolicyCommands())
}
