package push

import (
	"context"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type createAppCommand struct {
	Type string `long:"app-type" choice:"buildpack" choice:"docker" description:"App type" default:"buildpack"` //nolint:staticcheck // go-flags wants one tag a choice
	Args struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createAppCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Creating app %s", c.Args.App)
	body := map[string]any{"name": c.Args.App, "relationships": map[string]any{"space": client.Relate(s.Config.Space.GUID)}}
	if c.Type == "docker" {
		body["lifecycle"] = map[string]any{"type": "docker", "data": map[string]any{}}
	}
	var app client.App
	_, err := s.API.Post(ctx, "/v3/apps", body, &app)
	if client.Says(err, "already exists") {
		s.Say("App %s already exists.", c.Args.App)
		s.OK()
		return &core.Made{Kind: "app", Name: c.Args.App, GUID: "", Existed: true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "app", Name: app.Name, GUID: app.GUID, Existed: false}, nil
}
