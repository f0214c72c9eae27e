package apps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// The default timeouts of a start and a build. The environment variables of the
// cf CLI override them, in minutes.
const (
	StartPatience = 5 * time.Minute
	stagePatience = 15 * time.Minute
)

// WatchPause is the longest interval of requests whether a change is ready.
const WatchPause = 15 * time.Millisecond

// Patience returns how long to wait, in minutes in an environment variable or as usual.
func Patience(s *core.Session, variable string, usual time.Duration) time.Duration {
	if d, err := time.ParseDuration(s.Env.Getenv(variable) + "m"); err == nil && d > 0 {
		return d
	}
	return usual
}

// CallAction calls one of the app's actions.
func CallAction(ctx context.Context, s *core.Session, app *cfapi.App, name string) error {
	_, err := s.API.Post(ctx, "/v3/apps/"+app.GUID+"/actions/"+name, nil, app)
	return err
}

// AwaitRunning waits until every process with instances has a running one. It
// fails when all instances crashed.
func AwaitRunning(ctx context.Context, s *core.Session, app cfapi.App) error {
	return WithLog(ctx, s, app, "APP", WaitForInstances(ctx, s, app))
}

// WaitForInstances is awaitRunning without log lines in its error.
func WaitForInstances(ctx context.Context, s *core.Session, app cfapi.App) error {
	s.Progress.Step("Starting "+app.Name, 0)
	ctx, cancel := context.WithTimeoutCause(ctx, Patience(s, "CF_STARTUP_TIMEOUT", StartPatience), ErrTooLong)
	defer cancel()
	processes, err := client.List[cfapi.Process](ctx, s.API, "/v3/apps/"+app.GUID+"/processes", nil)
	if err != nil {
		return err
	}
	for _, pr := range processes {
		if pr.Instances == 0 {
			continue
		}
		told := ""
		err := client.Poll(ctx, func() (bool, error) {
			stats, err := InstanceStats(ctx, s, pr.GUID)
			if err != nil {
				return false, err
			}
			told = notYet(s, stats, told)
			if len(stats) == 0 || running(stats) > 0 {
				return true, nil
			}
			for _, st := range stats {
				if st.State != "CRASHED" {
					return false, nil
				}
			}
			return false, crashed(s, app, pr, stats[0].Details)
		})
		if errors.Is(err, ErrTooLong) {
			return &core.Problem{
				What: fmt.Sprintf("Process %s of %s did not start in time.", pr.Type, app.Name),
				Why:  cmp.Or(told, "no instance became healthy"),
				Try: fmt.Sprintf("'%s logs %s --recent' shows what it does; CF_STARTUP_TIMEOUT sets the minutes to wait",
					s.Env.Program, app.Name), Err: err,
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notYet says why an instance is not healthy yet, unless that is what was told before.
func notYet(s *core.Session, stats []cfapi.Stat, told string) string {
	for _, st := range stats {
		if st.State == "STARTING" && st.Details != "" && st.Details != told {
			s.Say("Not healthy yet: instance %d: %s", st.Index, st.Details)
			return st.Details
		}
	}
	return told
}

var ErrTooLong = errors.New("timed out")

func crashed(s *core.Session, app cfapi.App, pr cfapi.Process, details string) error {
	return &core.Problem{
		What: fmt.Sprintf("Start unsuccessful: all instances of process %s of %s crashed.", pr.Type, app.Name), Why: details,
		Try: fmt.Sprintf("'%s logs %s --recent'", s.Env.Program, app.Name),
	}
}

// Stage builds a droplet from a package and shows the build log.
func Stage(ctx context.Context, s *core.Session, app cfapi.App, pkg string) (string, error) {
	s.Say("Staging app and tracing logs...")
	return StageWith(ctx, s, app, pkg, nil, Streams(s))
}

// StageWith builds a droplet from a package, with the given buildpacks instead of the
// app's, if there are any. The build log is shown while it is written, or its end if the
// build fails.
func StageWith(ctx context.Context, s *core.Session, app cfapi.App, pkg string, buildpacks []string,
	stream bool) (string, error) {
	s.Progress.Step("Staging "+app.Name, 0)
	ctx, cancel := context.WithTimeoutCause(ctx, Patience(s, "CF_STAGING_TIMEOUT", stagePatience), ErrTooLong)
	defer cancel()
	var build cfapi.Build
	request := map[string]any{"package": map[string]string{"guid": pkg}}
	if len(buildpacks) > 0 {
		request["lifecycle"] = map[string]any{"type": "buildpack", "data": map[string]any{"buildpacks": buildpacks}}
	}
	if _, err := s.API.Post(ctx, "/v3/builds", request, &build); err != nil {
		return "", err
	}
	stopLog, pause := func() {}, time.Second
	if stream {
		stopLog = followSource(ctx, s, app, "STG", build.CreatedAt)
	}
	if len(buildpacks) > 0 { // of a change, which does not take long
		pause = WatchPause
	}
	err := client.PollWithin(ctx, pause, func() (bool, error) {
		if build.State != "STAGING" {
			return true, nil
		}
		return false, s.API.Get(ctx, "/v3/builds/"+build.GUID, nil, &build)
	})
	stopLog()
	switch {
	case errors.Is(err, ErrTooLong):
		return "", &core.Problem{What: "Staging " + app.Name + " timed out.",
			Try: "CF_STAGING_TIMEOUT sets the minutes to wait", Err: err}
	case err != nil:
		return "", err
	case build.State == "FAILED" || build.Droplet == nil:
		p := &core.Problem{What: "Staging " + app.Name + " failed.", Why: build.Error,
			Try: fmt.Sprintf("'%s logs %s --recent' shows the whole build log", s.Env.Program, app.Name)}
		if strings.Contains(build.Error, "NoAppDetectedError") {
			p.Try = "choose a buildpack with -b, and check that -p is the app's folder"
		}
		if stream {
			return "", p // the lines were just shown
		}
		return "", WithLog(ctx, s, app, "STG", p)
	}
	return build.Droplet.GUID, nil
}

// SetDroplet sets the current droplet of an app.
func SetDroplet(ctx context.Context, s *core.Session, app cfapi.App, droplet string) error {
	_, err := s.API.Patch(ctx, "/v3/apps/"+app.GUID+"/relationships/current_droplet", cfapi.Relate(droplet), nil)
	return err
}

// NewestPackage returns the package that a restage builds.
func NewestPackage(ctx context.Context, s *core.Session, app cfapi.App) (cfapi.Package, error) {
	found, err := client.List[cfapi.Package](ctx, s.API, "/v3/packages", url.Values{
		"app_guids": {app.GUID}, "states": {"READY"}, "order_by": {"-created_at"}, "page": {"1"}, "per_page": {"1"},
	})
	if err != nil {
		return cfapi.Package{}, err
	}
	if len(found) == 0 {
		return cfapi.Package{}, &core.Problem{What: "App " + app.Name + " has nothing to run.",
			Why: "no files have been pushed", Try: fmt.Sprintf("'%s push %s'", s.Env.Program, app.Name)}
	}
	return found[0], nil
}

// ensureDroplet stages the newest package if the app has no current droplet.
func ensureDroplet(ctx context.Context, s *core.Session, app cfapi.App) error {
	var droplet cfapi.Droplet
	err := s.API.Get(ctx, "/v3/apps/"+app.GUID+"/droplets/current", nil, &droplet)
	if client.Status(err) != 404 {
		return err
	}
	pkg, err := NewestPackage(ctx, s, app)
	if err != nil {
		return err
	}
	guid, err := Stage(ctx, s, app, pkg.GUID)
	if err != nil {
		return err
	}
	return SetDroplet(ctx, s, app, guid)
}

func startApp(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	if app.State == "STARTED" {
		s.Say("App %s is already started.", app.Name)
		s.OK()
		return core.OrNil(Summarize(ctx, s, app))
	}
	if err := ensureDroplet(ctx, s, app); err != nil {
		return nil, err
	}
	return Begin(ctx, s, app, "start")
}

// Begin starts or restarts an app and returns its status, also when the start
// fails.
func Begin(ctx context.Context, s *core.Session, app cfapi.App, action string) (core.Result, error) {
	if err := CallAction(ctx, s, &app, action); err != nil {
		return nil, err
	}
	s.Say("Waiting for the app to start...")
	failed := AwaitRunning(ctx, s, app)
	if failed != nil && ctx.Err() != nil {
		return nil, failed
	}
	res, err := core.OrNil(Summarize(ctx, s, app))
	if failed != nil {
		err = failed
	}
	return res, err
}

func stopApp(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	if app.State == "STOPPED" {
		s.Say("App %s is already stopped.", app.Name)
	} else if err := CallAction(ctx, s, &app, "stop"); err != nil {
		return nil, err
	}
	s.OK()
	return s.JSONOnly(&core.Made{Kind: "app", Name: app.Name, GUID: app.GUID, Existed: true}), nil
}

func restartApp(ctx context.Context, s *core.Session, w core.Words, f *DeployFlags) (core.Result, error) {
	options, err := f.Options()
	if err != nil {
		return nil, core.UsageError(err.Error())
	}
	s.Doing("Restarting app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	if err := ensureDroplet(ctx, s, app); err != nil {
		return nil, err
	}
	if f.Strategy != "" {
		return OrNilToo(Deploy(ctx, s, app, "", *f, options))
	}
	return Begin(ctx, s, app, "restart")
}

func restageApp(ctx context.Context, s *core.Session, w core.Words, f *DeployFlags) (core.Result, error) {
	options, err := f.Options()
	if err != nil {
		return nil, core.UsageError(err.Error())
	}
	s.Doing("Restaging app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	pkg, err := NewestPackage(ctx, s, app)
	if err != nil {
		return nil, err
	}
	droplet, err := Stage(ctx, s, app, pkg.GUID)
	if err != nil {
		return nil, err
	}
	if f.Strategy != "" {
		return OrNilToo(Deploy(ctx, s, app, droplet, *f, options))
	}
	if err := SetDroplet(ctx, s, app, droplet); err != nil {
		return nil, err
	}
	return Begin(ctx, s, app, "restart")
}

func lifecycleCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("start", "APP", "Start an app", core.NeedsSpace, core.OnApp("Starting app %s", startApp), "my-app").
			Alias("st").Slow(),
		core.Entry("stop", "APP", "Stop an app", core.NeedsSpace, core.OnApp("Stopping app %s", stopApp), "my-app").
			Alias("sp"),
		core.Entry("restart", "APP [--strategy rolling|canary]", "Restart an app", core.NeedsSpace, restartApp,
			"my-app", "my-app --strategy rolling --max-in-flight 2").Alias("rs").Slow(),
		core.Entry("restage", "APP [--strategy rolling|canary]", "Rebuild an app from its newest package and restart it",
			core.NeedsSpace, restageApp,
			"my-app", "my-app --strategy rolling").Alias("rg").Slow(),
	)
}
