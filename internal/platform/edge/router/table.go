package router

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Protocol is the protocol of an instance's port.
type Protocol string

// HTTP2 is HTTP/2 without TLS; any other value means HTTP/1.1.
const HTTP2 Protocol = "http2"

// Route maps requests for a host and path to backends.
type Route struct {
	GUID string
	// Host is a name, or "*." and a domain for all names below it that have no route of
	// their own. Case does not matter.
	Host string
	// Path is "" or a prefix of whole segments, such as "/api". As in gorouter its case
	// does not matter.
	Path string
	// Port is the port of a TCP route, which has no path; its host is only for the log.
	// 0 means an HTTP route.
	Port int
	// Options are the route's options. Known is "loadbalancing" with the values
	// "round-robin" (the default), "least-connection" and "hash". The latter uses
	// "hash_header", whose value selects the backend, and "hash_balance", the largest
	// number of requests in progress at a backend as a multiple of the average. TCP routes
	// know the first two, and "proxy_protocol" with the values "v1" and "v2".
	Options map[string]string
	// RouteServiceURL is the https URL of a service that receives requests before the app
	// does; "" for none.
	RouteServiceURL string
	Backends        []Backend
}

// Backend is a port of an app instance.
type Backend struct {
	Address      string // host:port to connect to
	AppGUID      string
	ProcessGUID  string
	InstanceGUID string
	Index        int
	Protocol     Protocol
	// Destination groups the backends that share one Weight; "" if each has its own.
	Destination string
	Weight      int // share of the requests; 0 means 1 for each backend
	Port        int // port as the app sees it
}

// Table is the routing table. The zero value is empty and ready to use.
type Table struct {
	current atomic.Pointer[snapshot]

	mu     sync.Mutex          // held by writers
	byGUID map[string]routeKey // keys of the routes by guid
	states map[endpointKey]*endpointState
	tcp    *TCP // opens the ports of TCP routes; nil ignores them
}

// routeKey is where a route is in the table. The host of a TCP route is its port, written
// so that no canonical host name of an HTTP request can be equal.
type routeKey struct {
	host, path string
	port       int
}

// snapshot is an immutable state of the table.
type snapshot struct {
	hosts  shards[hostInfo]
	routes shards[*Match] // by host and path
	count  int
}

// hostInfo limits the search among the routes of a host.
type hostInfo struct {
	routes int
	// longest is at least the length of the longest path. It may be too large after a
	// removal.
	longest int
	// root is the route without a path. Most hosts have no other, and then one lookup is
	// enough: in a large table each costs a few cache misses.
	root *Match
}

// Match is the route of a request, with the state of its backends. It stays usable when the
// table changes.
type Match struct {
	Route Route // read-only
	pool  *pool

	cookiePath string

	fastPath atomic.Int32 // whether the fast path may serve it, once known
}

// empty reports whether the route has no backend.
func (m *Match) empty() bool { return len(m.pool.endpoints) == 0 }

var empty = new(snapshot)

func (t *Table) load() *snapshot {
	if s := t.current.Load(); s != nil {
		return s
	}
	return empty
}

// Lookup finds the route for a request: an exact host before a wildcard, the most specific
// wildcard first, and the longest path of that host. The host may have a port; the path is
// as in the request.
func (t *Table) Lookup(host, path string) (*Match, bool) {
	return t.lookup(host, path, false)
}

// Serving is like Lookup, but ignores routes without a backend. As in gorouter such a route
// does not exist: a shorter path of its host, or a wildcard, gets its requests.
func (t *Table) Serving(host, path string) (*Match, bool) {
	return t.lookup(host, path, true)
}

func (t *Table) lookup(host, path string, serving bool) (*Match, bool) {
	s := t.load()
	host = CanonicalHost(host)
	path = canonicalPath(path)
	if m := s.find(host, path, serving); m != nil {
		return m, true
	}
	for rest := host; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return nil, false
		}
		if m := s.find("*."+parent, path, serving); m != nil {
			return m, true
		}
		rest = parent
	}
}

// Host returns the host of the routes for a name, of any path: the name itself, or the most
// specific wildcard.
func (t *Table) Host(name string) (host string, ok bool) {
	s := t.load()
	name = CanonicalHost(name)
	for host = name; ; {
		if _, ok := s.hosts.get(host); ok {
			return host, true
		}
		_, parent, ok := strings.Cut(name, ".")
		if !ok {
			return "", false
		}
		host, name = "*."+parent, parent
	}
}

// find tries the path and each prefix that ends at a segment. With serving it ignores
// routes without a backend.
func (s *snapshot) find(host, path string, serving bool) *Match {
	info, ok := s.hosts.get(host)
	if !ok {
		return nil
	}
	if info.longest == 0 {
		if serving && info.root != nil && info.root.empty() {
			return nil
		}
		return info.root
	}
	if len(path) > info.longest {
		if path[info.longest] != '/' {
			path = path[:max(strings.LastIndexByte(path[:info.longest], '/'), 0)]
		} else {
			path = path[:info.longest]
		}
	}
	for {
		if m, ok := s.routes.get(host + path); ok && (!serving || !m.empty()) {
			return m
		}
		if path == "" {
			return nil
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
}

// Len returns the number of routes.
func (t *Table) Len() int { return t.load().count }

// instances returns the guids of all instances that have a route.
func (t *Table) instances() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]bool, len(t.states))
	for key := range t.states {
		all[key.instance] = true
	}
	return all
}

// Set adds a route or replaces the one with its guid. It removes a route with the same host
// and path but another guid.
func (t *Table) Set(route Route) { t.Update([]Route{route}, nil) }

// Remove removes the route with a guid. Requests in progress continue.
func (t *Table) Remove(guid string) { t.Update(nil, []string{guid}) }

// Update removes routes and sets others, as Remove and Set do, in one step. Its cost
// depends on the number of changes, not on the size of the table.
func (t *Table) Update(set []Route, gone []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.load()
	next := &draft{hosts: shardsDraft[hostInfo]{base: now.hosts}, routes: shardsDraft[*Match]{base: now.routes},
		count: now.count}
	for _, guid := range gone {
		if key, ok := t.byGUID[guid]; ok {
			t.remove(next, guid, key)
		}
	}
	for _, route := range set {
		t.set(next, route)
	}
	if next.hosts.copied != nil || next.routes.copied != nil {
		t.current.Store(&snapshot{hosts: next.hosts.base, routes: next.routes.base, count: next.count})
	}
	if t.tcp != nil && len(next.ports) > 0 {
		t.tcp.update(next.ports)
	}
}

// draft is a new snapshot being derived from another.
type draft struct {
	hosts  shardsDraft[hostInfo]
	routes shardsDraft[*Match]
	count  int
	ports  map[int]*Match // changed TCP routes by port; nil if removed
}

func (s *draft) port(port int, m *Match) {
	if port == 0 {
		return
	}
	if s.ports == nil {
		s.ports = map[int]*Match{}
	}
	s.ports[port] = m
}

// Replace replaces the whole table by all, in one step.
func (t *Table) Replace(all []Route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.load()
	t.byGUID = make(map[string]routeKey, len(all))
	hosts := make(map[string]hostInfo, len(all))
	routes := make(map[string]*Match, len(all))
	at := make(map[string]string, len(all)) // guid by host and path
	for _, route := range all {
		key := keyOf(route)
		if before, ok := t.byGUID[route.GUID]; ok {
			delete(routes, before.host+before.path)
			delete(at, before.host+before.path)
		}
		if guid, ok := at[key.host+key.path]; ok && guid != route.GUID {
			delete(t.byGUID, guid)
		}
		t.byGUID[route.GUID] = key
		at[key.host+key.path] = route.GUID
		before, _ := old.routes.get(key.host + key.path)
		routes[key.host+key.path] = t.newMatch(route, before)
	}
	for _, state := range t.states {
		state.uses = 0
	}
	for _, m := range routes {
		m.pool.retain()
	}
	maps.DeleteFunc(t.states, func(_ endpointKey, state *endpointState) bool { return state.uses == 0 })
	for _, key := range t.byGUID {
		info := hosts[key.host]
		info.routes, info.longest = info.routes+1, max(info.longest, len(key.path))
		if key.path == "" {
			info.root = routes[key.host]
		}
		hosts[key.host] = info
	}
	t.current.Store(&snapshot{hosts: shardsOf(hosts), routes: shardsOf(routes), count: len(routes)})
	if t.tcp != nil {
		ports := map[int]*Match{}
		for _, key := range t.byGUID {
			if key.port != 0 {
				ports[key.port] = routes[key.host]
			}
		}
		t.tcp.replace(ports)
	}
}

func (t *Table) set(s *draft, route Route) {
	key := keyOf(route)
	if before, ok := t.byGUID[route.GUID]; ok && before != key {
		t.remove(s, route.GUID, before)
	}
	old, there := s.routes.base.get(key.host + key.path)
	if there && old.Route.GUID != route.GUID {
		delete(t.byGUID, old.Route.GUID)
	}
	m := t.newMatch(route, old)
	if m == old {
		return // unchanged
	}
	info, _ := s.hosts.base.get(key.host)
	if !there {
		info.routes, info.longest = info.routes+1, max(info.longest, len(key.path))
		s.count++
	}
	if key.path == "" {
		info.root = m
	}
	if !there || key.path == "" {
		s.hosts.set(key.host, info)
	}
	m.pool.retain()
	if there {
		t.release(old.pool)
	}
	s.routes.set(key.host+key.path, m)
	s.port(key.port, m)
	if t.byGUID == nil {
		t.byGUID = map[string]routeKey{}
	}
	t.byGUID[route.GUID] = key
}

func (t *Table) remove(s *draft, guid string, key routeKey) {
	delete(t.byGUID, guid)
	if m, ok := s.routes.base.get(key.host + key.path); ok {
		t.release(m.pool)
	}
	s.routes.remove(key.host + key.path)
	s.port(key.port, nil)
	s.count--
	info, _ := s.hosts.base.get(key.host)
	if key.path == "" {
		info.root = nil
	}
	if info.routes--; info.routes <= 0 {
		s.hosts.remove(key.host)
	} else {
		s.hosts.set(key.host, info)
	}
}

// same reports whether two routes are equal in every field.
func (r Route) same(other Route) bool {
	return r.GUID == other.GUID && r.Host == other.Host && r.Path == other.Path && r.Port == other.Port &&
		r.RouteServiceURL == other.RouteServiceURL &&
		maps.Equal(r.Options, other.Options) && slices.Equal(r.Backends, other.Backends)
}

// release drops the states that no route uses any more.
func (t *Table) release(p *pool) {
	for _, e := range p.endpoints {
		if e.state.uses--; e.state.uses == 0 {
			delete(t.states, e.key())
		}
	}
}

// stateOf returns the state of an instance. It is shared by all its routes, and so are its
// connections.
func (t *Table) stateOf(key endpointKey) *endpointState {
	state := t.states[key]
	if state == nil {
		state = new(endpointState)
		if t.states == nil {
			t.states = map[endpointKey]*endpointState{}
		}
		t.states[key] = state
	}
	return state
}

// newMatch copies the route. It returns old if the route did not change, because the whole
// table is replaced often.
func (t *Table) newMatch(route Route, old *Match) *Match {
	if old != nil && old.Route.same(route) {
		return old
	}
	route.Options = maps.Clone(route.Options)
	route.Backends = slices.Clone(route.Backends)
	var before *pool
	if old != nil {
		before = old.pool
	}
	return &Match{Route: route, pool: newPool(route, before, t.stateOf), cookiePath: cookiePath(route)}
}

func keyOf(route Route) routeKey {
	if route.Port != 0 {
		return routeKey{host: "TCP" + strconv.Itoa(route.Port), port: route.Port}
	}
	return routeKey{host: CanonicalHost(route.Host), path: canonicalPath(route.Path)}
}

// CanonicalHost returns the name in a Host header: in lower case, without the port and the
// final dot.
func CanonicalHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 &&
		(strings.IndexByte(host, ':') == i || host[0] == '[') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// canonicalPath returns path as "" or with a leading and without a trailing slash.
func canonicalPath(path string) string {
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	path = strings.ToLower(strings.TrimRight(path, "/"))
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	return path
}
