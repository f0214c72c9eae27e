package front

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"ingot/internal/base/web"
	"ingot/internal/server/acme"
	"ingot/internal/server/certs"
)

// TLS is what clients of the listeners with and without TLS get.
type TLS struct {
	// Address is the TLS listener's.
	Address net.Addr
	// Files are certificates in files; nil if there are none. ACME orders others; nil means none.
	Files *certs.Files
	ACME  atomic.Pointer[acme.Manager]
	// HSTS is the Strict-Transport-Security header; empty means none.
	HSTS      string
	PublicURL string
	// Redirects means that clients without TLS are redirected, except those of instances.
	Redirects    bool
	FromInstance func(*http.Request) bool
	// HasRoute reports whether a host has a route.
	HasRoute func(host string) bool
}

// Certificate selects the certificate for a client.
func (t *TLS) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if t.Files != nil && !slices.Contains(hello.SupportedProtos, acme.ChallengeProtocol) {
		if cert := t.Files.Get(hello); cert != nil {
			return cert, nil
		}
	}
	if m := t.ACME.Load(); m != nil {
		return m.Certificate(hello)
	}
	if t.Files != nil {
		return t.Files.First(), nil
	}
	return nil, nil //nolint:nilnil // the client is told that its name is not known here
}

// HTTPS serves the requests of connections with TLS.
func (t *TLS) HTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.HSTS != "" {
			w.Header().Set("Strict-Transport-Security", t.HSTS)
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
	http.Error(w, fmt.Sprintf("421 Misdirected Request: The TLS connection is for %s and the request for '%s'. Open "+
		"another connection for it.",
		name, web.Printable(r.Host)), http.StatusMisdirectedRequest)
}

// Plain serves the requests of connections without TLS: it redirects clients.
func (t *TLS) Plain(f *Front, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := t.ACME.Load(); m != nil && m.ServeChallenge(w, r) {
			return
		}
		switch host, ok := web.HostName(r.Host); {
		case !ok || !t.Redirects || f.Trust.ForwardsTLS(r) || t.FromInstance(r) || isAddress(host) &&
			(fromHere(r) || isHealth(r)) || !(isAddress(host) || f.Target(host) != App || t.HasRoute(host)):
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Cache-Control", "no-cache, no-store")
			http.Redirect(w, r, t.redirectTo(host)+r.URL.RequestURI(), //nolint:gosec // this server serves the host
				http.StatusPermanentRedirect)
		}
	})
}

// redirectTo returns where a host is served with TLS. No certificate has an address.
func (t *TLS) redirectTo(host string) string {
	public, err := url.Parse(t.PublicURL)
	if err != nil || isAddress(host) && public.Scheme == "https" {
		return t.PublicURL
	}
	port := ""
	if tcp, ok := t.Address.(*net.TCPAddr); ok {
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
