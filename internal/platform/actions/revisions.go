package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// keptRevisions is how many revisions of an app are kept, as in Cloud Foundry.
const keptRevisions = 100

// latestRevision returns the newest revision of an app, nil if it has none.
func latestRevision(tx platform.Tx, appGUID string) (*platform.Revision, error) {
	q := platform.Where("app_guid", appGUID)
	q.Order, q.Desc = "version", true
	r, err := tx.Revisions().First(q)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return r, err
}

// RevisionOf returns the revision that a process runs, nil if it runs none.
func RevisionOf(tx platform.Tx, process *platform.Process) (*platform.Revision, error) {
	if process.RevisionGUID == "" {
		return nil, nil
	}
	r, err := tx.Revisions().Get(process.RevisionGUID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return r, err
}

// revise returns the revision with which an app is started: the one that ran last if
// nothing has changed since, or else a new one. It returns nil if the app has no
// revisions. Web is its web process if that is not stored yet.
func (p *Platform) revise(tx platform.Tx, by Actor, app *platform.App, web ...*platform.Process) (*platform.Revision,
	error) {
	now, err := revisionNow(tx, app, web...)
	if err != nil || now == nil {
		return nil, err
	}
	last, err := lastRun(tx, app)
	if err != nil {
		return nil, err
	}
	if last == nil {
		return now, p.createRevision(tx, by, app, now, platform.InitialRevision)
	}
	changes := last.ChangesTo(now)
	if len(changes) > 0 {
		return now, p.createRevision(tx, by, app, now, platform.DescribeRevision(changes, 0))
	}
	if last.SameSettings(now) {
		return last, nil
	}
	// It is the same version with other settings: a rollback to it restores those
	// with which it ran last.
	last.Processes = now.Processes
	return last, tx.Revisions().Update(last)
}

// lastRun returns the revision that the web process of an app runs or ran last, and
// otherwise the newest of all; nil if there is none. The newest may not be the one
// that runs: a deployment of it may have been canceled.
func lastRun(tx platform.Tx, app *platform.App) (*platform.Revision, error) {
	web, err := ProcessOf(tx, app.GUID, platform.WebProcess)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if web != nil {
		if r, err := RevisionOf(tx, web); err != nil || r != nil {
			return r, err
		}
	}
	return latestRevision(tx, app.GUID)
}

// revisionNow returns what an app would run if it were started now; nil if the app
// has no revisions.
func revisionNow(tx platform.Tx, app *platform.App, web ...*platform.Process) (*platform.Revision, error) {
	if !app.HasFeature(platform.FeatureRevisions) || app.DropletGUID == "" {
		return nil, nil
	}
	of := platform.Where("app_guid", app.GUID)
	processes, _, err := tx.Processes().List(of)
	if err != nil {
		return nil, err
	}
	sidecars, _, err := tx.Sidecars().List(of)
	return platform.RevisionOf(app, append(processes, web...), sidecars), err
}

// createRevision stores a revision, the newest of its app.
func (p *Platform) createRevision(tx platform.Tx, by Actor, app *platform.App, r *platform.Revision,
	description string) error {
	latest, err := latestRevision(tx, app.GUID)
	if err != nil {
		return err
	}
	r.Description, r.Version = description, 1
	if latest != nil {
		r.Version = latest.Version + 1
	}
	if err := tx.Revisions().Insert(r); err != nil {
		return err
	}
	if err := forgetRevisions(tx, app); err != nil {
		return err
	}
	return p.recordRevision(tx, "create", by, app, r)
}

// forgetRevisions removes the oldest revisions of an app, except those that run. Each
// call removes at most keptRevisions.
func forgetRevisions(tx platform.Tx, app *platform.App) error {
	q := platform.Where("app_guid", app.GUID)
	q.Order, q.Desc, q.Page, q.PerPage, q.WithoutSecrets = "version", true, 2, keptRevisions, true
	old, _, err := tx.Revisions().List(q)
	if err != nil {
		return err
	}
	for _, r := range old {
		used, err := tx.Processes().Count(platform.Where("app_guid", app.GUID).And(platform.In("revision_guid", r.GUID)))
		if err != nil {
			return err
		}
		if used > 0 {
			continue
		}
		if err := tx.Revisions().Delete(r.GUID); err != nil {
			return err
		}
	}
	return nil
}

// RevisionEnvironmentShown records that a user reads the environment of a revision.
func (p *Platform) RevisionEnvironmentShown(tx platform.Tx, by Actor, app *platform.App, r *platform.Revision) error {
	return p.recordRevision(tx, "environment_variables.show", by, app, r)
}

func (p *Platform) recordRevision(tx platform.Tx, what string, by Actor, app *platform.App,
	r *platform.Revision) error {
	return p.RecordApp(tx, "audit.app.revision."+what, by, app, map[string]any{"revision_guid": r.GUID,
		"revision_version": r.Version})
}

// rollbackTarget returns the revision that a deployment rolls back to, which has to
// differ from the one that runs.
func rollbackTarget(tx platform.Tx, app *platform.App, guid string, from *platform.Revision) (*platform.Revision,
	error) {
	target, err := tx.Revisions().Get(guid)
	if fault.Is(err, fault.NotFound) || err == nil && target.AppGUID != app.GUID {
		return nil, fault.New(fault.Unprocessable, "The revision does not exist")
	}
	if err != nil {
		return nil, err
	}
	n, err := tx.Droplets().Count(platform.Where("guid", target.DropletGUID).
		And(platform.In("state", string(platform.DropletStaged))))
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fault.New(fault.Unprocessable,
			"Unable to deploy this revision, the droplet for this revision no longer exists.")
	}
	if from != nil && len(from.ChangesTo(target)) == 0 && from.SameSettings(target) {
		return nil, fault.New(fault.Unprocessable,
			"Unable to rollback. The code and configuration you are rolling back to is the same as the deployed revision.")
	}
	return target, nil
}

// restore gives an app the environment, sidecars and processes of a revision, except
// web processes, which the deployment creates. The caller assigns the droplet, after
// which sidecars have to be restored again.
func (p *Platform) restore(tx platform.Tx, app *platform.App, r *platform.Revision) error {
	app.Env = r.Env
	if err := tx.Apps().Update(app); err != nil {
		return err
	}
	if err := restoreSidecars(tx, r); err != nil {
		return err
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	for _, process := range processes {
		if process.Type == platform.WebProcess {
			continue
		}
		r.Apply(process)
		if err := tx.Processes().Update(process); err != nil {
			return err
		}
	}
	return nil
}

// restoreSidecars gives an app exactly the sidecars of a revision.
func restoreSidecars(tx platform.Tx, r *platform.Revision) error {
	if _, err := tx.Sidecars().DeleteAll(platform.Where("app_guid", r.AppGUID)); err != nil {
		return err
	}
	for _, s := range r.AllSidecars() {
		if err := tx.Sidecars().Insert(s); err != nil {
			return err
		}
	}
	return nil
}

// rollBack stores the revision that a rollback from one revision to another creates.
// The app already is what target was.
func (p *Platform) rollBack(tx platform.Tx, by Actor, app *platform.App, from, target *platform.Revision,
	web *platform.Process) (*platform.Revision, error) {
	now, err := revisionNow(tx, app, web)
	if err != nil || now == nil {
		return target, err
	}
	return now, p.createRevision(tx, by, app, now, platform.DescribeRevision(from.ChangesTo(target), target.Version))
}

// undoRollback gives an app what the web process before a deployment runs, if that is
// a rollback: its environment, sidecars and processes were replaced. After any other
// deployment they are what the user set, and stay so.
func (p *Platform) undoRollback(tx platform.Tx, app *platform.App, d *platform.Deployment,
	prior *platform.Process) error {
	if d.RolledBackTo == 0 {
		return nil
	}
	before, err := RevisionOf(tx, prior)
	if err != nil || before == nil {
		return err
	}
	return p.restore(tx, app, before)
}
