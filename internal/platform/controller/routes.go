package controller

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
)

// Route is an entry of the route table.
type Route struct {
	GUID string
	// Host is what requests name, "*.example.org" for a wildcard.
	Host    string
	Path    string
	Options map[string]string
	// ServiceURL is the route service that requests go through first; empty
	// means none.
	ServiceURL string
	// Backends are empty when nothing is ready: the route is known
	// nevertheless.
	Backends []RouteBackend
}

// RouteBackend is where requests of a route can go.
type RouteBackend struct {
	App         string
	Process     string // guid
	ProcessType string
	Instance    string
	Index       int
	Destination string // guid, for what has a weight together
	Port        int    // inside of the instance
	Address     string // host:port
	Protocol    string // http1, http2
	Weight      int    // of the destination; 0 means none
}

// Table is the route table.
type Table interface {
	// Update sets routes and removes others, by guid, all at once.
	Update(set []Route, gone []string)
	// Replace makes all the whole table.
	Replace(all []Route)
}

// BackendSource knows what takes requests: a Controller.
type BackendSource interface {
	Backends(appGUID, processType string) []Backend
}

// PublisherConfig is what a RoutePublisher is made of.
type PublisherConfig struct {
	Store    platform.Store
	Backends BackendSource
	Table    Table
	// Interval is how often some of the routes are read again, as many as
	// pageRoutes; 10 s if zero.
	Interval time.Duration
	Clock    Clock
	Log      *slog.Logger
}

// RoutePublisher keeps a route table as routes, destinations and instances are.
// It is the RouteSink of a Controller, and a background.Service, to be started after
// that.
//
// What routes and destinations there are it remembers, so that a change of an
// instance takes effect without asking the store. Of a change of routes it is
// told by Kick or Announce, with what the actions that change routes announce
// (platform.Changes), and then reads no more than these. Nevertheless it goes through all routes slowly,
// a page at every interval, and puts right what it should have been told: few
// routes are looked at every time, and many cost no more than few.
type RoutePublisher struct {
	PublisherConfig
	part background.Part

	// loading is held while the store is read and what it says is published,
	// so that the older answer never comes last.
	loading sync.Mutex
	walked  string // the guid up to which the walk has got; "" at an end

	mu        sync.Mutex // from reading backends to writing the table
	known     map[string]*mapping
	byApp     map[string]map[string]bool // routes by app
	byAddress map[string]string          // routes by host and path

	kicks struct {
		sync.Mutex
		all    bool
		routes map[string]bool
	}
	kicked chan struct{} // has room for one

	announcing announcing
	loaded     atomic.Bool
}

const (
	// pageRoutes is how many routes are read at once.
	pageRoutes = 500
	// pageNames is how many routes are asked for by their guids at once.
	pageNames = 200
)

// mapping is a route and where it leads.
type mapping struct {
	route        Route // without backends
	destinations []*platform.Destination
}

// address tells routes apart as the router does. No host has a slash.
func (m *mapping) address() string {
	return strings.ToLower(m.route.Host) + "/" + platform.PathKey(m.route.Path)
}

var (
	_ background.Service = (*RoutePublisher)(nil)
	_ RouteSink          = (*RoutePublisher)(nil)
)

// NewRoutePublisher returns a publisher that is not running.
func NewRoutePublisher(c PublisherConfig) *RoutePublisher {
	if c.Interval == 0 {
		c.Interval = 10 * time.Second
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p := &RoutePublisher{PublisherConfig: c, kicked: make(chan struct{}, 1)}
	p.forget()
	p.kicks.routes = map[string]bool{}
	return p
}

// Start publishes everything and goes on doing so.
func (p *RoutePublisher) Start(ctx context.Context) error {
	return p.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := p.load(ctx); err != nil {
			return err
		}
		spawn(func() { p.run(work) })
		return nil
	})
}

// Stop ends the work. The table stays as it is.
func (p *RoutePublisher) Stop() { p.part.Halt(nil) }

// Kick has routes published again soon, or all when none is named. It never
// blocks.
func (p *RoutePublisher) Kick(routeGUIDs ...string) {
	p.kicks.Lock()
	p.kicks.all = p.kicks.all || len(routeGUIDs) == 0
	for _, guid := range routeGUIDs {
		p.kicks.routes[guid] = true
	}
	p.kicks.Unlock()
	select {
	case p.kicked <- struct{}{}:
	default:
	}
}

func (p *RoutePublisher) run(ctx context.Context) {
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
			p.work(ctx) // also what failed before
			p.complain(ctx, background.Do("publish routes", func() error { _, err := p.step(ctx); return err }))
		case <-p.kicked:
			p.work(ctx)
		}
	}
}

func (p *RoutePublisher) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		p.Log.ErrorContext(ctx, "routes could not be published; it is tried again shortly", "error", err)
	}
}

// work publishes what was asked for: what has a name first, and between the
// pages of everything.
func (p *RoutePublisher) work(ctx context.Context) {
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

// named publishes the routes that were named. When that fails they stay so.
func (p *RoutePublisher) named(ctx context.Context) error {
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

// Refresh publishes routes now, or all when none is named: when it returns, the
// table has them.
func (p *RoutePublisher) Refresh(ctx context.Context, routeGUIDs ...string) error {
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

// walk reads everything, a page at a time. Between them others may read, too.
func (p *RoutePublisher) walk(ctx context.Context, between func() error) error {
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

// step reads the next page of all routes, and tells whether it was the last.
func (p *RoutePublisher) step(ctx context.Context) (end bool, err error) {
	err = p.publishPage(ctx, func() page { return page{after: p.walked} }, func(read page) {
		p.walked = read.upTo
		end = read.upTo == ""
	})
	return end, err
}

// publishPage reads a page and makes the table agree with it. Both functions are
// called with the lock loading.
func (p *RoutePublisher) publishPage(ctx context.Context, which func() page, done func(page)) error {
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

// publish makes the table agree with a page. Routes that did not change are
// given to it too: it compares, and nothing else would put right a backend that
// is wrong there.
func (p *RoutePublisher) publish(read page) {
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

// load publishes everything at once.
func (p *RoutePublisher) load(ctx context.Context) error {
	p.loading.Lock()
	defer p.loading.Unlock()
	read := page{all: true}
	if err := p.Store.View(ctx, func(tx platform.Tx) error { return read.read(tx) }); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	p.Table.Replace(p.learnAll(read))
	p.loaded.Store(true)
	return nil
}

// learnAll remembers the routes of a page and returns them. One that makes trouble
// is left out: the others are published.
func (p *RoutePublisher) learnAll(read page) []Route {
	all := make([]Route, 0, len(read.routes))
	for guid, m := range read.routes {
		background.Safely("publish a route", func() {
			p.learn(guid, m)
			all = append(all, p.routeOf(m))
		})
	}
	return all
}

// Loaded reports whether the table has had all routes and the instances of
// them that run: what it does not have then does not exist.
func (p *RoutePublisher) Loaded() bool { return p.loaded.Load() }

// AppChanged publishes the routes of an app with its present backends. When it
// returns, the table has them.
func (p *RoutePublisher) AppChanged(appGUID string) {
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

func (p *RoutePublisher) forget() {
	p.known, p.byApp, p.byAddress = map[string]*mapping{}, map[string]map[string]bool{}, map[string]string{}
}

// learn remembers a route. Another that had its address is gone, even if we were
// not told yet: it must not come back with the next change of its app.
func (p *RoutePublisher) learn(guid string, m *mapping) {
	p.unlearn(guid)
	if other, taken := p.byAddress[m.address()]; taken {
		p.unlearn(other)
	}
	p.known[guid] = m
	p.byAddress[m.address()] = guid
	for _, d := range m.destinations {
		if p.byApp[d.AppGUID] == nil {
			p.byApp[d.AppGUID] = map[string]bool{}
		}
		p.byApp[d.AppGUID][guid] = true
	}
}

func (p *RoutePublisher) unlearn(guid string) {
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

// routeOf is the entry of a route as things are now.
func (p *RoutePublisher) routeOf(m *mapping) Route {
	r := m.route
	for _, d := range m.destinations {
		port := d.Port
		if port == 0 {
			port = platform.DefaultPort
		}
		for _, b := range p.Backends.Backends(d.AppGUID, d.ProcessType) {
			i := slices.IndexFunc(b.Ports, func(open platform.InstancePort) bool { return open.Inside == port })
			if i < 0 || !b.Ready {
				continue // it was started before this destination was made
			}
			r.Backends = append(r.Backends, RouteBackend{
				App: d.AppGUID, Process: b.ProcessGUID, ProcessType: d.ProcessType, Instance: b.InstanceGUID, Index: b.Index,
				Destination: d.GUID, Port: port, Address: b.Ports[i].Address, Protocol: d.Protocol, Weight: d.Weight,
			})
		}
	}
	return r
}
