package router

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/safedial"
	"ingot/internal/base/seal"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/platform/edge/router/http1"
)

// Values of X-Cf-Routererror.
const (
	errUnknownRoute    = "unknown_route"
	errEndpointFailure = "endpoint_failure"
	errEmptyHost       = "empty_host"
	errBadRequest      = "malformed_request"
)

const (
	headerRouterError   = "X-Cf-Routererror"
	headerApplicationID = "X-Cf-Applicationid"
	headerInstanceID    = "X-Cf-Instanceid"
	headerInstanceIndex = "X-Cf-Instanceindex"
	headerRequestStart  = "X-Request-Start"

	messageEndpointFailure = "Registered endpoint failed to handle the request."

	// statusClientGone is the status that nginx and gorouter log when the client closes the
	// connection.
	statusClientGone = 499

	// lingerFor is how long a connection stays open for a client that still sends a request
	// that has been answered.
	lingerFor = 5 * time.Second
)

// Options configure a Proxy. Zero fields mean the default.
type Options struct {
	// AccessLog is called for every finished request, on the goroutine that served it.
	// Metrics are counted there too.
	AccessLog func(Access)
	Log       *slog.Logger
	// Tracer records a span of every sampled request; nil records none.
	Tracer *tracing.Tracer

	DialTimeout           time.Duration // 5 s
	ResponseHeaderTimeout time.Duration // 15 min
	Attempts              int           // largest number of instances to try; 5
	// Trusted reports whether a connection is one of a proxy that may say for whom it
	// forwards requests: its X-Forwarded-* headers and request ids are passed on. Those of
	// others are replaced. Nil means that there is no such proxy.
	Trusted func(from netip.AddrPort) bool

	// Refused is called when no backend of a request accepts connections, with the last one
	// tried. It may tell those who run the app more than the answer says.
	Refused func(Backend)

	// ClientCerts says what becomes of X-Forwarded-Client-Cert headers; "" removes them.
	ClientCerts ClientCerts

	// Signer signs requests to route services; nil means a random key, which changes with
	// every restart.
	Signer *seal.Keyring
	// RouteServiceTLS is the TLS configuration for route services; nil means the system's
	// certificate authorities.
	RouteServiceTLS *tls.Config
	// RouteServices decides which addresses route services may have that are not apps of
	// this router.
	RouteServices safedial.Guard
}

// Proxy forwards requests to the backends of their routes.
type Proxy struct {
	table         *Table
	options       Options
	wire          *wire
	reverse       *httputil.ReverseProxy
	counters      counters
	idle          idleSweeper
	exchangeWatch exchangeWatch
	listeners     fastListeners
	serving       sync.WaitGroup // requests in ServeHTTP
	active        atomic.Int64   // their number
}

var _ http.Handler = (*Proxy)(nil)

// NewProxy returns a proxy for the routes of t.
func NewProxy(t *Table, o Options) *Proxy {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.DialTimeout <= 0 {
		o.DialTimeout = 5 * time.Second
	}
	if o.ResponseHeaderTimeout <= 0 {
		o.ResponseHeaderTimeout = 15 * time.Minute
	}
	if o.Attempts <= 0 {
		o.Attempts = 5
	}
	if o.Signer == nil {
		o.Signer = newSigner()
	}
	p := &Proxy{table: t, options: o}
	p.counters.table = t
	p.wire = newWire(o, t)
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      p.wire,
		FlushInterval:  flushAfter,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BufferPool:     new(bufferPool),
		ModifyResponse: p.modifyResponse,
		ErrorHandler:   p.failed,
	}
	return p
}

// Close waits for requests to finish for a while, so that all of them reach the access log,
// and closes the idle connections to backends. The caller must not send new requests.
func (p *Proxy) Close() {
	p.listeners.drain()
	p.wire.close()
	p.idle.close()
	p.exchangeWatch.close()
}

// endFor is how long Close waits for requests whose connections are closed.
const endFor = 5 * time.Second

// flushAfter is how long the beginning of a response of known length may wait for more of it: most are complete
// by then, and go out in one write. Responses without a length are passed on at once.
const flushAfter = 5 * time.Millisecond

// settle waits until no request is in ServeHTTP, so that requests that were cut off reach
// the access log, too.
func (p *Proxy) settle() {
	ended := background.Async("router stop", func() error { p.serving.Wait(); return nil })
	select {
	case <-ended:
	case <-time.After(endFor):
		p.options.Log.Warn("some requests did not finish in time and are missing from the access log")
	}
}

// Serving returns how many requests and upgraded connections ServeHTTP serves.
func (p *Proxy) Serving() int { return int(p.active.Load()) }

// ServeHTTP forwards the request to a backend of its route, or answers with an error.
func (p *Proxy) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p.serving.Add(1)
	p.active.Add(1)
	defer func() {
		p.active.Add(-1)
		p.serving.Done()
	}()
	x := &exchange{w: &recorder{ResponseWriter: rw}, counters: &p.counters, trusted: p.trusts(r), tls: r.TLS}
	x.access = Access{
		Host: r.Host, Time: time.Now(), Method: r.Method, URI: r.URL.RequestURI(), Proto: r.Proto,
		Referer: r.Referer(), UserAgent: r.UserAgent(), RemoteAddr: r.RemoteAddr,
	}
	x.forwarded(r)
	x.access.trace = traceOf(r.Header)
	x.access.RequestID = x.access.trace.begin(requestID(r))
	x.access.trace.sample(p.options.Tracer)
	defer p.finish(x)

	if r.Host == "" {
		x.refuse(http.StatusBadRequest, errEmptyHost, "Request had empty Host header")
		return
	}
	if !http1.IsToken([]byte(r.Method)) || strings.Contains(r.RequestURI, " ") {
		// The server refuses this in HTTP/1, and HTTP/1 backends cannot get it.
		x.refuse(http.StatusBadRequest, errBadRequest,
			"The request's method or path contains a character that is not allowed.")
		return
	}
	only, ok := x.wanted(r.Header)
	if !ok {
		return
	}
	m, ok := p.table.Serving(r.Host, r.URL.EscapedPath())
	if !ok {
		only.missing(x)
		return
	}
	x.access.Route, x.match, x.pool = m.Route.GUID, m, m.pool
	if only.guid != "" {
		if x.pool = x.pool.only(only.is); len(x.pool.endpoints) == 0 {
			only.missing(x)
			return
		}
	}
	x.sticky, x.hashed = stickyInstance(r.Header["Cookie"]), x.pool.hash.keyOf(r)
	x.repeatable = r.ContentLength == 0 && idempotent(r.Method, idempotencyKeyed(r.Header))
	control := http.NewResponseController(rw)
	removeDeadlines(control, r)
	if m.Route.RouteServiceURL != "" && !p.throughService(x, r, m.Route.RouteServiceURL) {
		return
	}
	out := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	if r.ContentLength != 0 {
		x.body = &countedBody{ReadCloser: r.Body}
		out.Body = x.body
		// An app may answer while it still reads the request. closeIfUnread handles the
		// consequences.
		_ = control.EnableFullDuplex()
		defer func() {
			if !x.body.whole.Load() {
				_ = control.SetReadDeadline(time.Now().Add(lingerFor))
			}
		}()
	}
	if strings.Contains(strings.ToLower(r.Header.Get("Upgrade")), "h2c") {
		// An HTTP/2 connection upgraded to the app would carry requests that bypass the
		// router. Clients may ignore a refused upgrade.
		out.Header = r.Header.Clone()
		out.Header.Del("Upgrade")
		out.Header.Del("Http2-Settings")
	}
	if r.ContentLength != 0 || r.ProtoMajor > 1 {
		p.enter(x, control)
		defer p.exchangeWatch.leave(x)
	}
	p.reverse.ServeHTTP(x.w, out)
}

// removeDeadlines removes the server's deadline and one left on the connection by the previous request: apps decide how
// long their requests take. Streams of HTTP/2 begin without one.
func removeDeadlines(control *http.ResponseController, r *http.Request) {
	if r.ProtoMajor == 1 {
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// rewrite creates the request to the backend. The backend is chosen when it is sent.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	out := pr.Out
	out.URL.Scheme = "http"
	out.URL.Host = pr.In.Host
	out.URL.RawQuery = pr.In.URL.RawQuery // unchanged, even if Go cannot parse it
	out.Trailer = x.passTrailers(pr.In)
	x.w.awaits = true

	h := out.Header
	h.Set("X-Forwarded-For", x.access.ForwardedFor)
	h.Set("X-Forwarded-Proto", x.access.ForwardedProto)
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "X-Forwarded-Port"} {
		if values := pr.In.Header[name]; values != nil && x.trusted {
			h[name] = values
		} else {
			delete(h, name)
		}
	}
	if h.Get(headerRequestStart) == "" {
		h.Set(headerRequestStart, strconv.FormatInt(x.access.Time.UnixMilli(), 10))
	}
	h.Set(web.RequestIDHeader, x.access.RequestID)
	x.access.trace.set(h)
	p.options.ClientCerts.apply(h, x)
	names := []string{headerRouterError, headerApplicationID, headerInstanceID, headerInstanceIndex, headerSignature,
		headerMetadata, headerForwardedURL}
	if toService(pr.In.Context()) {
		names = names[:4] // a service that is an app of this router needs the rest
	}
	for _, name := range names {
		h.Del(name)
	}
	if x.service != nil {
		x.service.address(out)
	}
}

// modifyResponse sees every response of a backend, including upgrades.
func (p *Proxy) modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	x.w.awaits = false
	if res.StatusCode == http.StatusSwitchingProtocols {
		limitUpgrade(res.Header)
	}
	x.access.Status = res.StatusCode
	x.w.empty = res.ContentLength == 0 && res.StatusCode != http.StatusSwitchingProtocols
	// Only the router may set this header.
	res.Header.Del(headerRouterError)
	x.w.Header().Del(web.RequestIDHeader)
	res.Header.Set(web.RequestIDHeader, x.access.RequestID)
	if len(res.Header[headerHSTS]) > 0 {
		x.w.Header().Del(headerHSTS) // the app's own one counts
	}
	if e := x.endpoint; e != nil {
		for _, cookie := range stickyCookies(res.Header["Set-Cookie"], x.sticky, e.InstanceGUID, x.match.cookiePath) {
			res.Header.Add("Set-Cookie", cookie)
		}
	}
	if len(res.Trailer) > 0 {
		// HTTP/2 allows trailers after a body of known length, HTTP/1 does not.
		res.Header.Del("Content-Length")
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		x.closeIfUnread(res.Header)
	}
	return nil
}

// failed answers when no backend did.
func (p *Proxy) failed(_ http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	x.w.awaits, x.access.Status = false, 0
	switch {
	case x.body != nil && x.body.stalled.Load():
		x.refuse(http.StatusRequestTimeout, "incomplete_request", "Nothing of the request's body came for "+
			stalledAfter.String()+".")
		return
	case errors.Is(r.Context().Err(), context.Canceled):
		x.w.WriteHeader(statusClientGone)
		return
	case x.body != nil && x.body.failed.Load():
		x.refuse(http.StatusBadRequest, "incomplete_request", "The request ended before its body did.")
		return
	}
	if x.service != nil && safedial.Refused(err) {
		p.options.Log.WarnContext(r.Context(), "route service call refused", "route", x.access.Route, "host", x.access.Host,
			"error", err)
		x.refuse(http.StatusBadGateway, "route_service_unsupported", "The route service of the route is not called: "+
			safedial.ErrPrivate.Error()+".")
		return
	}
	if x.service != nil {
		p.options.Log.InfoContext(r.Context(), "route service did not answer", "route", x.access.Route, "host", x.access.Host,
			"error", err)
		x.refuse(http.StatusBadGateway, errEndpointFailure, "The route service of the route failed to handle the request.")
		return
	}
	p.options.Log.InfoContext(r.Context(), "no backend answered the request", "route", x.access.Route, "host",
		x.access.Host,
		"attempts", x.access.Attempts, "error", err)
	p.refused(x, err)
	x.refuse(http.StatusBadGateway, errEndpointFailure, messageEndpointFailure)
}

// refused reports a backend that does not accept connections.
func (p *Proxy) refused(x *exchange, err error) {
	if p.options.Refused != nil && x.endpoint != nil && notConnected(err) {
		p.options.Refused(x.endpoint.Backend)
	}
}
