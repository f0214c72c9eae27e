package cli

import (
	"cmp"
	"net"
	"net/url"
	"strings"

	"ingot/internal/cli/client"
)

// address returns the URL at which a browser reaches a route. TCP and internal
// routes are returned unchanged, and so are all routes when the program is called cf,
// for scripts.
func (s *session) address(r client.Route) string {
	if s.w.Program == "cf" || r.Protocol == "tcp" || r.Port != 0 || isInternal(r.URL) {
		return r.URL
	}
	return s.webAddress(r)
}

// webAddress returns the URL of an HTTP route. The router listens at the API's
// address: at the one for other machines if the server has TLS, because the one that
// the client uses on the same machine redirects there.
func (s *session) webAddress(r client.Route) string {
	api, err := url.Parse(cmp.Or(s.cfg.Links.Public, s.cfg.API))
	if err != nil || api.Scheme == "" {
		return r.URL
	}
	host, path, _ := strings.Cut(r.URL, "/")
	if port := api.Port(); port != "" {
		host += ":" + port
	}
	if path != "" {
		path = "/" + path
	}
	return api.Scheme + "://" + host + path
}

// isInternal reports whether a route is in the domain for traffic between apps.
func isInternal(route string) bool {
	host, _, _ := strings.Cut(route, "/")
	return strings.HasSuffix(host, ".internal")
}

// isLoopback reports whether a host name refers to this machine.
func isLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
