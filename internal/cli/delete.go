package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"ingot/internal/cli/client"
)

type renameCommand struct {
	Args struct {
		App  string `positional-arg-name:"APP" required:"yes"`
		Name string `positional-arg-name:"NEW_NAME" required:"yes"`
	} `positional-args:"yes"`
}

func (c *renameCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Renaming app %s to %s", c.Args.App, c.Args.Name)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if _, err := s.api.Patch(ctx, "/v3/apps/"+app.GUID, map[string]any{"name": c.Args.Name}, nil); err != nil {
		return nil, err
	}
	s.ok()
	return &made{"app", c.Args.Name, app.GUID, true}, nil
}

type deleteCommand struct {
	Force  bool `short:"f" description:"Do not ask for confirmation"`
	Routes bool `short:"r" description:"Also delete the app's routes"`
	Args   struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteCommand) run(ctx context.Context, s *session) (result, error) {
	if !c.Force {
		if err := s.confirm(ctx, fmt.Sprintf("Really delete the app %s", c.Args.App)); err != nil {
			return nil, err
		}
	}
	s.doing("Deleting app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if isNotFound(err) {
		s.say("App %s does not exist.", c.Args.App)
		s.ok()
		return &removed{Kind: "app", Name: c.Args.App}, nil
	}
	if err != nil {
		return nil, err
	}
	var routes []client.Route
	if c.Routes {
		if routes, err = client.List[client.Route](ctx, s.api, "/v3/apps/"+app.GUID+"/routes", url.Values{}); err != nil {
			return nil, err
		}
		for _, r := range routes {
			if slices.ContainsFunc(r.Destinations, func(d client.Destination) bool { return d.App.GUID != app.GUID }) {
				return nil, &problem{
					What: "Nothing was deleted.", Why: "the route " + r.URL + " is also mapped to another app",
					Try: fmt.Sprintf("'%s delete %s -f' without -r, or unmap the route first", s.w.Program, c.Args.App),
				}
			}
		}
	}
	if err := s.api.Delete(ctx, "/v3/apps/"+app.GUID); err != nil {
		return nil, err
	}
	out := &removed{Kind: "app", Name: app.Name, Gone: true}
	for _, r := range routes {
		if err := s.api.Delete(ctx, "/v3/routes/"+r.GUID); err != nil && client.Status(err) != 404 {
			return nil, err
		}
		out.Routes = append(out.Routes, r.URL)
	}
	s.ok()
	return out, nil
}
