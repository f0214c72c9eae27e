package apps

import (
	"context"

	"ingot/internal/cli/core"
)

type scaleCommand struct {
	Instances *int   `short:"i" value-name:"N" description:"Number of instances"`
	Memory    string `short:"m" value-name:"SIZE" description:"Memory per instance, such as 256M or 1G; restarts the app"`
	Disk      string `short:"k" value-name:"SIZE" description:"Disk per instance, such as 512M or 2G; restarts the app"`
	Process   string `long:"process" value-name:"TYPE" default:"web" description:"Process type to scale"`
	Force     bool   `short:"f" description:"Restart without asking for confirmation"`
	oneApp
}

func (c *scaleCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	change := map[string]any{}
	if c.Instances != nil {
		if *c.Instances < 0 {
			return nil, core.UsageError("-i must not be negative")
		}
		change["instances"] = *c.Instances
	}
	restart := false
	for _, size := range []struct{ flag, text, key string }{{"-m", c.Memory, "memory_in_mb"}, {"-k", c.Disk, "disk_in_mb"}} {
		if size.text == "" {
			continue
		}
		mb, err := core.Megabytes(size.text)
		if err != nil {
			return nil, core.UsageError(size.flag + ": " + err.Error())
		}
		change[size.key], restart = mb, true
	}
	if len(change) == 0 {
		s.Doing("Showing scale of app %s", c.Args.App)
	} else {
		s.Doing("Scaling app %s", c.Args.App)
	}
	app, err := s.App(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if len(change) == 0 {
		return core.OrNil(Summarize(ctx, s, app))
	}
	restart = restart && app.State == "STARTED"
	if restart && !c.Force {
		if err := s.Confirm(ctx, "This restarts the app. Continue"); err != nil {
			return nil, err
		}
	}
	if _, err := s.API.Post(ctx, "/v3/apps/"+app.GUID+"/processes/"+c.Process+"/actions/scale", change, nil); err != nil {
		return nil, err
	}
	if restart {
		return Begin(ctx, s, app, "restart")
	}
	if app.State == "STARTED" {
		if err := AwaitRunning(ctx, s, app); err != nil {
			return nil, err
		}
	}
	s.OK()
	return core.OrNil(Summarize(ctx, s, app))
}
