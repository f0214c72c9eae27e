package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
)

type restartInstanceCommand struct {
	Process string `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Args    struct {
		App   string `positional-arg-name:"APP" required:"yes"`
		Index int    `positional-arg-name:"INDEX" required:"yes"`
	} `positional-args:"yes"`
}

func (c *restartInstanceCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Restarting instance %s of process %s of app %s", strconv.Itoa(c.Args.Index), c.Process, c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if err := s.api.Delete(ctx, fmt.Sprintf("/v3/apps/%s/processes/%s/instances/%d", app.GUID, url.PathEscape(c.Process), c.Args.Index)); err != nil {
		return nil, err
	}
	s.ok()
	return &made{"instance", fmt.Sprintf("%s/%d", app.Name, c.Args.Index), app.GUID, true}, nil
}
