package apps

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"ingot/internal/cli/core"
)

type restartInstanceFlags struct {
	Process string `long:"process" value-name:"TYPE" default:"web" description:"Process type"`
	Args    struct {
		App   string `positional-arg-name:"APP" required:"yes"`
		Index int    `positional-arg-name:"INDEX" required:"yes"`
	} `positional-args:"yes"`
}

func restartInstance(ctx context.Context, s *core.Session, _ core.Words, f *restartInstanceFlags) (core.Result, error) {
	s.Doing("Restarting instance %s of process %s of app %s", strconv.Itoa(f.Args.Index), f.Process, f.Args.App)
	app, err := s.App(ctx, f.Args.App)
	if err != nil {
		return nil, err
	}
	if err := s.API.Delete(ctx, fmt.Sprintf("/v3/apps/%s/processes/%s/instances/%d", app.GUID, url.PathEscape(f.Process),
		f.Args.Index)); err != nil {
		return nil, err
	}
	s.OK()
	return &core.Made{Kind: "instance", Name: fmt.Sprintf("%s/%d", app.Name, f.Args.Index), GUID: app.GUID, Existed: true},
		nil
}

func instancesCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("restart-app-instance", "APP INDEX [--process TYPE]", "Restart one instance of an app", core.NeedsSpace,
			restartInstance,
			"my-app 0"),
	)
}
