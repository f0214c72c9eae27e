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
)

// place is where an instance can be. There is one for each process and index;
// during a deployment there are more beside each other, in lanes. The number of
// a lane means nothing, and is not stored.
type place struct {
	process string // guid
	index   int
	lane    int
}

// occurrence is an event and whom it concerns: an instance, or, when that is
// not known, whatever is in a place.
type occurrence struct {
	id    string
	at    place
	event event
}

// app is what the controller remembers of one.
type app struct {
	guid string

	// mu is held during a pass.
	mu       sync.Mutex
	slots    map[place]slot
	stored   map[place]*platform.Instance // the rows as they are in the store
	types    map[string]string            // of processes, by guid
	live     map[string]*live             // by instance
	wake     func()                       // stops the timer
	failures int

	gone atomic.Bool // the app was deleted: nobody reads its log

	in    sync.Mutex
	inbox []occurrence
	here  []string // guids of its instances
	dead  bool     // it is not in the controller's map any more
}

// live is what goes on around one instance.
type live struct {
	id, app string
	at      place
	sources []string // of the members
	after   uint64   // records up to here were taken over

	cancel context.CancelFunc // gives up its start
	unread context.CancelFunc // ends reading its records
}

func newApp(guid string) *app {
	return &app{
		guid: guid, slots: map[place]slot{}, stored: map[place]*platform.Instance{},
		types: map[string]string{}, live: map[string]*live{},
	}
}

// post adds an event for the next pass. It is false when the app is dead.
func (a *app) post(o occurrence) bool {
	a.in.Lock()
	defer a.in.Unlock()
	if !a.dead {
		a.inbox = append(a.inbox, o)
	}
	return !a.dead
}

// tell posts an event of an instance and has it looked at.
func (c *Controller) tell(a *app, id string, e event) {
	a.post(occurrence{id: id, event: e})
	c.Kick(a.guid)
}

func (a *app) isDead() bool {
	a.in.Lock()
	defer a.in.Unlock()
	return a.dead
}

// retire makes an app dead that has nothing to remember. The lock is held.
func (a *app) retire() bool {
	a.in.Lock()
	defer a.in.Unlock()
	if len(a.slots) == 0 && len(a.inbox) == 0 {
		a.dead = true
	}
	return a.dead
}

// instances are the guids of the app's instances.
func (a *app) instances() []string {
	a.in.Lock()
	defer a.in.Unlock()
	return a.here
}

// pending returns the events that came in. They stay until drop.
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

// wakeAt has the app looked at, at a time. There is one time for each app.
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

// pass is one look at an app. Its lock is held. When it fails nothing has
// changed.
type pass struct {
	*Controller
	rules rules
	app   *app
	goal  goal

	slots   map[place]slot
	actions []placed
	// deployment is the app's, if one goes on, as it is after the pass.
	deployment *platform.Deployment
	// again is when the deployment wants to be looked at; zero means never.
	again time.Time
}

// placed is an action and where.
type placed struct {
	at     place
	before slot // as the action left it
	action
}

// maxCreating bounds the instances of an app that are being created at once, so
// that a large number is worked off bit by bit.
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
	events := a.pending()
	p.desire(false)
	for _, o := range events {
		p.occur(o)
	}
	for _, at := range p.places() {
		p.step(at, event{kind: evDue})
	}
	if g.deployment != nil {
		// What is ready now decides what goes.
		p.desire(true)
		p.progress()
	}
	// What comes is reached before its row says so. What goes leaves after, but
	// for the last of a deployment: who reads that it is over gets no answer of
	// the old version any more.
	p.publish(!p.concluded())
	rows, err := p.save(ctx)
	if err != nil {
		return err
	}
	// From here on it has happened.
	a.drop(len(events))
	a.slots, a.stored = p.slots, rows
	for guid, process := range g.processes {
		a.types[guid] = process.Type
	}
	a.gone.Store(g.app == nil)
	p.publish(false)
	p.say()
	p.act()
	p.remember()
	c.tellPassed()
	if p.concluded() {
		c.Kick(a.guid) // other processes follow
	}
	return nil
}

// places are those that there are, in order.
func (p *pass) places() []place {
	return slices.SortedFunc(maps.Keys(p.slots), func(x, y place) int {
		return cmp.Or(cmp.Compare(x.process, y.process), x.index-y.index, x.lane-y.lane)
	})
}

// occur takes an event to whom it concerns, if he is still there.
func (p *pass) occur(o occurrence) {
	if o.id == "" {
		for _, at := range p.places() {
			if at.process == o.at.process && at.index == o.at.index {
				p.step(at, o.event)
			}
		}
		return
	}
	l := p.app.live[o.id]
	if l != nil && p.slots[l.at].id == o.id {
		p.step(l.at, o.event)
	}
}

func (p *pass) step(at place, e event) {
	next, do := p.rules.step(p.slots[at], e)
	if next.state == absent {
		delete(p.slots, at)
	} else {
		p.slots[at] = next
	}
	for _, d := range do {
		p.actions = append(p.actions, placed{at, next, d})
	}
}

// rowOf is a place as it is in the store.
func (p *pass) rowOf(at place, s slot) *platform.Instance {
	row := &platform.Instance{
		AppGUID: p.app.guid, ProcessGUID: at.process, Index: at.index, Version: s.version,
		State: s.visible(), Ready: s.ready, Since: s.since,
		Crashes: s.crashes, CrashedAt: s.crashedAt, RestartAt: s.restartAt, Details: s.details,
		Host: s.host, InternalIP: s.internal, Ports: s.ports, RecordsAfter: s.seen,
	}
	row.GUID = s.id
	return row
}

// save writes what changed, and what is to be recorded, in one transaction. It
// returns the rows as they are then.
func (p *pass) save(ctx context.Context) (map[place]*platform.Instance, error) {
	rows := make(map[place]*platform.Instance, len(p.slots))
	var inserts, updates []*platform.Instance
	var deletes []string
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
			}
		}
	}
	for at, old := range p.app.stored {
		if _, there := p.slots[at]; !there {
			deletes = append(deletes, old.GUID)
		}
	}
	audits := p.audits()
	if len(inserts)+len(updates)+len(deletes)+len(audits) == 0 && !p.moved() {
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
		if err := p.record(tx, audits); err != nil {
			return err
		}
		return p.saveDeployment(tx)
	})
}

// sameRow compares what users and adoption see; a record position alone is not
// worth a write.
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
		case doReady, doNotReady:
			if text := p.readyLine(d); text != "" {
				add("HEALTH", strconv.Itoa(d.at.index), text)
			}
		}
	}
	if len(lines) == 0 {
		return
	}
	if err := p.Logs.Tell(lines...); err != nil {
		p.lost.Add(uint64(len(lines)))
		p.Log.Error("lines for an app's log were lost", "app", p.app.guid, "lines", len(lines), "error", err)
	}
}

// remember sets the timer to what is due next, and keeps what others ask for.
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
