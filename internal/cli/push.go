package cli

import (
	"context"
	"net/http"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
)

type pushCommand struct {
	pushFlags
	Watch  bool `long:"watch" description:"Keep watching the folder and run every change; press Ctrl-C to stop"`
	NoLogs bool `long:"no-logs" description:"With --watch, do not show the app's log"`
	Args   struct {
		App string `positional-arg-name:"APP"`
	} `positional-args:"yes"`
}

// pushed are the apps that were pushed.
type pushed struct {
	Apps []*summary `json:"apps"`
}

func (r *pushed) show(p *term.Printer) {
	for _, a := range r.Apps {
		a.show(p)
	}
}

func (c *pushCommand) run(ctx context.Context, s *session) (result, error) {
	c.AppName = c.Args.App
	if c.NoStart && (c.Strategy != "" || c.Task) {
		return nil, &usage{"--no-start cannot be combined with --strategy or --task", "push"}
	}
	options, err := c.options()
	if err == nil && c.Strategy != "" {
		err = c.sizes(options)
	}
	if err != nil {
		return nil, &usage{err.Error(), "push"}
	}
	for _, size := range []struct{ flag, text string }{{"-m", c.Memory}, {"-k", c.Disk}} {
		if size.text == "" {
			continue
		}
		if _, err := megabytes(size.text); err != nil {
			return nil, &usage{size.flag + ": " + err.Error(), "push"}
		}
	}
	if c.Droplet != "" {
		if err := c.checkDroplet(s.w); err != nil {
			return nil, err
		}
	}
	doc, plans, err := c.plans(s.w)
	if err == nil {
		err = c.watchable(s, plans)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range plans {
		s.doing("Pushing app %s", p.name)
	}
	// Check that there is something to push before anything is changed. The files
	// are read while the platform applies the manifest.
	loads := make([]*load, len(plans))
	for i, p := range plans {
		if loads[i], err = beginLoad(ctx, p); err != nil {
			return nil, err
		}
	}
	s.warn(doc)
	s.say("Applying the manifest...")
	s.progress.Step("Applying the manifest", 0)
	applied, err := s.beginManifest(ctx, doc)
	if err != nil {
		return nil, err
	}
	byName, err := s.planned(ctx, plans)
	if err != nil {
		// A manifest that fails creates nothing: report its own error.
		if failed := applied(); failed != nil {
			return nil, failed
		}
		return nil, err
	}
	if c.Watch {
		return nil, c.watch(ctx, s, plans[0], byName[plans[0].name], loads[0], applied)
	}
	out := &pushed{Apps: []*summary{}}
	for i, p := range plans {
		one, err := c.pushOne(ctx, s, p, byName[p.name], loads[i], applied, options)
		if one != nil {
			out.Apps = append(out.Apps, one)
		}
		if err != nil && len(out.Apps) == 0 {
			return nil, err
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// beginManifest sends a manifest. The returned function waits until it is
// applied; the apps exist before that.
func (s *session) beginManifest(ctx context.Context, doc *document) (func() error, error) {
	content, err := doc.bytes()
	if err != nil {
		return nil, err
	}
	reply, err := s.api.Do(ctx, client.Call{
		Method: http.MethodPost, URL: "/v3/spaces/" + s.cfg.Space.GUID + "/actions/apply_manifest", Body: content, ContentType: "application/x-yaml",
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var jobErr error
	go func() {
		defer close(done)
		jobErr = s.api.Job(ctx, reply)
	}()
	return func() error {
		<-done
		return jobErr
	}, nil
}

// planned finds the apps of the plans.
func (s *session) planned(ctx context.Context, plans []plan) (map[string]client.App, error) {
	var names []string
	for _, p := range plans {
		names = append(names, strings.ReplaceAll(p.name, ",", "%2C")) // escape commas, which separate names
	}
	found, err := client.List[client.App](ctx, s.api, "/v3/apps", s.in("names", strings.Join(names, ",")))
	if err != nil {
		return nil, err
	}
	apps := map[string]client.App{}
	for _, a := range found {
		apps[a.Name] = a
	}
	for _, p := range plans {
		if _, ok := apps[p.name]; !ok {
			return nil, &problem{What: "App " + p.name + " does not exist although its manifest was applied.", Try: "push again"}
		}
	}
	return apps, nil
}

// pushOne uploads the files of one app, stages and starts it.
func (c *pushCommand) pushOne(ctx context.Context, s *session, p plan, app client.App, l *load, applied func() error, options deployOptions) (*summary, error) {
	var pkg, droplet string
	var err error
	if p.droplet != "" {
		droplet, err = s.uploadDroplet(ctx, app, p.droplet)
	} else {
		pkg, err = s.upload(ctx, p, app, l)
	}
	if err != nil {
		return nil, err
	}
	if err := applied(); err != nil {
		return nil, err
	}
	if c.NoStart {
		if droplet != "" {
			if err := s.setDroplet(ctx, app, droplet); err != nil {
				return nil, err
			}
		}
		if app.State == "STARTED" {
			if err := s.action(ctx, &app, "stop"); err != nil {
				return nil, err
			}
		}
		return s.summarize(ctx, app)
	}
	if droplet == "" {
		if droplet, err = s.stage(ctx, app, pkg); err != nil {
			return nil, err
		}
	}
	if c.Strategy != "" && !c.Task {
		return s.deploy(ctx, app, droplet, c.deployFlags, options)
	}
	if c.Task && app.State == "STARTED" {
		if err := s.action(ctx, &app, "stop"); err != nil {
			return nil, err
		}
	}
	if err := s.setDroplet(ctx, app, droplet); err != nil {
		return nil, err
	}
	if c.Task {
		return s.summarize(ctx, app)
	}
	if err := s.action(ctx, &app, "restart"); err != nil {
		return nil, err
	}
	s.say("Waiting for app %s to start...", s.out.Bold(app.Name))
	failed := s.awaitRunning(ctx, app)
	if ctx.Err() != nil {
		return nil, failed
	}
	sum, err := s.summarize(ctx, app)
	if failed != nil {
		err = failed
	}
	return sum, err
}
