package controller

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/run/controller/routing"
)

// pass is one pass over an app, with its lock held. A pass that fails changes nothing.
type pass struct {
	*Controller
	rules rules
	app   *app
	goal  goal

	slots   map[slotKey]slot
	actions []slotAction
	// deployment is the active deployment of the app, as it is after the pass.
	deployment *platform.Deployment
	// verdict is why the deployment is canceled; empty if it is not.
	verdict string
	// again is when the deployment needs another pass; zero means never.
	again time.Time
	// wrote means that rows of instances have changed; peers waits until the other servers
	// have read them.
	wrote bool
	peers func(context.Context) bool
}

// slotAction is an action and its slot.
type slotAction struct {
	at slotKey
	action
}

// maxCreating limits the instances of an app that are created at once, so that a large
// number is started step by step.
const maxCreating = 32

func (c *Controller) pass(ctx context.Context, a *app) error {
	g, err := c.goalOf(ctx, a.guid)
	if err != nil {
		return err
	}
	p := &pass{
		Controller: c, app: a, goal: g, slots: maps.Clone(a.slots),
		rules: rules{now: c.Clock.Now(), grace: c.Grace, cell: c.Cell, newID: newGUID},
	}
	events := inOrder(a.pending())
	p.desire()
	for _, o := range events {
		p.occur(o)
	}
	for _, r := range g.restarts {
		p.occur(occurrence{at: slotKey{process: r.ProcessGUID, index: r.Index}, event: event{kind: evRestart}})
	}
	for _, at := range p.slotKeys() {
		p.step(at, event{kind: evDue})
	}
	p.prove()
	if g.deployment != nil {
		// How many instances are wanted depends on those that are ready now.
		p.roll()
		p.desire()
	}
	// New backends are published before their rows. Removed ones are withdrawn after,
	// except at the end of a deployment: a client that reads that it is finished gets no
	// more responses of the old version.
	p.publish(!p.concluded())
	rows, err := p.save(ctx)
	if err != nil {
		return err
	}
	// The changes are stored from here on.
	a.drop(len(events))
	a.slots, a.stored = p.slots, rows
	for guid, process := range g.processes {
		a.types[guid] = process.Type
	}
	a.gone.Store(g.app == nil)
	p.publish(false)
	p.say()
	p.tellPeers()
	p.act()
	p.remember()
	c.tellPassed()
	if p.concluded() || p.verdict != "" {
		c.Kick(a.guid) // queue the app for its other processes, or for the way back
	}
	return nil
}

// inOrder returns events with those about displaced instances first: an instance that ends
// because of its machine has not crashed.
func inOrder(events []occurrence) []occurrence {
	slices.SortStableFunc(events, func(x, y occurrence) int {
		rank := func(o occurrence) int {
			if o.event.kind == evDisplaced {
				return 0
			}
			return 1
		}
		return rank(x) - rank(y)
	})
	return events
}

// slotKeys returns the keys of the existing slots, sorted.
func (p *pass) slotKeys() []slotKey {
	return slices.SortedFunc(maps.Keys(p.slots), func(x, y slotKey) int {
		return cmp.Or(cmp.Compare(x.process, y.process), x.index-y.index, x.copy-y.copy)
	})
}

// occur delivers an event to its slot, if that still exists.
func (p *pass) occur(o occurrence) {
	if o.id == "" {
		for _, at := range p.slotKeys() {
			if at.process == o.at.process && at.index == o.at.index {
				p.step(at, o.event)
			}
		}
		return
	}
	l := p.app.live[o.id]
	if l == nil || p.slots[l.at].id != o.id {
		return
	}
	version := p.slots[l.at].wanted
	p.step(l.at, o.event)
	if (o.event.kind == evDisplaced || o.event.moved != "") && p.slots[l.at].leaves() && version != "" {
		room := 1
		p.add(l.at.process, l.at.index, version, &room)
	}
}

func (p *pass) step(at slotKey, e event) {
	next, do := p.rules.step(p.slots[at], e)
	if next.state == absent {
		delete(p.slots, at)
	} else {
		p.slots[at] = next
	}
	for _, d := range do {
		p.actions = append(p.actions, slotAction{at, d})
	}
}

// typeOf returns the process type of a slot.
func (p *pass) typeOf(at slotKey) string {
	if process := p.goal.processes[at.process]; process != nil {
		return process.Type
	}
	return p.app.types[at.process]
}

// rowOf returns the row of a slot.
func (p *pass) rowOf(at slotKey, s slot) *platform.Instance {
	row := &platform.Instance{
		AppGUID: p.app.guid, ProcessGUID: at.process, Index: at.index, Version: s.version,
		State: s.visible(), Ready: s.ready && !s.held, Since: s.since,
		Crashes: s.crashes, CrashedAt: s.crashedAt, RestartAt: s.restartAt, Details: s.details,
		Host: s.host, InternalIP: s.internal, Ports: s.ports, RecordsAfter: s.seen,
	}
	row.GUID = s.id
	return row
}

// save writes the changes and audit events in one transaction. It returns the new rows.
func (p *pass) save(ctx context.Context) (map[slotKey]*platform.Instance, error) {
	rows := make(map[slotKey]*platform.Instance, len(p.slots))
	var inserts, updates []*platform.Instance
	var deletes, stopped []string
	for at, s := range p.slots {
		row, old := p.rowOf(at, s), p.app.stored[at]
		rows[at] = row
		switch {
		case old == nil:
			inserts = append(inserts, row)
		case old.GUID != row.GUID:
			inserts = append(inserts, row)
			deletes = append(deletes, old.GUID)
		default:
			row.Created, row.Updated = old.Created, old.Updated
			if !sameRow(old, row) {
				updates = append(updates, row)
				if row.State == platform.InstanceCrashed || row.State == platform.InstanceDown {
					stopped = append(stopped, row.GUID)
				}
			}
		}
	}
	for at, old := range p.app.stored {
		if _, there := p.slots[at]; !there {
			deletes = append(deletes, old.GUID)
		}
	}
	p.wrote = len(inserts)+len(updates)+len(deletes) > 0
	audits := p.audits()
	if len(inserts)+len(updates)+len(deletes)+len(audits)+len(p.goal.restarts) == 0 && !p.moved() {
		return rows, nil
	}
	return rows, p.Store.Update(ctx, func(tx platform.Tx) error {
		for _, guid := range deletes {
			if err := tx.Instances().Delete(guid); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		for _, row := range updates {
			err := tx.Instances().Update(row)
			if fault.Is(err, fault.NotFound) {
				err = tx.Instances().Insert(row)
			}
			if err != nil {
				return err
			}
		}
		for _, row := range inserts {
			if err := tx.Instances().Insert(row); err != nil {
				return err
			}
		}
		for _, done := range p.goal.restarts {
			if err := tx.InstanceRestarts().Delete(done.GUID); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		if err := p.record(tx, audits); err != nil {
			return err
		}
		if err := actions.CredentialsReleased(tx, p.app.guid, slices.Concat(deletes, stopped)...); err != nil {
			return err
		}
		return p.saveDeployment(tx)
	})
}

// sameRow compares the fields that users and adoption see; a new record position alone is
// not worth a write.
func sameRow(old, now *platform.Instance) bool {
	x, y := *old, *now
	x.RecordsAfter = y.RecordsAfter
	return reflect.DeepEqual(x, y)
}

// remember sets the timer to the next deadline, and updates the data for other goroutines.
func (p *pass) remember() {
	next := p.again
	here, runs := make([]string, 0, len(p.slots)), make([]Running, 0, len(p.slots))
	for at, s := range p.slots {
		here = append(here, s.id)
		if state := s.visible(); state == platform.InstanceRunning || state == platform.InstanceStarting {
			runs = append(runs, Running{p.app.guid, at.process, p.typeOf(at), s.id, at.index})
		}
		if due := s.due(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	p.app.wakeAt(p.Controller, next)
	p.app.in.Lock()
	defer p.app.in.Unlock()
	p.app.here, p.app.runs = here, runs
}

// publish sets the app's backends to those of the pass and notifies the sink of a change.
// It comes before any action on an instance.
//
// With more, it only adds backends: that is done before rows are written, so that a client
// that reads there that an instance runs can reach it.
func (p *pass) publish(more bool) {
	var now map[string][]routing.Backend
	for at, s := range p.slots {
		kind := p.typeOf(at)
		if !s.routable() || kind == "" {
			continue
		}
		if now == nil {
			now = map[string][]routing.Backend{}
		}
		now[kind] = append(now[kind], routing.Backend{InstanceGUID: s.id, ProcessGUID: at.process, Index: at.index,
			Ports: s.ports, Ready: true})
	}
	if more && now == nil {
		return
	}
	p.routing.Lock()
	before := p.backends[p.app.guid]
	p.routing.Unlock()
	if more {
		now = together(before, now)
	}
	for _, all := range now {
		slices.SortFunc(all, byIndex)
	}
	changed := !reflect.DeepEqual(before, now)
	p.routing.Lock()
	if now == nil {
		delete(p.backends, p.app.guid)
	} else {
		p.backends[p.app.guid] = now
	}
	p.routing.Unlock()
	if changed && p.sink != nil {
		p.sink.AppChanged(p.app.guid)
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
