package actions

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ActiveDeployment returns the active deployment of an app, nil if there is none.
func ActiveDeployment(tx platform.Tx, appGUID string) (*platform.Deployment, error) {
	d, err := tx.Deployments().First(platform.Where("app_guid", appGUID).And(platform.In("status", platform.DeploymentActive)))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return d, err
}

// notDeployed refuses a droplet that an active deployment uses. It needs the old
// one too: old instances are restarted until they are replaced, and a cancellation
// returns to it.
func notDeployed(tx platform.Tx, droplet *platform.Droplet) error {
	d, err := ActiveDeployment(tx, droplet.AppGUID)
	if err != nil || d == nil {
		return err
	}
	if slices.Contains([]string{d.DropletGUID, d.PreviousDropletGUID, d.Before.DropletGUID}, droplet.GUID) {
		return fault.Invalid("The droplet is used by a deployment of the app. Wait for its end, or cancel it and wait for the end of that.")
	}
	return nil
}

// whileDeploying returns the error if a deployment is replacing the instances of
// the process.
func whileDeploying(tx platform.Tx, process *platform.Process, code fault.Code, message string) error {
	if process.Type != platform.WebProcess {
		return nil
	}
	active, err := ActiveDeployment(tx, process.AppGUID)
	if err == nil && active != nil {
		return fault.New(code, "%s", message)
	}
	return err
}

// endDeployment is called before all instances are stopped or replaced. It
// finalizes a deployment that is being canceled; any other has to be canceled
// first.
func (p *Platform) endDeployment(tx platform.Tx, app *platform.App) error {
	active, err := ActiveDeployment(tx, app.GUID)
	if err != nil || active == nil {
		return err
	}
	if active.Reason != platform.ReasonCanceling {
		return fault.New(fault.DeployingStop, "Cannot stop the app while it is deploying, please cancel the deployment before stopping the app.")
	}
	p.conclude(active, platform.ReasonCanceled)
	return tx.Deployments().Update(active)
}

// conclude finalizes a deployment.
func (p *Platform) conclude(d *platform.Deployment, reason platform.DeploymentReason) {
	d.Status, d.Reason, d.LastChange, d.Error = platform.DeploymentFinalized, reason, p.Now(), ""
}

// CreateDeployment starts to replace the instances of the app's web process by
// those of a revision, which is a rollback, or of a droplet, by default the app's
// current one. It supersedes an active deployment. A stopped app is just started.
func (p *Platform) CreateDeployment(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	web, err := tx.Processes().Get(app.GUID)
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unprocessable, "The app has no web process to deploy.")
	}
	if err != nil {
		return err
	}
	former, err := ActiveDeployment(tx, app.GUID)
	if err != nil {
		return err
	}
	d.AppGUID, d.PreviousDropletGUID, d.Before = app.GUID, app.DropletGUID, platform.WebRunOf(web)
	if former != nil {
		if err := p.supersede(tx, former, d, web); err != nil {
			return err
		}
	}
	before := demandOf(app, web)
	revision, err := p.deployTarget(tx, by, app, d, web)
	if err != nil {
		return err
	}
	if err := leavesMemory(tx, web); err != nil {
		return err
	}
	if err := processFits(tx, app, web, before, d.Options.MemoryMB != nil || d.RolledBackTo > 0); err != nil {
		return err
	}
	d.Status, d.Reason, d.LastChange = platform.DeploymentActive, platform.ReasonDeploying, p.Now()
	d.Step = min(1, d.Steps())
	stopped := app.State == platform.AppStopped
	if stopped {
		p.conclude(d, platform.ReasonDeployed)
	}
	renew(web, d.DropletGUID, revision)
	if err := tx.Processes().Update(web); err != nil {
		return err
	}
	if err := tx.Deployments().Insert(d); err != nil {
		return err
	}
	if err := forgetDeployments(tx, app); err != nil {
		return err
	}
	if err := p.recordDeployment(tx, "create", by, app, d, map[string]any{"strategy": d.Strategy}); err != nil {
		return err
	}
	if !stopped {
		return nil
	}
	if err := p.start(tx, by, app, revision); err != nil {
		return err
	}
	return p.recordDeployment(tx, "finished", by, app, d, map[string]any{"reason": d.Reason})
}

// deployTarget gives the app and its web process what a deployment deploys, and
// returns the revision of it, nil if the app has none.
func (p *Platform) deployTarget(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment, web *platform.Process) (*platform.Revision, error) {
	var target, from *platform.Revision
	var err error
	if d.RevisionGUID != "" {
		if from, err = lastRun(tx, app); err != nil {
			return nil, err
		}
		if target, err = rollbackTarget(tx, app, d.RevisionGUID, from); err != nil {
			return nil, err
		}
		d.DropletGUID, d.RolledBackTo = target.DropletGUID, target.Version
		if err := p.restore(tx, app, target); err != nil {
			return nil, err
		}
		target.Apply(web)
	}
	o := d.Options
	if _, err := (platform.Scale{Instances: o.WebInstances, MemoryMB: o.MemoryMB, DiskMB: o.DiskMB, LogRate: o.LogRate}).Apply(web); err != nil {
		return nil, err
	}
	// The sidecars of the droplet have to fit into the memory that comes with it.
	if err := tx.Processes().Update(web); err != nil {
		return nil, err
	}
	if err := p.deployDroplet(tx, by, app, d); err != nil {
		return nil, err
	}
	revision := target
	switch {
	case target == nil:
		revision, err = p.revise(tx, by, app)
	default:
		if err := restoreSidecars(tx, target); err != nil {
			return nil, err
		}
		revision, err = p.rollBack(tx, by, app, from, target)
	}
	if err == nil && revision != nil {
		d.RevisionGUID, d.RevisionVersion = revision.GUID, revision.Version
	}
	return revision, err
}

// keptDeployments is how many deployments of an app are kept, as in Cloud Foundry.
const keptDeployments = 100

// forgetDeployments removes the oldest finalized deployments of an app. Each call
// removes at most keptDeployments.
func forgetDeployments(tx platform.Tx, app *platform.App) error {
	q := platform.Where("app_guid", app.GUID)
	q.Desc, q.Page, q.PerPage = true, 2, keptDeployments
	old, _, err := tx.Deployments().List(q)
	if err != nil {
		return err
	}
	for _, d := range old {
		if d.Status != platform.DeploymentFinalized {
			continue
		}
		if err := tx.Deployments().Delete(d.GUID); err != nil {
			return err
		}
	}
	return nil
}

// deployDroplet assigns the droplet of a deployment to the app.
func (p *Platform) deployDroplet(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	if d.DropletGUID == "" {
		d.DropletGUID = app.DropletGUID
	}
	if d.DropletGUID == "" {
		return fault.Invalid("Invalid droplet. Please specify a droplet in the request or set a current droplet for the app.")
	}
	droplet, err := tx.Droplets().Get(d.DropletGUID)
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unprocessable, "Unable to assign current droplet. Ensure the droplet exists and belongs to this app.")
	}
	if err != nil || d.DropletGUID == app.DropletGUID {
		return err
	}
	return p.AssignDroplet(tx, by, app, droplet)
}

// supersede finalizes a deployment in favor of a new one. If no instance of the
// former became ready, canceling the new one returns to the version before the
// former.
func (p *Platform) supersede(tx platform.Tx, former, d *platform.Deployment, web *platform.Process) error {
	instances := former.Before.Instances
	if former.Reason != platform.ReasonCanceling {
		ready, err := tx.Instances().Count(platform.Where("process_guid", web.GUID).And(platform.In("version", web.Version)).And(platform.In("ready", true)))
		if err != nil {
			return err
		}
		if ready == 0 {
			d.Before, d.PreviousDropletGUID = former.Before, former.PreviousDropletGUID
		}
	}
	if d.Before.Version == web.Version {
		d.Before.Instances = instances
	}
	web.Instances = instances
	p.conclude(former, platform.ReasonSuperseded)
	return tx.Deployments().Update(former)
}

func (p *Platform) recordDeployment(tx platform.Tx, what string, by Actor, app *platform.App, d *platform.Deployment, data map[string]any) error {
	all := map[string]any{"deployment_guid": d.GUID, "droplet_guid": d.DropletGUID}
	if d.RevisionGUID != "" {
		all["revision_guid"] = d.RevisionGUID
	}
	if d.RolledBackTo > 0 {
		all["type"] = "rollback"
	}
	for k, v := range data {
		all[k] = v
	}
	return p.RecordApp(tx, "audit.app.deployment."+what, by, app, all)
}

// stateError is the error for an action that the state does not allow.
func stateError(action string, d *platform.Deployment) error {
	return fault.New(fault.Unprocessable, "Cannot %s a deployment with status: %s and reason: %s", action, d.Status, d.Reason)
}

// CancelDeployment starts to return to the previous version: it restores the
// fields of the web process.
func (p *Platform) CancelDeployment(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	switch {
	case d.Status != platform.DeploymentActive:
		return stateError("cancel", d)
	case d.Reason == platform.ReasonCanceling:
		return nil // already in progress
	}
	web, err := tx.Processes().Get(app.GUID)
	if err != nil {
		return err
	}
	// Before the droplet: its sidecars fit into the memory that there was, which
	// the deployment may have lowered.
	d.Before.Apply(web)
	if err := tx.Processes().Update(web); err != nil {
		return err
	}
	if d.PreviousDropletGUID != "" && d.PreviousDropletGUID != app.DropletGUID {
		previous, err := tx.Droplets().Get(d.PreviousDropletGUID)
		if fault.Is(err, fault.NotFound) {
			return fault.Wrap(err, fault.Unprocessable, "The deployment cannot be canceled: the droplet before it no longer exists. Push the app again to replace the deployment.")
		}
		if err != nil {
			return err
		}
		if err := p.AssignDroplet(tx, by, app, previous); err != nil {
			return err
		}
	}
	if err := p.undoRollback(tx, app, d); err != nil {
		return err
	}
	d.Reason, d.LastChange, d.Error = platform.ReasonCanceling, p.Now(), ""
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "cancel", by, app, d, nil)
}

// ContinueDeployment moves a paused canary deployment to its next step, and after
// the last one to all instances.
func (p *Platform) ContinueDeployment(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	if d.Status != platform.DeploymentActive || d.Reason != platform.ReasonPaused {
		return stateError("continue", d)
	}
	d.Reason, d.LastChange = platform.ReasonDeploying, p.Now()
	d.Step++
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "continue", by, app, d, nil)
}

// FinishDeployment finalizes a deployment whose new web instances are all ready.
// The other processes are restarted with the new droplet.
func (p *Platform) FinishDeployment(tx platform.Tx, app *platform.App, d *platform.Deployment) error {
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	for _, process := range slices.DeleteFunc(processes, func(x *platform.Process) bool { return x.Type == platform.WebProcess }) {
		renew(process, d.DropletGUID, nil)
		process.RevisionGUID = d.RevisionGUID
		if err := tx.Processes().Update(process); err != nil {
			return err
		}
	}
	p.conclude(d, platform.ReasonDeployed)
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "finished", Actor{GUID: app.GUID, Type: "app", Name: app.Name}, app, d, map[string]any{"reason": d.Reason})
}
