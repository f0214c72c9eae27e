package apps

import (
	"context"

	"ingot/internal/cli/core"
)

type scaleFlags struct {
	Instances *int   `short:"i" value-name:"N" description:"Number of instances"`
	Memory    string `short:"m" value-name:"SIZE" description:"Memory per instance, such as 256M or 1G; restarts the app"`
	Disk      string `short:"k" value-name:"SIZE" description:"Disk per instance, such as 512M or 2G; restarts the app"`
	Process   string `long:"process" value-name:"TYPE" default:"web" description:"Process type to scale"`
	Force     bool   `short:"f" description:"Restart without asking for confirmation"`
}

func scaleApp(ctx context.Context, s *core.Session, w core.Words, f *scaleFlags) (core.Result, error) {
	change := map[string]any{}
	if f.Instances != nil {
		if *f.Instances < 0 {
			return nil, core.UsageError("-i must not be negative")
		}
		change["instances"] = *f.Instances
	}
	restart := f.Memory != "" || f.Disk != ""
	if err := core.Sizes(change, f.Memory, f.Disk); err != nil {
		return nil, err
	}
	if len(change) == 0 {
		s.Doing("Showing scale of app %s", w["APP"])
	} else {
		s.Doing("Scaling app %s", w["APP"])
	}
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if len(change) == 0 {
		return core.OrNil(Summarize(ctx, s, app))
	}
	restart = restart && app.State == "STARTED"
	if err := s.Confirm(ctx, f.Force || !restart, "This restarts the app. Continue"); err != nil {
		return nil, err
	}
	if _, err := s.API.Post(ctx, "/v3/apps/"+app.GUID+"/processes/"+f.Process+"/actions/scale", change, nil); err != nil {
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

func scaleCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("scale", "APP [-i N] [-m SIZE] [-k SIZE]", "Change or show an app's instances, memory and disk",
			core.NeedsSpace, scaleApp,
			"my-app -i 3", "my-app -m 256M -f").Slow(),
	)
}
