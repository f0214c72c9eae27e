package system

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"

	"ingot/internal/base/connlimit"
	"ingot/internal/base/rootless"
	"ingot/internal/base/web"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/instance/dns"
	"ingot/internal/platform/instance/instancenet"
	"ingot/internal/platform/run/controller"
	"ingot/internal/server/sockets"
	"ingot/internal/server/steps"
)

// platformServices are the services that instances can reach.
func platformServices(c Config, e Endpoints) instancenet.Services {
	return instancenet.Services{
		API:           instancenet.Address{Public: c.PublicURL, Local: e.API},
		Auth:          instancenet.Address{Public: c.AuthURL},
		Notifications: instancenet.Address{Public: c.NotificationsURL, Local: e.Notifications},
		TLS:           e.tls,
	}
}

// gatewayOf returns the host's address in the network of instances, if they have
// their own network.
func gatewayOf(e engine.Engine) netip.Addr {
	if c, ok := e.(*container.Engine); ok {
		return c.Gateway()
	}
	return netip.Addr{}
}

// bindingsRoot returns the directory of file-based service bindings in instances,
// if they have their own file system.
func bindingsRoot(e engine.Engine) string {
	if _, ok := e.(*container.Engine); ok {
		return container.BindingsInside
	}
	return ""
}

// internalNames returns the names of internal routes for the certificates of instances, if
// these names resolve.
func internalNames(r *runtime) func(known uint64) (map[string][]string, uint64) {
	if _, ok := r.engine.(*container.Engine); ok {
		return r.internal.ByAddress
	}
	return nil
}

// limited limits the connections of instances to a port that others use, too.
func (b *frontend) limited(l net.Listener, log *slog.Logger) net.Listener {
	if loopback(l.Addr()) {
		return l // instances in containers cannot connect to loopback
	}
	return connlimit.Listen(l, instancenet.Limits(), func(a netip.Addr) (string, bool) {
		if owner := b.owner.Load(); owner != nil {
			return (*owner)(a)
		}
		return "", false
	}, log)
}

// openInside opens what instances need to connect to the platform: ports on the
// gateway, the firewall, and the name server.
func (s *System) openInside(ctx context.Context, b *frontend, r *runtime) error {
	e, ok := r.engine.(*container.Engine)
	if !ok {
		return nil
	}
	log, in := s.config.Log, r.inside
	subnet := e.Subnet()
	owner := func(a netip.Addr) (string, bool) {
		if app := e.Labels(a)[controller.LabelApp]; app != "" {
			return app, true
		}
		return a.String(), subnet.Contains(a)
	}
	b.owner.Store(&owner)
	var tcp, udp []netip.AddrPort
	for _, one := range b.inside() {
		at := netip.AddrPortFrom(e.Gateway(), one.listener.Addr().(*net.TCPAddr). //nolint:forcetypeassert // it is one of TCP
												AddrPort().Port())
		tcp = append(tcp, at)
		if ip := connlimit.Address(one.listener.Addr()); ip.IsUnspecified() && rootless.Current() == nil {
			continue // it listens on the gateway, too
		}
		opened, err := gatewayPorts{s.handover.sockets}.TCP(ctx, at)
		if err != nil {
			return fmt.Errorf("apps could not connect to the platform: %w", err)
		}
		if err := s.serveInside(ctx, b, connlimit.Listen(opened, instancenet.Limits(), owner, log), one.kind,
			log); err != nil {
			return err
		}
	}
	for port, to := range in.Forwarded {
		at := netip.AddrPortFrom(e.Gateway(), port)
		listen := func(ctx context.Context, _ string) (net.Listener, error) {
			return gatewayPorts{s.handover.sockets}.TCP(ctx, at)
		}
		if err := s.steps.RunAs(ctx, steps.Edge, &instancenet.Forwarder{At: at, To: to, Owner: owner, Listen: listen,
			Log: log}); err != nil {
			// The rest works without it.
			log.Warn("apps cannot connect to an address of the platform", "address", net.JoinHostPort(to.Host, to.Port),
				"error", err)
			continue
		}
		tcp = append(tcp, at)
	}
	ours := &dns.PlatformNames{Store: r.store, Own: append(s.config.ownNames(), in.Names...), Log: log}
	at := netip.AddrPortFrom(e.Gateway(), dnsPort)
	server := dns.New(dns.Config{
		Listen: at, Answer: e.Gateway(), Ours: ours.Has, May: subnet.Contains, Listeners: gatewayPorts{s.handover.sockets},
		Log: log,
		Internal: func(name string) ([]netip.Addr, bool, bool) {
			if !ours.Internal(name) {
				return nil, false, false
			}
			addresses, exists := r.internal.Lookup(name)
			return addresses, exists, true
		},
	})
	if err := s.steps.Run(ctx, server); err != nil {
		log.Warn("apps cannot resolve the names of the platform and of other apps; the addresses in their environment work",
			"error", err)
	} else {
		tcp, udp = append(tcp, at), append(udp, at)
		e.UseResolver(e.Gateway())
	}
	return e.Allow(ctx, tcp, udp)
}

const dnsPort = 53

// portKind is what a port serves.
type portKind int

const (
	portPublic portKind = iota
	portNotifications
	portTLS
)

// insidePort is a port that instances can connect to.
type insidePort struct {
	listener net.Listener
	kind     portKind
}

func (b *frontend) inside() []insidePort {
	ports := []insidePort{{b.public, portPublic}, {b.notifications, portNotifications}}
	if b.secure != nil {
		ports = append(ports, insidePort{b.secure.listener, portTLS})
	}
	return ports
}

// gatewayPorts are the ports on the gateway, opened or inherited.
type gatewayPorts struct{ *sockets.Set }

// TCP implements dns.Listeners.
func (g gatewayPorts) TCP(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	return g.Listen(ctx, "gateway-"+strconv.Itoa(int(at.Port())), at.String(),
		func(ctx context.Context, _, address string) (net.Listener, error) {
			return rootless.InNet(func() (net.Listener, error) {
				return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			})
		})
}

// service opens a port of a service, on the gateway or on loopback.
func (g gatewayPorts) service(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	if !at.Addr().IsLoopback() {
		return g.TCP(ctx, at)
	}
	return g.Listen(ctx, "service-"+strconv.Itoa(int(at.Port())), at.String(),
		func(ctx context.Context, _, address string) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		})
}

// UDP implements dns.Listeners.
func (g gatewayPorts) UDP(at netip.AddrPort) (*net.UDPConn, error) {
	return rootless.InNet(func() (*net.UDPConn, error) {
		return g.ListenUDP("gateway-udp-"+strconv.Itoa(int(at.Port())), at)
	})
}

// serveInside serves another address like one of the ports. It does not redirect.
func (s *System) serveInside(ctx context.Context, b *frontend, l net.Listener, kind portKind, log *slog.Logger) error {
	var server *web.Server
	switch kind {
	case portNotifications:
		server = web.NewServer(l, b.front.Pipeline(b.front.Notifications(), web.FormatNotifications), log)
	case portTLS:
		fastPath := router.NewTLSFastPath(l, b.secure.tls)
		b.instanceListeners = append(b.instanceListeners, fastPath)
		server = web.NewServer(fastPath, b.front.Pipeline(b.secure.HTTPS(b.front), web.FormatV3), log)
	case portPublic:
		fastPath := router.NewFastPath(l)
		b.instanceListeners = append(b.instanceListeners, fastPath)
		server = web.NewServer(fastPath, b.front.Pipeline(b.front, web.FormatV3), log)
	}
	b.servers = append(b.servers, server)
	s.steps.Add(steps.Edge, server.Stop)
	return server.Start(ctx)
}
