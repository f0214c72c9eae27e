package system

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/safedial"
	"ingot/internal/base/uaaclient"
	"ingot/internal/base/web"
	"ingot/internal/platform/api/ratelimit"
	"ingot/internal/server/proxyheader"
	"ingot/internal/server/roots"
)

// EdgeConfig says which connections and requests the server accepts, and how many.
type EdgeConfig struct {
	// TrustedProxies are the proxies in front of the server, as a list of
	// addresses and networks. Their X-Forwarded-* headers and request ids are believed.
	TrustedProxies string
	// ProxyProtocolFrom are the load balancers, as a list of addresses and networks, whose
	// connections begin with a PROXY header.
	ProxyProtocolFrom string
	LoginLimits       auth.LimitTexts
	APILimits         APILimits
}

// APILimits are the limits of requests to the API.
type APILimits = ratelimit.Limits

func (c EdgeConfig) checks() []check {
	checks := []check{
		{"trusted-proxies", checkProxies(c.TrustedProxies)},
		{"proxy-protocol-from", checkProxies(c.ProxyProtocolFrom)},
		{"api-rate-limit", notNegative(int64(c.APILimits.General))},
		{"api-rate-limit-unauthenticated", notNegative(int64(c.APILimits.Unauthenticated))},
		{"api-rate-limit-interval", checkInterval(c.APILimits.Interval)},
		{"broker-requests", notNegative(int64(c.APILimits.BrokerRequests))},
	}
	if _, flag, err := c.LoginLimits.Parse(); err != nil {
		checks = append(checks, check{flag, err})
	}
	return checks
}

func checkInterval(d time.Duration) error {
	if d != 0 && d < time.Second {
		return fmt.Errorf("%s is less than a second", d)
	}
	return nil
}

// shortestAdminToken is the minimum length of the token of the admin address.
const shortestAdminToken = 16

// checkAdmin checks the token of the admin address, as far as the address tells without
// listening on it.
func checkAdmin(listen, token string) error {
	if token != "" && len(token) < shortestAdminToken {
		return fmt.Errorf("the token has %d characters, at least %d are needed", len(token), shortestAdminToken)
	}
	if strings.ContainsAny(token, " \t\r\n") {
		return errors.New("the token must not contain spaces or line breaks")
	}
	host, _, _ := net.SplitHostPort(listen) // another check reports what is no address
	if ip, err := netip.ParseAddr(host); token == "" && (err == nil && !ip.IsLoopback() || listen != "" && host == "" &&
		strings.HasPrefix(listen, ":")) {
		return errAdminOpen(listen)
	}
	return nil
}

func errAdminOpen(listen string) error {
	return fmt.Errorf("%s is not a loopback address, so other machines can read metrics, profiles and mail: set a token "+
		"with --admin-token-file or INGOT_ADMIN_TOKEN, or listen on 127.0.0.1", listen)
}

// proxies returns TrustedProxies, which Validate has checked.
func (c EdgeConfig) proxies() web.Proxies {
	p, _ := web.ParseProxies(c.TrustedProxies)
	return p
}

// trust returns which connections may say for whom they forward requests.
func (s *System) trust() web.Trust {
	return web.Trust{Proxies: s.config.proxies(), Own: s.calls.Has}
}

// guardFront sets whom the frontend believes, and reads PROXY headers on the ports of
// clients.
func (s *System) guardFront(b *frontend, ports *listeners) {
	b.proxied, b.front.Trust = s.proxied(b), s.trust()
	if s.config.PublicURL != "" {
		b.front.Public, _ = url.Parse(s.config.PublicURL) // Validate has checked it
	}
	for _, l := range []*net.Listener{&ports.public, &ports.tls, &ports.notifications, &ports.ssh} {
		if *l != nil {
			*l = b.proxied(*l)
		}
	}
}

// proxied returns what reads the PROXY headers of a listener: below TLS, and below the
// limits of connections by address.
func (s *System) proxied(b *frontend) func(net.Listener) net.Listener {
	from, _ := web.ParseProxies(s.config.ProxyProtocolFrom)
	if len(from) == 0 {
		return func(l net.Listener) net.Listener { return l }
	}
	return func(l net.Listener) net.Listener {
		return proxyheader.Listen(l, proxyheader.Options{
			From: func(a netip.Addr) bool {
				if owner := b.owner.Load(); owner != nil {
					if _, instance := (*owner)(a); instance {
						return false
					}
				}
				return from.Has(a)
			},
			Optional: safedial.Own, // the server calls itself
			Log:      s.config.Log,
		})
	}
}

// limiter returns what limits requests to the API; nil means nothing.
func (s *System) limiter(servers func() int) web.Limiter {
	l := ratelimit.New(ratelimit.Options{
		Limits: s.config.APILimits, BrokerTimeout: s.config.BrokerTimeout, Servers: servers, Proxies: s.config.proxies(),
	})
	if l == nil {
		return nil
	}
	return l
}

// outgoing returns the certificate authorities that outgoing connections trust, and a
// client that uses them.
func (s *server) outgoing(c MailConfig) (*roots.Roots, *http.Client, error) {
	trusted, err := c.roots()
	if err != nil {
		return nil, nil, err
	}
	client := uaaclient.NewHTTPClient(trusted.TLS())
	s.steps.Later(client.CloseIdleConnections)
	return trusted, client, nil
}

func checkRoots(file string) error {
	_, err := roots.Load(file)
	return err
}

// gitRoots writes the certificate authorities that git trusts to a file, and returns its
// name; "" means those of the system.
func gitRoots(dir string, trusted *roots.Roots) (string, error) {
	all := trusted.Bundle()
	if all == nil {
		return "", nil
	}
	file := filepath.Join(dir, "trusted-ca.pem")
	return file, os.WriteFile(file, all, 0o644) //nolint:gosec // certificates are public
}

// roots returns the certificate authorities that outgoing connections trust.
func (c MailConfig) roots() (*roots.Roots, error) {
	r, err := roots.Load(c.TrustedCA)
	if err != nil {
		return nil, fmt.Errorf("--trusted-ca: %w", err)
	}
	return r, nil
}
