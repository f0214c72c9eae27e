package broker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ingot/internal/run"
)

// forwarder lets apps in containers reach servers on this machine's loopback,
// on the same port of the address that the machine has in their network. It
// also keeps the list of what their firewall has to let through.
type forwarder struct {
	reach Reach
	log   *slog.Logger

	mu      sync.Mutex
	ways    map[endpoint]net.Listener // those on loopback, by their server
	allowed map[netip.AddrPort]bool   // what apps connect to
	conns   map[net.Conn]struct{}     // both ends of all connections
	work    run.WaitGroup
	stopped bool
}

func newForwarder(reach Reach, log *slog.Logger) *forwarder {
	return &forwarder{
		reach: reach, log: log, ways: map[endpoint]net.Listener{}, allowed: map[netip.AddrPort]bool{}, conns: map[net.Conn]struct{}{},
	}
}

// outside is where apps reach a server.
func (f *forwarder) outside(server endpoint) endpoint {
	if f.reach.Host.IsValid() && server.loopback() {
		return endpoint{f.reach.Host.String(), server.port}
	}
	return server
}

// open makes a way to a server, unless there is one. apply follows.
func (f *forwarder) open(ctx context.Context, server endpoint) error {
	if !f.reach.Host.IsValid() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.ways[server] != nil {
		return nil
	}
	if !server.loopback() {
		return f.allowFar(ctx, server)
	}
	at := netip.AddrPortFrom(f.reach.Host, uint16(server.port))
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("a way from containers to %s: %w", server, err)
	}
	f.ways[server], f.allowed[at] = l, true
	f.work.Loop(context.WithoutCancel(ctx), "broker forward", func() { f.serve(l, server) }) // until l is closed
	return nil
}

// allowFar is for a server elsewhere, which apps connect to directly.
func (f *forwarder) allowFar(ctx context.Context, server endpoint) error {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", server.host)
	if err != nil {
		return fmt.Errorf("the address of %s: %w", server.host, err)
	}
	for _, a := range addresses {
		f.allowed[netip.AddrPortFrom(a.Unmap(), uint16(server.port))] = true
	}
	return nil
}

// shut takes a way away again.
func (f *forwarder) shut(server endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.ways[server]; l != nil {
		l.Close()
		delete(f.ways, server)
		delete(f.allowed, netip.AddrPortFrom(f.reach.Host, uint16(server.port)))
	}
}

// apply tells the firewall.
func (f *forwarder) apply(ctx context.Context) error {
	if f.reach.Allow == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock() // held, so that the last list told is the newest
	list := slices.SortedFunc(maps.Keys(f.allowed), netip.AddrPort.Compare)
	if err := f.reach.Allow(ctx, list); err != nil {
		return fmt.Errorf("the firewall of containers: %w", err)
	}
	return nil
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

func (f *forwarder) serve(l net.Listener, server endpoint) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed: nothing else goes wrong for good
		}
		if !f.welcome(c.RemoteAddr()) {
			// A neighbour of this machine may address packets to an address
			// that it has on another network.
			f.log.Warn("a connection to a service from outside of the containers' network was refused", "from", c.RemoteAddr().String())
			c.Close()
			continue
		}
		f.work.Go("broker connection", func() { f.connect(c, server) })
	}
}

func (f *forwarder) welcome(a net.Addr) bool {
	from, err := netip.ParseAddrPort(a.String())
	return err == nil && f.reach.From.Contains(from.Addr().Unmap())
}

// connect passes bytes in both directions until both have ended.
func (f *forwarder) connect(app net.Conn, server endpoint) {
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
	var other run.WaitGroup
	defer other.Wait()
	other.Go("broker connection", func() { pass(to, app) })
	pass(app, to)
}

// pass copies until the end and passes the end on.
func pass(to, from net.Conn) {
	err := run.Do("broker connection", func() error { _, err := io.Copy(to, from); return err })
	if err != nil {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		to.Close()
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
