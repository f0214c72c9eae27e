package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/initproto"
)

// Logs takes lines: the log store.
type Logs interface {
	// Append returns nil when the lines are safe. Those of a stream that are not
	// above its position are there already and left out.
	Append(lines ...platform.LogLine) error
	// Tell is Append for lines without a stream, which nobody brings again: what
	// cannot be written is counted, and reported in the app's log later.
	Tell(lines ...platform.LogLine) error
	// Position is the last Seq of a stream that is safe.
	Position(stream string) uint64
	// Forget drops the position of a stream that has ended.
	Forget(stream string)
}

// Droplets has the droplets.
type Droplets interface {
	// Open returns the droplet's tar stream, compressed or not.
	Open(ctx context.Context, guid string) (io.ReadCloser, error)
}

// RouteSink wants to know when the backends of an app changed. An instance is
// told to go only after AppChanged has returned, so that requests can be led
// elsewhere before.
type RouteSink interface{ AppChanged(appGUID string) }

// Traffic knows which instances have requests under way.
type Traffic interface {
	Busy(instanceGUID string) bool
}

// Config is what a Controller is made of. Fields below the line have defaults.
type Config struct {
	Store    platform.Store
	Platform *actions.Platform
	Engine   engine.Engine
	Logs     Logs
	Droplets Droplets
	// API is the address of the v3 API, for VCAP_APPLICATION.
	API string
	// Variables are those of all instances beside, such as where the platform is
	// reached from inside.
	Variables map[string]string
	// BindingsRoot is where instances see their services in files; empty means
	// below their home, where they always are.
	BindingsRoot string
	// Reach returns the addresses of the services of an app, which its instances
	// may connect to; nil means that there are none.
	Reach func(ctx context.Context, app string) ([]netip.AddrPort, error)
	// Traffic is asked before an instance that a deployment replaces is told to
	// go; nil means that nobody has requests.
	Traffic Traffic

	// Cell names this machine in log lines and events.
	Cell string
	// Host is the address of this machine that instances are told.
	Host string
	// Path is the PATH of instances.
	Path string
	// User and Group run the members; 2000 if zero.
	User, Group int
	// PIDs bounds the processes of an instance.
	PIDs int
	// ShortestDeployment is how long a deployment is active at least, also when
	// all its instances are ready sooner: clients that do not wait for it look
	// for it a moment later.
	ShortestDeployment time.Duration
	// Grace is what members have between SIGTERM and SIGKILL.
	Grace time.Duration
	// Interval is how often everything is looked at.
	Interval time.Duration
	// Workers bounds the apps that are looked at at once, Starts the
	// instances that are being started.
	Workers, Starts int
	// Tasks bounds the tasks that run at once; others wait for their turn.
	Tasks int
	Clock Clock
	Log   *slog.Logger
}

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	vcapID      = 2000
	// startLimit is when the engine is not waited for any longer.
	startLimit = 10 * time.Minute
)

func (c Config) withDefaults() Config {
	text := func(s *string, otherwise string) {
		if *s == "" {
			*s = otherwise
		}
	}
	number := func(n *int, otherwise int) {
		if *n == 0 {
			*n = otherwise
		}
	}
	text(&c.Cell, "cell-1")
	text(&c.Host, "127.0.0.1")
	text(&c.Path, defaultPath)
	number(&c.User, vcapID)
	number(&c.Group, c.User)
	number(&c.PIDs, 1024)
	number(&c.Workers, 8)
	number(&c.Tasks, 64)
	number(&c.Starts, max(4, 2*runtime.NumCPU()))
	if c.Grace == 0 {
		c.Grace = initproto.DefaultGrace
	}
	if c.Interval == 0 {
		c.Interval = 10 * time.Second
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Controller keeps app instances as they are wanted. It is a background.Service.
type Controller struct {
	Config
	part background.Part
	sink RouteSink

	queue  *queue
	starts chan struct{} // a place for each start under way
	lost   atomic.Uint64
	usage  usageCache

	mu      sync.Mutex
	work    context.Context //nolint:containedctx // from Start to Stop
	open    bool            // tasks may begin
	adopted bool            // apps may be looked at
	tasks   sync.WaitGroup
	apps    map[string]*app
	orphans map[string]bool // being stopped
	passed  chan struct{}   // closed after the next pass

	routing  sync.RWMutex
	backends map[string]map[string][]Backend // by app and process type
}

var _ background.Service = (*Controller)(nil)

// New returns a controller that is not running.
func New(c Config) *Controller {
	c = c.withDefaults()
	return &Controller{
		Config: c, queue: newQueue(), starts: make(chan struct{}, c.Starts),
		apps: map[string]*app{}, orphans: map[string]bool{}, passed: make(chan struct{}),
		backends: map[string]map[string][]Backend{},
		usage:    usageCache{of: map[string]*sample{}},
	}
}

// Notify names who wants to know of changed backends. It has to be called before
// Start.
func (c *Controller) Notify(sink RouteSink) { c.sink = sink }

// Start adopts the instances that there are and begins to work. When it returns,
// Backends knows the instances that went on without us.
func (c *Controller) Start(ctx context.Context) error {
	return c.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		found, err := c.survey(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.work, c.open = work, true
		c.mu.Unlock()
		c.adopt(found)
		c.mu.Lock()
		c.adopted = true
		c.mu.Unlock()
		for range c.Workers {
			spawn(func() { c.worker(work) })
		}
		spawn(func() { c.watch(work) })
		return nil
	})
}

// Stop ends the work and leaves the instances running.
func (c *Controller) Stop() {
	c.part.Halt(func() {
		c.mu.Lock()
		c.open = false
		c.mu.Unlock()
		c.queue.close()
		c.tasks.Wait()
		for _, a := range c.allApps() {
			a.mu.Lock()
			a.halt()
			a.mu.Unlock()
		}
	})
}

// errNotRunning means that Start was not called, or Stop was.
var errNotRunning = errors.New("the controller is not running")

// spawn runs f as work that Stop waits for.
func (c *Controller) spawn(name string, f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return false
	}
	work := c.work
	c.tasks.Add(1)
	background.Go(name, func() {
		defer c.tasks.Done()
		f(work)
	})
	return true
}

// Kick has apps looked at soon. It never blocks.
func (c *Controller) Kick(appGUIDs ...string) { c.queue.add(appGUIDs...) }

func (c *Controller) worker(ctx context.Context) {
	for {
		guid, ok := c.queue.next()
		if !ok {
			return
		}
		func() {
			defer c.queue.done(guid)
			// Its failure was logged, and it is looked at again.
			_ = c.reconcile(ctx, guid)
		}()
	}
}

func (c *Controller) reconcile(ctx context.Context, guid string) error {
	a := c.lock(guid)
	defer a.mu.Unlock()
	err := background.Do("look at an app", func() error { return c.pass(ctx, a) })
	switch {
	case err == nil:
		a.failures = 0
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		again := min(time.Second<<min(a.failures, 5), 30*time.Second)
		a.failures++
		c.Log.Error("an app could not be looked at", "app", guid, "again", again, "error", err)
		a.wakeAt(c, c.Clock.Now().Add(again))
	}
	return err
}

// lock returns the app, with its lock held.
func (c *Controller) lock(guid string) *app {
	for {
		a := c.appOf(guid)
		a.mu.Lock()
		if !a.isDead() {
			return a
		}
		a.mu.Unlock()
	}
}

func (c *Controller) appOf(guid string) *app {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.apps[guid]
	if a == nil {
		a = newApp(guid)
		c.apps[guid] = a
	}
	return a
}

func (c *Controller) allApps() []*app {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*app, 0, len(c.apps))
	for _, a := range c.apps {
		all = append(all, a)
	}
	return all
}

// afterPass returns a channel that is closed after the next pass.
func (c *Controller) afterPass() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passed
}

func (c *Controller) tellPassed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.passed)
	c.passed = make(chan struct{})
}

// watch has everything looked at once an interval.
func (c *Controller) watch(ctx context.Context) {
	for {
		tick := make(chan struct{})
		stop := c.Clock.AfterFunc(c.Interval, func() { close(tick) })
		select {
		case <-tick:
		case <-ctx.Done():
			stop()
			return
		}
		err := background.Do("look at all apps", func() error { return c.look(ctx) })
		if err != nil && ctx.Err() == nil {
			c.Log.Error("not everything could be looked at", "error", err)
		}
	}
}

// look has all apps looked at that run, or should, and ends instances that
// nobody knows.
func (c *Controller) look(ctx context.Context) error {
	found, err := c.Engine.List(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, a := range c.allApps() {
		guids := a.instances()
		for _, guid := range guids {
			known[guid] = true
		}
		if len(guids) > 0 {
			c.Kick(a.guid)
		} else {
			c.forget(a)
		}
	}
	for _, in := range found {
		if in.Labels[labelKind] == kindApp && !known[in.ID] {
			c.orphan(in)
		}
	}
	var started []string
	err = c.Store.View(ctx, func(tx platform.Tx) error {
		started, err = startedApps(tx)
		return err
	})
	c.Kick(started...)
	return err
}

// forget drops an app that has nothing to remember.
func (c *Controller) forget(a *app) {
	if !a.mu.TryLock() {
		return // somebody looks at it
	}
	defer a.mu.Unlock()
	if a.retire() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.apps, a.guid)
	}
}

// RestartInstance replaces one instance gracefully. It counts as no crash, and
// forgives those there were.
func (c *Controller) RestartInstance(ctx context.Context, processGUID string, index int) error {
	var appGUID string
	err := c.Store.View(ctx, func(tx platform.Tx) error {
		process, err := tx.Processes().Get(processGUID)
		if err != nil {
			return err
		}
		if index < 0 || index >= process.Instances {
			return fault.New(fault.NotFound, "Instance not found")
		}
		appGUID = process.AppGUID
		return nil
	})
	if err != nil {
		return err
	}
	for !c.appOf(appGUID).post(occurrence{at: place{process: processGUID, index: index}, event: event{kind: evRestart}}) {
	}
	c.Kick(appGUID)
	return nil
}

// newGUID returns an id for an instance in the form that Diego gives it: a random
// UUID without its last eight digits, of which 90 bits are random. It is what
// clients see in CF_INSTANCE_GUID, stats, logs and events.
func newGUID() string { return uuid.NewString()[:28] }
