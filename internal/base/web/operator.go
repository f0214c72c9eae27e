package web

import (
	"crypto/sha256"
	"crypto/subtle"
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

// GuardOperator protects the operator's listener.
//
// With a token, requests need it, as a bearer token or as the password of HTTP basic
// authentication; those without get only the health checks of open.
//
// Without a token there is no login. Against web pages of other sites, it refuses requests
// for other host names (DNS rebinding). A host name is
// allowed if it is an IP address or in names.
//
// In both cases it refuses requests that a browser sends on behalf of another site.
func GuardOperator(next, open http.Handler, names map[string]bool, token string, log *slog.Logger) http.Handler {
	protection := http.NewCrossOriginProtection()
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && !hasToken(r, want) {
			if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
				open.ServeHTTP(w, r)
				return
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="ingot admin"`)
			http.Error(w, "The admin address needs the token of --admin-token-file or INGOT_ADMIN_TOKEN: send 'Authorization: "+
				"Bearer TOKEN', or the token as the password of basic authentication.", http.StatusUnauthorized)
			return
		}
		host, ok := HostName(r.Host)
		if _, err := netip.ParseAddr(host); token == "" && (!ok || err != nil && !names[host]) {
			WriteError(w, r, FormatV3, log, fault.New(fault.Forbidden,
				"This address does not answer to the host name '%s'. Use its IP address, localhost, or the name of the machine.",
				Printable(r.Host)))
			return
		}
		if err := protection.Check(r); err != nil || otherSite(r) {
			WriteError(w, r, FormatV3, log, fault.New(fault.Forbidden, "Requests from pages of other sites are refused here."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hasToken reports whether a request has the token with this hash. Hashes are compared,
// so that the time tells nothing about the token, nor about its length.
func hasToken(r *http.Request, want [sha256.Size]byte) bool {
	given, ok := BearerToken(r)
	if !ok {
		_, given, ok = r.BasicAuth()
	}
	got := sha256.Sum256([]byte(given))
	return ok && subtle.ConstantTimeCompare(got[:], want[:]) == 1
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
