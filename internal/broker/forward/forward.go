package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/connlimit"
)

// Limits of connections through the forwarder. No plan allows more than 100
// connections; a source gets a few more, because some are still closing when
// others are opened.
const (
	sourceConnections = 120
	// silentTime is how long a client may send nothing after it has connected.
	silentTime = 15 * time.Second
	// quietTime is how long a connection may be idle in both directions.
	quietTime = 4 * time.Hour
)

// Forwarder makes servers on loopback reachable for apps in containers, and for
// this machine itself: on the same port of the machine's address in the
// containers' network.
type Forwarder struct {
	reach   Reach
	log     *slog.Logger
	own     func(netip.Addr) bool
	all     *connlimit.Limiter // of all servers together, for the file descriptors
	silent  time.Duration
	quiet   time.Duration
	lastLog atomic.Int64

	mu        sync.Mutex
	listeners map[Endpoint]*listener
	remote    map[Endpoint][]netip.AddrPort // the addresses of servers elsewhere
	conns     map[net.Conn]struct{}         // both ends of all connections
	work      background.WaitGroup
	stopped   bool
	retired   bool // it accepts no more connections

	waiting context.Context // of connections that wait for a server
	end     context.CancelFunc
}

// listener accepts connections for one server on loopback.
type listener struct {
	on      []net.Listener
	limiter *connlimit.Limiter
	start   Starter // nil for a server that runs and listens
}

// Starter starts a server if necessary and connects to it. The connection is released with the
// function.
type Starter func(ctx context.Context) (net.Conn, func(), error)

func (l *listener) close() {
	for _, one := range l.on {
		one.Close()
	}
}

// New returns a forwarder. own reports whether an address is one of this machine.
func New(reach Reach, own func(netip.Addr) bool, log *slog.Logger) *Forwarder {
	waiting, end := context.WithCancel(context.Background())
	return &Forwarder{
		waiting: waiting, end: end,
		reach: reach, log: log, own: own, silent: silentTime, quiet: quietTime,
		all:       connlimit.New(connlimit.Limits{Total: connlimit.Share(2)}),
		listeners: map[Endpoint]*listener{}, remote: map[Endpoint][]netip.AddrPort{}, conns: map[net.Conn]struct{}{},
	}
}

// Outside returns the address at which apps reach a server.
func (f *Forwarder) Outside(server Endpoint) Endpoint {
	if f.reach.Host.IsValid() && server.loopback() {
		return Endpoint{f.reach.Host.String(), server.Port}
	}
	return server
}

// Addresses resolves Outside(server), for the firewall of an instance.
func (f *Forwarder) Addresses(ctx context.Context, server Endpoint) ([]netip.AddrPort, error) {
	if !f.reach.Host.IsValid() {
		return nil, nil
	}
	if server.loopback() {
		return []netip.AddrPort{netip.AddrPortFrom(f.reach.Host, uint16(server.Port))}, nil
	}
	f.mu.Lock()
	kept := f.remote[server]
	f.mu.Unlock()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", server.Host)
	if err != nil {
		if len(kept) > 0 {
			return kept, nil
		}
		return nil, fmt.Errorf("resolve %s: %w", server.Host, err)
	}
	var list []netip.AddrPort
	for _, a := range found {
		list = append(list, netip.AddrPortFrom(a.Unmap(), uint16(server.Port)))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remote[server] = list
	return list, nil
}

// Open starts a listener for a server, with a limit of connections, unless it
// has one. A server that has to be started for a connection does not listen itself: it gets a
// listener on loopback as well.
func (f *Forwarder) Open(ctx context.Context, server Endpoint, connections int, start Starter) error {
	var hosts []netip.Addr
	if start != nil {
		hosts = append(hosts, Loopback)
	}
	if f.reach.Host.IsValid() && server.loopback() {
		hosts = append(hosts, f.reach.Host)
	}
	if len(hosts) == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.retired || f.listeners[server] != nil {
		return nil
	}
	listen := f.reach.Listen
	if listen == nil {
		listen = func(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
		}
	}
	w := &listener{limiter: connlimit.New(connlimit.Limits{PerSource: min(sourceConnections, connections),
		Total: connections}), start: start}
	for _, host := range hosts {
		l, err := listen(ctx, netip.AddrPortFrom(host, uint16(server.Port)))
		if err != nil {
			w.close()
			return fmt.Errorf("forward connections to %s: %w", server, err)
		}
		w.on = append(w.on, l)
	}
	f.listeners[server] = w
	for _, l := range w.on {
		f.work.Loop(context.WithoutCancel(ctx), "broker forward", func() { // until l is closed
			connlimit.Accept(l, f.log, func(c net.Conn) { f.admit(c, server, w) })
		})
	}
	return nil
}

// Close closes the listener of a server.
func (f *Forwarder) Close(server Endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.listeners[server]; l != nil {
		l.close()
		delete(f.listeners, server)
	}
}

// Retire closes the listeners; connections continue.
func (f *Forwarder) Retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retired = true
	for _, l := range f.listeners {
		l.close()
	}
}

// RetireStarters closes the listeners of servers that may have to be started, which another process
// does from now on: new connections wait for it.
func (f *Forwarder) RetireStarters() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for server, l := range f.listeners {
		if l.start != nil {
			l.close()
			delete(f.listeners, server)
		}
	}
}

// Connections returns how many connections are open.
func (f *Forwarder) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return (len(f.conns) + 1) / 2
}

// Stop closes all listeners and connections.
func (f *Forwarder) Stop() {
	f.end()
	f.mu.Lock()
	f.stopped = true
	for _, l := range f.listeners {
		l.close()
	}
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.work.Wait()
}

// admit forwards a connection if its source is allowed and does not have too
// many.
func (f *Forwarder) admit(c net.Conn, server Endpoint, to *listener) {
	source, ok := f.source(connlimit.Address(c.RemoteAddr()))
	refuse := func(why string) {
		c.Close()
		if connlimit.LogDue(&f.lastLog) {
			f.log.Warn("service connection rejected", "from", c.RemoteAddr().String(), "source", source, "why", why)
		}
	}
	if !ok {
		// A machine on another network may send packets to this address.
		refuse("not from the containers' network")
		return
	}
	end := func() { c.Close() }
	s := f.take(to.limiter, source, end)
	if s == nil {
		refuse("too many connections from this source or in total")
		return
	}
	f.work.Go("broker connection", func() {
		defer s.release()
		f.connect(c, server, to.start, s.touch)
	})
}

// slots are the slots of a connection: of its server's limit, and of the total.
type slots [2]*connlimit.Slot

func (f *Forwarder) take(limiter *connlimit.Limiter, source string, end func()) *slots {
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

// errTooManyConnections means that a limit of connections is reached.
var errTooManyConnections = errors.New("too many connections to the service")

// Dial connects to the server that instances reach at an address. The connection
// counts as one of the source.
func (f *Forwarder) Dial(ctx context.Context, source string, at netip.AddrPort) (net.Conn, error) {
	f.mu.Lock()
	var to *listener
	var server Endpoint
	if at.Addr() == f.reach.Host {
		server = Local(int(at.Port()))
		to = f.listeners[server]
	}
	f.mu.Unlock()
	var dialer net.Dialer
	if to == nil {
		return dialer.DialContext(ctx, "tcp", at.String())
	}
	// The connection is opened only after its slot was taken.
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
		return nil, errTooManyConnections
	}
	c, done, err := connectTo(ctx, server, to.start)
	if err != nil {
		s.release()
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	conn = c
	return &dialed{Conn: c, release: sync.OnceFunc(func() { s.release(); done() })}, nil
}

// dialed is a connection that releases its slots when it is closed.
type dialed struct {
	net.Conn
	release func()
}

func (d *dialed) Close() error {
	d.release()
	return d.Conn.Close()
}

// CloseWrite closes the connection for writing.
func (d *dialed) CloseWrite() error {
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return d.Conn.Close()
}

// source returns the source that a connection is counted for: this machine, or
// an app with all its instances.
func (f *Forwarder) source(from netip.Addr) (name string, ok bool) {
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

// connect copies bytes in both directions until both have ended, or the
// connection is idle for too long.
func (f *Forwarder) connect(app net.Conn, server Endpoint, start Starter, touch func()) {
	defer app.Close()
	if !f.track(app) {
		return
	}
	defer f.untrack(app)
	ctx, cancel := context.WithTimeout(f.waiting, waitTime)
	to, done, err := connectTo(ctx, server, start)
	cancel()
	if err != nil {
		if start != nil && connlimit.LogDue(&f.lastLog) {
			f.log.Warn("service connection failed", "server", server.String(), "error", err)
		}
		return // the app's connection is closed, as if the server had closed it
	}
	defer done()
	defer to.Close()
	if !f.track(to) {
		return
	}
	defer f.untrack(to)
	p := proxiedConn{quiet: f.quiet, app: app, server: to}
	p.startTimer(f.silent)
	defer p.timer.Stop()
	var both background.WaitGroup
	both.Go("broker connection", func() { p.copy(to, app, func() { p.clientSent.Store(true); touch() }) })
	p.copy(app, to, func() {})
	both.Wait()
}

// waitTime is how long a client waits for a server that is being started.
const waitTime = time.Minute

func connectTo(ctx context.Context, server Endpoint, start Starter) (net.Conn, func(), error) {
	if start != nil {
		return start(ctx)
	}
	c, err := (&net.Dialer{Timeout: DialTime}).DialContext(ctx, "tcp", server.String())
	return c, func() {}, err
}

// proxiedConn is an open connection.
type proxiedConn struct {
	quiet       time.Duration
	app, server net.Conn
	timer       *time.Timer
	clientSent  atomic.Bool  // the client has sent something
	active      atomic.Int64 // steady time of the last transfer, in nanoseconds
}

// startTimer starts the timer that closes an idle connection.
func (p *proxiedConn) startTimer(silent time.Duration) {
	p.active.Store(clock.Steady().UnixNano())
	armed := make(chan struct{})
	p.timer = background.AfterFunc("broker connection", silent, func() {
		<-armed
		left := p.quiet - time.Duration(clock.Steady().UnixNano()-p.active.Load())
		if !p.clientSent.Load() || left <= 0 {
			p.app.Close()
			p.server.Close()
			return
		}
		p.timer.Reset(left)
	})
	close(armed)
}

// copy copies until the end of the input, then closes the other side for writing.
func (p *proxiedConn) copy(to, from net.Conn, passed func()) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.active.Store(clock.Steady().UnixNano())
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

func (f *Forwarder) track(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return false
	}
	f.conns[c] = struct{}{}
	return true
}

func (f *Forwarder) untrack(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}
