package controller

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
)

// Gained adopts the apps of shards that this server works on from now on. If that fails, it
// is retried by the next look at all apps.
func (c *Controller) Gained(shards uint64) {
	c.mu.Lock()
	c.pending |= shards
	ctx := c.work
	c.mu.Unlock()
	if ctx == nil {
		return // Start adopts
	}
	if err := c.adoptPending(ctx); err != nil && ctx.Err() == nil {
		c.Log.Error("adopting apps failed and will be retried", "error", err)
		c.KickAll()
	}
}

// adoptPending adopts the apps of the shards that were gained.
func (c *Controller) adoptPending(ctx context.Context) error {
	c.adopting.Lock()
	defer c.adopting.Unlock()
	c.mu.Lock()
	shards := c.pending
	c.mu.Unlock()
	if shards == 0 {
		return nil
	}
	found, err := c.survey(ctx, func(app string) bool { return c.share.In(shards, app) && !c.share.Has(app) })
	if err != nil {
		return err
	}
	c.adopt(found)
	c.share.Gain(shards)
	c.mu.Lock()
	c.pending &^= shards
	c.mu.Unlock()
	for _, row := range found.rows {
		c.Kick(row.AppGUID)
	}
	c.Kick(found.started...)
	return nil
}

// Lost stops the work on the apps of shards, and leaves their instances running. When it
// returns, nothing is written for them any more.
func (c *Controller) Lost(shards uint64) {
	c.adopting.Lock()
	defer c.adopting.Unlock()
	c.mu.Lock()
	c.pending &^= shards
	c.mu.Unlock()
	c.share.Lose(shards)
	var all background.WaitGroup
	for _, a := range c.allApps() {
		if c.share.In(shards, a.guid) {
			all.Go("release an app", func() {
				c.cancel(a)
				a.mu.Lock() // waits for its pass
				defer a.mu.Unlock()
				c.drop(a)
			})
		}
	}
	all.Wait()
}

// cancel ends the context of the work on an app.
func (c *Controller) cancel(a *app) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.release != nil {
		a.release()
	}
}

// drop forgets the state of an app, whose lock must be held, and ends the work on it.
func (c *Controller) drop(a *app) {
	a.halt()
	c.cancel(a)
	c.mu.Lock()
	if c.apps[a.guid] == a {
		delete(c.apps, a.guid)
	}
	c.mu.Unlock()
	a.in.Lock()
	a.dead = true
	a.in.Unlock()
	a.tasks.Wait()
	for id := range a.live {
		c.usage.forget(id)
	}
}

// peersFor is how long an instance that stops waits until the other servers send it no
// more requests.
const peersFor = 2 * time.Second

// tellPeers tells the other servers that rows have changed.
func (p *pass) tellPeers() {
	if p.Peers != nil && p.wrote {
		p.peers = p.Peers.BackendsChanged(p.app.guid)
	}
}

// awaitPeers waits until the other servers have read the rows of this pass.
func (p *pass) awaitPeers(ctx context.Context) {
	if p.peers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, peersFor)
	defer cancel()
	p.peers(ctx)
}

// LoadBackends reads the backends of apps that other servers work on from the rows of their
// instances, or of all such apps if none is named. When it returns, the sink was notified.
func (c *Controller) LoadBackends(ctx context.Context, appGUIDs ...string) error {
	if c.share.Whole() {
		return nil
	}
	// One at a time, so that an older result never comes last.
	c.loading.Lock()
	defer c.loading.Unlock()
	query := platform.Query{}
	if len(appGUIDs) > 0 {
		query.Where = []platform.Cond{platform.InStrings("app_guid", appGUIDs)}
	}
	var rows []*platform.Instance
	types := map[string]string{}
	err := c.Store.View(ctx, func(tx platform.Tx) (err error) {
		if rows, _, err = tx.Instances().List(query); err != nil {
			return err
		}
		processes, _, err := tx.Processes().List(query)
		for _, process := range processes {
			types[process.GUID] = process.Type
		}
		return err
	})
	if err != nil {
		return err
	}
	now := map[string]map[string][]Backend{}
	for _, row := range rows {
		kind := types[row.ProcessGUID]
		if row.State != platform.InstanceRunning || !row.Ready || kind == "" {
			continue
		}
		if now[row.AppGUID] == nil {
			now[row.AppGUID] = map[string][]Backend{}
		}
		now[row.AppGUID][kind] = append(now[row.AppGUID][kind], Backend{InstanceGUID: row.GUID, ProcessGUID: row.ProcessGUID, Index: row.Index, Ports: row.Ports, Ready: true})
	}
	c.setBackends(appGUIDs, now)
	return nil
}

// setBackends sets the backends of apps, or of all if none is named, except those that this
// server works on.
func (c *Controller) setBackends(appGUIDs []string, now map[string]map[string][]Backend) {
	var changed []string
	c.routing.Lock()
	if len(appGUIDs) == 0 {
		appGUIDs = append(slices.Collect(maps.Keys(now)), slices.Collect(maps.Keys(c.backends))...)
	}
	for _, app := range appGUIDs {
		for _, all := range now[app] {
			slices.SortFunc(all, byIndex)
		}
		if c.share.Has(app) || reflect.DeepEqual(c.backends[app], now[app]) {
			continue
		}
		if c.backends[app] = now[app]; now[app] == nil {
			delete(c.backends, app)
		}
		changed = append(changed, app)
	}
	c.routing.Unlock()
	if c.sink != nil {
		for _, app := range changed {
			c.sink.AppChanged(app)
		}
	}
}

func byIndex(x, y Backend) int {
	return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.InstanceGUID, y.InstanceGUID))
}
