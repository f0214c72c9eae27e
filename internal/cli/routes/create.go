package routes

import (
	"context"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type createRouteCommand struct {
	RouteFlags
	Args struct {
		Domain string `positional-arg-name:"DOMAIN" required:"yes"`
	} `positional-args:"yes"`
}

// Address returns the route as host, domain and path.
func (f RouteFlags) Address(domain string) string {
	return strings.TrimPrefix(f.Host+"."+domain+f.path(), ".")
}

func (c *createRouteCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Creating route %s", c.Address(c.Args.Domain))
	domain, err := s.Domain(ctx, c.Args.Domain)
	if err != nil {
		return nil, err
	}
	route, err := c.create(ctx, s, domain.GUID)
	if client.Says(err, "Route already exists") {
		s.Say("Route %s already exists.", c.Address(domain.Name))
		s.OK()
		return &core.Made{Kind: "route", Name: c.Address(domain.Name), GUID: "", Existed: true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	s.Say("TIP: Use '%s map-route APP %s' to map the route to an app.", s.Env.Program, domain.Name)
	return &core.Made{Kind: "route", Name: route.URL, GUID: route.GUID, Existed: false}, nil
}

type deleteRouteCommand struct {
	RouteFlags
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Domain string `positional-arg-name:"DOMAIN" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteRouteCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	address := c.Address(c.Args.Domain)
	if !c.Force {
		if err := s.Confirm(ctx, "Really delete the route "+address); err != nil {
			return nil, err
		}
	}
	s.Doing("Deleting route %s", address)
	domain, err := s.Domain(ctx, c.Args.Domain)
	if err != nil {
		return nil, err
	}
	route, err := c.find(ctx, s, domain.GUID)
	if err != nil {
		return nil, err
	}
	if route == nil {
		s.Say("Route %s does not exist.", address)
		s.OK()
		return &core.Removed{Kind: "route", Name: address}, nil
	}
	if err := s.API.Delete(ctx, "/v3/routes/"+route.GUID); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Removed{Kind: "route", Name: route.URL, Gone: true}, nil
}
