package front

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
	"ingot/internal/server/handover"
)

// Target is the part that serves a request, by its host name.
type Target int

// The targets.
const (
	App           Target = iota // the route of an app
	Origin                      // platform and authorization server together
	Auth                        // the authorization server alone
	Notifications               // the notification service
	Logs                        // the log-cache API and the log stream
)

func (p Target) String() string {
	return [...]string{"app", "origin", "auth", "notifications", "logs"}[p]
}

// Routes are the route tables. This server does not serve a nil one.
type Routes struct {
	Origin, Auth, Logs *web.Mux
	Notifications      http.Handler
	// Apps serves all other names; nil means that they are unknown routes.
	Apps http.Handler
	// Routed reports whether Apps knows all routes; nil means that it does.
	Routed func() bool
}

func (t *Routes) at(p Target) *web.Mux {
	return [...]*web.Mux{Origin: t.Origin, Auth: t.Auth, Logs: t.Logs}[p]
}

// Front passes each request to the route table of its host name. Until the tables exist it only
// answers health checks.
type Front struct {
	Domain string
	Log    *slog.Logger
	Health *web.Mux
	// Live are the route tables; nil until they exist.
	Live   atomic.Pointer[Routes]
	Trust  web.Trust
	Public *url.URL // of the server for clients; nil means that none is set
	// Gate is where requests, except those to apps, wait while another process takes over.
	Gate handover.Gate

	warned sync.Once // of a proxy that is not trusted
}

// Pipeline returns what a server of next needs.
func (f *Front) Pipeline(next http.Handler, format web.Format) http.Handler {
	return f.Trust.RequestIDs(web.Pipeline(next, format, f.Log))
}

// The listeners of forwarded requests.
const (
	ListenerAll           = "front"
	ListenerNotifications = "notifications"
)

// Target returns the target of a Host header. Every name that is not the
// platform's is an app's.
func (f *Front) Target(hostHeader string) Target {
	host, ok := web.HostName(hostHeader)
	if !ok {
		return App
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return Origin
	}
	switch host {
	case "", "localhost", f.Domain, "api." + f.Domain, "console." + f.Domain:
		return Origin
	case "uaa." + f.Domain, "login." + f.Domain:
		return Auth
	case "notifications." + f.Domain:
		return Notifications
	case "log-cache." + f.Domain, "log-stream." + f.Domain, "doppler." + f.Domain:
		return Logs
	}
	return App
}

// OwnNames returns the host names that apps cannot have: those that Target knows, those that
// clients of Cloud Foundry derive from the domain, and those of the URLs that the operator has
// set.
func OwnNames(domain string, urls ...string) []string {
	var names []string
	for _, host := range []string{"api", "uaa", "login", "notifications", "log-cache", "log-stream", "doppler", "ssh",
		"console"} {
		names = append(names, host+"."+domain)
	}
	for _, address := range urls {
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" {
			continue
		}
		host := strings.ToLower(u.Hostname())
		if _, err := netip.ParseAddr(host); err != nil && host != domain && !slices.Contains(names, host) {
			names = append(names, host)
		}
	}
	return names
}

// ServeHTTP implements http.Handler for the listener of all host names.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := f.Target(r.Host)
	if p == App {
		f.serve(w, r, p)
		return
	}
	f.pass(w, r, ListenerAll, p)
}

// Notifications returns the handler for the listener of the notification service,
// which serves every host name.
func (f *Front) Notifications() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.pass(w, r, ListenerNotifications, Notifications)
	})
}

// pass serves a request behind the gate.
func (f *Front) pass(w http.ResponseWriter, r *http.Request, listener string, p Target) {
	if f.Gate.IsShut() && isHealth(r) {
		// Apps are served, and the next process is about to serve the rest.
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"status":"ok"}`)
		return
	}
	f.Gate.Serve(w, r, listener, func() { f.serve(w, r, p) })
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request, p Target) {
	// The router knows more about requests to apps, and does it itself.
	if p != App && f.Trust.DropForwarded(r) {
		f.warned.Do(func() {
			f.Log.Warn("a proxy that is not trusted says for whom it forwards requests: this is ignored, and limits treat all "+
				"its clients as one address; if the proxy is yours, set --trusted-proxies",
				"address", r.RemoteAddr)
		})
	}
	if p != App && f.Public != nil && r.Header.Get("X-Forwarded-Proto") == "" && strings.EqualFold(r.Host, f.Public.Host) {
		r.Header.Set("X-Forwarded-Proto", f.Public.Scheme) // the operator says how clients reach this host
	}
	live := f.Live.Load()
	switch {
	case live != nil && p == Notifications:
		live.Notifications.ServeHTTP(w, r)
	case live != nil && live.at(p) != nil:
		live.at(p).ServeHTTP(w, r)
	case p == App && (live == nil || live.Apps != nil && live.Routed != nil && !live.Routed()):
		starting(w)
	case live != nil && p == App && live.Apps != nil:
		live.Apps.ServeHTTP(w, r)
	case live != nil:
		unknownRoute(w, r)
	case isHealth(r):
		f.Health.ServeHTTP(w, r)
	default:
		web.WriteError(w, r, formatOf(p, r.URL.Path), f.Log,
			fault.New(fault.Unavailable, "The server is starting; try again in a moment.").After(time.Second))
	}
}

// formatOf returns the format of errors for a target and path.
func formatOf(p Target, path string) web.Format {
	switch {
	case p == Notifications:
		return web.FormatNotifications
	case p == Auth:
		return web.FormatOAuth
	}
	for _, prefix := range []string{"/oauth/", "/token_key", "/check_token", "/introspect", "/userinfo", "/login", "/info",
		"/Users", "/Groups", "/.well-known/"} {
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
	fmt.Fprintf(w, //nolint:gosec // plain text, and browsers are told not to guess
		"404 Not Found: Requested route ('%s') does not exist.\n", web.Printable(r.Host))
}
