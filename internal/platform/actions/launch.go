package actions

import (
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

const (
	// LaunchTime is how long a new version may take to start, as in the client.
	LaunchTime = 5 * time.Minute
	// provenAfter is how long a new version must be ready before it replaces the one before it, unless the
	// app's manifest says otherwise: shorter than in other deployments, because a developer waits for it.
	provenAfter = 250 * time.Millisecond
)

// Launch is a version of an app that is being started by the server, for a user who waits for it.
type Launch struct {
	Deployment string `json:"deployment"`
	// Stopped: the app was stopped before, and Previous was its droplet.
	Stopped  bool   `json:"stopped,omitempty"`
	Previous string `json:"previous,omitempty"`
}

// Launch replaces the running version of an app by a droplet: with a rolling deployment, so that a version
// that does not start replaces nothing. An app that was stopped is started.
func (p *Platform) Launch(tx platform.Tx, by Actor, app *platform.App, droplet string) (*Launch, error) {
	l := &Launch{Stopped: app.State == platform.AppStopped, Previous: app.DropletGUID}
	d := &platform.Deployment{Strategy: platform.StrategyRolling, MaxInFlight: 1, DropletGUID: droplet}
	web, err := ProcessOf(tx, app.GUID, platform.WebProcess)
	switch {
	case err == nil:
		d.Options.MinHealthyMS = minHealthy(web)
	case !fault.Is(err, fault.NotFound): // the deployment says that it is missing
		return nil, err
	}
	err = p.CreateDeployment(tx, by, app, d)
	l.Deployment = d.GUID
	return l, err
}

// minHealthy returns how many milliseconds a new instance of a process has to be ready.
func minHealthy(web *platform.Process) *int64 {
	ms := provenAfter.Milliseconds()
	if web.MinHealthy != nil {
		ms = int64(*web.MinHealthy) * 1000
	}
	return &ms
}

var errReplaced = fault.New(fault.Unprocessable, "another deployment or a restart of the app replaced this one")

// Launched reports whether the new version runs and has replaced the old one, or why it cannot. instances are those of
// the new version.
func (p *Platform) Launched(tx platform.Tx, l *Launch) (running bool, instances []*platform.Instance, err error) {
	d, err := tx.Deployments().Get(l.Deployment)
	if err != nil {
		return false, nil, err
	}
	web, err := tx.Processes().Get(d.WebGUID)
	if fault.Is(err, fault.NotFound) {
		return false, nil, errReplaced
	}
	if err != nil {
		return false, nil, err
	}
	instances, _, err = tx.Instances().List(platform.Where("process_guid", d.WebGUID))
	if err != nil {
		return false, nil, err
	}
	running, err = started(web, instances)
	switch {
	case err != nil || l.Stopped:
		return running, instances, err
	case d.Error != "":
		return false, instances, notStarted(d.Error)
	case d.Status == platform.DeploymentFinalized && d.Reason != platform.ReasonDeployed:
		return false, instances, errReplaced
	}
	return d.Status == platform.DeploymentFinalized, instances, nil
}

// started reports whether an instance of a process runs, and returns an error if one has crashed.
func started(web *platform.Process, instances []*platform.Instance) (bool, error) {
	running := web.Instances == 0
	for _, i := range instances {
		switch {
		case i.State == platform.InstanceCrashed || i.Crashes > 0:
			return false, notStarted(i.Details)
		case i.State == platform.InstanceRunning && i.Ready:
			running = true
		}
	}
	return running, nil
}

func notStarted(details string) error {
	if details == "" {
		details = "an instance crashed"
	}
	return fault.New(fault.Unprocessable, "the app does not start: %s", details)
}

// CancelLaunch returns to the version before, if the app ran one.
func (p *Platform) CancelLaunch(tx platform.Tx, by Actor, app *platform.App, l *Launch) error {
	if l.Stopped {
		return nil
	}
	d, err := tx.Deployments().Get(l.Deployment)
	if err != nil || d.Status != platform.DeploymentActive {
		return err
	}
	return p.CancelDeployment(tx, by, app, d)
}

// UndoLaunch is like CancelLaunch, but also stops an app that was stopped.
func (p *Platform) UndoLaunch(tx platform.Tx, by Actor, app *platform.App, l *Launch) error {
	if !l.Stopped {
		return p.CancelLaunch(tx, by, app, l)
	}
	if err := p.StopApp(tx, by, app); err != nil || l.Previous == "" {
		return err
	}
	droplet, err := tx.Droplets().Get(l.Previous)
	if err != nil {
		return err
	}
	return p.AssignDroplet(tx, by, app, droplet)
}
