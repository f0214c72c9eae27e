package apps

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// DeployFlags are the flags of commands that can replace instances without
// downtime.
type DeployFlags struct {
	Strategy    string `long:"strategy" value-name:"rolling|canary" description:"Replace instances without downtime"`
	MaxInFlight *int   `long:"max-in-flight" value-name:"N" description:"Number of instances replaced at a time (default: 1)"`
	Steps       string `long:"instance-steps" value-name:"PERCENT,..." description:"Percentages of new instances at which a canary deployment pauses"`
	NoWait      bool   `long:"no-wait" description:"Do not wait for the deployment to complete"`
}

// DeployOptions are the options of a deployment; an empty value means no
// deployment.
type DeployOptions map[string]any

// Options checks the flags.
func (f *DeployFlags) Options() (DeployOptions, error) {
	o := DeployOptions{}
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

// Deploy replaces the instances of an app with instances of the given droplet, or
// of the current one if none is named.
func Deploy(ctx context.Context, s *core.Session, app cfapi.App, droplet string, f DeployFlags,
	o DeployOptions) (*Summary, error) {
	request := map[string]any{}
	if droplet != "" {
		request["droplet"] = map[string]string{"guid": droplet}
	}
	return deployFrom(ctx, s, app, request, f, o)
}

// deployFrom is like Deploy, but deploys the droplet or revision that the request names.
func deployFrom(ctx context.Context, s *core.Session, app cfapi.App, request map[string]any, f DeployFlags,
	o DeployOptions) (*Summary, error) {
	s.Say("Starting deployment for app %s...", s.Out.Bold(app.Name))
	request["strategy"], request["relationships"] = f.Strategy, map[string]any{"app": cfapi.Relate(app.GUID)}
	if len(o) > 0 {
		request["options"] = o
	}
	var d cfapi.Deployment
	if _, err := s.API.Post(ctx, "/v3/deployments", request, &d); err != nil {
		return nil, err
	}
	return followDeployment(ctx, s, app, d, f.NoWait)
}

// followDeployment waits until a deployment is finished or paused, and returns
// the app's status. A deployment that takes too long is canceled, as cf does.
func followDeployment(ctx context.Context, s *core.Session, app cfapi.App, d cfapi.Deployment,
	noWait bool) (*Summary, error) {
	var failed error
	if !noWait || d.Over() {
		s.Say("Waiting for app to deploy...")
		failed = awaitDeployment(ctx, s, app, &d)
		if failed != nil && ctx.Err() != nil {
			return nil, failed
		}
		if failed == nil && d.Status.Reason == "DEPLOYED" && app.State != "STARTED" {
			failed = AwaitRunning(ctx, s, app) // the app was stopped: the deployment has just started it
		}
	}
	if err := s.API.Get(ctx, "/v3/apps/"+app.GUID, nil, &app); err != nil {
		return nil, errors.Join(failed, err)
	}
	sum, err := Summarize(ctx, s, app)
	if failed != nil {
		err = failed
	}
	return sum, err
}

func awaitDeployment(ctx context.Context, s *core.Session, app cfapi.App, d *cfapi.Deployment) error {
	return WithLog(ctx, s, app, "APP", waitForDeployment(ctx, s, app, d))
}

func waitForDeployment(ctx context.Context, s *core.Session, app cfapi.App, d *cfapi.Deployment) error {
	s.Progress.Step("Deploying "+app.Name, 0)
	limited, cancel := context.WithTimeoutCause(ctx, Patience(s, "CF_STARTUP_TIMEOUT", StartPatience), ErrTooLong)
	defer cancel()
	told := ""
	err := client.Poll(limited, func() (bool, error) {
		if d.Over() {
			return true, nil
		}
		if text := d.Status.Details.Error; text != "" && text != told {
			told = text
			s.Say("%s; still trying", core.Title(text))
		}
		var next cfapi.Deployment
		err := s.API.Get(limited, "/v3/deployments/"+d.GUID, nil, &next)
		if err == nil {
			*d = next
		}
		for _, p := range next.NewProcesses {
			if stats, err := InstanceStats(limited, s, p.GUID); err == nil { // a failure here is reported by the deployment
				told = notYet(s, stats, told)
			}
		}
		return false, err
	})
	logs := fmt.Sprintf("'%s logs %s --recent'", s.Env.Program, app.Name)
	if errors.Is(err, ErrTooLong) {
		why := told
		if _, err := s.API.Post(ctx, "/v3/deployments/"+d.GUID+"/actions/cancel", nil, nil); err != nil {
			why = strings.TrimPrefix(why+"; canceling failed: "+err.Error(), "; ")
		}
		return &core.Problem{
			What: "The deployment of " + app.Name + " timed out and was canceled. " + whatRuns(ctx, s, app), Why: why,
			Try: logs + " shows what it does; CF_STARTUP_TIMEOUT sets the minutes to wait", Err: err,
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
		return &core.Problem{What: "The deployment of " + app.Name + " failed and was canceled. " + whatRuns(ctx, s, app),
			Why: why, Try: logs}
	}
	return &core.Problem{What: "The deployment failed.", Why: strings.ToLower(d.Status.Reason), Try: logs}
}

// whatRuns returns a sentence about what is running after a deployment that failed.
func whatRuns(ctx context.Context, s *core.Session, app cfapi.App) string {
	n, err := Routable(ctx, s, app)
	switch {
	case err != nil:
		return fmt.Sprintf("Whether the previous version is running is not known: %v.", err)
	case n == 0:
		return "No instance of the app is running."
	}
	return "The previous version keeps running."
}

// Routable returns how many web instances of an app accept requests.
func Routable(ctx context.Context, s *core.Session, app cfapi.App) (n int, err error) {
	processes, err := client.List[cfapi.Process](ctx, s.API, "/v3/apps/"+app.GUID+"/processes",
		url.Values{"types": {"web"}})
	for i := 0; err == nil && i < len(processes); i++ {
		var stats []cfapi.Stat
		if stats, err = InstanceStats(ctx, s, processes[i].GUID); client.Status(err) == http.StatusNotFound {
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

func (d *deploymentSummary) Show(p *term.Printer) {
	if d == nil {
		return
	}
	p.Println("")
	p.Println(fmt.Sprintf("Active deployment with status %s (since %s)", p.Bold(d.Status), core.ShownTime(d.Since)))
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
func activeDeployment(ctx context.Context, s *core.Session, app cfapi.App) (*deploymentSummary, error) {
	found, err := client.List[cfapi.Deployment](ctx, s.API, "/v3/deployments", url.Values{
		"app_guids": {app.GUID}, "status_values": {"ACTIVE"}, "order_by": {"-created_at"}, "page": {"1"}, "per_page": {"1"},
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	d := found[0]
	out := &deploymentSummary{
		GUID: d.GUID, Strategy: d.Strategy, Status: d.Status.Reason, Since: d.Status.Details.LastChange,
		MaxInFlight: d.Options.MaxInFlight,
		Error:       d.Status.Details.Error,
	}
	if d.Status.Canary != nil {
		out.Step, out.Steps = d.Status.Canary.Steps.Current, d.Status.Canary.Steps.Total
	}
	if out.Status == "PAUSED" {
		out.help = fmt.Sprintf("Use '%s continue-deployment %s' to continue or '%s cancel-deployment %s' to roll back.",
			s.Env.Program, app.Name, s.Env.Program, app.Name)
	}
	return out, nil
}

// deploymentOf returns the app's active deployment, or an error if none is
// active.
func deploymentOf(ctx context.Context, s *core.Session, name string) (cfapi.App, *deploymentSummary, error) {
	app, err := s.App(ctx, name)
	if err != nil {
		return app, nil, err
	}
	d, err := activeDeployment(ctx, s, app)
	if err == nil && d == nil {
		err = &core.Problem{What: "No active deployment found for app " + app.Name + ".",
			Try: fmt.Sprintf("'%s push %s --strategy rolling' starts one", s.Env.Program, app.Name)}
	}
	return app, d, err
}

type continueDeploymentFlags struct {
	NoWait bool `long:"no-wait" description:"Do not wait for the deployment to complete"`
}

func continueDeployment(ctx context.Context, s *core.Session, w core.Words,
	f *continueDeploymentFlags) (core.Result, error) {
	s.Doing("Continuing deployment of app %s", w["APP"])
	app, active, err := deploymentOf(ctx, s, w["APP"])
	if err != nil {
		return nil, err
	}
	var d cfapi.Deployment
	if _, err := s.API.Post(ctx, "/v3/deployments/"+active.GUID+"/actions/continue", nil, nil); err != nil {
		return nil, err
	}
	if err := s.API.Get(ctx, "/v3/deployments/"+active.GUID, nil, &d); err != nil {
		return nil, err
	}
	return OrNilToo(followDeployment(ctx, s, app, d, f.NoWait))
}

func cancelDeployment(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Canceling deployment of app %s", w["APP"])
	app, active, err := deploymentOf(ctx, s, w["APP"])
	if err != nil {
		return nil, err
	}
	if _, err := s.API.Post(ctx, "/v3/deployments/"+active.GUID+"/actions/cancel", nil, nil); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("TIP: Use '%s app %s' to watch the rollback.", s.Env.Program, app.Name)
	return s.JSONOnly(&core.Made{Kind: "deployment", Name: app.Name, GUID: active.GUID, Existed: true}), nil
}

func deploymentsCommands() []*core.Command {
	return core.InGroup(core.GroupApps,
		core.Entry("continue-deployment", "APP [--no-wait]", "Continue a paused canary deployment", core.NeedsSpace,
			continueDeployment,
			"my-app").Slow(),
		core.Entry("cancel-deployment", "APP", "Cancel a deployment and restore the previous version", core.NeedsSpace,
			cancelDeployment,
			"my-app").Slow(),
	)
}
