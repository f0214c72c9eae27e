package controller

import (
	"context"

	"ingot/internal/cf"
	"ingot/internal/fault"
)

// goal is what is wanted of an app.
type goal struct {
	app       *cf.App // nil: it is gone
	processes map[string]*cf.Process
	idle      bool // nothing is to run
}

// version is what should run in a place, "" for nothing.
func (g goal) version(at place) string {
	process := g.processes[at.process]
	if g.idle || process == nil || process.DropletGUID == "" || at.index >= process.Instances {
		return ""
	}
	return process.Version
}

func (c *Controller) goalOf(ctx context.Context, guid string) (goal, error) {
	c.mu.Lock()
	evicting := c.evicting
	c.mu.Unlock()
	var g goal
	err := c.Store.View(ctx, func(tx cf.Tx) error {
		g = goal{processes: map[string]*cf.Process{}}
		app, err := tx.Apps().Get(guid)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		all, _, err := tx.Processes().List(cf.Where("app_guid", guid))
		for _, process := range all {
			g.processes[process.GUID] = process
		}
		g.app, g.idle = app, evicting || app.State != cf.AppStarted
		return err
	})
	return g, err
}

// startedApps are the apps that should run.
func startedApps(tx cf.Tx) ([]string, error) {
	all, _, err := tx.Apps().List(cf.Where("state", string(cf.AppStarted)))
	guids := make([]string, 0, len(all))
	for _, app := range all {
		guids = append(guids, app.GUID)
	}
	return guids, err
}
