package core

import (
	"cmp"
	"net"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
)

// Address returns the URL at which a browser reaches a route. TCP and internal
// routes are returned unchanged, and so are all routes when the program is called cf,
// for scripts.
func (s *Session) Address(r cfapi.Route) string {
	if s.Env.Program == "cf" || r.Protocol == "tcp" || r.Port != 0 || IsInternal(r.URL) {
		return r.URL
	}
	return s.WebAddress(r)
}

// WebAddress returns the URL of an HTTP route. The router listens at the API's
// address: at the one for other machines if the server has TLS, because the one that
// the client uses on the same machine redirects there.
func (s *Session) WebAddress(r cfapi.Route) string {
	api, err := url.Parse(cmp.Or(s.Config.Links.Public, s.Config.API))
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

// IsInternal reports whether a route is in the domain for traffic between apps.
func IsInternal(route string) bool {
	host, _, _ := strings.Cut(route, "/")
	return strings.HasSuffix(host, ".internal")
}

// IsLoopback reports whether a host name refers to this machine.
func IsLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
