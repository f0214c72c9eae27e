package apps

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"ingot/internal/cli/core"
)

type restartInstanceCommand struct {
	Process string `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Args    struct {
		App   string `positional-arg-name:"APP" required:"yes"`
		Index int    `positional-arg-name:"INDEX" required:"yes"`
	} `positional-args:"yes"`
}

func (c *restartInstanceCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Restarting instance %s of process %s of app %s", strconv.Itoa(c.Args.Index), c.Process, c.Args.App)
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if err := s.API.Delete(ctx, fmt.Sprintf("/v3/apps/%s/processes/%s/instances/%d", app.GUID, url.PathEscape(c.Process), c.Args.Index)); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "instance", Name: fmt.Sprintf("%s/%d", app.Name, c.Args.Index), GUID: app.GUID, Existed: true}, nil
}
