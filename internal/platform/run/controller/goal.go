package controller

import (
	"context"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// goal is the desired state of an app.
type goal struct {
	app       *platform.App // nil if it was deleted
	processes map[string]*platform.Process
	// instances are the numbers of instances of the processes as they are stored.
	instances map[string]int
	idle      bool // nothing should run
	// deployment is the active deployment; nil if there is none or nothing should run.
	deployment *platform.Deployment
	// restarts are the instances that users want to be restarted.
	restarts []*platform.InstanceRestart
}

// version returns the version that should run at an index of a process; "" for none.
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
		g = goal{processes: map[string]*platform.Process{}, instances: map[string]int{}}
		restarts, _, err := tx.InstanceRestarts().List(platform.Where("app_guid", guid))
		if err != nil {
			return err
		}
		g.restarts = restarts
		app, err := tx.Apps().Get(guid)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		all, _, err := tx.Processes().List(platform.Where("app_guid", guid))
		for _, process := range all {
			g.processes[process.GUID], g.instances[process.GUID] = process, process.Instances
		}
		g.app, g.idle = app, app.State != platform.AppStarted
		if err == nil && !g.idle {
			g.deployment, err = actions.ActiveDeployment(tx, guid)
		}
		return err
	})
	return g, err
}

// startedApps returns the guids of the apps that should run.
func startedApps(tx platform.Tx) ([]string, error) {
	all, _, err := tx.Apps().List(platform.Where("state", string(platform.AppStarted)))
	guids := make([]string, 0, len(all))
	for _, app := range all {
		guids = append(guids, app.GUID)
	}
	return guids, err
}
