package controller

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/platform"
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
	runs  []Running
	dead  bool // no longer in the controller's map
}

// Running is an instance that starts or runs.
type Running struct {
	App, Process, Type, Instance string
	Index                        int
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
