package push

import (
	"context"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type createAppFlags struct {
	Type string `long:"app-type" choice:"buildpack" choice:"docker" description:"App type" default:"buildpack"` //nolint:staticcheck // go-flags wants one tag a choice
}

func createApp(ctx context.Context, s *core.Session, w core.Words, f *createAppFlags) (core.Result, error) {
	s.Doing("Creating app %s", w["APP"])
	body := map[string]any{"name": w["APP"], "relationships": map[string]any{"space": cfapi.Relate(s.Config.Space.GUID)}}
	if f.Type == "docker" {
		body["lifecycle"] = map[string]any{"type": "docker", "data": map[string]any{}}
	}
	var app cfapi.App
	_, err := s.API.Post(ctx, "/v3/apps", body, &app)
	if client.Says(err, "already exists") {
		return s.Exists("App", "app", w["APP"]), nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "app", Name: app.Name, GUID: app.GUID, Existed: false}, nil
}

func createAppCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("create-app", "APP", "Create an app without files", core.NeedsSpace, createApp, "my-app"),
	)
}
