package apps

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type renameCommand struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		Name string `positional-arg-name:"NEW_NAME" required:"yes"`
	} `positional-args:"yes"`
}

func (c *renameCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Renaming app %s to %s", c.Args.App, c.Args.Name)
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if _, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID, map[string]any{"name": c.Args.Name}, nil); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "app", Name: c.Args.Name, GUID: app.GUID, Existed: true}, nil
}

type deleteCommand struct {
	Force  bool `short:"f" description:"Do not ask for confirmation"`
	Routes bool `short:"r" description:"Also delete the app's routes"`
	Args   struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	if !c.Force {
		if err := s.Confirm(ctx, fmt.Sprintf("Really delete the app %s", c.Args.App)); err != nil {
			return nil, err
		}
	}
	s.Doing("Deleting app %s", c.Args.App)
	app, err := s.App(ctx, c.Args.App)
	if core.IsNotFound(err) {
		s.Say("App %s does not exist.", c.Args.App)
		s.OK()
		return &core.Removed{Kind: "app", Name: c.Args.App}, nil
	}
	if err != nil {
		return nil, err
	}
	var routes []client.Route
	if c.Routes {
		if routes, err = client.List[client.Route](ctx, s.API, "/v3/apps/"+app.GUID+"/routes", url.Values{}); err != nil {
			return nil, err
		}
		for _, r := range routes {
			if slices.ContainsFunc(r.Destinations, func(d client.Destination) bool { return d.App.GUID != app.GUID }) {
				return nil, &core.Problem{
					What: "Nothing was deleted.", Why: "the route " + r.URL + " is also mapped to another app",
					Try: fmt.Sprintf("'%s delete %s -f' without -r, or unmap the route first", s.Env.Program, c.Args.App),
				}
			}
		}
	}
	if err := s.API.Delete(ctx, "/v3/apps/"+app.GUID); err != nil {
		return nil, err
	}
	out := &core.Removed{Kind: "app", Name: app.Name, Gone: true}
	for _, r := range routes {
		if err := s.API.Delete(ctx, "/v3/routes/"+r.GUID); err != nil && client.Status(err) != 404 {
			return nil, err
		}
		out.Routes = append(out.Routes, r.URL)
	}
	s.OK()
	return out, nil
}
