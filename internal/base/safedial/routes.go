package safedial

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Routes are the routes of apps of this server. Requests to them do not use
// DNS, which users may control, but are sent directly to the server.
type Routes struct {
	// Has reports whether a host and path are routed to an app of this server.
	Has func(host, path string) bool
	// At is the address at which the server serves them, host:port, without
	// TLS.
	At string
	// Calls, if set, gets the connections to At, so that the server knows its own.
	Calls *OwnCalls
}

// has is false for the zero value.
func (r Routes) has(u *url.URL) bool { return r.Has != nil && r.Has(u.Host, u.EscapedPath()) }

// Transport returns a transport that allows requests to addresses that the
// guard permits, and to routes of this server. base is copied; its dialer is
// replaced.
func Transport(base *http.Transport, g Guard, r Routes, dialTimeout time.Duration) http.RoundTripper {
	guarded := base.Clone()
	guarded.DialContext = (&net.Dialer{Timeout: dialTimeout, Control: g.Control}).DialContext
	guarded.Proxy = nil
	own := base.Clone()
	own.Proxy = nil
	own.DialContext = r.Calls.dialer((&net.Dialer{Timeout: dialTimeout}).DialContext)
	return &transport{guarded, own, r}
}

type transport struct {
	guarded, own *http.Transport
	routes       Routes
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.routes.has(req.URL) {
		return t.guarded.RoundTrip(req)
	}
	here := req.Clone(req.Context())
	here.Host = cmp.Or(here.Host, req.URL.Host)
	here.Header.Set("X-Forwarded-Proto", req.URL.Scheme)
	here.URL.Scheme, here.URL.Host = "http", t.routes.At
	return t.own.RoundTrip(here)
}

// CloseIdleConnections closes idle connections.
func (t *transport) CloseIdleConnections() {
	t.guarded.CloseIdleConnections()
	t.own.CloseIdleConnections()
}

// Check returns an error if a URL would be refused, as far as that is known
// without a connection: its host is an address that the guard refuses, or a
// name that resolves only to such addresses. A name that cannot be resolved now
// is accepted; the guard checks it when it is used.
func Check(g Guard, r Routes, u *url.URL, lookup func(host string) ([]netip.Addr, error)) error {
	if r.has(u) {
		return nil
	}
	addresses := []netip.Addr{}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		addresses = append(addresses, a)
	} else if addresses, err = lookup(u.Hostname()); err != nil || len(addresses) == 0 {
		return nil //nolint:nilerr // see above
	}
	for _, a := range addresses {
		if g.Permits(a) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", u.Hostname(), ErrPrivate)
}

// Refused reports whether a request failed because of a guard.
func Refused(err error) bool { return errors.Is(err, ErrPrivate) }
