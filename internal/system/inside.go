package system

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"ingot/internal/base/connlimit"
	"ingot/internal/base/web"
	"ingot/internal/platform/controller"
	"ingot/internal/platform/dns"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/instancenet"
	"ingot/internal/platform/router"
)

// platformServices are the services that instances can reach.
func platformServices(c Config, e Endpoints) instancenet.Services {
	return instancenet.Services{
		API:           instancenet.Address{Public: c.PublicURL, Local: e.API},
		Auth:          instancenet.Address{Public: c.AuthURL},
		Notifications: instancenet.Address{Public: c.NotificationsURL, Local: e.Notifications},
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
	for _, one := range []struct {
		listener net.Listener
		only     bool
	}{{b.public, false}, {b.notifications, true}} {
		at := netip.AddrPortFrom(e.Gateway(), one.listener.Addr().(*net.TCPAddr).AddrPort().Port()) //nolint:forcetypeassert // it is one of TCP
		tcp = append(tcp, at)
		if ip := connlimit.Address(one.listener.Addr()); ip.IsUnspecified() {
			continue // it listens on the gateway, too
		}
		opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
		if err != nil {
			return fmt.Errorf("apps could not connect to the platform: %w", err)
		}
		if err := s.serveInside(ctx, b, connlimit.Listen(opened, instancenet.Limits(), owner, log), one.only, log); err != nil {
			return err
		}
	}
	for port, to := range in.Forwarded {
		at := netip.AddrPortFrom(e.Gateway(), port)
		if err := s.run(ctx, &instancenet.Forwarder{At: at, To: to, Owner: owner, Log: log}); err != nil {
			// The rest works without it.
			log.Warn("apps cannot connect to an address of the platform", "address", net.JoinHostPort(to.Host, to.Port), "error", err)
			continue
		}
		tcp = append(tcp, at)
	}
	ours := &dns.PlatformNames{Store: r.store, Own: append(ownNames(s.config), in.Names...), Log: log}
	at := netip.AddrPortFrom(e.Gateway(), dnsPort)
	server := dns.New(dns.Config{
		Listen: at, Answer: e.Gateway(), Ours: ours.Has, May: subnet.Contains, Log: log,
		Internal: func(name string) ([]netip.Addr, bool, bool) {
			if !ours.Internal(name) {
				return nil, false, false
			}
			addresses, exists := r.internal.Lookup(name)
			return addresses, exists, true
		},
	})
	if err := s.run(ctx, server); err != nil {
		log.Warn("apps cannot resolve the names of the platform and of other apps; the addresses in their environment work", "error", err)
	} else {
		tcp, udp = append(tcp, at), append(udp, at)
		e.UseResolver(e.Gateway())
	}
	return e.Allow(ctx, tcp, udp)
}

const dnsPort = 53

// serveInside serves a port of the gateway like the public one, or like that of
// the notification service.
func (s *System) serveInside(ctx context.Context, b *frontend, l net.Listener, notifications bool, log *slog.Logger) error {
	var server *web.Server
	if notifications {
		server = web.NewServer(l, web.Pipeline(b.front.notifications(), web.FormatNotifications, log), log)
	} else {
		fastPath := router.NewFastPath(l)
		b.instanceListeners = append(b.instanceListeners, fastPath)
		server = web.NewServer(fastPath, web.Pipeline(b.front, web.FormatV3, log), log)
	}
	b.servers = append(b.servers, server)
	s.later(server.Stop)
	return server.Start(ctx)
}
