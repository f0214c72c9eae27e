package apps

import (
	"context"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// bitsRow is a package or a droplet of an app.
type bitsRow struct {
	GUID    string `json:"guid"`
	State   string `json:"state"`
	Created string `json:"created_at"`
	Current bool   `json:"current"`
}

// bitsOf lists packages or droplets, newest first.
func bitsOf(ctx context.Context, s *core.Session, app cfapi.App, kind, current string) (core.Result, error) {
	found, err := client.List[cfapi.Droplet](ctx, s.API, "/v3/"+kind, url.Values{"app_guids": {app.GUID},
		"order_by": {"-created_at"}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	out := &core.Listing[bitsRow]{Key: kind, Heading: []string{"guid", "state", "created"},
		Cells: func(b bitsRow) []string {
			state := strings.ToLower(b.State)
			if b.Current {
				state += " (current)"
			}
			return []string{b.GUID, state, core.ShownTime(b.Created)}
		}}
	for _, d := range found {
		out.Rows = append(out.Rows, bitsRow{d.GUID, d.State, d.CreatedAt.UTC().Format("2006-01-02T15:04:05Z"),
			d.GUID == current})
	}
	return out, nil
}

// currentDroplet returns the guid of the app's current droplet, or "".
func currentDroplet(ctx context.Context, s *core.Session, app cfapi.App) (string, error) {
	var d cfapi.Droplet
	err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/droplets/current", nil, &d)
	if client.Status(err) == 404 {
		return "", nil
	}
	return d.GUID, err
}

func listDroplets(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	current, err := currentDroplet(ctx, s, app)
	if err != nil {
		return nil, err
	}
	return bitsOf(ctx, s, app, "droplets", current)
}

func listPackages(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	return bitsOf(ctx, s, app, "packages", "")
}

func packagesCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("droplets", "APP", "List an app's droplets", core.NeedsSpace, core.OnApp("Getting droplets of app %s",
			listDroplets), "my-app"),
		core.Entry("packages", "APP", "List an app's packages", core.NeedsSpace, core.OnApp("Getting packages of app %s",
			listPackages), "my-app"),
	)
}
