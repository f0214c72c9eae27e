package cli

import (
	"context"

	"ingot/internal/cli/client"
)

type createAppCommand struct {
	Type string `long:"app-type" choice:"buildpack" choice:"docker" description:"App type" default:"buildpack"` //nolint:staticcheck // go-flags wants one tag a choice
	Args struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createAppCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Creating app %s", c.Args.App)
	body := map[string]any{"name": c.Args.App, "relationships": map[string]any{"space": client.Relate(s.cfg.Space.GUID)}}
	if c.Type == "docker" {
		body["lifecycle"] = map[string]any{"type": "docker", "data": map[string]any{}}
	}
	var app client.App
	_, err := s.api.Post(ctx, "/v3/apps", body, &app)
	if client.Says(err, "already exists") {
		s.say("App %s already exists.", c.Args.App)
		s.ok()
		return &made{"app", c.Args.App, "", true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	return &made{"app", app.Name, app.GUID, false}, nil
}
