package routing

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/platform"
)

// Route is an entry of the route table.
type Route struct {
	GUID string
	// Host is a host name, or "*.example.org" for a wildcard.
	Host string
	Path string
	// Port is the port of a TCP route, and 0 for an HTTP route.
	Port    int
	Options map[string]string
	// ServiceURL is the route service for the requests; empty means none.
	ServiceURL string
	// Internal routes are for the name server of instances, not for the router.
	Internal bool
	// Backends are empty if no instance is ready; the route exists nevertheless.
	Backends []RouteBackend
}

// RouteBackend is an instance port that serves a route.
type RouteBackend struct {
	App         string
	Process     string // guid
	ProcessType string
	Instance    string
	Index       int
	Destination string // guid of the destination, which shares the weight
	Port        int    // inside the instance
	Address     string // host:port
	Protocol    string // http1, http2, tcp
	Weight      int    // of the destination; 0 means none
}

// Table is the route table.
type Table interface {
	// Update sets routes and removes others, by guid, in one step.
	Update(set []Route, gone []string)
	// Replace replaces the whole table by all.
	Replace(all []Route)
}

// Backend is an instance that accepts requests.
type Backend struct {
	InstanceGUID string
	ProcessGUID  string
	Index        int
	// Ports are the ports that it opened at its start.
	Ports []platform.InstancePort
	Ready bool
}

// BackendSource returns the backends of an app; the controller implements it.
type BackendSource interface {
	Backends(appGUID, processType string) []Backend
}

// Config configures a Publisher.
type Config struct {
	Store    platform.Store
	Backends BackendSource
	Table    Table
	// Interval is how often a page of the routes (pageRoutes) is read again; 10 s if zero.
	Interval time.Duration
	Clock    clock.Clock
	Log      *slog.Logger
}

// Publisher keeps a route table up to date with routes, destinations and instances. It
// is the controller's RouteSink, and a background.Service, to be started after it.
//
// It remembers routes and destinations, so that a change of an instance takes effect
// without reading the store. Kick and Announce name the routes that changed, as the actions
// that change routes report them (platform.Changes); it then reads only these. As a
// safeguard it also walks through all routes slowly, a page per interval, and corrects what
// it was not notified of: a small table is read every time, and a large one costs no more.
type Publisher struct {
	Config
	part background.Part

	// loading is held while the store is read and the result is published, so that an older
	// result never comes last.
	loading sync.Mutex
	walked  string // guid up to which the walk has read; "" at an end

	mu        sync.Mutex // held from reading backends to writing the table
	known     map[string]*mapping
	byApp     map[string]map[string]bool // routes by app
	byAddress map[string]string          // routes by host and path

	kicks struct {
		sync.Mutex
		all    bool
		routes map[string]bool
	}
	kicked chan struct{} // capacity 1

	announcing announcing
	loaded     atomic.Bool
}

const (
	// pageRoutes is the number of routes on a page.
	pageRoutes = 500
	// pageNames is the largest number of routes selected by guid.
	pageNames = 200
)

// mapping is a route and its destinations.
type mapping struct {
	route        Route // without backends
	destinations []*platform.Destination
}

// address identifies routes as the router does: a TCP route by its port alone. No host
// has a slash.
func (m *mapping) address() string {
	if m.route.Port != 0 {
		return "/" + strconv.Itoa(m.route.Port)
	}
	return strings.ToLower(m.route.Host) + "/" + platform.PathKey(m.route.Path)
}

var _ background.Service = (*Publisher)(nil)

// New returns a publisher that is not running.
func New(c Config) *Publisher {
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	if c.Clock == nil {
		c.Clock = clock.System("route publisher")
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	p := &Publisher{Config: c, kicked: make(chan struct{}, 1)}
	p.forget(0)
	p.kicks.routes = map[string]bool{}
	return p
}

// Start publishes all routes and keeps them up to date.
func (p *Publisher) Start(ctx context.Context) error {
	return p.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := p.load(ctx); err != nil {
			return err
		}
		spawn(func() { p.run(work) })
		return nil
	})
}

// Stop stops updating. The table stays as it is.
func (p *Publisher) Stop() { p.part.Halt(nil) }

// Kick queues routes for publishing, or all if none is named. It never blocks.
func (p *Publisher) Kick(routeGUIDs ...string) {
	p.kicks.Lock()
	p.kicks.all = p.kicks.all || len(routeGUIDs) == 0
	for _, guid := range routeGUIDs {
		p.kicks.routes[guid] = true
	}
	p.kicks.Unlock()
	background.Kick(p.kicked)
}

func (p *Publisher) run(ctx context.Context) {
	tick := make(chan struct{}, 1)
	var stop func()
	rearm := func() {
		stop = p.Clock.AfterFunc(p.Interval, func() { tick <- struct{}{} })
	}
	rearm()
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			rearm()
			p.work(ctx) // retries failures as well
			p.complain(ctx, background.Do("publish routes", func() error { _, err := p.step(ctx); return err }))
		case <-p.kicked:
			p.work(ctx)
		}
	}
}

func (p *Publisher) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		p.Log.ErrorContext(ctx, "publishing routes failed and will be retried", "error", err)
	}
}

// work publishes the queued routes: named ones first, and again between the pages of all
// routes.
func (p *Publisher) work(ctx context.Context) {
	if err := p.named(ctx); err != nil {
		p.complain(ctx, err)
		return
	}
	p.kicks.Lock()
	all := p.kicks.all
	p.kicks.all = false
	p.kicks.Unlock()
	if !all {
		return
	}
	err := background.Do("publish routes", func() error { return p.walk(ctx, func() error { return p.named(ctx) }) })
	if err != nil {
		p.kicks.Lock()
		p.kicks.all = true
		p.kicks.Unlock()
	}
	p.complain(ctx, err)
}

// named publishes the named routes. If that fails they stay queued.
func (p *Publisher) named(ctx context.Context) error {
	p.kicks.Lock()
	routes := p.kicks.routes
	if len(routes) > 0 {
		p.kicks.routes = map[string]bool{}
	}
	p.kicks.Unlock()
	if len(routes) == 0 {
		return nil
	}
	err := background.Do("publish routes", func() error { return p.Refresh(ctx, slices.Collect(maps.Keys(routes))...) })
	if err != nil {
		p.kicks.Lock()
		maps.Copy(p.kicks.routes, routes)
		p.kicks.Unlock()
	}
	return err
}

// Refresh publishes routes, or all if none is named: when it returns, the table has them.
func (p *Publisher) Refresh(ctx context.Context, routeGUIDs ...string) error {
	if len(routeGUIDs) == 0 {
		return p.walk(ctx, nil)
	}
	for some := range slices.Chunk(routeGUIDs, pageNames) {
		if err := p.publishPage(ctx, func() page { return page{guids: some} }, nil); err != nil {
			return err
		}
	}
	return nil
}

// walk publishes all routes, a page at a time. It calls between after each page.
func (p *Publisher) walk(ctx context.Context, between func() error) error {
	p.loading.Lock()
	p.walked = ""
	p.loading.Unlock()
	for {
		end, err := p.step(ctx)
		if err != nil || end {
			return err
		}
		if between != nil {
			if err := between(); err != nil {
				return err
			}
		}
	}
}

// step publishes the next page of all routes, and reports whether it was the last.
func (p *Publisher) step(ctx context.Context) (end bool, err error) {
	err = p.publishPage(ctx, func() page { return page{after: p.walked} }, func(read page) {
		p.walked = read.upTo
		end = read.upTo == ""
	})
	return end, err
}

// publishPage reads a page and updates the table. Both functions are called with the lock
// loading held.
func (p *Publisher) publishPage(ctx context.Context, which func() page, done func(page)) error {
	p.loading.Lock()
	defer p.loading.Unlock()
	asked := which()
	var read page
	err := p.Store.View(ctx, func(tx platform.Tx) error {
		read = asked
		return read.read(tx)
	})
	if err != nil {
		return err
	}
	p.publish(read)
	if done != nil {
		done(read)
	}
	return nil
}

// publish updates the table with a page. It passes unchanged routes too: the table compares
// them, and nothing else would correct a wrong backend there.
func (p *Publisher) publish(read page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := read.guids
	if read.guids == nil {
		for guid := range p.known {
			if read.covers(guid) {
				gone = append(gone, guid)
			}
		}
	}
	gone = slices.DeleteFunc(slices.Clone(gone), func(guid string) bool { return read.routes[guid] != nil })
	for _, guid := range gone {
		p.unlearn(guid)
	}
	set := p.learnAll(read)
	if len(set)+len(gone) > 0 {
		p.Table.Update(set, gone)
	}
}

// load publishes all routes in one step.
func (p *Publisher) load(ctx context.Context) error {
	p.loading.Lock()
	defer p.loading.Unlock()
	var read page
	if err := read.readAll(ctx, p.Store); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(len(read.routes))
	p.Table.Replace(p.learnAll(read))
	p.loaded.Store(true)
	return nil
}

// learnAll remembers the routes of a page and returns them. A route that fails is left out,
// so that the others are published.
func (p *Publisher) learnAll(read page) []Route {
	all := make([]Route, 0, len(read.routes))
	for guid, m := range read.routes {
		background.Safely("publish a route", func() {
			p.learn(guid, m)
			all = append(all, p.routeOf(m))
		})
	}
	return all
}

// Loaded reports whether the table has had all routes and their running instances: a route
// that is missing then does not exist.
func (p *Publisher) Loaded() bool { return p.loaded.Load() }

// AppChanged publishes the routes of an app with its current backends. When it returns, the
// table has them.
func (p *Publisher) AppChanged(appGUID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := make([]Route, 0, len(p.byApp[appGUID]))
	for guid := range p.byApp[appGUID] {
		set = append(set, p.routeOf(p.known[guid]))
	}
	if len(set) > 0 {
		p.Table.Update(set, nil)
	}
}

// forget makes room for n routes.
func (p *Publisher) forget(n int) {
	p.known, p.byAddress = make(map[string]*mapping, n), make(map[string]string, n)
	p.byApp = map[string]map[string]bool{}
}

// learn remembers a route. Another route with its address is gone, even without a
// notification: it must not come back with the next change of its app.
func (p *Publisher) learn(guid string, m *mapping) {
	p.unlearn(guid)
	address := m.address()
	if other, taken := p.byAddress[address]; taken {
		p.unlearn(other)
	}
	p.known[guid] = m
	p.byAddress[address] = guid
	for _, d := range m.destinations {
		if p.byApp[d.AppGUID] == nil {
			p.byApp[d.AppGUID] = map[string]bool{}
		}
		p.byApp[d.AppGUID][guid] = true
	}
}

func (p *Publisher) unlearn(guid string) {
	m := p.known[guid]
	if m == nil {
		return
	}
	for _, d := range m.destinations {
		delete(p.byApp[d.AppGUID], guid)
		if len(p.byApp[d.AppGUID]) == 0 {
			delete(p.byApp, d.AppGUID)
		}
	}
	delete(p.byAddress, m.address())
	delete(p.known, guid)
}

// routeOf returns the current table entry of a route.
func (p *Publisher) routeOf(m *mapping) Route {
	r := m.route
	for _, d := range m.destinations {
		for _, b := range p.Backends.Backends(d.AppGUID, d.ProcessType) {
			i := slices.IndexFunc(b.Ports, func(open platform.InstancePort) bool { return LeadsTo(d.Port, open) })
			if i < 0 && m.route.Internal && len(b.Ports) > 0 {
				i = 0 // a name stands for an address, not for a port
			}
			if i < 0 || !b.Ready {
				continue // started before this destination was created
			}
			r.Backends = append(r.Backends, RouteBackend{
				App: d.AppGUID, Process: b.ProcessGUID, ProcessType: d.ProcessType, Instance: b.InstanceGUID, Index: b.Index,
				Destination: d.GUID, Port: cmp.Or(d.Port, b.Ports[i].Inside), Address: b.Ports[i].Address, Protocol: d.Protocol,
				Weight: d.Weight,
			})
		}
	}
	return r
}

// LeadsTo reports whether a destination with a port, or without one, leads to an open port
// of an instance.
func LeadsTo(port int, open platform.InstancePort) bool {
	if port == 0 && open.Default {
		return true
	}
	return open.Inside == port || port == 0 && open.Inside == platform.DefaultPort
}
