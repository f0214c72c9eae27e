package cli

import (
	"net/url"
	"strings"

	"ingot/internal/cli/client"
)

// address returns the URL at which a browser reaches a route: the router listens
// at the API's address. TCP and internal routes are returned unchanged, and so
// are all routes when the program is called cf, for scripts.
func (s *session) address(r client.Route) string {
	if s.w.Program == "cf" || r.Protocol == "tcp" || r.Port != 0 || isInternal(r.URL) {
		return r.URL
	}
	api, err := url.Parse(s.cfg.API)
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
