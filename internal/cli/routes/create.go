package routes

import (
	"context"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// Address returns the route as host, domain and path.
func (f RouteFlags) Address(domain string) string {
	return strings.TrimPrefix(f.Host+"."+domain+f.path(), ".")
}

func createRoute(ctx context.Context, s *core.Session, w core.Words, f *RouteFlags) (core.Result, error) {
	s.Doing("Creating route %s", f.Address(w["DOMAIN"]))
	domain, err := s.Domain(ctx, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	route, err := f.create(ctx, s, domain.GUID)
	if client.Says(err, "Route already exists") {
		return s.Exists("Route", "route", f.Address(domain.Name)), nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	s.Say("TIP: Use '%s map-route APP %s' to map the route to an app.", s.Env.Program, domain.Name)
	return &core.Made{Kind: "route", Name: route.URL, GUID: route.GUID, Existed: false}, nil
}

type deleteRouteFlags struct {
	RouteFlags
	Force bool `short:"f" description:"Do not ask for confirmation"`
}

func deleteRoute(ctx context.Context, s *core.Session, w core.Words, f *deleteRouteFlags) (core.Result, error) {
	address := f.Address(w["DOMAIN"])
	if err := s.Confirm(ctx, f.Force, "Really delete the route "+address); err != nil {
		return nil, err
	}
	s.Doing("Deleting route %s", address)
	domain, err := s.Domain(ctx, w["DOMAIN"])
	if err != nil {
		return nil, err
	}
	route, err := f.find(ctx, s, domain.GUID)
	if err != nil {
		return nil, err
	}
	if route == nil {
		return s.Absent("Route", "route", address)
	}
	if err := s.API.Delete(ctx, "/v3/routes/"+route.GUID); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Removed{Kind: "route", Name: route.URL, Gone: true}, nil
}

func createRouteCommands() []*core.Command {
	return core.InGroup(core.GroupRoutes,
		core.Entry("create-route", "DOMAIN [-n HOST] [--path PATH]", "Create a route", core.NeedsSpace, createRoute,
			"apps.localhost -n blue"),
		core.Entry("delete-route", "DOMAIN [-n HOST] [-f]", "Delete a route", core.NeedsSpace, deleteRoute,
			"apps.localhost -n blue -f").Slow(),
	)
}
