package cli

import (
	"context"
	"strings"

	"ingot/internal/cli/client"
)

type createRouteCommand struct {
	routeFlags
	Args struct {
		Domain string `positional-arg-name:"DOMAIN" required:"yes"`
	} `positional-args:"yes"`
}

// address returns the route as host, domain and path.
func (f routeFlags) address(domain string) string {
	return strings.TrimPrefix(f.Host+"."+domain+f.path(), ".")
}

func (c *createRouteCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Creating route %s", c.address(c.Args.Domain))
	domain, err := s.domain(ctx, c.Args.Domain)
	if err != nil {
		return nil, err
	}
	route, err := c.create(ctx, s, domain.GUID)
	if client.Says(err, "Route already exists") {
		s.say("Route %s already exists.", c.address(domain.Name))
		s.ok()
		return &made{"route", c.address(domain.Name), "", true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	s.say("TIP: Use '%s map-route APP %s' to map the route to an app.", s.w.Program, domain.Name)
	return &made{"route", route.URL, route.GUID, false}, nil
}

type deleteRouteCommand struct {
	routeFlags
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Domain string `positional-arg-name:"DOMAIN" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteRouteCommand) run(ctx context.Context, s *session) (result, error) {
	address := c.address(c.Args.Domain)
	if !c.Force {
		if err := s.confirm(ctx, "Really delete the route "+address); err != nil {
			return nil, err
		}
	}
	s.doing("Deleting route %s", address)
	domain, err := s.domain(ctx, c.Args.Domain)
	if err != nil {
		return nil, err
	}
	route, err := c.find(ctx, s, domain.GUID)
	if err != nil {
		return nil, err
	}
	if route == nil {
		s.say("Route %s does not exist.", address)
		s.ok()
		return &removed{Kind: "route", Name: address}, nil
	}
	if err := s.api.Delete(ctx, "/v3/routes/"+route.GUID); err != nil {
		return nil, err
	}
	s.ok()
	return &removed{Kind: "route", Name: route.URL, Gone: true}, nil
}
