package cli

import "context"

type scaleCommand struct {
	Instances *int   `short:"i" value-name:"N" description:"Number of instances"`
	Memory    string `short:"m" value-name:"SIZE" description:"Memory per instance, such as 256M or 1G; restarts the app"`
	Disk      string `short:"k" value-name:"SIZE" description:"Disk per instance, such as 512M or 2G; restarts the app"`
	Process   string `long:"process" value-name:"TYPE" default:"web" description:"Process type to scale"`
	Force     bool   `short:"f" description:"Restart without asking for confirmation"`
	oneApp
}

func (c *scaleCommand) run(ctx context.Context, s *session) (result, error) {
	change := map[string]any{}
	if c.Instances != nil {
		if *c.Instances < 0 {
			return nil, &usage{"-i must not be negative", "scale"}
		}
		change["instances"] = *c.Instances
	}
	restart := false
	for _, size := range []struct{ flag, text, key string }{{"-m", c.Memory, "memory_in_mb"}, {"-k", c.Disk, "disk_in_mb"}} {
		if size.text == "" {
			continue
		}
		mb, err := megabytes(size.text)
		if err != nil {
			return nil, &usage{size.flag + ": " + err.Error(), "scale"}
		}
		change[size.key], restart = mb, true
	}
	if len(change) == 0 {
		s.doing("Showing scale of app %s", c.Args.App)
	} else {
		s.doing("Scaling app %s", c.Args.App)
	}
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if len(change) == 0 {
		return orNil(s.summarize(ctx, app))
	}
	restart = restart && app.State == "STARTED"
	if restart && !c.Force {
		if err := s.confirm(ctx, "This restarts the app. Continue"); err != nil {
			return nil, err
		}
	}
	if _, err := s.api.Post(ctx, "/v3/apps/"+app.GUID+"/processes/"+c.Process+"/actions/scale", change, nil); err != nil {
		return nil, err
	}
	if restart {
		return s.begin(ctx, app, "restart")
	}
	if app.State == "STARTED" {
		if err := s.awaitRunning(ctx, app); err != nil {
			return nil, err
		}
	}
	s.ok()
	return orNil(s.summarize(ctx, app))
}
