package controller

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/identity"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/controller/routing"
	"ingot/internal/platform/run/controller/usage"
)

// Logs stores log lines; the log store implements it.
type Logs interface {
	// Append returns nil when the lines are stored. It ignores lines of a stream that are
	// not above its position.
	Append(lines ...platform.LogLine) error
	// Tell is Append for lines without a stream, which are never repeated: lines that
	// cannot be written are counted, and the loss is reported in the app's log later.
	Tell(lines ...platform.LogLine) error
	// Position returns the last stored Seq of a stream.
	Position(stream string) uint64
	// Forget drops the position of a stream that has ended.
	Forget(stream string)
}

// Droplets provides droplets.
type Droplets interface {
	// Open returns the droplet's tar stream, compressed or not.
	Open(ctx context.Context, guid string) (io.ReadCloser, error)
}

// layered are Droplets that know of which archives a droplet consists.
type layered interface {
	// Layers returns archives that together have the files of a droplet, where they are
	// faster to unpack than the droplet; otherwise nil.
	Layers(ctx context.Context, guid string) []engine.Archive
}

// RouteSink is notified when the backends of an app changed. An instance is stopped only
// after AppChanged has returned, so that requests go elsewhere before.
type RouteSink interface{ AppChanged(appGUID string) }

// Traffic reports which instances have requests in progress.
type Traffic interface {
	Busy(instanceGUID string) bool
}

// Peers are the other servers of the database. They route requests to the instances of
// this one.
type Peers interface {
	// BackendsChanged tells that rows of an app's instances have changed. await waits until
	// the others have read them; it returns false if its context ends before.
	BackendsChanged(appGUID string) (await func(context.Context) bool)
	// Drain returns when the others have no requests in progress to an instance, or when
	// ctx ends.
	Drain(ctx context.Context, instanceGUID string)
}

// Config configures a Controller. Fields below the line have defaults.
type Config struct {
	Store    platform.Store
	Platform *actions.Platform
	// Owner decides which apps are handled; nil means all.
	Owner platform.Owner
	// Peers are told about instances that changed; nil means that there are none.
	Peers    Peers
	Engine   engine.Engine
	Logs     Logs
	Droplets Droplets
	// Images provides container images; nil means that there are none.
	Images Images
	// API is the address of the v3 API, for VCAP_APPLICATION.
	API string
	// Variables are additional variables of all instances, such as the platform's addresses
	// inside of containers.
	Variables map[string]string
	// BindingsRoot is the directory where instances see their service binding files; empty
	// means the one below their home, where they always are.
	BindingsRoot string
	// Reach returns the addresses of the services of an app, which its instances may
	// connect to; nil means none.
	Reach func(ctx context.Context, app string) ([]netip.AddrPort, error)
	// InternalNames returns the names of internal routes by the address of an instance, and
	// their version; it may return no names for the version that the caller has. nil means
	// that names do not resolve, and that instances do not terminate TLS.
	InternalNames func(known uint64) (names map[string][]string, version uint64)
	// Identity issues the certificates of instances; nil means that they have none.
	Identity *identity.Authority
	// Replace is the program in instances that renews their certificates, ingot-sftp;
	// empty means that they are not renewed.
	Replace string
	// Traffic is asked before an instance that a deployment replaces is stopped; nil means
	// that no instance has requests.
	Traffic Traffic
	// Crashed is told of the crash of an instance, once it is recorded; nil means that it is not.
	Crashed func(appGUID, processType string, index int)

	// Cell names this machine in log lines and events.
	Cell string
	// Path is the PATH of instances.
	Path string
	// User and Group run the members; 2000 if zero.
	User, Group int
	// PIDs limits the processes of an instance.
	PIDs int
	// ShortestDeployment is how long a deployment is active at least, even if all its
	// instances are ready sooner: clients that do not wait for it look for it a moment
	// later. It does not apply to rolling deployments with their own minimum healthy time.
	ShortestDeployment time.Duration
	// MinHealthy is how long a new instance of a deployment has to be ready before it counts,
	// unless the deployment or the process says otherwise.
	MinHealthy time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// Interval is the interval of passes over all apps.
	Interval time.Duration
	// Workers limits the apps that are handled at once, Starts the instances that are being
	// started.
	Workers, Starts int
	// Tasks limits the tasks that run at once; others wait.
	Tasks int
	Clock clock.Clock
	Log   *slog.Logger
}

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	vcapID      = 2000
	// startLimit is the longest time the engine may take for a start.
	startLimit = 10 * time.Minute
	// remoteStarts is how many instances are being started on other machines: most of them
	// wait, and the engine limits how many begin in a second.
	remoteStarts = 256
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
	text(&c.Path, defaultPath)
	number(&c.User, vcapID)
	number(&c.Group, c.User)
	number(&c.PIDs, 1024)
	number(&c.Workers, 8)
	number(&c.Tasks, 64)
	if c.Engine != nil && c.Engine.Describe().Remote {
		number(&c.Starts, remoteStarts)
	}
	number(&c.Starts, max(4, 2*runtime.NumCPU()))
	c.Grace = cmp.Or(c.Grace, initproto.DefaultGrace)
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	if c.Clock == nil {
		c.Clock = clock.System("controller timer")
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Controller keeps app instances in their desired state. It is a background.Service.
type Controller struct {
	Config
	part  background.Part
	share *platform.Share
	sink  RouteSink

	queue  *queue
	looks  chan struct{} // asks for a look at all apps; capacity 1
	starts chan struct{} // a token for each start in progress
	lost   atomic.Uint64
	usage  *usage.Meter

	mu      sync.Mutex
	work    context.Context //nolint:containedctx // from Start to Stop
	open    bool            // goroutines may be started
	adopted bool            // apps may be handled
	tasks   sync.WaitGroup
	apps    map[string]*app
	orphans map[string]bool // being stopped
	passed  chan struct{}   // closed after the next pass
	pending uint64          // shards whose apps are to be adopted

	adopting sync.Mutex // held while shards are adopted or released
	loads    loads
	routing  sync.RWMutex
	backends map[string]map[string][]routing.Backend // by app and process type
}

var _ background.Service = (*Controller)(nil)

// New returns a controller that is not running.
func New(c Config) *Controller {
	c = c.withDefaults()
	return &Controller{
		Config: c, share: platform.NewShare(c.Owner), queue: newQueue(), looks: make(chan struct{}, 1),
		starts: make(chan struct{}, c.Starts),
		apps:   map[string]*app{}, orphans: map[string]bool{}, passed: make(chan struct{}),
		backends: map[string]map[string][]routing.Backend{},
		usage:    usage.New(c.Engine, c.Clock),
	}
}

// Notify sets the sink for changed backends. It must be called before Start.
func (c *Controller) Notify(sink RouteSink) { c.sink = sink }

// Start adopts the existing instances and starts working. When it returns, Backends
// includes the instances that kept running.
func (c *Controller) Start(ctx context.Context) error {
	return c.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		found, err := c.survey(ctx, c.share.Has)
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
		if err := c.LoadBackends(ctx); err != nil {
			return err
		}
		for range c.Workers {
			spawn(c.worker)
		}
		spawn(func() { c.watch(work) })
		return nil
	})
}

// Stop stops working and leaves the instances running.
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

// spawn runs f in a goroutine that Stop waits for.
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

// spawnFor is like spawn for work on one app, which ends when the app is released.
func (c *Controller) spawnFor(a *app, name string, f func(ctx context.Context)) {
	work := c.workOf(a)
	a.tasks.Add(1)
	begun := c.spawn(name, func(context.Context) {
		defer a.tasks.Done()
		f(work)
	})
	if !begun {
		a.tasks.Done()
	}
}

// workOf returns the context of the work on an app.
func (c *Controller) workOf(a *app) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.work == nil {
		a.work, a.release = context.WithCancel(c.work)
	}
	return a.work
}

// Kick queues apps for a pass. It never blocks.
func (c *Controller) Kick(appGUIDs ...string) { c.queue.add(appGUIDs...) }

// KickAll has all apps looked at soon. It never blocks.
func (c *Controller) KickAll() { background.Kick(c.looks) }

func (c *Controller) worker() {
	for {
		guid, ok := c.queue.next()
		if !ok {
			return
		}
		func() {
			defer c.queue.done(guid)
			// reconcile logs its failure and queues the app again.
			_ = c.reconcile(guid)
		}()
	}
}

func (c *Controller) reconcile(guid string) error {
	if !c.share.Works(guid) {
		return nil // KickAll or Gained follows when this server works on it
	}
	a := c.lock(guid)
	defer a.mu.Unlock()
	if !c.share.Has(guid) { // it was released before this pass had the lock
		c.drop(a)
		return nil
	}
	ctx := c.share.Fence(c.workOf(a), guid)
	err := background.Do("look at an app", func() error { return c.pass(ctx, a) })
	switch {
	case err == nil:
		a.failures = 0
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		again := min(time.Second<<min(a.failures, 5), 30*time.Second)
		a.failures++
		c.Log.Error("reconciling an app failed", "app", guid, "again", again, "error", err)
		a.wakeAt(c, c.Clock.Now().Add(again))
	}
	return err
}

// lock returns the app with its lock held.
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

// watch runs look once per interval.
func (c *Controller) watch(ctx context.Context) {
	for {
		tick := make(chan struct{})
		stop := c.Clock.AfterFunc(c.Interval, func() { close(tick) })
		select {
		case <-tick:
		case <-c.looks:
			stop()
		case <-ctx.Done():
			stop()
			return
		}
		err := background.Do("look at all apps", func() error { return c.look(ctx) })
		if err != nil && ctx.Err() == nil {
			c.Log.Error("periodic check failed", "error", err)
		}
	}
}

// look queues all apps that run or should run, and stops instances that are unknown.
func (c *Controller) look(ctx context.Context) error {
	if err := c.adoptPending(ctx); err != nil {
		return err
	}
	found, err := c.Engine.List(ctx, func(labels map[string]string) bool {
		return labels[labelKind] == kindApp && c.share.Works(labels[LabelApp])
	})
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
		if !known[in.ID] && c.share.Works(in.Labels[LabelApp]) {
			c.orphan(in)
		}
	}
	if err := c.LoadBackends(ctx); err != nil {
		return err
	}
	started, err := db.Within(ctx, c.Store.View, startedApps)
	c.Kick(started...)
	return err
}

// forget drops an app that has no state.
func (c *Controller) forget(a *app) {
	if !a.mu.TryLock() {
		return // it is in use
	}
	defer a.mu.Unlock()
	if a.retire() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if a.release != nil {
			a.release()
		}
		delete(c.apps, a.guid)
	}
}

// Displaced replaces an instance that has to leave its machine, or whose machine was lost.
// It does not count as a crash.
func (c *Controller) Displaced(id, reason string) {
	for _, a := range c.allApps() {
		if slices.Contains(a.instances(), id) {
			c.tell(a, id, event{kind: evDisplaced, text: reason})
			return
		}
	}
}

// Running returns the instances of the apps that this server works on.
func (c *Controller) Running() (all []Running) {
	for _, a := range c.allApps() {
		a.in.Lock()
		all = append(all, a.runs...)
		a.in.Unlock()
	}
	return all
}

// Usage returns the usage of instances, by guid, without those that the engine has no data
// for.
func (c *Controller) Usage(ctx context.Context, instanceGUIDs ...string) map[string]usage.Usage {
	return c.usage.Of(ctx, instanceGUIDs...)
}

// newGUID returns an instance id in Diego's form: a random UUID without its last eight
// digits, which leaves 90 random bits. Clients see it in CF_INSTANCE_GUID, stats, logs and
// events.
func newGUID() string { return uuid.NewString()[:28] }
