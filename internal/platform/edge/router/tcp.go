package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
)

// TCPOptions configure a TCP router. Zero fields mean the default.
type TCPOptions struct {
	// Host is the address to listen on, without a port.
	Host string
	// May reports whether a port may be opened; nil means all.
	May func(port int) bool
	// Unlimited reports whether connections of an address are not limited by their
	// source, because it is a proxy for many clients.
	Unlimited func(netip.Addr) bool
	// Wrap, if set, wraps the listener of a port.
	Wrap func(net.Listener) net.Listener
	// PerSource and PerApp limit the connections of one address and to one app, and Total
	// all.
	PerSource, PerApp, Total int
	IdleTimeout              time.Duration // 1 h
	// Listen returns the listener of a name and address, or what open opens; nil means the
	// latter.
	Listen listenFunc
	Log    *slog.Logger
}

type (
	openFunc   = func(ctx context.Context, name, address string) (net.Listener, error)
	listenFunc = func(ctx context.Context, name, address string, open openFunc) (net.Listener, error)
)

const (
	// unmappedFor is how long a connection lasts after its instance has left the route:
	// because the route was unmapped or deleted, or because the instance is not ready or
	// stops. If the instance ends, so does the connection.
	unmappedFor = 10 * time.Minute
	// sweepInterval is the longest time between two looks at the connections.
	sweepInterval = 5 * time.Second
)

// TCP serves TCP routes: it listens on the port of each and forwards connections to
// its backends. A Table passes it the routes. It is a background.Service.
type TCP struct {
	part    background.Part
	proxy   *Proxy // counts and logs
	options TCPOptions
	sources *connlimit.Limiter
	apps    *connlimit.Limiter
	serving background.WaitGroup

	mu      sync.Mutex
	ports   map[int]*tcpPort
	streams map[*stream]bool
	stopped bool
	retired bool
}

// tcpPort is the port of a TCP route.
type tcpPort struct {
	number   int
	route    atomic.Pointer[Match]
	listener net.Listener // nil if the port could not be opened
	problem  string       // last reason that was logged
}

var _ background.Service = (*TCP)(nil)

// NewTCP returns a router for the TCP routes of t, which must be empty. It counts and logs
// connections together with the requests of p.
func NewTCP(t *Table, p *Proxy, o TCPOptions) *TCP {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Total <= 0 {
		o.Total = connlimit.Share(2)
	}
	if o.PerApp <= 0 {
		o.PerApp = max(o.Total/4, 16)
	}
	if o.PerSource <= 0 {
		o.PerSource = min(max(o.Total/8, 16), 10000)
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = time.Hour
	}
	r := &TCP{
		proxy: p, options: o, ports: map[int]*tcpPort{}, streams: map[*stream]bool{},
		sources: connlimit.New(connlimit.Limits{PerSource: o.PerSource}),
		apps:    connlimit.New(connlimit.Limits{PerSource: o.PerApp, Total: o.Total}),
	}
	t.mu.Lock()
	t.tcp = r
	t.mu.Unlock()
	return r
}

// Start starts to look for idle connections and for ports to be opened again.
func (t *TCP) Start(ctx context.Context) error {
	return t.part.Run(ctx, func(work context.Context) {
		for now := range background.Ticks(work, min(t.options.IdleTimeout/4, sweepInterval), nil) {
			t.sweep(now)
		}
	})
}

// Stop closes all ports and connections, and waits until they are logged.
func (t *TCP) Stop() {
	t.part.Halt(func() {
		t.mu.Lock()
		t.stopped = true
		for _, p := range t.ports {
			p.close()
		}
		for s := range t.streams {
			s.abort()
		}
		t.mu.Unlock()
		t.serving.Wait()
	})
}

// Retire closes all ports. Connections continue, with the backends that they have.
func (t *TCP) Retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired = true
	for _, p := range t.ports {
		p.close()
	}
}

// Connections returns how many connections are open.
func (t *TCP) Connections() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.streams)
}

// Free returns an error if a new route cannot have a port because another program has it.
func (t *TCP) Free(port int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.ports[port]; p != nil && p.listener != nil {
		return nil
	}
	l, err := t.listen(port, nil)
	if err != nil {
		return err
	}
	return l.Close()
}

// update sets and removes the routes of ports. It is called with the table's lock held.
func (t *TCP) update(changed map[int]*Match) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for number, m := range changed {
		t.set(number, m)
	}
	t.review(time.Now())
}

// replace sets the routes of all ports. It is called with the table's lock held.
func (t *TCP) replace(all map[int]*Match) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for number := range t.ports {
		if all[number] == nil {
			t.set(number, nil)
		}
	}
	for number, m := range all {
		t.set(number, m)
	}
	t.review(time.Now())
}

func (t *TCP) set(number int, m *Match) {
	p := t.ports[number]
	switch {
	case m == nil && p != nil:
		p.close()
		delete(t.ports, number)
	case m != nil && p != nil:
		p.route.Store(m)
	case m != nil:
		p = &tcpPort{number: number}
		p.route.Store(m)
		t.ports[number] = p
		t.open(p)
	}
}

// open opens a port, unless that fails; then sweep tries again.
func (t *TCP) open(p *tcpPort) {
	if t.stopped || t.retired {
		return
	}
	l, err := t.listen(p.number, t.options.Listen)
	if err != nil {
		if problem := err.Error(); problem != p.problem {
			p.problem = problem
			t.options.Log.Error("the port of a TCP route cannot be opened: its connections are refused, and opening it is "+
				"tried again",
				"port", p.number, "route", p.route.Load().Route.GUID, "error", err)
		}
		return
	}
	if p.problem != "" {
		t.options.Log.Info("the port of a TCP route is open now", "port", p.number)
	}
	if t.options.Wrap != nil {
		l = t.options.Wrap(l)
	}
	p.listener, p.problem = l, ""
	t.serving.Go("tcp port", func() {
		connlimit.Accept(l, t.options.Log, func(c net.Conn) {
			t.serving.Go("tcp connection", func() { t.serve(p, c) })
		})
	})
}

func (p *tcpPort) close() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

var errOtherPort = errors.New("the port is not one of --tcp-ports")

// listen opens a port by with, or itself if that is nil.
func (t *TCP) listen(port int, with listenFunc) (net.Listener, error) {
	if t.options.May != nil && !t.options.May(port) {
		return nil, errOtherPort
	}
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Minute,
		Interval: 15 * time.Second, Count: 4}}
	open := func(ctx context.Context, _, address string) (net.Listener, error) {
		return config.Listen(ctx, "tcp", address)
	}
	if with == nil {
		with = func(ctx context.Context, name, address string, open openFunc) (net.Listener, error) {
			return open(ctx, name, address)
		}
	}
	l, err := with(context.Background(), "tcp-route-"+strconv.Itoa(port),
		net.JoinHostPort(t.options.Host, strconv.Itoa(port)), open)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on port %d: %w", port, err)
	}
	return l, err
}

// review finds the connections whose instance has left their route, and those whose
// instance is back.
func (t *TCP) review(now time.Time) {
	for s := range t.streams {
		p := t.ports[s.port]
		mapped := p != nil && p.route.Load().pool.has(s.endpoint)
		switch {
		case mapped:
			s.left = time.Time{}
		case s.left.IsZero():
			s.left = now
		}
	}
}

// has reports whether a backend is in the pool.
func (p *pool) has(e *endpoint) bool {
	return slices.ContainsFunc(p.endpoints, func(other *endpoint) bool { return other.key() == e.key() })
}

// sweep closes connections that were idle or unmapped for too long, and tries again to
// open ports.
func (t *TCP) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.streams {
		n := s.received.Load() + s.sent.Load()
		if n != s.seen || s.since.IsZero() {
			s.seen, s.since = n, now
		}
		if now.Sub(s.since) >= t.options.IdleTimeout || !s.left.IsZero() && now.Sub(s.left) >= unmappedFor {
			t.proxy.counters.stalled.Add(1)
			s.abort()
		}
	}
	for _, p := range t.ports {
		if p.listener == nil {
			t.open(p)
		}
	}
}

// add remembers an open connection, unless the router has stopped.
func (t *TCP) add(s *stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.streams[s] = true
	return true
}

func (t *TCP) drop(s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.streams, s)
}
