package gitpush

import (
	"context"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

const (
	// startTime is how long the new version may take, as in the client.
	startTime = 5 * time.Minute
	undoTime  = 20 * time.Second
	// provenAfter is how long a new version must be ready before it replaces the one before it, unless the
	// app's manifest says otherwise: shorter than in other deployments, because a developer waits for it.
	provenAfter = 250 * time.Millisecond
)

// launched is a version of the app that is being started.
type launched struct {
	*platform.Deployment
	// stopped: the app was stopped before, and previous was its droplet.
	stopped  bool
	previous string
}

// launch replaces the running version by a droplet and waits until it runs. Otherwise the version
// before keeps running.
func (p *push) launch(w *watch, droplet string) error {
	p.terminal.say("Starting %s...", p.name)
	v, err := rest.Update(p.Server, p.r, func(req *rest.Request) (*launched, error) {
		app, err := req.AppNamed(p.app.GUID, platform.Develop)
		if err != nil {
			return nil, err
		}
		v := &launched{stopped: app.State == platform.AppStopped, previous: app.DropletGUID}
		v.Deployment = &platform.Deployment{Strategy: platform.StrategyRolling, MaxInFlight: 1, DropletGUID: droplet}
		web, err := actions.ProcessOf(req.Tx, app.GUID, platform.WebProcess)
		switch {
		case err == nil:
			v.Options.MinHealthyMS = minHealthy(web)
		case !fault.Is(err, fault.NotFound): // the deployment says that it is missing
			return nil, err
		}
		return v, p.Platform.CreateDeployment(req.Tx, req.Caller.Actor(), app, v.Deployment)
	})
	if err != nil {
		return err
	}
	deadline := p.Platform.Now().Add(startTime)
	err = w.until(p.r.Context(), func() (running bool, err error) {
		err = p.Store.View(p.r.Context(), func(tx platform.Tx) error {
			running, err = v.runs(tx, w)
			return err
		})
		if err == nil && !running && p.Platform.Now().After(deadline) {
			err = fault.New(fault.Unprocessable, "the app did not start within %v", startTime)
		}
		return running, err
	})
	if err == nil {
		return p.showAddresses()
	}
	if p.r.Context().Err() != nil {
		return err // the deployment goes on after the restart of the server
	}
	if undo := p.undo(v); undo != nil {
		p.Log.WarnContext(p.r.Context(), "a failed git push could not be undone", "app", p.app.GUID, "error", undo)
	}
	return err
}

// minHealthy returns how many milliseconds a new instance of a process has to be ready.
func minHealthy(web *platform.Process) *int64 {
	ms := provenAfter.Milliseconds()
	if web.MinHealthy != nil {
		ms = int64(*web.MinHealthy) * 1000
	}
	return &ms
}

// runs reports whether the new version has replaced the old one, or why it cannot.
func (v *launched) runs(tx platform.Tx, w *watch) (bool, error) {
	d, err := tx.Deployments().Get(v.GUID)
	if err != nil {
		return false, err
	}
	web, err := tx.Processes().Get(d.WebGUID)
	if fault.Is(err, fault.NotFound) {
		return false, fault.New(fault.Unprocessable, "another deployment or a restart of the app replaced this one")
	}
	if err != nil {
		return false, err
	}
	instances, _, err := tx.Instances().List(platform.Where("process_guid", d.WebGUID))
	if err != nil {
		return false, err
	}
	running := web.Instances == 0
	for _, i := range instances {
		w.know(i.GUID)
		switch {
		case i.State == platform.InstanceCrashed || i.Crashes > 0:
			return false, fault.New(fault.Unprocessable, "the app does not start: %s", orUnknown(i.Details))
		case i.State == platform.InstanceRunning && i.Ready:
			running = true
		}
	}
	switch {
	case v.stopped:
		return running, nil
	case d.Error != "":
		return false, fault.New(fault.Unprocessable, "the app does not start: %s", d.Error)
	case d.Status == platform.DeploymentFinalized && d.Reason != platform.ReasonDeployed:
		return false, fault.New(fault.Unprocessable, "another deployment or a restart of the app replaced this one")
	}
	return d.Status == platform.DeploymentFinalized, nil
}

func orUnknown(details string) string {
	if details == "" {
		return "an instance crashed"
	}
	return details
}

// undo returns to the version before, or stops an app that was stopped.
func (p *push) undo(v *launched) error {
	ctx, cancel := context.WithTimeout(p.r.Context(), undoTime)
	defer cancel()
	return p.Store.Update(ctx, func(tx platform.Tx) error {
		app, err := tx.Apps().Get(p.app.GUID)
		if err != nil {
			return err
		}
		by := rest.CallerOf(p.r).Actor()
		if !v.stopped {
			return p.cancel(tx, by, app, v)
		}
		if err := p.Platform.StopApp(tx, by, app); err != nil || v.previous == "" {
			return err
		}
		droplet, err := tx.Droplets().Get(v.previous)
		if err != nil {
			return err
		}
		return p.Platform.AssignDroplet(tx, by, app, droplet)
	})
}

func (p *push) cancel(tx platform.Tx, by actions.Actor, app *platform.App, v *launched) error {
	d, err := tx.Deployments().Get(v.GUID)
	if err != nil || d.Status != platform.DeploymentActive {
		return err
	}
	return p.Platform.CancelDeployment(tx, by, app, d)
}

// showAddresses shows where the app can be reached, at the address that the client uses.
func (p *push) showAddresses() error {
	base, err := url.Parse(rest.BaseURL(p.r))
	if err != nil {
		return err
	}
	return p.Store.View(p.r.Context(), func(tx platform.Tx) error {
		routes, _, err := tx.Routes().List(platform.Where("app_guid", p.app.GUID))
		if err != nil {
			return err
		}
		p.terminal.say("%s is running.", p.name)
		for _, route := range routes {
			domain, err := tx.Domains().Get(route.DomainGUID)
			if err != nil {
				return err
			}
			p.terminal.say("%s", address(base, route, domain))
		}
		return nil
	})
}

// address returns the URL of a route, with the scheme and port of the API.
func address(base *url.URL, route *platform.Route, domain *platform.Domain) string {
	text := platform.RouteURL(route, domain)
	if domain.Internal || route.Protocol == platform.ProtocolTCP || base.Port() == "" {
		if domain.Internal || route.Protocol == platform.ProtocolTCP {
			return text
		}
		return base.Scheme + "://" + text
	}
	host, below, nested := strings.Cut(text, "/")
	if nested {
		below = "/" + below
	}
	return base.Scheme + "://" + host + ":" + base.Port() + below
}
