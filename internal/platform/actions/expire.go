package actions

import (
	"ingot/internal/platform"
)

// The numbers of staged droplets and ready packages of an app that are kept besides those
// that it uses. They are Cloud Foundry's defaults of max_staged_droplets_stored and
// max_valid_packages_stored.
const (
	KeptDroplets = 5
	KeptPackages = 5
)

// ExpireDroplets expires all but the newest droplets of an app. As in Cloud Foundry a
// revision whose droplet expired cannot be deployed any more.
func (p *Platform) ExpireDroplets(tx platform.Tx, app *platform.App) error {
	q := newest(app, string(platform.DropletStaged))
	if n, err := tx.Droplets().Count(q); err != nil || n <= KeptDroplets {
		return err
	}
	used, err := usedDroplets(tx, app)
	if err != nil {
		return err
	}
	droplets, _, err := tx.Droplets().List(q)
	if err != nil {
		return err
	}
	kept := 0
	for _, d := range droplets {
		if used[d.GUID] {
			continue
		}
		if kept++; kept <= KeptDroplets {
			continue
		}
		d.State = platform.DropletExpired
		if err := tx.Droplets().Update(d); err != nil {
			return err
		}
	}
	return nil
}

func (p *Platform) expireDropletsOf(tx platform.Tx, appGUID string) error {
	app, err := tx.Apps().Get(appGUID)
	if err != nil {
		return err
	}
	return p.ExpireDroplets(tx, app)
}

// newest returns the query for the packages or droplets of an app in a state, the newest
// first.
func newest(app *platform.App, state string) platform.Query {
	q := platform.Where("app_guid", app.GUID).And(platform.In("state", state))
	q.Order, q.Desc = "created_at", true
	return q
}

// usedDroplets returns the droplets that an app runs, or may start: that of the app, those
// of its processes and of its deployment, and those of its tasks.
func usedDroplets(tx platform.Tx, app *platform.App) (map[string]bool, error) {
	used := map[string]bool{app.DropletGUID: true}
	deployment, err := ActiveDeployment(tx, app.GUID)
	if err != nil {
		return nil, err
	}
	if deployment != nil {
		used[deployment.DropletGUID], used[deployment.PreviousDropletGUID] = true, true
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		used[process.DropletGUID] = true
	}
	tasks, _, err := tx.Tasks().List(platform.Where("app_guid", app.GUID).
		And(platform.In("state", string(platform.TaskPending), string(platform.TaskRunning), string(platform.TaskCanceling))))
	for _, task := range tasks {
		used[task.DropletGUID] = true
	}
	return used, err
}

// expirePackages expires all but the newest packages of an app.
func (p *Platform) expirePackages(tx platform.Tx, app *platform.App) error {
	q := newest(app, string(platform.PackageReady))
	if n, err := tx.Packages().Count(q); err != nil || n <= KeptPackages {
		return err
	}
	used := map[string]bool{}
	if app.DropletGUID != "" {
		d, err := tx.Droplets().Get(app.DropletGUID)
		if err != nil {
			return err
		}
		used[d.PackageGUID] = true
	}
	builds, _, err := tx.Builds().List(platform.Where("app_guid", app.GUID).
		And(platform.In("state", platform.BuildStaging)))
	if err != nil {
		return err
	}
	for _, b := range builds {
		used[b.PackageGUID] = true
	}
	packages, _, err := tx.Packages().List(q)
	if err != nil {
		return err
	}
	kept := 0
	for _, pkg := range packages {
		if used[pkg.GUID] {
			continue
		}
		if kept++; kept <= KeptPackages {
			continue
		}
		pkg.State = platform.PackageExpired
		if err := tx.Packages().Update(pkg); err != nil {
			return err
		}
	}
	return nil
}
