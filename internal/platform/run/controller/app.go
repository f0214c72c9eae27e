package controller

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// slotKey identifies an instance slot. Each process and index has one; while an instance
// moves to another machine it has several, told apart by copy. The number of a copy has no
// meaning and is not stored.
type slotKey struct {
	process string // guid
	index   int
	copy    int
}

// occurrence is an event of an instance or, if the instance is not known, of a slot.
type occurrence struct {
	id    string
	at    slotKey
	event event
}

// app is the controller's state of one app.
type app struct {
	guid string

	// mu is held during a pass.
	mu       sync.Mutex
	slots    map[slotKey]slot
	stored   map[slotKey]*platform.Instance // as in the store
	types    map[string]string              // types of processes, by guid
	live     map[string]*live               // by instance guid
	wake     func()                         // stops the timer
	failures int

	gone atomic.Bool // the app was deleted: do not log

	work    context.Context //nolint:containedctx // until the app is released; nil at first
	release context.CancelFunc
	tasks   sync.WaitGroup

	in    sync.Mutex
	inbox []occurrence
	here  []string // guids of its instances
	dead  bool     // no longer in the controller's map
}

// live holds the goroutines of one instance.
type live struct {
	id, app string
	at      slotKey
	sources []string // of the members
	after   uint64   // the last record that was processed

	cancel context.CancelFunc // cancels its start
	unread context.CancelFunc // stops reading its records
}

func newApp(guid string) *app {
	return &app{
		guid: guid, slots: map[slotKey]slot{}, stored: map[slotKey]*platform.Instance{},
		types: map[string]string{}, live: map[string]*live{},
	}
}

// post adds an event for the next pass, unless the app is dead.
func (a *app) post(o occurrence) {
	a.in.Lock()
	defer a.in.Unlock()
	if !a.dead {
		a.inbox = append(a.inbox, o)
	}
}

// tell posts an event of an instance and queues the app.
func (c *Controller) tell(a *app, id string, e event) {
	a.post(occurrence{id: id, event: e})
	c.Kick(a.guid)
}

func (a *app) isDead() bool {
	a.in.Lock()
	defer a.in.Unlock()
	return a.dead
}

// retire makes an app dead that has no state. The lock must be held.
func (a *app) retire() bool {
	a.in.Lock()
	defer a.in.Unlock()
	if len(a.slots) == 0 && len(a.inbox) == 0 {
		a.dead = true
	}
	return a.dead
}

// instances returns the guids of the app's instances.
func (a *app) instances() []string {
	a.in.Lock()
	defer a.in.Unlock()
	return a.here
}

// pending returns the queued events. They stay queued until drop.
func (a *app) pending() []occurrence {
	a.in.Lock()
	defer a.in.Unlock()
	return slices.Clone(a.inbox)
}

func (a *app) drop(n int) {
	a.in.Lock()
	defer a.in.Unlock()
	a.inbox = slices.Delete(a.inbox, 0, n)
}

// wakeAt queues the app at a time, replacing an earlier wakeAt.
func (a *app) wakeAt(c *Controller, at time.Time) {
	a.halt()
	if !at.IsZero() {
		a.wake = c.Clock.AfterFunc(max(0, at.Sub(c.Clock.Now())), func() { c.Kick(a.guid) })
	}
}

func (a *app) halt() {
	if a.wake != nil {
		a.wake()
		a.wake = nil
	}
}

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

// say writes the lines of the pass to the app's log.
func (p *pass) say() {
	if p.app.gone.Load() {
		return
	}
	var lines []platform.LogLine
	add := func(source, instance, text string) {
		lines = append(lines, platform.LogLine{App: p.app.guid, Time: p.Clock.Now(), Source: source, Instance: instance, Text: []byte(text)})
	}
	for _, d := range p.actions {
		switch d.kind {
		case doLine:
			add("CELL", strconv.Itoa(d.at.index), d.text)
		case doCrash:
			for _, text := range p.crashLines(d) {
				add("API", "0", text)
			}
		case doWaiting:
			add("HEALTH", strconv.Itoa(d.at.index), "Not healthy yet: "+d.text)
		case doReady, doNotReady:
			if text := p.readyLine(d); text != "" {
				add("HEALTH", strconv.Itoa(d.at.index), text)
			}
		}
	}
	if p.verdict != "" {
		add("API", "0", "Canceling the deployment: "+p.verdict)
	}
	if len(lines) == 0 {
		return
	}
	if err := p.Logs.Tell(lines...); err != nil {
		p.lost.Add(uint64(len(lines)))
		p.Log.Error("writing lines to the app's log failed", "app", p.app.guid, "lines", len(lines), "error", err)
	}
}

// remember sets the timer to the next deadline, and updates the data for other goroutines.
func (p *pass) remember() {
	next := p.again
	here := make([]string, 0, len(p.slots))
	for _, s := range p.slots {
		here = append(here, s.id)
		if due := s.due(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	p.app.wakeAt(p.Controller, next)
	p.app.in.Lock()
	defer p.app.in.Unlock()
	p.app.here = here
}
