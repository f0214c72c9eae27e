package controller

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/initproto"
)

// movedAway is why an instance is replaced if the engine does not say more.
const movedAway = "its machine is being vacated"

// found is the state that a controller finds when it starts.
type found struct {
	engine  []engine.Instance
	rows    []*platform.Instance
	started []string // apps
}

func (c *Controller) survey(ctx context.Context) (found, error) {
	var f found
	list, err := c.Engine.List(ctx)
	if err != nil {
		return f, err
	}
	f.engine = slices.DeleteFunc(list, func(in engine.Instance) bool { return in.Labels[labelKind] != kindApp })
	err = c.Store.View(ctx, func(tx platform.Tx) error {
		if f.rows, _, err = tx.Instances().List(platform.Query{}); err != nil {
			return err
		}
		f.started, err = startedApps(tx)
		return err
	})
	return f, err
}

// only leaves out the apps that are not wanted.
func (f found) only(wanted func(appGUID string) bool) found {
	return found{
		engine:  slices.DeleteFunc(f.engine, func(in engine.Instance) bool { return !wanted(in.Labels[LabelApp]) }),
		rows:    slices.DeleteFunc(f.rows, func(row *platform.Instance) bool { return !wanted(row.AppGUID) }),
		started: slices.DeleteFunc(f.started, func(guid string) bool { return !wanted(guid) }),
	}
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
			s.ready = s.state == running && in.State.Ready && alive
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
