package system

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// adminNames are the host names by which the admin address is reached, besides
// any address and localhost.
func adminNames(listen, domain string, urls ...string) map[string]bool {
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

// guardAdmin keeps web pages of others away from the admin address, which has no
// login: a page whose own name was made to lead here (DNS rebinding) sends that
// name, and requests from other sites say where they come from.
func guardAdmin(next http.Handler, names map[string]bool, log *slog.Logger) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, ok := hostName(r.Host)
		if _, err := netip.ParseAddr(host); !ok || err != nil && !names[host] {
			web.WriteError(w, r, web.FormatV3, log, fault.New(fault.Forbidden,
				"This address does not answer to the host name '%s'. Use its IP address, localhost, or the name of the machine.", printable(r.Host)))
			return
		}
		if err := protection.Check(r); err != nil || otherSite(r) {
			web.WriteError(w, r, web.FormatV3, log, fault.New(fault.Forbidden, "Requests from pages of other sites are refused here."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// otherSite reports whether a page of another origin made the request, other
// than by a link that was followed.
func otherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		// No browser, or an old one, which at least names the origin when a
		// script wants to read the answer.
		origin := r.Header.Get("Origin")
		u, err := url.Parse(origin)
		return origin != "" && (err != nil || !strings.EqualFold(u.Host, r.Host))
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}
