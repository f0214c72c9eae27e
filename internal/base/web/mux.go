package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/tracing"
)

// Handler handles a request, or returns the error to respond with. It must not
// return an error after it started to write.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Route is an entry of the route table.
type Route struct {
	Method  string
	Pattern string
	// Decision is what decides: "public", "own" (the handler, without a bearer
	// token) or "token".
	Decision string
	Scopes   []string // of which a token needs one
	Reason   string   // given at registration
}

// Limits are the limits of a request.
type Limits struct {
	Body  int64         // bytes of the request body
	Read  time.Duration // until the body has arrived
	Write time.Duration // until the answer is written; 0 means no limit
}

// DefaultLimits are for JSON requests.
var DefaultLimits = Limits{Body: 1 << 20, Read: 30 * time.Second, Write: 60 * time.Second}

// Mux is the route table of one host name.
type Mux struct {
	chi     chi.Router
	log     *slog.Logger
	metrics *Metrics
	routes  []Route
	strict  bool // a path with a trailing slash is another one
	// Room, if set, is called before a request to a route of Group.Storing is
	// handled; its error is the response. It must be set before the first
	// request.
	Room func() error
}

// NewMux returns an empty table. Requests that match no route are answered in
// the given error format.
func NewMux(f Format, log *slog.Logger, metrics *Metrics) *Mux {
	m := &Mux{chi: chi.NewRouter(), log: log, metrics: metrics, strict: f == FormatNotifications ||
		f == FormatNotificationsV2}
	m.chi.NotFound(func(w http.ResponseWriter, r *http.Request) {
		WriteError(w, r, f, log, fault.New(fault.UnknownRoute, "Unknown request"))
	})
	m.chi.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		WriteError(w, r, f, log, fault.New(fault.MethodNotAllowed, "%s is not possible here", r.Method))
	})
	return m
}

// ServeHTTP handles a request with the matching route. A trailing slash is
// ignored, as in Cloud Controller and UAA but not in the notification service,
// unless a route has it.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.chi.ServeHTTP(w, m.withoutSlash(r))
}

// withoutSlash returns r, routed by its path without trailing slashes when no
// route has them. Handlers see the original path.
func (m *Mux) withoutSlash(r *http.Request) *http.Request {
	path := cmp.Or(r.URL.RawPath, r.URL.Path)
	short := strings.TrimRight(path, "/")
	if m.strict || short == path || short == "" {
		return r
	}
	find := func(path string) string { return m.chi.Find(chi.NewRouteContext(), r.Method, path) }
	// A route for all the rest of a prefix does not count as having the slash.
	if found := find(path); found != "" && (!isRest(found) || isRest(find(short))) {
		return r
	}
	route := chi.NewRouteContext()
	route.Routes, route.RoutePath = m.chi, short
	return r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, route))
}

func isRest(pattern string) bool { return pattern == "" || strings.HasSuffix(pattern, "/*") }

// Inner returns a handler for requests that other handlers of this server make. They are
// routed from the beginning, although they carry the context of the request that caused them.
func Inner(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, (*chi.Context)(nil))))
	})
}

// Routes returns the whole table, for tests and documentation.
func (m *Mux) Routes() []Route { return m.routes }

// Group returns a view of the table for one API: its error format, its token
// verifier and its name in metrics.
func (m *Mux) Group(name string, f Format, v *token.Verifier) *Group {
	return &Group{mux: m, name: name, format: f, verifier: v, limits: DefaultLimits}
}

// Group registers the routes of one API.
type Group struct {
	mux      *Mux
	name     string
	format   Format
	verifier *token.Verifier
	limits   Limits
	headers  map[string]string
	storing  bool
	refuse   func(*http.Request) error
	limiter  Limiter
}

// Limiter limits how many requests a caller may make.
type Limiter interface {
	// Enter is called before a request is handled, with the claims of its token; nil
	// means that it has no valid one. It may set headers of the response. Its error is
	// the response; otherwise leave, if not nil, is called when the request has been
	// handled.
	Enter(h http.Header, r *http.Request, claims *token.Claims) (leave func(), err error)
}

// Limited returns a Group whose requests l limits; nil means no limit.
func (g *Group) Limited(l Limiter) *Group {
	c := *g
	c.limiter = l
	return &c
}

// WithHeaders returns a Group whose responses, including errors, have these
// headers.
func (g *Group) WithHeaders(headers map[string]string) *Group {
	c := *g
	c.headers = headers
	return &c
}

// Storing returns a Group for routes that store much data: their requests are
// rejected while disk space is low, see Mux.Room.
func (g *Group) Storing() *Group {
	c := *g
	c.storing = true
	return &c
}

// Within returns a Group with other limits.
func (g *Group) Within(l Limits) *Group {
	c := *g
	c.limits = l
	return &c
}

// Handle registers a route with its authorization decision. A GET route also
// answers HEAD.
func (g *Group) Handle(method, pattern string, access Access, h Handler) {
	if access.kind == refuse {
		panic("web: " + method + " " + pattern + " has no authorization decision")
	}
	g.mux.routes = append(g.mux.routes, Route{
		Method: method, Pattern: pattern, Decision: [...]string{"refuse", "public", "own", "token"}[access.kind],
		Scopes: access.scopes, Reason: access.reason,
	})
	handle := func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		r, span := g.mux.metrics.trace(r, g.name, pattern)
		defer func() { endTrace(span, ww.Status()) }()
		g.serve(ww, r, access, h)
		g.mux.metrics.observe(g.name, r.Method, pattern, ww.Status(), time.Since(started))
	}
	g.mux.chi.MethodFunc(method, pattern, handle)
	if method == http.MethodGet {
		g.mux.chi.MethodFunc(http.MethodHead, pattern, func(w http.ResponseWriter, r *http.Request) {
			head, r := newHead(w, r)
			defer head.done()
			handle(head, r)
		})
	}
}

// Refusing returns a Group that rejects requests for which refuse returns an error, with
// that error, regardless of the sender: what a web server in front would not let through.
func (g *Group) Refusing(refuse func(*http.Request) error) *Group {
	c := *g
	c.refuse = refuse
	return &c
}

func (g *Group) serve(w http.ResponseWriter, r *http.Request, access Access, h Handler) {
	g.limit(w, r)
	for name, value := range g.headers {
		w.Header().Set(name, value)
	}
	allowed, err := access.decide(r, g.verifier)
	if g.refuse != nil {
		if refused := g.refuse(r); refused != nil {
			err = refused
		}
	}
	if span := tracing.Current(r.Context()); span != nil && err == nil {
		if c := token.FromContext(allowed.Context()); c != nil {
			span.Set(tracing.String("user.id", c.CallerID()))
		}
	}
	if g.limiter != nil {
		leave, over := g.limiter.Enter(w.Header(), r, g.claims(r, allowed))
		if over != nil {
			err = over
		} else if leave != nil {
			defer leave()
		}
	}
	if err == nil && g.storing && g.mux.Room != nil {
		err = g.mux.Room()
	}
	if err == nil {
		err = h(w, allowed)
		r = allowed
	}
	if err == nil || clientGone(r, err) {
		return
	}
	if errors.Is(err, token.ErrAudience) && (g.format == FormatNotifications || g.format == FormatNotificationsV2) {
		// Its clients expect a missing scope here: an audience follows from
		// scopes.
		err = Insufficient(access.scopes...)
	}
	WriteError(w, r, g.format, g.mux.log, err)
}

// claims returns those of a request, also of one that needs no token or is not allowed.
func (g *Group) claims(r, allowed *http.Request) *token.Claims {
	if allowed != nil {
		if claims := token.FromContext(allowed.Context()); claims != nil {
			return claims
		}
	}
	raw, ok := BearerToken(r)
	if !ok || g.verifier == nil {
		return nil
	}
	claims, err := g.verifier.Verify(r.Context(), raw)
	if err != nil {
		return nil
	}
	return claims
}

// limit sets the limits of the request. Deadlines are set every time because
// the connection keeps those of the previous request.
func (g *Group) limit(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && g.limits.Body > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, g.limits.Body)
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(deadline(g.limits.Read))
	_ = rc.SetWriteDeadline(deadline(g.limits.Write))
}

func deadline(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// clientGone reports whether the client has disconnected.
func clientGone(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil
}

// Param returns a path parameter of the route, unescaped. The router matches the path as it was sent if that differs
// from how a path is usually written, so "%40" and "@" would name different things otherwise.
func Param(r *http.Request, name string) string {
	text := chi.URLParam(r, name)
	if r.URL.RawPath == "" { // then the router used the unescaped path
		return text
	}
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
