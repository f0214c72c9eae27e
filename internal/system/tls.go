package system

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/platform/edge/router"
	"ingot/internal/server/acme"
	"ingot/internal/server/certs"
	"ingot/internal/server/front"
	"ingot/internal/server/report"
)

// secure is the part of the frontend that terminates TLS.
type secure struct {
	front.TLS
	listener net.Listener
	fastPath *router.FastPath
	tls      router.TLS
}

// openSecure reads the certificates and starts the listener for TLS, if there is one.
func (s *System) openSecure(ctx context.Context, b *frontend, l net.Listener) (*web.Server, error) {
	c := s.config
	t := &secure{listener: l, TLS: front.TLS{
		Address: l.Addr(), HSTS: c.HSTS, PublicURL: c.PublicURL, Redirects: c.redirects(), FromInstance: b.fromInstance,
		HasRoute: b.hasRoute,
	}}
	config := certs.Config(t.Certificate)
	if c.acme() {
		config.NextProtos = append(config.NextProtos, acme.ChallengeProtocol)
	}
	if pairs := c.pairs(); len(pairs) > 0 {
		var err error
		if t.Files, err = certs.OpenFiles(pairs, c.Log); err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		if err := s.steps.Run(ctx, t.Files.Watching()); err != nil {
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
	return web.NewServer(t.fastPath, b.front.Pipeline(t.HTTPS(b.front), web.FormatV3), c.Log), nil
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

// hasRoute reports whether a host has a route, or may have one that is not known yet.
func (b *frontend) hasRoute(host string) bool {
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

// inUse returns the certificates that clients get.
func (t *secure) inUse() []report.Certificate {
	var files []*x509.Certificate
	if t != nil && t.Files != nil {
		files = t.Files.Leaves()
	}
	var ordered map[string]time.Time
	if t != nil {
		if m := t.ACME.Load(); m != nil {
			ordered = m.Expiries()
		}
	}
	return report.CertificatesOf(files, ordered)
}
