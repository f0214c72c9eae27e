package controller

import (
	"context"

	"ingot/internal/base/background"
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
		c.usage.Forget(id)
	}
}
