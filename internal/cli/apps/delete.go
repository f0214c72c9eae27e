package apps

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

func renameApp(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Renaming app %s to %s", w["APP"], w["NEW_NAME"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if _, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID, map[string]any{"name": w["NEW_NAME"]}, nil); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "app", Name: w["NEW_NAME"], GUID: app.GUID, Existed: true}, nil
}

type deleteFlags struct {
	Force  bool `short:"f" description:"Do not ask for confirmation"`
	Routes bool `short:"r" description:"Also delete the app's routes"`
}

func deleteApp(ctx context.Context, s *core.Session, w core.Words, f *deleteFlags) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, fmt.Sprintf("Really delete the app %s", w["APP"])); err != nil {
		return nil, err
	}
	s.Doing("Deleting app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if core.IsNotFound(err) {
		return s.Absent("App", "app", w["APP"])
	}
	if err != nil {
		return nil, err
	}
	var routes []cfapi.Route
	if f.Routes {
		if routes, err = client.List[cfapi.Route](ctx, s.API, "/v3/apps/"+app.GUID+"/routes", url.Values{}); err != nil {
			return nil, err
		}
		for _, r := range routes {
			if slices.ContainsFunc(r.Destinations, func(d cfapi.Destination) bool { return d.App.GUID != app.GUID }) {
				return nil, &core.Problem{
					What: "Nothing was deleted.", Why: "the route " + r.URL + " is also mapped to another app",
					Try: fmt.Sprintf("'%s delete %s -f' without -r, or unmap the route first", s.Env.Program, w["APP"]),
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

func deleteCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("rename", "APP NEW_NAME", "Rename an app", core.NeedsSpace, renameApp, "my-app your-app"),
		core.Entry("delete", "APP [-f] [-r]", "Delete an app", core.NeedsSpace, deleteApp, "my-app -f -r").Alias("d").Slow(),
	)
}
