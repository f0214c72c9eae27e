package actions

import (
	"slices"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ActiveDeployment is the one that goes on in an app, nil if none does.
func ActiveDeployment(tx platform.Tx, appGUID string) (*platform.Deployment, error) {
	d, err := tx.Deployments().First(platform.Where("app_guid", appGUID).And(platform.In("status", platform.DeploymentActive)))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return d, err
}

// notDeployed refuses a droplet that a deployment is at work with. It needs both
// of its own: old instances are started again until they are replaced, and the
// way back leads to the old droplet.
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

// whileDeploying refuses something to the process that a deployment is at work
// on.
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

// endDeployment is for what replaces or ends all instances. A deployment that is
// on its way back is over with that, any other has to be canceled before.
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

// conclude ends a deployment.
func (p *Platform) conclude(d *platform.Deployment, reason platform.DeploymentReason) {
	d.Status, d.Reason, d.LastChange, d.Error = platform.DeploymentFinalized, reason, p.Now(), ""
}

// CreateDeployment begins to replace the instances of the app's web process by
// those of a droplet, which is the app's own when none is named. One that is
// under way gives place to it. A stopped app is just started.
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
	o := d.Options
	before := demandOf(app, web)
	if _, err := (platform.Scale{Instances: o.WebInstances, MemoryMB: o.MemoryMB, DiskMB: o.DiskMB, LogRate: o.LogRate}).Apply(web); err != nil {
		return err
	}
	// The sidecars of the droplet have to fit into the memory that comes with it.
	if err := tx.Processes().Update(web); err != nil {
		return err
	}
	if err := p.deployDroplet(tx, by, app, d); err != nil {
		return err
	}
	if err := leavesMemory(tx, web); err != nil {
		return err
	}
	if err := processFits(tx, app, web, before, o.MemoryMB != nil); err != nil {
		return err
	}
	d.Status, d.Reason, d.LastChange = platform.DeploymentActive, platform.ReasonDeploying, p.Now()
	d.Step = min(1, d.Steps())
	stopped := app.State == platform.AppStopped
	if stopped {
		p.conclude(d, platform.ReasonDeployed)
	}
	web.Version, web.DropletGUID = uuid.NewString(), d.DropletGUID
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
	if err := p.StartApp(tx, by, app); err != nil {
		return err
	}
	return p.recordDeployment(tx, "finished", by, app, d, map[string]any{"reason": d.Reason})
}

// keptDeployments is how many deployments of an app are remembered, as many as
// Cloud Foundry does.
const keptDeployments = 100

// forgetDeployments removes the oldest deployments of an app that are over. Of
// very many, which an older server left, each call takes some.
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

// deployDroplet makes the droplet of a deployment the app's.
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

// supersede ends a deployment for another one. When nothing of what it brought
// has become ready, the way back of the new one leads to where that of the
// former one led.
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
	for k, v := range data {
		all[k] = v
	}
	return p.RecordApp(tx, "audit.app.deployment."+what, by, app, all)
}

// stateError is that of an action in a state that does not know it.
func stateError(action string, d *platform.Deployment) error {
	return fault.New(fault.Unprocessable, "Cannot %s a deployment with status: %s and reason: %s", action, d.Status, d.Reason)
}

// CancelDeployment begins the way back: the web process is again what it was.
func (p *Platform) CancelDeployment(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	switch {
	case d.Status != platform.DeploymentActive:
		return stateError("cancel", d)
	case d.Reason == platform.ReasonCanceling:
		return nil // it is being done
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
	d.Reason, d.LastChange, d.Error = platform.ReasonCanceling, p.Now(), ""
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "cancel", by, app, d, nil)
}

// ContinueDeployment takes a canary deployment to its next step, and after the
// last one to all instances.
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

// FinishDeployment ends a deployment whose web process is all there. The other
// processes follow now, and are restarted.
func (p *Platform) FinishDeployment(tx platform.Tx, app *platform.App, d *platform.Deployment) error {
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	for _, process := range slices.DeleteFunc(processes, func(x *platform.Process) bool { return x.Type == platform.WebProcess }) {
		process.Version, process.DropletGUID = uuid.NewString(), d.DropletGUID
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
