package platform

import (
	"slices"

	"github.com/google/uuid"

	"ingot/internal/cf"
	"ingot/internal/fault"
)

// ActiveDeployment is the one that goes on in an app, nil if none does.
func ActiveDeployment(tx cf.Tx, appGUID string) (*cf.Deployment, error) {
	d, err := tx.Deployments().First(cf.Where("app_guid", appGUID).And(cf.In("status", cf.DeploymentActive)))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return d, err
}

// NotDeployed refuses a droplet that a deployment is at work with. It needs both
// of its own: old instances are started again until they are replaced, and the
// way back leads to the old droplet.
func NotDeployed(tx cf.Tx, droplet *cf.Droplet) error {
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
func whileDeploying(tx cf.Tx, process *cf.Process, code fault.Code, message string) error {
	if process.Type != cf.WebProcess {
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
func (p *Platform) endDeployment(tx cf.Tx, app *cf.App) error {
	active, err := ActiveDeployment(tx, app.GUID)
	if err != nil || active == nil {
		return err
	}
	if active.Reason != cf.ReasonCanceling {
		return fault.New(fault.DeployingStop, "Cannot stop the app while it is deploying, please cancel the deployment before stopping the app.")
	}
	p.conclude(active, cf.ReasonCanceled)
	return tx.Deployments().Update(active)
}

// conclude ends a deployment.
func (p *Platform) conclude(d *cf.Deployment, reason string) {
	d.Status, d.Reason, d.LastChange, d.Error = cf.DeploymentFinalized, reason, p.Now(), ""
}

// CreateDeployment begins to replace the instances of the app's web process by
// those of a droplet, which is the app's own when none is named. One that is
// under way gives place to it. A stopped app is just started.
func (p *Platform) CreateDeployment(tx cf.Tx, by Actor, app *cf.App, d *cf.Deployment) error {
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
	d.AppGUID, d.PreviousDropletGUID, d.Before = app.GUID, app.DropletGUID, cf.WebRunOf(web)
	if former != nil {
		if err := p.supersede(tx, former, d, web); err != nil {
			return err
		}
	}
	o := d.Options
	before := demandOf(app, web)
	if _, err := (Scale{Instances: o.WebInstances, MemoryMB: o.MemoryMB, DiskMB: o.DiskMB, LogRate: o.LogRate}).apply(web); err != nil {
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
	d.Status, d.Reason, d.LastChange = cf.DeploymentActive, cf.ReasonDeploying, p.Now()
	d.Step = min(1, d.Steps())
	stopped := app.State == cf.AppStopped
	if stopped {
		p.conclude(d, cf.ReasonDeployed)
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
func forgetDeployments(tx cf.Tx, app *cf.App) error {
	q := cf.Where("app_guid", app.GUID)
	q.Desc, q.Page, q.PerPage = true, 2, keptDeployments
	old, _, err := tx.Deployments().List(q)
	if err != nil {
		return err
	}
	for _, d := range old {
		if d.Status != cf.DeploymentFinalized {
			continue
		}
		if err := tx.Deployments().Delete(d.GUID); err != nil {
			return err
		}
	}
	return nil
}

// deployDroplet makes the droplet of a deployment the app's.
func (p *Platform) deployDroplet(tx cf.Tx, by Actor, app *cf.App, d *cf.Deployment) error {
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
func (p *Platform) supersede(tx cf.Tx, former, d *cf.Deployment, web *cf.Process) error {
	instances := former.Before.Instances
	if former.Reason != cf.ReasonCanceling {
		ready, err := tx.Instances().Count(cf.Where("process_guid", web.GUID).And(cf.In("version", web.Version)).And(cf.In("ready", true)))
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
	p.conclude(former, cf.ReasonSuperseded)
	return tx.Deployments().Update(former)
}

func (p *Platform) recordDeployment(tx cf.Tx, what string, by Actor, app *cf.App, d *cf.Deployment, data map[string]any) error {
	all := map[string]any{"deployment_guid": d.GUID, "droplet_guid": d.DropletGUID}
	for k, v := range data {
		all[k] = v
	}
	return p.RecordApp(tx, "audit.app.deployment."+what, by, app, all)
}

// stateError is that of an action in a state that does not know it.
func stateError(action string, d *cf.Deployment) error {
	return fault.New(fault.Unprocessable, "Cannot %s a deployment with status: %s and reason: %s", action, d.Status, d.Reason)
}

// CancelDeployment begins the way back: the web process is again what it was.
func (p *Platform) CancelDeployment(tx cf.Tx, by Actor, app *cf.App, d *cf.Deployment) error {
	switch {
	case d.Status != cf.DeploymentActive:
		return stateError("cancel", d)
	case d.Reason == cf.ReasonCanceling:
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
	d.Reason, d.LastChange, d.Error = cf.ReasonCanceling, p.Now(), ""
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "cancel", by, app, d, nil)
}

// ContinueDeployment takes a canary deployment to its next step, and after the
// last one to all instances.
func (p *Platform) ContinueDeployment(tx cf.Tx, by Actor, app *cf.App, d *cf.Deployment) error {
	if d.Status != cf.DeploymentActive || d.Reason != cf.ReasonPaused {
		return stateError("continue", d)
	}
	d.Reason, d.LastChange = cf.ReasonDeploying, p.Now()
	d.Step++
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "continue", by, app, d, nil)
}

// FinishDeployment ends a deployment whose web process is all there. The other
// processes follow now, and are restarted.
func (p *Platform) FinishDeployment(tx cf.Tx, app *cf.App, d *cf.Deployment) error {
	processes, _, err := tx.Processes().List(cf.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	for _, process := range slices.DeleteFunc(processes, func(x *cf.Process) bool { return x.Type == cf.WebProcess }) {
		process.Version, process.DropletGUID = uuid.NewString(), d.DropletGUID
		if err := tx.Processes().Update(process); err != nil {
			return err
		}
	}
	p.conclude(d, cf.ReasonDeployed)
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	return p.recordDeployment(tx, "finished", Actor{GUID: app.GUID, Type: "app", Name: app.Name}, app, d, map[string]any{"reason": d.Reason})
}
