package push

import (
	"context"
	"net/http"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/apps"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type pushAppFlags struct {
	pushFlags
	Watch  bool `long:"watch" description:"Keep watching the folder and run every change; press Ctrl-C to stop"`
	NoLogs bool `long:"no-logs" description:"With --watch, do not show the app's log"`
}

// pushed are the apps that were pushed.
type pushed struct {
	Apps []*apps.Summary `json:"apps"`
}

func (r *pushed) Show(p *term.Printer) {
	for _, a := range r.Apps {
		a.Show(p)
	}
}

func pushApps(ctx context.Context, s *core.Session, w core.Words, f *pushAppFlags) (core.Result, error) {
	f.AppName = w["APP"]
	if f.NoStart && (f.Strategy != "" || f.Task) {
		return nil, core.UsageError("--no-start cannot be combined with --strategy or --task")
	}
	options, err := f.Options()
	if err == nil && f.Strategy != "" {
		err = f.sizes(options)
	}
	if err != nil {
		return nil, core.UsageError(err.Error())
	}
	if err := core.Sizes(map[string]any{}, f.Memory, f.Disk); err != nil {
		return nil, err
	}
	if f.Droplet != "" {
		if err := f.checkDroplet(s.Env); err != nil {
			return nil, err
		}
	}
	doc, plans, err := f.plans(s.Env)
	if err == nil {
		err = f.watchable(s, plans)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range plans {
		s.Doing("Pushing app %s", p.name)
	}
	// Check that there is something to push before anything is changed. The files
	// are read while the platform applies the manifest.
	loads := make([]*load, len(plans))
	for i, p := range plans {
		if loads[i], err = beginLoad(ctx, p); err != nil {
			return nil, err
		}
	}
	warnAbout(s, doc)
	s.Say("Applying the manifest...")
	s.Progress.Step("Applying the manifest", 0)
	applied, err := beginManifest(ctx, s, doc)
	if err != nil {
		return nil, err
	}
	byName, err := planned(ctx, s, plans)
	if err != nil {
		// A manifest that fails creates nothing: report its own error.
		if failed := applied(); failed != nil {
			return nil, failed
		}
		return nil, err
	}
	if f.Watch {
		return nil, f.watch(ctx, s, plans[0], byName[plans[0].name], loads[0], applied)
	}
	out := &pushed{Apps: []*apps.Summary{}}
	for i, p := range plans {
		one, err := f.pushOne(ctx, s, p, byName[p.name], loads[i], applied, options)
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
func beginManifest(ctx context.Context, s *core.Session, doc *document) (func() error, error) {
	content, err := doc.bytes()
	if err != nil {
		return nil, err
	}
	reply, err := s.API.Do(ctx, client.Call{
		Method: http.MethodPost, URL: "/v3/spaces/" + s.Config.Space.GUID + "/actions/apply_manifest", Body: content,
		ContentType: "application/x-yaml",
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var jobErr error
	go func() {
		defer close(done)
		jobErr = s.API.Job(ctx, reply)
	}()
	return func() error {
		<-done
		return jobErr
	}, nil
}

// planned finds the apps of the plans.
func planned(ctx context.Context, s *core.Session, plans []plan) (map[string]cfapi.App, error) {
	var names []string
	for _, p := range plans {
		names = append(names, strings.ReplaceAll(p.name, ",", "%2C")) // escape commas, which separate names
	}
	found, err := client.List[cfapi.App](ctx, s.API, "/v3/apps", s.InSpace("names", strings.Join(names, ",")))
	if err != nil {
		return nil, err
	}
	apps := map[string]cfapi.App{}
	for _, a := range found {
		apps[a.Name] = a
	}
	for _, p := range plans {
		if _, ok := apps[p.name]; !ok {
			return nil, &core.Problem{What: "App " + p.name + " does not exist although its manifest was applied.",
				Try: "push again"}
		}
	}
	return apps, nil
}

// pushOne uploads the files of one app, stages and starts it.
func (f *pushAppFlags) pushOne(ctx context.Context, s *core.Session, p plan, app cfapi.App, l *load,
	applied func() error, options apps.DeployOptions) (*apps.Summary, error) {
	var pkg, droplet string
	var err error
	if p.droplet != "" {
		droplet, err = uploadDroplet(ctx, s, app, p.droplet)
	} else {
		pkg, err = upload(ctx, s, p, app, l)
	}
	if err != nil {
		return nil, err
	}
	if err := applied(); err != nil {
		return nil, err
	}
	if f.NoStart {
		if droplet != "" {
			if err := apps.SetDroplet(ctx, s, app, droplet); err != nil {
				return nil, err
			}
		}
		if app.State == "STARTED" {
			if err := apps.CallAction(ctx, s, &app, "stop"); err != nil {
				return nil, err
			}
		}
		return apps.Summarize(ctx, s, app)
	}
	if droplet == "" {
		if droplet, err = apps.Stage(ctx, s, app, pkg); err != nil {
			return nil, err
		}
	}
	if f.Strategy != "" && !f.Task {
		return apps.Deploy(ctx, s, app, droplet, f.DeployFlags, options)
	}
	if f.Task && app.State == "STARTED" {
		if err := apps.CallAction(ctx, s, &app, "stop"); err != nil {
			return nil, err
		}
	}
	if err := apps.SetDroplet(ctx, s, app, droplet); err != nil {
		return nil, err
	}
	if f.Task {
		return apps.Summarize(ctx, s, app)
	}
	if err := apps.CallAction(ctx, s, &app, "restart"); err != nil {
		return nil, err
	}
	s.Say("Waiting for app %s to start...", s.Out.Bold(app.Name))
	failed := apps.AwaitRunning(ctx, s, app)
	if ctx.Err() != nil {
		return nil, failed
	}
	sum, err := apps.Summarize(ctx, s, app)
	if failed != nil {
		err = failed
	}
	return sum, err
}

func pushCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("push", "[APP] [flags]", "Upload, build and start an app", core.NeedsSpace, pushApps,
			"", "my-app -b binary_buildpack -c ./my-app -m 64M", "-f deploy/manifest.yml --var host=blue",
			"my-app -p app.jar --no-start", "my-app --strategy rolling", "my-app --watch").Alias("p").Slow().
			Explained("APP can be omitted when the manifest names it. Files listed in .cfignore are not uploaded."),
	)
}
