package web

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"ingot/internal/base/fault"
)

// OperatorNames returns the host names of the operator's listener: localhost, the
// host it listens on, the machine's name, the domain, and the hosts of urls.
func OperatorNames(listen, domain string, urls ...string) map[string]bool {
	names := map[string]bool{"": true, "localhost": true, strings.ToLower(domain): true}
	if host, _, err := net.SplitHostPort(listen); err == nil {
		names[strings.ToLower(host)] = true
	}
	if host, err := os.Hostname(); err == nil {
		names[strings.ToLower(host)] = true
	}
	for _, address := range urls {
		if u, err := url.Parse(address); err == nil {
			names[strings.ToLower(u.Hostname())] = true
		}
	}
	return names
}

// GuardOperator protects the operator's listener, which has no login, against web
// pages of other sites. It refuses requests for other host names (DNS rebinding)
// and requests that a browser sends on behalf of another site. A host name is
// allowed if it is an IP address or in names.
func GuardOperator(next http.Handler, names map[string]bool, log *slog.Logger) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, ok := HostName(r.Host)
		if _, err := netip.ParseAddr(host); !ok || err != nil && !names[host] {
			WriteError(w, r, FormatV3, log, fault.New(fault.Forbidden,
				"This address does not answer to the host name '%s'. Use its IP address, localhost, or the name of the machine.", Printable(r.Host)))
			return
		}
		if err := protection.Check(r); err != nil || otherSite(r) {
			WriteError(w, r, FormatV3, log, fault.New(fault.Forbidden, "Requests from pages of other sites are refused here."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// otherSite reports whether a page of another origin made the request, except by
// a link that the user followed.
func otherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		// Not a browser, or an old one, which at least sends the origin when a
		// script wants to read the response.
		origin := r.Header.Get("Origin")
		u, err := url.Parse(origin)
		return origin != "" && (err != nil || !strings.EqualFold(u.Host, r.Host))
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
