package actions

import (
	"cmp"
	"errors"
	"maps"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ActiveDeployment returns the active deployment of an app, nil if there is none.
func ActiveDeployment(tx platform.Tx, appGUID string) (*platform.Deployment, error) {
	d, err := tx.Deployments().First(platform.Where("app_guid", appGUID).
		And(platform.In("status", platform.DeploymentActive)))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return d, err
}

// notDeployed refuses a droplet that an active deployment uses. It needs the old
// ones too: old instances are restarted until they are replaced, and a cancellation
// returns to them.
func notDeployed(tx platform.Tx, droplet *platform.Droplet) error {
	d, err := ActiveDeployment(tx, droplet.AppGUID)
	if err != nil || d == nil {
		return err
	}
	n, err := tx.Processes().Count(platform.Where("app_guid", droplet.AppGUID).
		And(platform.In("droplet_guid", droplet.GUID)))
	if err != nil {
		return err
	}
	if n > 0 || droplet.GUID == d.DropletGUID || droplet.GUID == d.PreviousDropletGUID {
		return fault.Invalid("The droplet is used by a deployment of the app. Wait for its end, or cancel it and wait for " +
			"the end of that.")
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
		return fault.New(fault.DeployingStop,
			"Cannot stop the app while it is deploying, please cancel the deployment before stopping the app.")
	}
	return p.FinishDeployment(tx, app, active)
}

// conclude finalizes a deployment. One that the platform has canceled keeps its reason.
func (p *Platform) conclude(d *platform.Deployment, reason platform.DeploymentReason) {
	d.Status, d.Reason, d.LastChange = platform.DeploymentFinalized, reason, p.Now()
	if reason != platform.ReasonCanceled {
		d.Error = ""
	}
}

// CreateDeployment starts to replace the instances of the app's web process by
// those of a revision, which is a rollback, or of a droplet, by default the app's
// current one. They are those of a web process of their own, which is the only one
// in the end. It supersedes an active deployment. A stopped app is just started.
func (p *Platform) CreateDeployment(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	announceApp(tx, app.GUID)
	current, err := ProcessOf(tx, app.GUID, platform.WebProcess)
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unprocessable, "The app has no web process to deploy.")
	}
	if err != nil {
		return err
	}
	d.AppGUID, d.PreviousDropletGUID, d.PriorGUID, d.Original = app.GUID, app.DropletGUID, current.GUID, current.Instances
	d.Status, d.Reason, d.LastChange = platform.DeploymentActive, platform.ReasonDeploying, p.Now()
	if current, err = p.supersede(tx, app, d, current); err != nil {
		return err
	}
	stopped := app.State == platform.AppStopped
	web := *current
	if stopped {
		p.conclude(d, platform.ReasonDeployed)
	} else {
		web.Resource = platform.Resource{GUID: uuid.NewString()}
	}
	web.Instances, d.WebGUID = d.Original, web.GUID
	revision, err := p.deployTarget(tx, by, app, d, &web)
	if err != nil {
		return err
	}
	d.Instances, d.Step = web.Instances, min(1, d.Steps())
	renew(&web, d.DropletGUID, revision)
	if err := p.placeWeb(tx, app, d, &web); err != nil {
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

// placeWeb stores the web process of a deployment if quotas allow it: in the end
// instead of the others, and at first beside them.
func (p *Platform) placeWeb(tx platform.Tx, app *platform.App, d *platform.Deployment, web *platform.Process) error {
	if err := leavesMemory(tx, web); err != nil {
		return err
	}
	sized := d.Options.MemoryMB != nil || d.RolledBackTo > 0
	if app.State == platform.AppStopped {
		if err := tx.Processes().Update(web); err != nil {
			return err
		}
		return processFits(tx, app, web, demand{}, sized)
	}
	others, err := webProcesses(tx, app.GUID)
	if err != nil {
		return err
	}
	if err := tx.Processes().Insert(web); err != nil {
		return err
	}
	tx.Announce(platform.Changes{Names: true})
	if err := fitsInstead(tx, app, web, others, sized); err != nil {
		return err
	}
	target, _ := d.Canaries(d.Instances)
	web.Instances = min(target, d.MaxInFlight)
	if err := tx.Processes().Update(web); err != nil {
		return err
	}
	err = processFits(tx, app, web, demand{}, false)
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Code == fault.Unprocessable {
		return fault.Wrap(err, fault.Unprocessable,
			"%s It may not be large enough to support rolling deployments or your configured max-in-flight.", refused.Message)
	}
	return err
}

// fitsInstead refuses a process that quotas do not allow instead of others, if it
// takes more than they do.
func fitsInstead(tx platform.Tx, app *platform.App, web *platform.Process, others []*platform.Process,
	sized bool) error {
	var before demand
	for _, other := range others {
		before = before.plus(demandOf(app, other))
	}
	resize := func(size func(i int) int) error {
		for i, other := range others {
			other.Instances = size(i)
			if err := tx.Processes().Update(other); err != nil {
				return err
			}
		}
		return nil
	}
	sizes := make([]int, len(others))
	for i, other := range others {
		sizes[i] = other.Instances
	}
	if err := resize(func(int) int { return 0 }); err != nil {
		return err
	}
	if err := processFits(tx, app, web, before, sized); err != nil {
		return err
	}
	return resize(func(i int) int { return sizes[i] })
}

// deployTarget gives the app and its web process what a deployment deploys, and
// returns the revision of it, nil if the app has none.
func (p *Platform) deployTarget(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment,
	web *platform.Process) (*platform.Revision, error) {
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
	if _, err := (platform.Scale{Instances: o.WebInstances, MemoryMB: o.MemoryMB, DiskMB: o.DiskMB, LogRate: o.LogRate}).
		Apply(web); err != nil {
		return nil, err
	}
	if err := p.deployDroplet(tx, by, app, d); err != nil {
		return nil, err
	}
	var revision *platform.Revision
	if target == nil {
		revision, err = p.revise(tx, by, app, web)
	} else {
		if err := restoreSidecars(tx, target); err != nil {
			return nil, err
		}
		revision, err = p.rollBack(tx, by, app, from, target, web)
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
	d.DropletGUID = cmp.Or(d.DropletGUID, app.DropletGUID)
	if d.DropletGUID == "" {
		return fault.Invalid("Invalid droplet. Please specify a droplet in the request or set a current droplet for the app.")
	}
	droplet, err := tx.Droplets().Get(d.DropletGUID)
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unprocessable,
			"Unable to assign current droplet. Ensure the droplet exists and belongs to this app.")
	}
	if err != nil || d.DropletGUID == app.DropletGUID {
		return err
	}
	return p.assignDroplet(tx, by, app, droplet, false)
}

// supersede finalizes the active deployment, if there is one, in favor of d. It
// returns the web process that the new one is made from. If no instance of the
// former became ready, canceling d returns to the process before the former.
func (p *Platform) supersede(tx platform.Tx, app *platform.App, d *platform.Deployment,
	current *platform.Process) (*platform.Process, error) {
	former, err := ActiveDeployment(tx, app.GUID)
	if err != nil || former == nil {
		return current, err
	}
	d.Original = former.Original
	prior, err := tx.Processes().Get(former.PriorGUID)
	if err != nil {
		return nil, err
	}
	ready, err := tx.Instances().Count(platform.Where("process_guid", former.WebGUID).And(platform.In("ready", true)))
	if err != nil {
		return nil, err
	}
	switch {
	case former.Reason == platform.ReasonCanceling:
		current, d.PriorGUID = prior, prior.GUID
	case ready > 0:
		d.PriorGUID = former.WebGUID
	default:
		d.PriorGUID, d.PreviousDropletGUID = prior.GUID, former.PreviousDropletGUID
		prior.Instances = former.Original
		if err := tx.Processes().Update(prior); err != nil {
			return nil, err
		}
		if err := tx.Processes().Delete(former.WebGUID); err != nil {
			return nil, err
		}
	}
	p.conclude(former, platform.ReasonSuperseded)
	return current, tx.Deployments().Update(former)
}

func (p *Platform) recordDeployment(tx platform.Tx, what string, by Actor, app *platform.App, d *platform.Deployment,
	data map[string]any) error {
	all := map[string]any{"deployment_guid": d.GUID, "droplet_guid": d.DropletGUID}
	if d.RevisionGUID != "" {
		all["revision_guid"] = d.RevisionGUID
	}
	if d.RolledBackTo > 0 {
		all["type"] = "rollback"
	}
	maps.Copy(all, data)
	return p.RecordApp(tx, "audit.app.deployment."+what, by, app, all)
}

// stateError is the error for an action that the state does not allow.
func stateError(action string, d *platform.Deployment) error {
	return fault.New(fault.Unprocessable, "Cannot %s a deployment with status: %s and reason: %s", action,
		d.Status, d.Reason)
}

// CancelDeployment starts to return to the web process before the deployment.
func (p *Platform) CancelDeployment(tx platform.Tx, by Actor, app *platform.App, d *platform.Deployment) error {
	announceApp(tx, app.GUID)
	switch {
	case d.Status != platform.DeploymentActive:
		return stateError("cancel", d)
	case d.Reason == platform.ReasonCanceling:
		return nil // already in progress
	}
	prior, err := tx.Processes().Get(d.PriorGUID)
	if err != nil {
		return err
	}
	prior.Instances = d.Original
	if err := tx.Processes().Update(prior); err != nil {
		return err
	}
	if d.PreviousDropletGUID != "" && d.PreviousDropletGUID != app.DropletGUID {
		previous, err := tx.Droplets().Get(d.PreviousDropletGUID)
		if fault.Is(err, fault.NotFound) {
			return fault.Wrap(err, fault.Unprocessable,
				"The deployment cannot be canceled: the droplet before it no longer exists. Push the app again to replace the "+
					"deployment.")
		}
		if err != nil {
			return err
		}
		if err := p.assignDroplet(tx, by, app, previous, false); err != nil {
			return err
		}
	}
	if err := p.undoRollback(tx, app, d, prior); err != nil {
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
	announceApp(tx, app.GUID)
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

// FinishDeployment finalizes a deployment whose new web instances are all ready, or
// that was canceled. One web process is left. After a deployment the other processes
// are restarted with the new droplet.
func (p *Platform) FinishDeployment(tx platform.Tx, app *platform.App, d *platform.Deployment) error {
	stays, reason := d.WebGUID, platform.ReasonDeployed
	if d.Reason == platform.ReasonCanceling || d.Reason == platform.ReasonCanceled {
		stays, reason = d.PriorGUID, platform.ReasonCanceled
	}
	p.conclude(d, reason)
	if err := tx.Deployments().Update(d); err != nil {
		return err
	}
	if err := wakeRotations(tx, app.GUID, (*platform.CredentialRotation).AwaitsDeployment); err != nil {
		return err
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	tx.Announce(platform.Changes{Names: true})
	for _, process := range processes {
		switch {
		case process.GUID == stays, process.Type != platform.WebProcess && d.Reason == platform.ReasonCanceled:
		case process.Type == platform.WebProcess:
			err = tx.Processes().Delete(process.GUID)
		default:
			renew(process, d.DropletGUID, nil)
			process.RevisionGUID = d.RevisionGUID
			err = tx.Processes().Update(process)
		}
		if err != nil {
			return err
		}
	}
	if d.Reason == platform.ReasonCanceled {
		return nil
	}
	return p.recordDeployment(tx, "finished", Actor{GUID: app.GUID, Type: "app", Name: app.Name}, app, d,
		map[string]any{"reason": d.Reason})
}
