package controller

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ingot/internal/cf"
	"ingot/internal/fault"
	"ingot/internal/platform"
	"ingot/internal/run"
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
	Set(r Route)
	Remove(guid string)
	Replace(all []Route)
}

// BackendSource knows what takes requests: a Controller.
type BackendSource interface {
	Backends(appGUID, processType string) []Backend
}

// PublisherConfig is what a RoutePublisher is made of.
type PublisherConfig struct {
	Store    cf.Store
	Backends BackendSource
	Table    Table
	// Interval is how often everything is read again; 10 s if zero.
	Interval time.Duration
	Clock    Clock
	Log      *slog.Logger
}

// RoutePublisher keeps a route table as routes, destinations and instances are.
// It is the RouteSink of a Controller, and a run.Service, to be started after
// that.
//
// What routes and destinations there are it remembers, so that a change of an
// instance takes effect without asking the store.
type RoutePublisher struct {
	PublisherConfig
	part run.Part

	// loading is held while the store is read and what it says is published,
	// so that the older answer never comes last.
	loading sync.Mutex

	mu    sync.Mutex // from reading backends to writing the table
	known map[string]*mapping
	byApp map[string]map[string]bool // routes by app

	kicks struct {
		sync.Mutex
		all    bool
		routes map[string]bool
	}
	kicked chan struct{} // has room for one

	announcing announcing
}

// mapping is a route and where it leads.
type mapping struct {
	route        Route // without backends
	destinations []*cf.Destination
}

var (
	_ run.Service = (*RoutePublisher)(nil)
	_ RouteSink   = (*RoutePublisher)(nil)
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
	p := &RoutePublisher{PublisherConfig: c, known: map[string]*mapping{}, byApp: map[string]map[string]bool{}, kicked: make(chan struct{}, 1)}
	p.kicks.routes = map[string]bool{}
	return p
}

// Start publishes everything and goes on doing so.
func (p *RoutePublisher) Start(ctx context.Context) error {
	return p.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := p.Refresh(ctx); err != nil {
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
			p.Kick()
		case <-p.kicked:
			p.work(ctx)
		}
	}
}

// work publishes what was asked for.
func (p *RoutePublisher) work(ctx context.Context) {
	p.kicks.Lock()
	all, routes := p.kicks.all, p.kicks.routes
	p.kicks.all, p.kicks.routes = false, map[string]bool{}
	p.kicks.Unlock()
	var guids []string
	if !all {
		for guid := range routes {
			guids = append(guids, guid)
		}
	}
	if !all && len(guids) == 0 {
		return
	}
	if err := p.Refresh(ctx, guids...); err != nil && ctx.Err() == nil {
		// The next look at everything makes up for it.
		p.Log.Error("routes could not be published", "error", err)
	}
}

// Refresh publishes routes now, or all when none is named: when it returns, the
// table has them.
func (p *RoutePublisher) Refresh(ctx context.Context, routeGUIDs ...string) error {
	p.loading.Lock()
	defer p.loading.Unlock()
	var read map[string]*mapping
	err := p.Store.View(ctx, func(tx cf.Tx) error {
		var err error
		read, err = readMappings(tx, routeGUIDs)
		return err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(routeGUIDs) == 0 {
		p.known, p.byApp = map[string]*mapping{}, map[string]map[string]bool{}
		table := make([]Route, 0, len(read))
		for guid, m := range read {
			p.learn(guid, m)
			table = append(table, p.routeOf(m))
		}
		p.Table.Replace(table)
		return nil
	}
	for _, guid := range routeGUIDs {
		p.unlearn(guid)
		m := read[guid]
		if m == nil {
			p.Table.Remove(guid)
			continue
		}
		p.learn(guid, m)
		p.Table.Set(p.routeOf(m))
	}
	return nil
}

// AppChanged publishes the routes of an app with its present backends. When it
// returns, the table has them.
func (p *RoutePublisher) AppChanged(appGUID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for guid := range p.byApp[appGUID] {
		p.Table.Set(p.routeOf(p.known[guid]))
	}
}

func (p *RoutePublisher) learn(guid string, m *mapping) {
	p.known[guid] = m
	for _, d := range m.destinations {
		if p.byApp[d.AppGUID] == nil {
			p.byApp[d.AppGUID] = map[string]bool{}
		}
		p.byApp[d.AppGUID][guid] = true
	}
}

func (p *RoutePublisher) unlearn(guid string) {
	if m := p.known[guid]; m != nil {
		for _, d := range m.destinations {
			delete(p.byApp[d.AppGUID], guid)
			if len(p.byApp[d.AppGUID]) == 0 {
				delete(p.byApp, d.AppGUID)
			}
		}
	}
	delete(p.known, guid)
}

// routeOf is the entry of a route as things are now.
func (p *RoutePublisher) routeOf(m *mapping) Route {
	r := m.route
	for _, d := range m.destinations {
		port := d.Port
		if port == 0 {
			port = cf.DefaultPort
		}
		for _, b := range p.Backends.Backends(d.AppGUID, d.ProcessType) {
			i := slices.IndexFunc(b.Ports, func(open cf.InstancePort) bool { return open.Inside == port })
			if i < 0 || !b.Ready {
				continue // it was started before this destination was made
			}
			r.Backends = append(r.Backends, RouteBackend{
				App: d.AppGUID, ProcessType: d.ProcessType, Instance: b.InstanceGUID, Index: b.Index,
				Destination: d.GUID, Port: port, Address: b.Ports[i].Address, Protocol: d.Protocol, Weight: d.Weight,
			})
		}
	}
	return r
}

// readMappings reads routes, all when none is named. Routes that are not for the
// HTTP router are left out.
func readMappings(tx cf.Tx, guids []string) (map[string]*mapping, error) {
	all := map[string]*mapping{}
	var routes []*cf.Route
	var err error
	query := cf.Query{}
	if len(guids) == 0 {
		routes, _, err = tx.Routes().List(query)
	} else {
		routes, _, err = tx.Routes().List(cf.Query{Where: []cf.Cond{cf.InStrings("guid", guids)}})
		query = cf.Query{Where: []cf.Cond{cf.InStrings("route_guid", guids)}}
	}
	if err != nil {
		return nil, err
	}
	destinations, _, err := tx.Destinations().List(query)
	if err != nil {
		return nil, err
	}
	domains := map[string]*cf.Domain{}
	for _, r := range routes {
		d := domains[r.DomainGUID]
		if d == nil {
			d, err = tx.Domains().Get(r.DomainGUID)
			if fault.Is(err, fault.NotFound) {
				continue // it is being deleted
			}
			if err != nil {
				return nil, err
			}
			domains[r.DomainGUID] = d
		}
		if d.Internal || r.Port != 0 {
			continue
		}
		host := d.Name
		if r.Host != "" {
			host = r.Host + "." + d.Name
		}
		all[r.GUID] = &mapping{route: Route{GUID: r.GUID, Host: host, Path: r.Path, Options: r.Options}}
	}
	if err := readRouteServices(tx, all, query); err != nil {
		return nil, err
	}
	for _, d := range destinations {
		if m := all[d.RouteGUID]; m != nil {
			m.destinations = append(m.destinations, d)
		}
	}
	return all, nil
}

// readRouteServices adds the route services of routes.
func readRouteServices(tx cf.Tx, all map[string]*mapping, query cf.Query) error {
	bound, _, err := tx.ServiceBindings().List(query.And(cf.In("type", cf.BindingRoute)))
	if err != nil {
		return err
	}
	for _, b := range bound {
		m := all[b.RouteGUID]
		if m == nil || !b.Last.Exists() {
			continue
		}
		i, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		m.route.ServiceURL = platform.Effective(b, i).RouteServiceURL
	}
	return nil
}
