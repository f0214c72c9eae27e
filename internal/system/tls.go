package system

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"ingot/internal/base/web"
	"ingot/internal/platform/edge/router"
	"ingot/internal/server/acme"
	"ingot/internal/server/certs"
)

// secure is the part of the frontend that terminates TLS.
type secure struct {
	config   Config
	listener net.Listener
	fastPath *router.FastPath
	tls      router.TLS
	files    *certs.Files // nil if there are none
	acme     atomic.Pointer[acme.Manager]
}

// openSecure reads the certificates and starts the listener for TLS, if there is one.
func (s *System) openSecure(ctx context.Context, b *frontend, l net.Listener) (*web.Server, error) {
	c := s.config
	t := &secure{config: c, listener: l}
	config := certs.Config(t.certificate)
	if c.acme() {
		config.NextProtos = append(config.NextProtos, acme.ChallengeProtocol)
	}
	if pairs := c.pairs(); len(pairs) > 0 {
		var err error
		if t.files, err = certs.OpenFiles(pairs, c.Log); err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		if err := s.steps.Run(ctx, t.files.Watching()); err != nil {
			return nil, err
		}
	}
	if c.ClientCA != "" {
		var err error
		if config.ClientCAs, err = certs.Pool(c.ClientCA); err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	t.tls = router.TLS{Config: config, HSTS: c.HSTS}
	t.fastPath = router.NewTLSFastPath(b.limited(l, c.Log), t.tls)
	b.secure = t
	return web.NewServer(t.fastPath, b.front.pipeline(t.https(b.front), web.FormatV3), c.Log), nil
}

// certificate selects the certificate for a client.
func (t *secure) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if t.files != nil && !slices.Contains(hello.SupportedProtos, acme.ChallengeProtocol) {
		if cert := t.files.Get(hello); cert != nil {
			return cert, nil
		}
	}
	if m := t.acme.Load(); m != nil {
		return m.Certificate(hello)
	}
	if t.files != nil {
		return t.files.First(), nil
	}
	return nil, nil //nolint:nilnil // the client is told that its name is not known here
}

// https serves the requests of connections with TLS.
func (t *secure) https(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.config.HSTS != "" {
			w.Header().Set("Strict-Transport-Security", t.config.HSTS)
		}
		switch {
		case r.TLS == nil: // HTTP/2 without negotiation
			http.Error(w, "400 Bad Request: HTTP/2 was not negotiated for this TLS connection (ALPN).", http.StatusBadRequest)
		case !sameName(r.TLS.ServerName, r.Host):
			misdirected(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sameName reports whether a request is for the name that its connection was opened for.
// Clients that connect to an address send none.
func sameName(serverName, hostHeader string) bool {
	host, ok := web.HostName(hostHeader)
	if !ok {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return serverName == ""
	}
	name, _ := web.HostName(serverName)
	return name == host
}

func misdirected(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache, no-store")
	name := "no name"
	if r.TLS.ServerName != "" {
		name = "'" + web.Printable(r.TLS.ServerName) + "'"
	}
	http.Error(w, fmt.Sprintf("421 Misdirected Request: The TLS connection is for %s and the request for '%s'. Open another connection for it.",
		name, web.Printable(r.Host)), http.StatusMisdirectedRequest)
}

// plain serves the requests of connections without TLS: it redirects clients.
func (t *secure) plain(b *frontend, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := t.acme.Load(); m != nil && m.ServeChallenge(w, r) {
			return
		}
		switch host, ok := web.HostName(r.Host); {
		case !ok || !t.config.redirects() || b.front.trust.ForwardsTLS(r) || b.fromInstance(r) || isAddress(host) && (fromHere(r) || isHealth(r)) || !b.serves(host):
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Cache-Control", "no-cache, no-store")
			http.Redirect(w, r, t.redirectTo(host)+r.URL.RequestURI(), http.StatusPermanentRedirect) //nolint:gosec // this server serves the host
		}
	})
}

// redirectTo returns where a host is served with TLS. No certificate has an address.
func (t *secure) redirectTo(host string) string {
	public, err := url.Parse(t.config.PublicURL)
	if err != nil || isAddress(host) && public.Scheme == "https" {
		return t.config.PublicURL
	}
	port := ""
	if tcp, ok := t.listener.Addr().(*net.TCPAddr); ok {
		port = fmt.Sprintf(":%d", tcp.Port)
	}
	if public.Scheme == "https" {
		port = strings.TrimPrefix(public.Host, public.Hostname())
		if strings.HasPrefix(public.Host, "[") {
			port = ":" + public.Port()
		}
	}
	return "https://" + host + strings.TrimSuffix(port, ":443")
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || host == ""
}

func isHealth(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// fromHere reports whether a request comes from this machine.
func fromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if from.Addr().Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == from.Addr().Unmap()
}

// fromInstance reports whether a request comes from an instance of an app.
func (b *frontend) fromInstance(r *http.Request) bool {
	owner := b.owner.Load()
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if owner == nil || err != nil {
		return false
	}
	_, ok := (*owner)(from.Addr().Unmap())
	return ok
}

// serves reports whether a host name belongs to the server or has a route.
func (b *frontend) serves(host string) bool {
	if isAddress(host) || b.front.target(host) != targetApp {
		return true
	}
	hosts := b.hosts.Load()
	return hosts == nil || (*hosts)(host)
}

// openInner opens a port of this machine for requests of the server to apps: the public
// one redirects them.
func (s *System) openInner(ctx context.Context, b *frontend, log *slog.Logger) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), s.serveInside(ctx, b, l, portPublic, log)
}
