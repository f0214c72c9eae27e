package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ingot/internal/cli/client"
)

// The default timeouts of a start and a build. The environment variables of the
// cf CLI override them, in minutes.
const (
	startPatience = 5 * time.Minute
	stagePatience = 15 * time.Minute
)

// watchPause is the longest interval of requests whether a change is ready.
const watchPause = 15 * time.Millisecond

// patience returns how long to wait, in minutes in an environment variable or as usual.
func (s *session) patience(variable string, usual time.Duration) time.Duration {
	if d, err := time.ParseDuration(s.w.Getenv(variable) + "m"); err == nil && d > 0 {
		return d
	}
	return usual
}

// action calls one of the app's actions.
func (s *session) action(ctx context.Context, app *client.App, name string) error {
	_, err := s.api.Post(ctx, "/v3/apps/"+app.GUID+"/actions/"+name, nil, app)
	return err
}

// awaitRunning waits until every process with instances has a running one. It
// fails when all instances crashed.
func (s *session) awaitRunning(ctx context.Context, app client.App) error {
	return s.withLog(ctx, app, "APP", s.waitForInstances(ctx, app))
}

// waitForInstances is awaitRunning without log lines in its error.
func (s *session) waitForInstances(ctx context.Context, app client.App) error {
	s.progress.Step("Starting "+app.Name, 0)
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience("CF_STARTUP_TIMEOUT", startPatience), errTooLong)
	defer cancel()
	processes, err := client.List[client.Process](ctx, s.api, "/v3/apps/"+app.GUID+"/processes", nil)
	if err != nil {
		return err
	}
	for _, pr := range processes {
		if pr.Instances == 0 {
			continue
		}
		told := ""
		err := client.Poll(ctx, func() (bool, error) {
			stats, err := s.stats(ctx, pr.GUID)
			if err != nil {
				return false, err
			}
			told = s.notYet(stats, told)
			if len(stats) == 0 || running(stats) > 0 {
				return true, nil
			}
			for _, st := range stats {
				if st.State != "CRASHED" {
					return false, nil
				}
			}
			return false, s.crashed(app, pr, stats[0].Details)
		})
		if errors.Is(err, errTooLong) {
			return &problem{
				What: fmt.Sprintf("Process %s of %s did not start in time.", pr.Type, app.Name), Why: cmp.Or(told, "no instance became healthy"),
				Try: fmt.Sprintf("'%s logs %s --recent' shows what it does; CF_STARTUP_TIMEOUT sets the minutes to wait", s.w.Program, app.Name), cause: err,
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notYet says why an instance is not healthy yet, unless that is what was told before.
func (s *session) notYet(stats []client.Stat, told string) string {
	for _, st := range stats {
		if st.State == "STARTING" && st.Details != "" && st.Details != told {
			s.say("Not healthy yet: instance %d: %s", st.Index, st.Details)
			return st.Details
		}
	}
	return told
}

var errTooLong = errors.New("timed out")

func (s *session) crashed(app client.App, pr client.Process, details string) error {
	return &problem{
		What: fmt.Sprintf("Start unsuccessful: all instances of process %s of %s crashed.", pr.Type, app.Name), Why: details,
		Try: fmt.Sprintf("'%s logs %s --recent'", s.w.Program, app.Name),
	}
}

// stage builds a droplet from a package and shows the build log.
func (s *session) stage(ctx context.Context, app client.App, pkg string) (string, error) {
	s.say("Staging app and tracing logs...")
	return s.stageWith(ctx, app, pkg, nil, s.streams())
}

// stageWith builds a droplet from a package, with the given buildpacks instead of the
// app's, if there are any. The build log is shown while it is written, or its end if the
// build fails.
func (s *session) stageWith(ctx context.Context, app client.App, pkg string, buildpacks []string, stream bool) (string, error) {
	s.progress.Step("Staging "+app.Name, 0)
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience("CF_STAGING_TIMEOUT", stagePatience), errTooLong)
	defer cancel()
	var build client.Build
	request := map[string]any{"package": map[string]string{"guid": pkg}}
	if len(buildpacks) > 0 {
		request["lifecycle"] = map[string]any{"type": "buildpack", "data": map[string]any{"buildpacks": buildpacks}}
	}
	if _, err := s.api.Post(ctx, "/v3/builds", request, &build); err != nil {
		return "", err
	}
	stopLog, pause := func() {}, time.Second
	if stream {
		stopLog = s.followSource(ctx, app, "STG", build.CreatedAt)
	}
	if len(buildpacks) > 0 { // of a change, which does not take long
		pause = watchPause
	}
	err := client.PollWithin(ctx, pause, func() (bool, error) {
		if build.State != "STAGING" {
			return true, nil
		}
		return false, s.api.Get(ctx, "/v3/builds/"+build.GUID, nil, &build)
	})
	stopLog()
	switch {
	case errors.Is(err, errTooLong):
		return "", &problem{What: "Staging " + app.Name + " timed out.", Try: "CF_STAGING_TIMEOUT sets the minutes to wait", cause: err}
	case err != nil:
		return "", err
	case build.State == "FAILED" || build.Droplet == nil:
		p := &problem{What: "Staging " + app.Name + " failed.", Why: build.Error, Try: fmt.Sprintf("'%s logs %s --recent' shows the whole build log", s.w.Program, app.Name)}
		if strings.Contains(build.Error, "NoAppDetectedError") {
			p.Try = "choose a buildpack with -b, and check that -p is the app's folder"
		}
		if stream {
			return "", p // the lines were just shown
		}
		return "", s.withLog(ctx, app, "STG", p)
	}
	return build.Droplet.GUID, nil
}

// setDroplet sets the current droplet of an app.
func (s *session) setDroplet(ctx context.Context, app client.App, droplet string) error {
	_, err := s.api.Patch(ctx, "/v3/apps/"+app.GUID+"/relationships/current_droplet", client.Relate(droplet), nil)
	return err
}

// newestPackage returns the package that a restage builds.
func (s *session) newestPackage(ctx context.Context, app client.App) (client.Package, error) {
	found, err := client.List[client.Package](ctx, s.api, "/v3/packages", url.Values{
		"app_guids": {app.GUID}, "states": {"READY"}, "order_by": {"-created_at"}, "page": {"1"}, "per_page": {"1"},
	})
	if err != nil {
		return client.Package{}, err
	}
	if len(found) == 0 {
		return client.Package{}, &problem{What: "App " + app.Name + " has nothing to run.", Why: "no files have been pushed", Try: fmt.Sprintf("'%s push %s'", s.w.Program, app.Name)}
	}
	return found[0], nil
}

// ensureDroplet stages the newest package if the app has no current droplet.
func (s *session) ensureDroplet(ctx context.Context, app client.App) error {
	var droplet client.Droplet
	err := s.api.Get(ctx, "/v3/apps/"+app.GUID+"/droplets/current", nil, &droplet)
	if client.Status(err) != 404 {
		return err
	}
	pkg, err := s.newestPackage(ctx, app)
	if err != nil {
		return err
	}
	guid, err := s.stage(ctx, app, pkg.GUID)
	if err != nil {
		return err
	}
	return s.setDroplet(ctx, app, guid)
}

// oneApp is the positional argument of most commands.
type oneApp struct {
	Args struct {
		App string `positional-arg-name:"APP" required:"yes"`
	} `positional-args:"yes"`
}

type startCommand struct{ oneApp }

func (c *startCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Starting app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if app.State == "STARTED" {
		s.say("App %s is already started.", app.Name)
		s.ok()
		return orNil(s.summarize(ctx, app))
	}
	if err := s.ensureDroplet(ctx, app); err != nil {
		return nil, err
	}
	return s.begin(ctx, app, "start")
}

// begin starts or restarts an app and returns its status, also when the start
// fails.
func (s *session) begin(ctx context.Context, app client.App, action string) (result, error) {
	if err := s.action(ctx, &app, action); err != nil {
		return nil, err
	}
	s.say("Waiting for the app to start...")
	failed := s.awaitRunning(ctx, app)
	if failed != nil && ctx.Err() != nil {
		return nil, failed
	}
	res, err := orNil(s.summarize(ctx, app))
	if failed != nil {
		err = failed
	}
	return res, err
}

type stopCommand struct{ oneApp }

func (c *stopCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Stopping app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if app.State == "STOPPED" {
		s.say("App %s is already stopped.", app.Name)
	} else if err := s.action(ctx, &app, "stop"); err != nil {
		return nil, err
	}
	s.ok()
	return s.jsonOnly(&made{"app", app.Name, app.GUID, true}), nil
}

type restartCommand struct {
	deployFlags
	oneApp
}

func (c *restartCommand) run(ctx context.Context, s *session) (result, error) {
	options, err := c.options()
	if err != nil {
		return nil, &usage{err.Error(), "restart"}
	}
	s.doing("Restarting app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if err := s.ensureDroplet(ctx, app); err != nil {
		return nil, err
	}
	if c.Strategy != "" {
		return orNilToo(s.deploy(ctx, app, "", c.deployFlags, options))
	}
	return s.begin(ctx, app, "restart")
}

type restageCommand struct {
	deployFlags
	oneApp
}

func (c *restageCommand) run(ctx context.Context, s *session) (result, error) {
	options, err := c.options()
	if err != nil {
		return nil, &usage{err.Error(), "restage"}
	}
	s.doing("Restaging app %s", c.Args.App)
	app, err := s.app(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	pkg, err := s.newestPackage(ctx, app)
	if err != nil {
		return nil, err
	}
	droplet, err := s.stage(ctx, app, pkg.GUID)
	if err != nil {
		return nil, err
	}
	if c.Strategy != "" {
		return orNilToo(s.deploy(ctx, app, droplet, c.deployFlags, options))
	}
	if err := s.setDroplet(ctx, app, droplet); err != nil {
		return nil, err
	}
	return s.begin(ctx, app, "restart")
}
