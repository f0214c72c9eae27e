package controller

import (
	"context"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// goal is what is wanted of an app.
type goal struct {
	app       *platform.App // nil: it is gone
	processes map[string]*platform.Process
	idle      bool // nothing is to run
	// deployment is the one that goes on, nil if none does or nothing is to run.
	deployment *platform.Deployment
}

// version is what should run at an index of a process, "" for nothing.
func (g goal) version(processGUID string, index int) string {
	process := g.processes[processGUID]
	if g.idle || process == nil || process.DropletGUID == "" || index >= process.Instances {
		return ""
	}
	return process.Version
}

func (c *Controller) goalOf(ctx context.Context, guid string) (goal, error) {
	var g goal
	err := c.Store.View(ctx, func(tx platform.Tx) error {
		g = goal{processes: map[string]*platform.Process{}}
		app, err := tx.Apps().Get(guid)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		all, _, err := tx.Processes().List(platform.Where("app_guid", guid))
		for _, process := range all {
			g.processes[process.GUID] = process
		}
		g.app, g.idle = app, app.State != platform.AppStarted
		if err == nil && !g.idle {
			g.deployment, err = actions.ActiveDeployment(tx, guid)
		}
		return err
	})
	return g, err
}

// startedApps are the apps that should run.
func startedApps(tx platform.Tx) ([]string, error) {
	all, _, err := tx.Apps().List(platform.Where("state", string(platform.AppStarted)))
	guids := make([]string, 0, len(all))
	for _, app := range all {
		guids = append(guids, app.GUID)
	}
	return guids, err
}
