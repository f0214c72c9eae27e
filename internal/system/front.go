package system

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// place is where a request belongs, by its host name.
type place int

const (
	placeApp           place = iota // some app's route
	placeOrigin                     // platform and authorization server together
	placeAuth                       // the authorization server alone
	placeNotifications              // the notification service
	placeLogs                       // the log-cache API and the log stream
)

func (p place) String() string {
	return [...]string{"app", "origin", "auth", "notifications", "logs"}[p]
}

// routes are the route tables. A nil one is not served by this server.
type routes struct {
	origin, auth, notifications, notificationsV2, logs *web.Mux
	// apps serves every other name; without it these names are nobody's.
	apps http.Handler
	// routed reports whether apps knows all routes; nil means that it does.
	routed func() bool
}

func (t *routes) at(p place, r *http.Request) *web.Mux {
	if p == placeNotifications {
		return map[int]*web.Mux{1: t.notifications, 2: t.notificationsV2}[notificationsVersion(r)]
	}
	return [...]*web.Mux{placeApp: nil, placeOrigin: t.origin, placeAuth: t.auth, placeLogs: t.logs}[p]
}

// front is the door of every public listener: it sends each request to the
// route table of its host name. Before the tables are there it knows about
// health only.
type front struct {
	domain string
	log    *slog.Logger
	health *web.Mux
	live   atomic.Pointer[routes]
}

// place finds where a Host header leads. What is not exactly one of ours is an
// app's.
func (f *front) place(hostHeader string) place {
	host, ok := web.HostName(hostHeader)
	if !ok {
		return placeApp
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return placeOrigin
	}
	switch host {
	case "", "localhost", f.domain, "api." + f.domain:
		return placeOrigin
	case "uaa." + f.domain, "login." + f.domain:
		return placeAuth
	case "notifications." + f.domain:
		return placeNotifications
	case "log-cache." + f.domain, "log-stream." + f.domain:
		return placeLogs
	}
	return placeApp
}

// ownNames are the host names that apps never get: those that place knows, those
// that clients of Cloud Foundry derive from the domain, and those by which the
// operator says that the server is reached.
func ownNames(c Config) []string {
	var names []string
	for _, host := range []string{"api", "uaa", "login", "notifications", "log-cache", "log-stream", "doppler", "ssh", "console"} {
		names = append(names, host+"."+c.Domain)
	}
	for _, address := range []string{c.PublicURL, c.NotificationsURL} {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" {
			continue
		}
		host := strings.ToLower(u.Hostname())
		if _, err := netip.ParseAddr(host); err != nil && host != c.Domain && !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	return names
}

// ServeHTTP answers on the listener that has every host name.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.serve(w, r, f.place(r.Host)) }

// notifications answers on a listener that belongs to the notification service,
// whatever the name.
func (f *front) notifications() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, placeNotifications) })
}

func (f *front) serve(w http.ResponseWriter, r *http.Request, p place) {
	live := f.live.Load()
	switch {
	case live != nil && live.at(p, r) != nil:
		live.at(p, r).ServeHTTP(w, r)
	case p == placeApp && (live == nil || live.apps != nil && live.routed != nil && !live.routed()):
		starting(w)
	case live != nil && p == placeApp && live.apps != nil:
		live.apps.ServeHTTP(w, r)
	case live != nil && p == placeNotifications:
		web.WriteError(w, r, formatOf(p, r.URL.Path), f.log, fault.New(fault.UnknownRoute,
			"There is no such version of this API; the header %s may be 1 or 2.", versionHeader))
	case live != nil:
		unknownRoute(w, r)
	case r.URL.Path == "/healthz" || r.URL.Path == "/readyz":
		f.health.ServeHTTP(w, r)
	default:
		web.WriteError(w, r, formatOf(p, r.URL.Path), f.log,
			fault.New(fault.Unavailable, "The server is starting; try again in a moment.").After(time.Second))
	}
}

// formatOf is the form in which a client of that place and path expects errors.
func formatOf(p place, path string) web.Format {
	switch {
	case p == placeNotifications:
		return web.FormatNotifications
	case p == placeAuth:
		return web.FormatOAuth
	}
	for _, prefix := range []string{"/oauth/", "/token_key", "/check_token", "/introspect", "/userinfo", "/login", "/info", "/Users", "/Groups", "/.well-known/"} {
		if strings.HasPrefix(path, prefix) {
			return web.FormatOAuth
		}
	}
	return web.FormatV3
}

// starting answers requests to apps before the routes and the instances that
// run are known: any of them may be there in a moment.
func starting(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Cf-Routererror", "no_endpoints")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Retry-After", "1")
	http.Error(w, "503 Service Unavailable: The server is starting; try again in a moment.", http.StatusServiceUnavailable)
}

// unknownRoute answers like Cloud Foundry's router does for a host that no app
// has.
func unknownRoute(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Cf-Routererror", "unknown_route")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, "404 Not Found: Requested route ('%s') does not exist.\n", web.Printable(r.Host)) //nolint:gosec // plain text, and browsers are told not to guess
}
