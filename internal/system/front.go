package system

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify/httpext"
	"ingot/internal/server/handover"
)

// target is the part that serves a request, by its host name.
type target int

const (
	targetApp           target = iota // the route of an app
	targetOrigin                      // platform and authorization server together
	targetAuth                        // the authorization server alone
	targetNotifications               // the notification service
	targetLogs                        // the log-cache API and the log stream
)

func (p target) String() string {
	return [...]string{"app", "origin", "auth", "notifications", "logs"}[p]
}

// routes are the route tables. This server does not serve a nil one.
type routes struct {
	origin, auth, logs *web.Mux
	notifications      *httpext.Versions
	// apps serves all other names; nil means that they are unknown routes.
	apps http.Handler
	// routed reports whether apps knows all routes; nil means that it does.
	routed func() bool
}

func (t *routes) at(p target) *web.Mux {
	return [...]*web.Mux{targetOrigin: t.origin, targetAuth: t.auth, targetLogs: t.logs}[p]
}

// front is the handler of every public listener: it passes each request to the
// route table of its host name. Until the tables exist it only answers health
// checks.
type front struct {
	domain string
	log    *slog.Logger
	health *web.Mux
	live   atomic.Pointer[routes]
	trust  web.Trust
	public *url.URL  // PublicURL; nil means that none is set
	warned sync.Once // of a proxy that is not trusted
	// gate is where requests, except those to apps, wait while another process takes over.
	gate handover.Gate
}

// pipeline returns what a server of next needs.
func (f *front) pipeline(next http.Handler, format web.Format) http.Handler {
	return f.trust.RequestIDs(web.Pipeline(next, format, f.log))
}

// The listeners of forwarded requests.
const (
	listenerFront         = "front"
	listenerNotifications = "notifications"
)

// target returns the target of a Host header. Every name that is not the
// platform's is an app's.
func (f *front) target(hostHeader string) target {
	host, ok := web.HostName(hostHeader)
	if !ok {
		return targetApp
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return targetOrigin
	}
	switch host {
	case "", "localhost", f.domain, "api." + f.domain, "console." + f.domain:
		return targetOrigin
	case "uaa." + f.domain, "login." + f.domain:
		return targetAuth
	case "notifications." + f.domain:
		return targetNotifications
	case "log-cache." + f.domain, "log-stream." + f.domain, "doppler." + f.domain:
		return targetLogs
	}
	return targetApp
}

// ownNames returns the host names that apps cannot have: those that target knows,
// those that clients of Cloud Foundry derive from the domain, and those of the
// URLs that the operator has set.
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

// ServeHTTP implements http.Handler for the listener of all host names.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := f.target(r.Host)
	if p == targetApp {
		f.serve(w, r, p)
		return
	}
	f.pass(w, r, listenerFront, p)
}

// notifications returns the handler for the listener of the notification service,
// which serves every host name.
func (f *front) notifications() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.pass(w, r, listenerNotifications, targetNotifications)
	})
}

// pass serves a request behind the gate.
func (f *front) pass(w http.ResponseWriter, r *http.Request, listener string, p target) {
	if f.gate.IsShut() && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
		// Apps are served, and the next process is about to serve the rest.
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"status":"ok"}`)
		return
	}
	f.gate.Serve(w, r, listener, func() { f.serve(w, r, p) })
}

func (f *front) serve(w http.ResponseWriter, r *http.Request, p target) {
	// The router knows more about requests to apps, and does it itself.
	if p != targetApp && f.trust.DropForwarded(r) {
		f.warned.Do(func() {
			f.log.Warn("a proxy that is not trusted says for whom it forwards requests: this is ignored, and limits treat all its clients as one address; if the proxy is yours, set --trusted-proxies",
				"address", r.RemoteAddr)
		})
	}
	if p != targetApp && f.public != nil && r.Header.Get("X-Forwarded-Proto") == "" && strings.EqualFold(r.Host, f.public.Host) {
		r.Header.Set("X-Forwarded-Proto", f.public.Scheme) // the operator says how clients reach this host
	}
	live := f.live.Load()
	switch {
	case live != nil && p == targetNotifications:
		live.notifications.ServeHTTP(w, r)
	case live != nil && live.at(p) != nil:
		live.at(p).ServeHTTP(w, r)
	case p == targetApp && (live == nil || live.apps != nil && live.routed != nil && !live.routed()):
		starting(w)
	case live != nil && p == targetApp && live.apps != nil:
		live.apps.ServeHTTP(w, r)
	case live != nil:
		unknownRoute(w, r)
	case r.URL.Path == "/healthz" || r.URL.Path == "/readyz":
		f.health.ServeHTTP(w, r)
	default:
		web.WriteError(w, r, formatOf(p, r.URL.Path), f.log,
			fault.New(fault.Unavailable, "The server is starting; try again in a moment.").After(time.Second))
	}
}

// formatOf returns the format of errors for a target and path.
func formatOf(p target, path string) web.Format {
	switch {
	case p == targetNotifications:
		return web.FormatNotifications
	case p == targetAuth:
		return web.FormatOAuth
	}
	for _, prefix := range []string{"/oauth/", "/token_key", "/check_token", "/introspect", "/userinfo", "/login", "/info", "/Users", "/Groups", "/.well-known/"} {
		if strings.HasPrefix(path, prefix) {
			return web.FormatOAuth
		}
	}
	return web.FormatV3
}

// starting answers requests to apps until the routes and the running instances
// are known.
func starting(w http.ResponseWriter) {
	h := w.Header()
	h.Set("X-Cf-Routererror", "no_endpoints")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Retry-After", "1")
	http.Error(w, "503 Service Unavailable: The server is starting; try again in a moment.", http.StatusServiceUnavailable)
}

// unknownRoute answers like Cloud Foundry's router for a host without an app.
func unknownRoute(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Cf-Routererror", "unknown_route")
	h.Set("Cache-Control", "no-cache, no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, "404 Not Found: Requested route ('%s') does not exist.\n", web.Printable(r.Host)) //nolint:gosec // plain text, and browsers are told not to guess
}
