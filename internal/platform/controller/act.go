package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// act does what the pass came to, as far as it concerns the engine, in
// goroutines of their own: what comes of it are events.
func (p *pass) act() {
	for _, d := range p.actions {
		a, l := p.app, p.app.live[d.id]
		switch d.kind {
		case doCreate:
			p.create(a, d.at, d.id, d.before.version)
		case doCancel:
			if l != nil && l.cancel != nil {
				l.cancel()
			}
		case doFollow:
			if l != nil {
				p.follow(a, l)
			}
		case doSignal:
			p.spawn("stop an instance", func(ctx context.Context) {
				if d.gently {
					p.drain(ctx, d.id)
				}
				p.signal(ctx, a, d.id)
			})
		case doRemove:
			p.spawn("remove an instance", func(ctx context.Context) { p.remove(ctx, a, d.id) })
		}
	}
	// What is in no place any more has nothing going on around it.
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
		p.usage.forget(id)
		p.Logs.Forget(id)
	}
}

// create has an instance started.
func (c *Controller) create(a *app, at place, id, version string) {
	l := &live{id: id, app: a.guid, at: at}
	a.live[id] = l
	c.mu.Lock()
	work := c.work
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(work)
	l.cancel = cancel
	c.spawn("start an instance", func(work context.Context) {
		defer cancel()
		var e event
		if err := background.Do("start an instance", func() error { e = c.start(ctx, l, version); return nil }); err != nil {
			e = c.startFailed(l, err)
		}
		if work.Err() != nil {
			// The row says STARTING: the next server looks what became of it.
			return
		}
		c.tell(a, id, e)
	})
}

// start asks the engine for an instance, when it is its turn.
func (c *Controller) start(ctx context.Context, l *live, version string) event {
	select {
	case c.starts <- struct{}{}:
		defer giveBack(c.starts)()
	case <-ctx.Done():
		return event{kind: evFailed, text: "given up before it was started"}
	}
	// To wait for its turn is not the engine's fault.
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
		c.Log.Warn("a new instance cannot be asked for", "instance", l.id, "error", err)
	}
	return createdEvent(in)
}

// slowStart is how long a start keeps its place: one that hangs must not keep
// those of other apps waiting.
const slowStart = 30 * time.Second

// giveBack returns a function that gives a place back. After a while it is given
// back by itself.
func giveBack(places <-chan struct{}) func() {
	give := sync.OnceFunc(func() { <-places })
	late := background.AfterFunc("slow start", slowStart, give)
	return func() {
		late.Stop()
		give()
	}
}

func createdEvent(in engine.Instance) event {
	e := event{kind: evCreated, host: in.Host, internal: in.Internal}
	for _, port := range in.Ports {
		e.ports = append(e.ports, platform.InstancePort{Inside: port.Inside, Listens: port.Listens, Address: port.Address})
	}
	return e
}

// startFailed tells the user what he can do something about, and the operator
// everything.
func (c *Controller) startFailed(l *live, err error) event {
	var refused *engine.PlacementError
	if errors.As(err, &refused) {
		c.Log.Debug("an instance is not placed", "app", l.app, "instance", l.id, "index", l.at.index, "error", err)
		return event{kind: evRefused, text: refused.Reason}
	}
	c.Log.Warn("an instance could not be started", "app", l.app, "instance", l.id, "index", l.at.index, "error", err)
	return event{kind: evFailed, text: failureOf(err)}
}

// failureOf is why an instance could not be started, for the user.
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

// signal tells an instance to go. When that does not work the deadline does.
func (c *Controller) signal(ctx context.Context, a *app, id string) {
	err := background.Do("stop an instance", func() error { return c.Engine.Signal(ctx, id) })
	switch {
	case errors.Is(err, engine.ErrNotFound):
		c.tell(a, id, event{kind: evLost})
	case err != nil && ctx.Err() == nil:
		c.Log.Warn("an instance cannot be told to go", "app", a.guid, "instance", id, "error", err)
	}
}

func (c *Controller) remove(ctx context.Context, a *app, id string) {
	err := background.Do("remove an instance", func() error { return c.Engine.Remove(ctx, id) })
	switch {
	case err == nil:
		c.tell(a, id, event{kind: evRemoved})
	case ctx.Err() == nil:
		c.Log.Error("an instance cannot be removed", "app", a.guid, "instance", id, "error", err)
		c.tell(a, id, event{kind: evStuck, text: err.Error()})
	}
}

// orphan ends an instance that no row tells of.
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
		c.Log.Warn("an instance that nobody wants is stopped", "instance", in.ID, "app", in.Labels[LabelApp])
		if err := c.Engine.Signal(ctx, in.ID); err == nil {
			c.awaitEnd(ctx, in.ID)
		}
		if err := c.Engine.Remove(ctx, in.ID); err != nil && ctx.Err() == nil {
			c.Log.Error("an instance that nobody wants cannot be removed", "instance", in.ID, "error", err)
		}
	})
}

// awaitEnd returns when the instance has ended, or should have.
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
