package system

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/controller"
	"ingot/internal/platform/dns"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/router"
)

// inside is how instances reach the platform. In containers that is by the
// address that the host has in their network: loopback is their own there.
//
//	instance ── name of ours ──▶ name server on the gateway ──▶ the gateway
//	         ── gateway:8080 ──▶ API, authorization server, routes of apps
//	         ── gateway:8081 ──▶ notification service
//	         ── gateway:443  ──▶ the proxy of --public-url, where there is one
//
// The administrator's port, ssh and everything else of the host stay closed.
type inside struct {
	api, auth, notifications string // as instances have them in their variables
	router                   string // host:port that serves the routes of apps

	gateway netip.Addr          // not valid where instances share the host's network
	passed  map[uint16]endpoint // ports of the gateway that are passed on to elsewhere
	names   []string            // that lead to the gateway beside those of the domain
}

// endpoint is a host and a port to connect to.
type endpoint struct{ host, port string }

// planInside decides how instances reach the platform; nothing is opened yet.
func planInside(c Config, e Endpoints, gateway netip.Addr) (*inside, error) {
	in := &inside{gateway: gateway, passed: map[uint16]endpoint{}}
	public, err := url.Parse(e.API)
	if err != nil {
		return nil, err
	}
	in.router = public.Host
	if gateway.IsValid() {
		in.router = net.JoinHostPort(gateway.String(), public.Port())
	}
	for _, one := range []struct {
		into        *string
		given, here string
	}{
		{&in.api, c.PublicURL, e.API}, {&in.auth, c.AuthURL, ""}, {&in.notifications, c.NotificationsURL, e.Notifications},
	} {
		address := one.given
		if address == "" {
			address = one.here
		}
		if *one.into, err = in.rewrite(address, e); err != nil {
			return nil, err
		}
	}
	if in.auth == "" {
		in.auth = in.api
	}
	return in, nil
}

// rewrite turns a URL that leads to the platform from this machine into one that
// does so from inside an instance.
func (in *inside) rewrite(address string, e Endpoints) (string, error) {
	if !in.gateway.IsValid() || address == "" {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("the port of %s: %w", address, err)
	}
	host := strings.ToLower(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		if host != "localhost" && !a.IsLoopback() && !a.IsUnspecified() && address != e.API && address != e.Notifications {
			return address, nil // elsewhere, where the firewall decides
		}
		u.Host = net.JoinHostPort(in.gateway.String(), port)
	} else {
		in.names = append(in.names, host)
	}
	if !slices.Contains(in.ports(e), uint16(number)) {
		in.passed[uint16(number)] = endpoint{u.Hostname(), port}
		if u.Hostname() == in.gateway.String() {
			in.passed[uint16(number)] = endpoint{host, port}
		}
	}
	return u.String(), nil
}

// ports are those of the server itself that instances reach.
func (in *inside) ports(e Endpoints) (list []uint16) {
	for _, address := range []string{e.API, e.Notifications} {
		if u, err := url.Parse(address); err == nil {
			if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
				list = append(list, uint16(n))
			}
		}
	}
	return list
}

// variables are those that all instances and builds have.
func (in *inside) variables() map[string]string {
	return map[string]string{
		"INGOT_API_URL": in.api, "INGOT_AUTH_URL": in.auth, "INGOT_NOTIFICATIONS_URL": in.notifications, "INGOT_ROUTER": in.router,
	}
}

// gatewayOf is the host's address in the network of instances, if they have one
// of their own.
func gatewayOf(e engine.Engine) netip.Addr {
	if c, ok := e.(*container.Engine); ok {
		return c.Gateway()
	}
	return netip.Addr{}
}

// bindingsRoot is where instances find their services in files, as in every Cloud
// Foundry, if they have an /etc of their own.
func bindingsRoot(e engine.Engine) string {
	if _, ok := e.(*container.Engine); ok {
		return container.BindingsInside
	}
	return ""
}

// Bounds of connections from instances to the platform.
const (
	insidePerApp = 256
	passTime     = 10 * time.Second // to connect to what is passed on
)

// insideLimits are those of one port.
func insideLimits() connlimit.Limits {
	return connlimit.Limits{PerSource: insidePerApp, Total: connlimit.Share(2)}
}

// limited bounds the connections of instances to a port that others use, too.
func (b *frontend) limited(l net.Listener, log *slog.Logger) net.Listener {
	if loopback(l.Addr()) {
		return l // instances in containers never come here
	}
	return connlimit.Listen(l, insideLimits(), func(a netip.Addr) (string, bool) {
		if owner := b.owner.Load(); owner != nil {
			return (*owner)(a)
		}
		return "", false
	}, log)
}

// openInside opens what instances need to reach the platform: ports on the
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
			continue // it is reached there already
		}
		opened, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
		if err != nil {
			return fmt.Errorf("the platform cannot be reached by apps: %w", err)
		}
		if err := s.serveInside(ctx, b, connlimit.Listen(opened, insideLimits(), owner, log), one.only, log); err != nil {
			return err
		}
	}
	for port, to := range in.passed {
		at := netip.AddrPortFrom(e.Gateway(), port)
		if err := s.run(ctx, &passage{at: at, to: to, owner: owner, log: log}); err != nil {
			// The rest works without it.
			log.Warn("apps cannot reach an address of the platform", "address", net.JoinHostPort(to.host, to.port), "error", err)
			continue
		}
		tcp = append(tcp, at)
	}
	ours := &ourNames{store: r.store, own: append(ownNames(s.config), in.names...), log: log}
	at := netip.AddrPortFrom(e.Gateway(), dnsPort)
	server := dns.New(dns.Config{Listen: at, Answer: e.Gateway(), Ours: ours.has, May: subnet.Contains, Log: log})
	if err := s.run(ctx, server); err != nil {
		log.Warn("apps do not find the platform and other apps by name, only by the addresses in their variables", "error", err)
	} else {
		tcp, udp = append(tcp, at), append(udp, at)
		e.UseResolver(e.Gateway())
	}
	return e.Allow(ctx, tcp, udp)
}

const dnsPort = 53

// serveInside serves a port of the gateway as the public one is served, or as
// that of the notification service.
func (s *System) serveInside(ctx context.Context, b *frontend, l net.Listener, notifications bool, log *slog.Logger) error {
	var server *web.Server
	if notifications {
		server = web.NewServer(l, web.Pipeline(b.front.notifications(), web.FormatNotifications, log), log)
	} else {
		express := router.NewFastPath(l)
		b.expresses = append(b.expresses, express)
		server = web.NewServer(express, web.Pipeline(b.front, web.FormatV3, log), log)
	}
	b.servers = append(b.servers, server)
	s.later(server.Stop)
	return server.Start(ctx)
}

// passage passes a port of the gateway on to another address, byte by byte.
type passage struct {
	background.Part
	at    netip.AddrPort
	to    endpoint
	owner func(netip.Addr) (string, bool)
	log   *slog.Logger
	l     net.Listener
}

// Start listens.
func (p *passage) Start(ctx context.Context) error {
	return p.Launch(ctx, func(work context.Context, spawn func(func())) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.at.String())
		if err != nil {
			return err
		}
		p.l = connlimit.Listen(l, insideLimits(), p.owner, p.log)
		spawn(func() {
			connlimit.Accept(p.l, p.log, func(c net.Conn) { spawn(func() { p.pass(work, c) }) })
		})
		return nil
	})
}

// Stop ends all connections.
func (p *passage) Stop() { p.Halt(func() { p.l.Close() }) }

func (p *passage) pass(ctx context.Context, c net.Conn) {
	defer c.Close()
	if _, ours := p.owner(connlimit.Address(c.RemoteAddr())); !ours {
		return
	}
	dialer := net.Dialer{Timeout: passTime}
	to, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(p.to.host, p.to.port))
	if err != nil {
		return // the instance sees its connection end
	}
	defer to.Close()
	stop := background.OnDone(ctx, "passage to the platform", func() { c.Close(); to.Close() })
	defer stop()
	var both background.WaitGroup
	for _, pair := range [][2]net.Conn{{c, to}, {to, c}} {
		both.Go("passage to the platform", func() {
			_, err := io.Copy(pair[0], pair[1])
			half, ok := pair[0].(interface{ CloseWrite() error })
			if err != nil || !ok || half.CloseWrite() != nil {
				pair[0].Close()
				pair[1].Close()
			}
		})
	}
	both.Wait()
}

// ourNames knows the names that lead to the platform: its own and those of
// shared domains, which only an administrator creates. A private domain is
// somebody's claim; public name servers decide whether it leads here.
type ourNames struct {
	store platform.Store
	own   []string
	log   *slog.Logger

	kept atomic.Pointer[keptDomains]
}

type keptDomains struct {
	names []string
	read  time.Time
}

// domainsKept is how long the shared domains are remembered.
const domainsKept = 2 * time.Second

func (o *ourNames) has(name string) bool {
	if slices.Contains(o.own, name) {
		return true
	}
	for _, d := range o.shared() {
		if name == d || strings.HasSuffix(name, "."+d) {
			return true
		}
	}
	return false
}

func (o *ourNames) shared() []string {
	kept := o.kept.Load()
	if kept != nil && time.Since(kept.read) < domainsKept {
		return kept.names
	}
	ctx, cancel := context.WithTimeout(context.Background(), domainsKept)
	defer cancel()
	next := &keptDomains{read: time.Now()}
	err := o.store.View(ctx, func(tx platform.Tx) error {
		next.names = nil
		all, _, err := tx.Domains().List(platform.Query{})
		for _, d := range all {
			if d.OrgGUID == "" && !d.Internal {
				next.names = append(next.names, strings.ToLower(d.Name))
			}
		}
		return err
	})
	if err != nil {
		o.log.Warn("the shared domains cannot be read", "error", err)
		if kept == nil {
			return nil
		}
		next.names = kept.names
	}
	o.kept.Store(next)
	return next.names
}
