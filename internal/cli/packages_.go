package cli

import (
	"context"
	"net/url"
	"strings"

	"ingot/internal/cli/client"
)

// bitsRow is a package or a droplet of an app.
type bitsRow struct {
	GUID    string `json:"guid"`
	State   string `json:"state"`
	Created string `json:"created_at"`
	Current bool   `json:"current"`
}

// bitsOf lists packages or droplets, newest first.
func (s *session) bitsOf(ctx context.Context, app client.App, kind, current string) (result, error) {
	found, err := client.List[client.Droplet](ctx, s.api, "/v3/"+kind, url.Values{"app_guids": {app.GUID}, "order_by": {"-created_at"}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	out := &listing[bitsRow]{key: kind, heading: []string{"guid", "state", "created"}, cells: func(b bitsRow) []string {
		state := strings.ToLower(b.State)
		if b.Current {
			state += " (current)"
		}
		return []string{b.GUID, state, shownTime(b.Created)}
	}}
	for _, d := range found {
		out.rows = append(out.rows, bitsRow{d.GUID, d.State, d.CreatedAt.UTC().Format("2006-01-02T15:04:05Z"), d.GUID == current})
	}
	return out, nil
}

// currentDroplet returns the guid of the app's current droplet, or "".
func (s *session) currentDroplet(ctx context.Context, app client.App) (string, error) {
	var d client.Droplet
	err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/droplets/current", nil, &d)
	if client.Status(err) == 404 {
		return "", nil
	}
	return d.GUID, err
}

type dropletsCommand struct{ oneApp }

func (c *dropletsCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting droplets of app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	current, err := s.currentDroplet(ctx, app)
	if err != nil {
		return nil, err
	}
	return s.bitsOf(ctx, app, "droplets", current)
}

type packagesCommand struct{ oneApp }

func (c *packagesCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting packages of app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	return s.bitsOf(ctx, app, "packages", "")
}
