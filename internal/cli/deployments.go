package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/term"
)

// deployFlags are the flags of commands that can replace instances without
// downtime.
type deployFlags struct {
	Strategy    string `long:"strategy" value-name:"rolling|canary" description:"Replace instances without downtime"`
	MaxInFlight *int   `long:"max-in-flight" value-name:"N" description:"Number of instances replaced at a time (default: 1)"`
	Steps       string `long:"instance-steps" value-name:"PERCENT,..." description:"Percentages of new instances at which a canary deployment pauses"`
	NoWait      bool   `long:"no-wait" description:"Do not wait for the deployment to complete"`
}

// deployOptions are the options of a deployment; an empty value means no
// deployment.
type deployOptions map[string]any

// options checks the flags.
func (f *deployFlags) options() (deployOptions, error) {
	o := deployOptions{}
	switch {
	case f.Strategy != "" && f.Strategy != "rolling" && f.Strategy != "canary":
		return nil, fmt.Errorf("--strategy %s is neither rolling nor canary", f.Strategy)
	case f.MaxInFlight != nil && f.Strategy == "":
		return nil, errors.New("--max-in-flight needs --strategy")
	case f.MaxInFlight != nil && *f.MaxInFlight < 1:
		return nil, errors.New("--max-in-flight must be at least 1")
	case f.Steps != "" && f.Strategy != "canary":
		return nil, errors.New("--instance-steps needs --strategy canary")
	}
	if f.MaxInFlight != nil {
		o["max_in_flight"] = *f.MaxInFlight
	}
	if f.Steps != "" {
		var steps []map[string]int
		for _, text := range strings.Split(f.Steps, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < 1 || n > 100 {
				return nil, fmt.Errorf("--instance-steps %s: %q is not a percentage from 1 to 100", f.Steps, text)
			}
			steps = append(steps, map[string]int{"instance_weight": n})
		}
		o["canary"] = map[string]any{"steps": steps}
	}
	return o, nil
}

// deploy replaces the instances of an app with instances of the given droplet, or
// of the current one if none is named.
func (s *session) deploy(ctx context.Context, app client.App, droplet string, f deployFlags, o deployOptions) (*summary, error) {
	request := map[string]any{}
	if droplet != "" {
		request["droplet"] = map[string]string{"guid": droplet}
	}
	return s.deployFrom(ctx, app, request, f, o)
}

// deployFrom is like deploy, of what the request names.
func (s *session) deployFrom(ctx context.Context, app client.App, request map[string]any, f deployFlags, o deployOptions) (*summary, error) {
	s.say("Starting deployment for app %s...", s.out.Bold(app.Name))
	request["strategy"], request["relationships"] = f.Strategy, map[string]any{"app": client.Relate(app.GUID)}
	if len(o) > 0 {
		request["options"] = o
	}
	var d client.Deployment
	if _, err := s.api.Post(ctx, "/v3/deployments", request, &d); err != nil {
		return nil, err
	}
	return s.followDeployment(ctx, app, d, f.NoWait)
}

// followDeployment waits until a deployment is finished or paused, and returns
// the app's status. A deployment that takes too long is canceled, as cf does.
func (s *session) followDeployment(ctx context.Context, app client.App, d client.Deployment, noWait bool) (*summary, error) {
	var failed error
	if !noWait || d.Over() {
		s.say("Waiting for app to deploy...")
		failed = s.awaitDeployment(ctx, app, &d)
		if failed != nil && ctx.Err() != nil {
			return nil, failed
		}
		if failed == nil && d.Status.Reason == "DEPLOYED" && app.State != "STARTED" {
			failed = s.awaitRunning(ctx, app) // the app was stopped: the deployment has just started it
		}
	}
	if err := s.api.Get(ctx, "/v3/apps/"+app.GUID, nil, &app); err != nil {
		return nil, errors.Join(failed, err)
	}
	sum, err := s.summarize(ctx, app)
	if failed != nil {
		err = failed
	}
	return sum, err
}

func (s *session) awaitDeployment(ctx context.Context, app client.App, d *client.Deployment) error {
	return s.withLog(ctx, app, "APP", s.waitForDeployment(ctx, app, d))
}

func (s *session) waitForDeployment(ctx context.Context, app client.App, d *client.Deployment) error {
	s.progress.Step("Deploying "+app.Name, 0)
	limited, cancel := context.WithTimeoutCause(ctx, s.patience("CF_STARTUP_TIMEOUT", startPatience), errTooLong)
	defer cancel()
	told := ""
	err := client.Poll(limited, func() (bool, error) {
		if d.Over() {
			return true, nil
		}
		if text := d.Status.Details.Error; text != "" && text != told {
			told = text
			s.say("%s; still trying", title(text))
		}
		var next client.Deployment
		err := s.api.Get(limited, "/v3/deployments/"+d.GUID, nil, &next)
		if err == nil {
			*d = next
		}
		for _, p := range next.NewProcesses {
			if stats, err := s.stats(limited, p.GUID); err == nil { // its failures are those of the deployment
				told = s.notYet(stats, told)
			}
		}
		return false, err
	})
	logs := fmt.Sprintf("'%s logs %s --recent'", s.w.Program, app.Name)
	if errors.Is(err, errTooLong) {
		why := told
		if _, err := s.api.Post(ctx, "/v3/deployments/"+d.GUID+"/actions/cancel", nil, nil); err != nil {
			why = strings.TrimPrefix(why+"; canceling failed: "+err.Error(), "; ")
		}
		return &problem{
			What: "The deployment of " + app.Name + " timed out and was canceled. " + s.whatRuns(ctx, app), Why: why,
			Try: logs + " shows what it does; CF_STARTUP_TIMEOUT sets the minutes to wait", cause: err,
		}
	}
	if err != nil {
		return err
	}
	switch d.Status.Reason {
	case "DEPLOYED", "PAUSED":
		return nil
	}
	if why := d.Status.Details.Error; why != "" {
		return &problem{What: "The deployment of " + app.Name + " failed and was canceled. " + s.whatRuns(ctx, app), Why: why, Try: logs}
	}
	return &problem{What: "The deployment failed.", Why: strings.ToLower(d.Status.Reason), Try: logs}
}

// whatRuns returns a sentence about what is running after a deployment that failed.
func (s *session) whatRuns(ctx context.Context, app client.App) string {
	n, err := s.routable(ctx, app)
	switch {
	case err != nil:
		return fmt.Sprintf("Whether the previous version is running is not known: %v.", err)
	case n == 0:
		return "No instance of the app is running."
	}
	return "The previous version keeps running."
}

// routable returns how many web instances of an app accept requests.
func (s *session) routable(ctx context.Context, app client.App) (n int, err error) {
	processes, err := client.List[client.Process](ctx, s.api, "/v3/apps/"+app.GUID+"/processes", url.Values{"types": {"web"}})
	for i := 0; err == nil && i < len(processes); i++ {
		var stats []client.Stat
		if stats, err = s.stats(ctx, processes[i].GUID); client.Status(err) == http.StatusNotFound {
			err = nil // its deployment has ended
		}
		for _, st := range stats {
			if st.State == "RUNNING" && (st.Routable == nil || *st.Routable) {
				n++
			}
		}
	}
	return n, err
}

// deploymentSummary describes an active deployment.
type deploymentSummary struct {
	GUID        string `json:"guid"`
	Strategy    string `json:"strategy"`
	Status      string `json:"status"`
	Since       string `json:"since"`
	MaxInFlight int    `json:"max_in_flight"`
	Step        int    `json:"canary_step,omitempty"`
	Steps       int    `json:"canary_steps,omitempty"`
	Error       string `json:"error,omitempty"`

	help string
}

func (d *deploymentSummary) show(p *term.Printer) {
	if d == nil {
		return
	}
	p.Println("")
	p.Println(fmt.Sprintf("Active deployment with status %s (since %s)", p.Bold(d.Status), shownTime(d.Since)))
	rows := [][2]string{{"strategy", d.Strategy}, {"max-in-flight", strconv.Itoa(d.MaxInFlight)}}
	if d.Steps > 0 {
		rows = append(rows, [2]string{"canary-steps", fmt.Sprintf("%d/%d", d.Step, d.Steps)})
	}
	if d.Error != "" {
		rows = append(rows, [2]string{"error", d.Error})
	}
	p.Pairs(rows...)
	if d.help != "" {
		p.Println(d.help)
	}
}

// activeDeployment returns the app's active deployment, or nil.
func (s *session) activeDeployment(ctx context.Context, app client.App) (*deploymentSummary, error) {
	found, err := client.List[client.Deployment](ctx, s.api, "/v3/deployments", url.Values{
		"app_guids": {app.GUID}, "status_values": {"ACTIVE"}, "order_by": {"-created_at"}, "page": {"1"}, "per_page": {"1"},
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	d := found[0]
	out := &deploymentSummary{
		GUID: d.GUID, Strategy: d.Strategy, Status: d.Status.Reason, Since: d.Status.Details.LastChange, MaxInFlight: d.Options.MaxInFlight,
		Error: d.Status.Details.Error,
	}
	if d.Status.Canary != nil {
		out.Step, out.Steps = d.Status.Canary.Steps.Current, d.Status.Canary.Steps.Total
	}
	if out.Status == "PAUSED" {
		out.help = fmt.Sprintf("Use '%s continue-deployment %s' to continue or '%s cancel-deployment %s' to roll back.", s.w.Program, app.Name, s.w.Program, app.Name)
	}
	return out, nil
}

// deploymentOf returns the app's active deployment, or an error if none is
// active.
func (s *session) deploymentOf(ctx context.Context, name string) (client.App, *deploymentSummary, error) {
	app, err := s.app(ctx, name)
	if err != nil {
		return app, nil, err
	}
	d, err := s.activeDeployment(ctx, app)
	if err == nil && d == nil {
		err = &problem{What: "No active deployment found for app " + app.Name + ".", Try: fmt.Sprintf("'%s push %s --strategy rolling' starts one", s.w.Program, app.Name)}
	}
	return app, d, err
}

type continueDeploymentCommand struct {
	NoWait bool `long:"no-wait" description:"Do not wait for the deployment to complete"`
	oneApp
}

func (c *continueDeploymentCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Continuing deployment of app %s", c.Args.App)
	app, active, err := s.deploymentOf(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	var d client.Deployment
	if _, err := s.api.Post(ctx, "/v3/deployments/"+active.GUID+"/actions/continue", nil, nil); err != nil {
		return nil, err
	}
	if err := s.api.Get(ctx, "/v3/deployments/"+active.GUID, nil, &d); err != nil {
		return nil, err
	}
	return orNilToo(s.followDeployment(ctx, app, d, c.NoWait))
}

type cancelDeploymentCommand struct{ oneApp }

func (c *cancelDeploymentCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Canceling deployment of app %s", c.Args.App)
	app, active, err := s.deploymentOf(ctx, c.Args.App)
	if err != nil {
		return nil, err
	}
	if _, err := s.api.Post(ctx, "/v3/deployments/"+active.GUID+"/actions/cancel", nil, nil); err != nil {
		return nil, err
	}
	s.ok()
	s.say("TIP: Use '%s app %s' to watch the rollback.", s.w.Program, app.Name)
	return s.jsonOnly(&made{"deployment", app.Name, active.GUID, true}), nil
}
