package cli

import "slices"

// subjectRoutes returns the commands of this package.
func subjectRoutes() []*command {
	return slices.Concat([]*command{
		{name: "routes", aliases: []string{"r"}, group: groupRoutes, summary: "List the routes in the target space", need: aSpace, example: []string{"routes"}, make: func() runner { return &routesCommand{} }},
		{name: "map-route", group: groupRoutes, summary: "Map a route to an app", args: "APP DOMAIN [-n HOST] [--app-port PORT | --sidecar NAME]", need: aSpace, example: []string{"map-route my-app apps.localhost -n blue", "map-route my-app apps.localhost -n dump --app-port 8082", "map-route my-app apps.localhost -n proxy --sidecar proxy"}, make: func() runner { return &mapRouteCommand{} }},
		{name: "unmap-route", group: groupRoutes, summary: "Unmap a route from an app", args: "APP DOMAIN [-n HOST]", need: aSpace, example: []string{"unmap-route my-app apps.localhost -n blue"}, make: func() runner { return &unmapRouteCommand{} }},
		{name: "create-route", group: groupRoutes, summary: "Create a route", args: "DOMAIN [-n HOST] [--path PATH]", need: aSpace, example: []string{"create-route apps.localhost -n blue"}, make: func() runner { return &createRouteCommand{} }},
		{name: "delete-route", group: groupRoutes, summary: "Delete a route", args: "DOMAIN [-n HOST] [-f]", need: aSpace, progress: true, example: []string{"delete-route apps.localhost -n blue -f"}, make: func() runner { return &deleteRouteCommand{} }},
		{name: "domains", group: groupRoutes, summary: "List the domains of the target org", need: anOrg, example: []string{"domains"}, make: func() runner { return &domainsCommand{} }},
	}, routeCommands(), domainCommands(), securityGroupCommands(), networkPolicyCommands())
}
