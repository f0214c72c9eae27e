package controller

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// act performs the engine actions of the pass in goroutines; their results are events.
func (p *pass) act() {
	for _, d := range p.actions {
		a, l := p.app, p.app.live[d.id]
		switch d.kind {
		case doCreate:
			p.create(a, d.at, d.id, d.version)
		case doCancel:
			if l != nil && l.cancel != nil {
				l.cancel()
			}
		case doFollow:
			if l != nil {
				p.follow(a, l)
			}
		case doSignal:
			p.spawnFor(a, "stop an instance", func(ctx context.Context) {
				p.awaitPeers(ctx)
				if d.finishRequests {
					p.drain(ctx, d.id)
				}
				if ctx.Err() == nil { // otherwise the next server does it
					p.signal(ctx, a, d.id)
				}
			})
		case doRemove:
			p.spawnFor(a, "remove an instance", func(ctx context.Context) { p.remove(ctx, a, d.id) })
		}
	}
	// Cancel everything for instances that have no slot any more.
	for id, l := range p.app.live {
		if p.slots[l.at].id == id {
			continue
		}
		if l.cancel != nil {
			l.cancel()
		}
		if l.unread != nil {
			l.unread()
		}
		delete(p.app.live, id)
		p.usage.Forget(id)
		p.Logs.Forget(id)
	}
}

// create starts an instance in the background.
func (c *Controller) create(a *app, at slotKey, id, version string) {
	l := &live{id: id, app: a.guid, at: at}
	a.live[id] = l
	ctx, cancel := context.WithCancel(c.workOf(a))
	l.cancel = cancel
	c.spawnFor(a, "start an instance", func(work context.Context) {
		defer cancel()
		var e event
		if err := background.Do("start an instance", func() error { e = c.start(ctx, l, version); return nil }); err != nil {
			e = c.startFailed(l, err)
		}
		if work.Err() != nil {
			// The row says STARTING: the next server checks the outcome.
			return
		}
		c.tell(a, id, e)
	})
}

// start starts an instance with the engine, when a start token is free.
func (c *Controller) start(ctx context.Context, l *live, version string) event {
	select {
	case c.starts <- struct{}{}:
		defer releaser(c.starts)()
	case <-ctx.Done():
		return event{kind: evFailed, text: "given up before it was started"}
	}
	// The time limit does not include the wait for the token.
	ctx, late := context.WithTimeout(ctx, startLimit)
	defer late()
	spec, err := c.specOf(ctx, l.at, l.id, version)
	if errors.Is(err, errOutdated) {
		return event{kind: evLost}
	}
	if err != nil {
		return c.startFailed(l, err)
	}
	l.sources = sourcesOf(spec.Launch)
	if err := c.Engine.Start(ctx, spec); err != nil {
		return c.startFailed(l, err)
	}
	in, err := c.Engine.Get(ctx, l.id)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		c.Log.Warn("preparing an instance failed", "instance", l.id, "error", err)
	}
	return createdEvent(in)
}

// slowStart is how long a start holds its token: one that hangs must not block those of
// other apps.
const slowStart = 30 * time.Second

// releaser returns a function that releases a start token. The token is released by itself
// after slowStart.
func releaser(tokens <-chan struct{}) func() {
	give := sync.OnceFunc(func() { <-tokens })
	late := background.AfterFunc("slow start", slowStart, give)
	return func() {
		late.Stop()
		give()
	}
}

func createdEvent(in engine.Instance) event {
	e := event{kind: evCreated, host: in.Host, internal: in.Internal}
	for _, port := range in.Ports {
		e.ports = append(e.ports, platform.InstancePort{
			Inside: port.Inside, Listens: port.Listens, Address: port.Address,
			Default: in.Labels[labelPort] == strconv.Itoa(port.Inside),
		})
	}
	return e
}

// startFailed reports to the user what a user can fix, and everything to the operator.
func (c *Controller) startFailed(l *live, err error) event {
	var refused *engine.PlacementError
	if errors.As(err, &refused) {
		c.Log.Debug("instance not placed", "app", l.app, "instance", l.id, "index", l.at.index, "error", err)
		return event{kind: evRefused, text: refused.Reason}
	}
	c.Log.Warn("starting an instance failed", "app", l.app, "instance", l.id, "index", l.at.index, "error", err)
	return event{kind: evFailed, text: failureOf(err)}
}

// failureOf returns the reason for the user why an instance could not be started.
func failureOf(err error) string {
	var refused *engine.PlacementError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Message
	}
	return "the instance could not be started: " + reasonOf(err)
}

// signal asks an instance to stop. If that fails, the deadline removes it.
func (c *Controller) signal(ctx context.Context, a *app, id string) {
	err := background.Do("stop an instance", func() error { return c.Engine.Signal(ctx, id) })
	switch {
	case errors.Is(err, engine.ErrNotFound):
		c.tell(a, id, event{kind: evLost})
	case err != nil && ctx.Err() == nil:
		c.Log.Warn("stopping an instance failed", "app", a.guid, "instance", id, "error", err)
	}
}

func (c *Controller) remove(ctx context.Context, a *app, id string) {
	err := background.Do("remove an instance", func() error { return c.Engine.Remove(ctx, id) })
	switch {
	case err == nil:
		c.tell(a, id, event{kind: evRemoved})
	case ctx.Err() == nil:
		c.Log.Error("removing an instance failed", "app", a.guid, "instance", id, "error", err)
		c.tell(a, id, event{kind: evStuck, text: err.Error()})
	}
}

// orphan stops and removes an instance that has no row.
func (c *Controller) orphan(in engine.Instance) {
	c.mu.Lock()
	known := c.orphans[in.ID]
	c.orphans[in.ID] = true
	c.mu.Unlock()
	if known {
		return
	}
	c.spawn("remove an instance", func(ctx context.Context) {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.orphans, in.ID)
		}()
		c.Log.Warn("stopping an instance that has no row", "instance", in.ID, "app", in.Labels[LabelApp])
		if err := c.Engine.Signal(ctx, in.ID); err == nil {
			c.awaitEnd(ctx, in.ID)
		}
		if err := c.Engine.Remove(ctx, in.ID); err != nil && ctx.Err() == nil {
			c.Log.Error("removing an instance that has no row failed", "instance", in.ID, "error", err)
		}
	})
}

// awaitEnd returns when the instance has ended, or its time is up.
func (c *Config) awaitEnd(ctx context.Context, id string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.Clock.AfterFunc(c.Grace+stopSlack, cancel)()
	stream, err := c.Engine.Records(ctx, id, 0)
	if err != nil {
		return
	}
	defer stream.Close()
	for {
		if _, err := stream.Next(); err != nil {
			return
		}
	}
}
