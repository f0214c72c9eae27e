package controller

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// movedAway is why an instance is replaced if the engine does not say more.
const movedAway = "its machine is being vacated or was restarted"

// found is the state that a controller finds when it starts.
type found struct {
	engine  []engine.Instance
	rows    []*platform.Instance
	started []string // apps
}

// survey returns what there is of wanted apps.
func (c *Controller) survey(ctx context.Context, wanted func(appGUID string) bool) (f found, err error) {
	f.engine, err = c.Engine.List(ctx, func(labels map[string]string) bool {
		return labels[labelKind] == kindApp &&
			wanted(labels[LabelApp])
	})
	if err != nil {
		return f, err
	}
	err = c.Store.View(ctx, func(tx platform.Tx) error {
		if f.rows, _, err = tx.Instances().List(platform.Query{}); err != nil {
			return err
		}
		f.started, err = startedApps(tx)
		return err
	})
	f.rows = slices.DeleteFunc(f.rows, func(row *platform.Instance) bool { return !wanted(row.AppGUID) })
	f.started = slices.DeleteFunc(f.started, func(guid string) bool { return !wanted(guid) })
	return f, err
}

// adopt takes over the instances of an earlier server process.
func (c *Controller) adopt(f found) {
	byID := map[string]engine.Instance{}
	for _, in := range f.engine {
		byID[in.ID] = in
	}
	known := map[string]bool{}
	touched := map[*app]bool{}
	for _, row := range f.rows {
		a := c.appOf(row.AppGUID)
		touched[a] = true
		at := freeSlot(a.slots, row.ProcessGUID, row.Index)
		known[row.GUID] = true
		in, there := byID[row.GUID]
		// A bad row affects one app; the others must run.
		background.Safely("adopt an instance", func() { a.take(c, at, row, in, there) })
	}
	for a := range touched {
		background.Safely("adopt an instance", func() { c.resume(a, byID) })
	}
	for id, in := range byID {
		if !known[id] {
			c.orphan(in)
		}
	}
	for a := range touched {
		c.Kick(a.guid)
	}
	c.Kick(f.started...)
}

// take creates a slot from a row and the engine's instance, if that exists.
func (a *app) take(c *Controller, at slotKey, row *platform.Instance, in engine.Instance, there bool) {
	s := slot{
		id: row.GUID, version: row.Version, wanted: row.Version, ready: row.Ready, details: row.Details,
		since: row.Since, crashes: row.Crashes, crashedAt: row.CrashedAt, seen: row.RecordsAfter,
		host: row.Host, internal: row.InternalIP, ports: row.Ports,
	}
	switch {
	case !row.RestartAt.IsZero() || row.State == platform.InstanceCrashed || row.State == platform.InstanceDown:
		s.state, s.failed, s.restartAt = waiting, crashed, row.RestartAt
		// Further away only if the clock was set back.
		if latest := c.Clock.Now().Add(longestPause); s.restartAt.After(latest) {
			s.restartAt = latest
		}
		switch {
		case row.State == platform.InstanceDown && row.Crashes == 0:
			s.failed = refused
			if s.restartAt.IsZero() { // a retry was scheduled
				s.restartAt = c.Clock.Now()
			}
		case row.State == platform.InstanceDown:
			s.failed = notStarted
		case row.RestartAt.IsZero():
			s.state = givenUp
		}
		if there {
			s.state = clearing
			s.deadline = c.Clock.Now() // remove it now
		}
	case row.State == platform.InstanceStopping:
		s.state = stopping
		s.deadline = c.Clock.Now().Add(c.Grace + stopSlack)
	case !there:
		// It was never started, or was removed properly while no server ran. An instance
		// that crashed meanwhile would still exist.
		s.state = creating
	case row.State == platform.InstanceRunning:
		s.state = running
	default:
		s.state = starting
	}
	a.slots[at], a.stored[at] = s, row
	l := &live{id: row.GUID, app: a.guid, at: at, after: row.RecordsAfter}
	a.live[row.GUID] = l
	if !there {
		if s.state != waiting && s.state != givenUp {
			a.post(occurrence{id: row.GUID, event: event{kind: evLost}})
			c.clear(a, row.GUID)
		}
		return
	}
	if text := in.Labels[labelSources]; text != "" {
		l.sources = strings.Split(text, "\n")
	}
	if in.Labels[labelType] != "" {
		a.types[at.process] = in.Labels[labelType]
	}
}

// clear removes what the engine has of an instance that is given up: a server that was
// killed may have begun to create it.
func (c *Controller) clear(a *app, id string) {
	c.spawnFor(a, "remove an instance", func(ctx context.Context) {
		if err := c.Engine.Remove(ctx, id); err != nil && ctx.Err() == nil {
			c.Log.Warn("removing an instance that was never started failed", "app", a.guid, "instance", id, "error", err)
		}
	})
}

// resume continues with the instances of an app: it reads their records, repeats stop
// signals, and posts events for what happened meanwhile.
func (c *Controller) resume(a *app, byID map[string]engine.Instance) {
	for _, l := range a.live {
		in, there := byID[l.id]
		if !there {
			continue
		}
		s := a.slots[l.at]
		switch s.state {
		case stopping:
			c.spawnFor(a, "stop an instance", func(ctx context.Context) { c.signal(ctx, a, l.id) })
		case starting, running:
			e := createdEvent(in)
			s.host, s.internal, s.ports = e.host, e.internal, e.ports
			alive := in.Running && in.State.Phase == initproto.Running
			// One that got no requests may have to prove itself: the first pass decides.
			s.proven = s.ready
			s.ready = s.state == running && in.State.Ready && alive
			s.held, s.readyAt = s.ready && !s.proven, s.since
			if alive && s.state == starting {
				a.post(occurrence{id: l.id, event: event{kind: evHealthy}})
				if in.State.Ready {
					a.post(occurrence{id: l.id, event: event{kind: evReady}})
				}
			}
			a.slots[l.at] = s
			if in.Displaced {
				a.post(occurrence{id: l.id, event: event{kind: evDisplaced, text: movedAway}})
			}
		default:
			continue
		}
		c.follow(a, l)
	}
	p := &pass{Controller: c, app: a, slots: a.slots}
	p.publish(false)
	p.remember()
}
