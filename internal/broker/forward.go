package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
	"ingot/internal/base/safedial"
)

// The bounds of connections through the forwarder. No plan allows more than 100
// connections; a source gets a few more, for those that end while others begin.
const (
	sourceConnections = 120
	// A client that says nothing for so long after it has connected does not
	// want to log in.
	silentTime = 15 * time.Second
	// A connection that carries nothing in either direction for so long is
	// closed.
	quietTime = 4 * time.Hour
)

// forwarder lets apps in containers, and this machine itself, reach servers on
// loopback, on the same port of the address that the machine has in the
// containers' network.
type forwarder struct {
	reach  Reach
	log    *slog.Logger
	own    func(netip.Addr) bool
	all    *connlimit.Limiter // of all servers together, for the file descriptors
	silent time.Duration
	quiet  time.Duration
	told   atomic.Int64

	mu      sync.Mutex
	ways    map[endpoint]*way
	far     map[endpoint][]netip.AddrPort // the addresses of servers elsewhere
	conns   map[net.Conn]struct{}         // both ends of all connections
	work    background.WaitGroup
	stopped bool
}

// way leads to one server on loopback.
type way struct {
	net.Listener
	limiter *connlimit.Limiter
}

func newForwarder(reach Reach, log *slog.Logger) *forwarder {
	return &forwarder{
		reach: reach, log: log, own: safedial.Own, silent: silentTime, quiet: quietTime,
		all:  connlimit.New(connlimit.Limits{Total: connlimit.Share(2)}),
		ways: map[endpoint]*way{}, far: map[endpoint][]netip.AddrPort{}, conns: map[net.Conn]struct{}{},
	}
}

// outside is where apps reach a server.
func (f *forwarder) outside(server endpoint) endpoint {
	if f.reach.Host.IsValid() && server.loopback() {
		return endpoint{f.reach.Host.String(), server.port}
	}
	return server
}

// addresses are those of outside, for the firewall of an instance.
func (f *forwarder) addresses(ctx context.Context, server endpoint) ([]netip.AddrPort, error) {
	if !f.reach.Host.IsValid() {
		return nil, nil
	}
	if server.loopback() {
		return []netip.AddrPort{netip.AddrPortFrom(f.reach.Host, uint16(server.port))}, nil
	}
	f.mu.Lock()
	kept := f.far[server]
	f.mu.Unlock()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", server.host)
	if err != nil {
		if len(kept) > 0 {
			return kept, nil
		}
		return nil, fmt.Errorf("the address of %s: %w", server.host, err)
	}
	var list []netip.AddrPort
	for _, a := range found {
		list = append(list, netip.AddrPortFrom(a.Unmap(), uint16(server.port)))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.far[server] = list
	return list, nil
}

// open makes a way to a server that takes no more than so many connections,
// unless there is one.
func (f *forwarder) open(ctx context.Context, server endpoint, connections int) error {
	if !f.reach.Host.IsValid() || !server.loopback() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.ways[server] != nil {
		return nil
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", netip.AddrPortFrom(f.reach.Host, uint16(server.port)).String())
	if err != nil {
		return fmt.Errorf("a way from containers to %s: %w", server, err)
	}
	w := &way{l, connlimit.New(connlimit.Limits{PerSource: min(sourceConnections, connections), Total: connections})}
	f.ways[server] = w
	f.work.Loop(context.WithoutCancel(ctx), "broker forward", func() { // until l is closed
		connlimit.Accept(l, f.log, func(c net.Conn) { f.admit(c, server, w.limiter) })
	})
	return nil
}

// shut takes a way away again.
func (f *forwarder) shut(server endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.ways[server]; l != nil {
		l.Close()
		delete(f.ways, server)
	}
}

func (f *forwarder) stop() {
	f.mu.Lock()
	f.stopped = true
	for _, l := range f.ways {
		l.Close()
	}
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.work.Wait()
}

// admit lets a connection in if its source is one that may be here and has not
// too many.
func (f *forwarder) admit(c net.Conn, server endpoint, limiter *connlimit.Limiter) {
	source, ok := f.source(connlimit.Address(c.RemoteAddr()))
	refuse := func(why string) {
		c.Close()
		if connlimit.LogDue(&f.told) {
			f.log.Warn("a connection to a service was refused", "from", c.RemoteAddr().String(), "source", source, "why", why)
		}
	}
	if !ok {
		// A neighbour of this machine may address packets to an address that it
		// has on another network.
		refuse("it comes from outside of the containers' network")
		return
	}
	end := func() { c.Close() }
	s := f.take(limiter, source, end)
	if s == nil {
		refuse("this source, or all together, have too many connections")
		return
	}
	f.work.Go("broker connection", func() {
		defer s.release()
		f.connect(c, server, s.touch)
	})
}

// slots are the places of a connection: at its server, and among all.
type slots [2]*connlimit.Slot

func (f *forwarder) take(limiter *connlimit.Limiter, source string, end func()) *slots {
	at := limiter.Take(source, end)
	if at == nil {
		return nil
	}
	among := f.all.Take(source, end)
	if among == nil {
		at.Release()
		return nil
	}
	return &slots{at, among}
}

func (s *slots) touch() {
	for _, one := range s {
		one.Touch()
	}
}

func (s *slots) release() {
	for _, one := range s {
		one.Release()
	}
}

// errCrowded is why a connection is refused.
var errCrowded = errors.New("too many connections to the service are open")

// dial connects to what instances reach at an address, counted as one of the
// source's connections.
func (f *forwarder) dial(ctx context.Context, source string, at netip.AddrPort) (net.Conn, error) {
	f.mu.Lock()
	var to *way
	var server endpoint
	if at.Addr() == f.reach.Host {
		server = endpoint{loopbackAddr.String(), int(at.Port())}
		to = f.ways[server]
	}
	f.mu.Unlock()
	var dialer net.Dialer
	if to == nil {
		return dialer.DialContext(ctx, "tcp", at.String())
	}
	// It is known only after its place was taken.
	var mu sync.Mutex
	var conn net.Conn
	s := f.take(to.limiter, source, func() {
		mu.Lock()
		defer mu.Unlock()
		if conn != nil {
			conn.Close()
		}
	})
	if s == nil {
		return nil, errCrowded
	}
	c, err := dialer.DialContext(ctx, "tcp", server.String())
	if err != nil {
		s.release()
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	conn = c
	return &dialed{Conn: c, slots: s}, nil
}

// dialed gives its place back when it is closed.
type dialed struct {
	net.Conn
	slots *slots
}

func (d *dialed) Close() error {
	d.slots.release()
	return d.Conn.Close()
}

// CloseWrite tells the server that no more comes.
func (d *dialed) CloseWrite() error {
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return d.Conn.Close()
}

// source names where a connection comes from: this machine, or an app with all
// of its instances.
func (f *forwarder) source(from netip.Addr) (name string, ok bool) {
	switch {
	case f.own(from):
		return "host", true
	case !f.reach.From.Contains(from):
		return from.String(), false
	}
	if f.reach.Owner != nil {
		if owner := f.reach.Owner(from); owner != "" {
			return owner, true
		}
	}
	return from.String(), true
}

// connect passes bytes in both directions until both have ended, or nothing
// passes for long.
func (f *forwarder) connect(app net.Conn, server endpoint, touch func()) {
	defer app.Close()
	if !f.track(app) {
		return
	}
	defer f.untrack(app)
	dialer := net.Dialer{Timeout: 10 * time.Second}
	to, err := dialer.Dial("tcp", server.String()) //nolint:noctx // it has a timeout, and stop closes the other end
	if err != nil {
		return // the app sees its connection end, as it would without us
	}
	defer to.Close()
	if !f.track(to) {
		return
	}
	defer f.untrack(to)
	p := passing{quiet: f.quiet, app: app, server: to}
	p.begin(f.silent)
	defer p.timer.Stop()
	var both background.WaitGroup
	both.Go("broker connection", func() { p.pass(to, app, func() { p.spoke.Store(true); touch() }) })
	p.pass(app, to, func() {})
	both.Wait()
}

// passing is one connection while it is open.
type passing struct {
	quiet       time.Duration
	app, server net.Conn
	timer       *time.Timer
	spoke       atomic.Bool  // the client has said something
	active      atomic.Int64 // when something last passed
}

// begin starts the clock that closes a connection on which nothing happens.
func (p *passing) begin(silent time.Duration) {
	p.active.Store(time.Now().UnixNano())
	armed := make(chan struct{})
	p.timer = background.AfterFunc("broker connection", silent, func() {
		<-armed
		left := p.quiet - time.Since(time.Unix(0, p.active.Load()))
		if !p.spoke.Load() || left <= 0 {
			p.app.Close()
			p.server.Close()
			return
		}
		p.timer.Reset(left)
	})
	close(armed)
}

// pass copies until the end and passes the end on.
func (p *passing) pass(to, from net.Conn, passed func()) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.active.Store(time.Now().UnixNano())
			passed()
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err == nil {
			continue
		}
		half, ok := to.(interface{ CloseWrite() error })
		if !errors.Is(err, io.EOF) || !ok || half.CloseWrite() != nil {
			to.Close()
			from.Close()
		}
		return
	}
}

func (f *forwarder) track(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.conns[c] = struct{}{}
	return true
}

func (f *forwarder) untrack(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// Endpoints returns the addresses that instances of an app connect to for the
// service instances it is bound to; none where apps share this machine's
// network.
func (b *Broker) Endpoints(ctx context.Context, app string) ([]netip.AddrPort, error) {
	return b.endpoints(ctx, func(i *instance) bool {
		for _, to := range i.Bindings {
			if to.Phase == ready && to.AppGUID == app {
				return true
			}
		}
		return false
	})
}

// EndpointsOf returns the addresses of service instances.
func (b *Broker) EndpointsOf(ctx context.Context, instances ...string) ([]netip.AddrPort, error) {
	return b.endpoints(ctx, func(i *instance) bool { return slices.Contains(instances, i.ID) })
}

// Dial connects this process to one of the addresses of EndpointsOf. The
// connection counts as one of source, an app.
func (b *Broker) Dial(ctx context.Context, source string, at netip.AddrPort) (net.Conn, error) {
	return b.forward.dial(ctx, source, at)
}

func (b *Broker) endpoints(ctx context.Context, of func(*instance) bool) ([]netip.AddrPort, error) {
	if !b.config.Reach.Host.IsValid() {
		return nil, nil
	}
	var all []netip.AddrPort
	for _, i := range b.state.list() {
		if i.Phase != ready || !of(i) {
			continue
		}
		s, err := b.backendOf(i)
		if err != nil {
			continue // said at the start
		}
		at := s.target(i)
		if at.port == 0 {
			continue
		}
		list, err := b.forward.addresses(ctx, at)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all), nil
}
