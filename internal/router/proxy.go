package router

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/web"
)

// The words of X-Cf-Routererror.
const (
	errUnknownRoute    = "unknown_route"
	errNoEndpoints     = "no_endpoints"
	errEndpointFailure = "endpoint_failure"
	errEmptyHost       = "empty_host"
	errInvalidInstance = "invalid_cf_app_instance_header"
)

const (
	headerRouterError   = "X-Cf-Routererror"
	headerAppInstance   = "X-Cf-App-Instance"
	headerApplicationID = "X-Cf-Applicationid"
	headerInstanceID    = "X-Cf-Instanceid"
	headerInstanceIndex = "X-Cf-Instanceindex"
	headerRequestStart  = "X-Request-Start"

	// statusClientGone is nginx's and gorouter's for a client that went away.
	statusClientGone = 499

	// lingerFor is how long a connection is kept for a client that still sends
	// a request that has been answered.
	lingerFor = 5 * time.Second
)

// Options adjust a Proxy. Zero fields mean the default.
type Options struct {
	// AccessLog is told of every request when it has ended, from the goroutine
	// that served it. Metrics are counted there too.
	AccessLog func(Access)
	Log       *slog.Logger

	DialTimeout           time.Duration // 5 s
	ResponseHeaderTimeout time.Duration // 15 min
	Attempts              int           // how many instances are tried at most; 5
	// DistrustForwardedProto overwrites the X-Forwarded-Proto of clients: for
	// when nothing that terminates TLS stands in front.
	DistrustForwardedProto bool
	// RouteServices carries requests to route services; nil means a transport
	// that checks certificates.
	RouteServices http.RoundTripper
}

// Proxy brings requests to the backends of their routes.
type Proxy struct {
	table   *Table
	options Options
	wire    *wire
	reverse *httputil.ReverseProxy
	passing *passing
}

var _ http.Handler = (*Proxy)(nil)

// NewProxy returns a proxy that looks into t.
func NewProxy(t *Table, o Options) *Proxy {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 5 * time.Second
	}
	if o.ResponseHeaderTimeout <= 0 {
		o.ResponseHeaderTimeout = 15 * time.Minute
	}
	if o.Attempts <= 0 {
		o.Attempts = 5
	}
	p := &Proxy{table: t, options: o, wire: newWire(o), passing: newPassing(o)}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      p.wire,
		FlushInterval:  -1,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BufferPool:     new(bufferPool),
		ModifyResponse: p.modifyResponse,
		ErrorHandler:   p.failed,
	}
	return p
}

// Close closes the idle connections to backends.
func (p *Proxy) Close() {
	p.wire.close()
	p.passing.close()
}

// exchange is a request on its way.
type exchange struct {
	access   Access
	w        *recorder
	body     *countedBody
	pool     *pool
	endpoint *endpoint // that of the last attempt
	began    time.Time // the last attempt
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// ServeHTTP answers with what the route's backend answers, or says why not.
func (p *Proxy) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	x := &exchange{w: &recorder{ResponseWriter: rw}}
	x.access = Access{
		Host: r.Host, Time: time.Now(), Method: r.Method, URI: r.URL.RequestURI(), Proto: r.Proto,
		Referer: r.Referer(), UserAgent: r.UserAgent(), RemoteAddr: r.RemoteAddr,
		RequestID: requestID(r), ForwardedFor: forwardedFor(r), ForwardedProto: p.forwardedProto(r),
	}
	defer p.finish(x)

	if r.Host == "" {
		x.refuse(http.StatusBadRequest, errEmptyHost, "Request had empty Host header")
		return
	}
	m, ok := p.table.Lookup(r.Host, r.URL.EscapedPath())
	if !ok {
		x.refuse(http.StatusNotFound, errUnknownRoute, fmt.Sprintf("Requested route ('%s') does not exist.", r.Host))
		return
	}
	x.access.Route, x.pool = m.Route.GUID, m.pool
	// Apps decide how long their requests take: no deadline, neither that of the
	// pipeline nor one that the connection remembers of the request before.
	control := http.NewResponseController(rw)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	if wanted := r.Header.Get(headerAppInstance); wanted != "" && !x.pin(wanted) {
		return
	}
	if len(x.pool.endpoints) == 0 {
		x.refuse(http.StatusServiceUnavailable, errNoEndpoints, fmt.Sprintf("Requested route ('%s') has no available endpoints.", r.Host))
		return
	}
	if m.Route.ServiceURL != "" && !p.passed(x, r, m) {
		return
	}
	out := r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	if r.ContentLength != 0 {
		x.body = &countedBody{ReadCloser: r.Body}
		out.Body = x.body
		// An app may answer while it still reads. What that asks of us is in
		// hangUp.
		_ = control.EnableFullDuplex()
		defer func() {
			if !x.body.whole.Load() {
				_ = control.SetReadDeadline(time.Now().Add(lingerFor))
			}
		}()
	}
	if strings.Contains(strings.ToLower(r.Header.Get("Upgrade")), "h2c") {
		// An HTTP/2 connection through us to the app would carry requests that
		// nobody looks at. The client may ignore that we do not switch.
		out.Header = r.Header.Clone()
		out.Header.Del("Upgrade")
		out.Header.Del("Http2-Settings")
	}
	p.reverse.ServeHTTP(x.w, out)
}

// pin restricts the exchange to the instance that "GUID:INDEX" names.
func (x *exchange) pin(wanted string) bool {
	guid, text, ok := strings.Cut(wanted, ":")
	index, err := strconv.Atoi(text)
	if !ok || guid == "" || err != nil || index < 0 {
		x.refuse(http.StatusBadRequest, errInvalidInstance, "Invalid X-CF-App-Instance Header")
		return false
	}
	x.pool = x.pool.only(func(b Backend) bool { return b.AppGUID == guid && b.Index == index })
	if len(x.pool.endpoints) == 0 {
		x.refuse(http.StatusBadRequest, errUnknownRoute,
			fmt.Sprintf("Requested instance ('%d') with guid ('%s') does not exist for route ('%s')", index, guid, x.access.Host))
		return false
	}
	return true
}

// hangUp makes this the last answer on its connection when it begins before
// the request has been read: net/http cannot read on after a full-duplex
// request that was left unread (it panics), and nobody would want the rest.
func (x *exchange) hangUp(answer http.Header) {
	if x.body != nil && !x.body.whole.Load() && strings.HasPrefix(x.access.Proto, "HTTP/1.") {
		answer.Set("Connection", "close")
	}
}

// refuse answers in the proxy's own name.
func (x *exchange) refuse(status int, word, message string) {
	x.access.RouterError = word
	h := x.w.Header()
	h.Set(headerRouterError, word)
	h.Set(web.RequestIDHeader, x.access.RequestID)
	h.Set("Cache-Control", "no-cache, no-store")
	x.hangUp(h)
	http.Error(x.w, fmt.Sprintf("%d %s: %s", status, http.StatusText(status), message), status)
}

// finish tells of the request, also of one that ends in a panic.
func (p *Proxy) finish(x *exchange) {
	a := &x.access
	a.Duration = time.Since(a.Time)
	a.RouterTime = a.Duration
	if e := x.endpoint; e != nil {
		e.state.active.Add(-1)
		a.RouterTime = x.began.Sub(a.Time)
		a.Backend, a.App, a.Process, a.Instance, a.Index = e.Address, e.AppGUID, e.ProcessGUID, e.InstanceGUID, strconv.Itoa(e.Index)
	}
	if a.Status == 0 {
		a.Status = x.w.status
	}
	a.ResponseBytes = x.w.bytes
	if x.body != nil {
		a.RequestBytes = x.body.bytes.Load()
	}
	if p.options.AccessLog != nil {
		p.options.AccessLog(*a)
	}
}

// rewrite makes the request to the backend. Which backend is decided when it is
// sent.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	out := pr.Out
	out.URL.Scheme = "http"
	out.URL.Host = pr.In.Host
	out.URL.RawQuery = pr.In.URL.RawQuery // as it came, also what Go would not parse
	// The server fills in the trailers when it has read the body.
	out.Trailer = pr.In.Trailer

	h := out.Header
	h.Set("X-Forwarded-For", x.access.ForwardedFor)
	h.Set("X-Forwarded-Proto", x.access.ForwardedProto)
	for _, name := range []string{"Forwarded", "X-Forwarded-Host"} {
		if values := pr.In.Header[name]; values != nil {
			h[name] = values
		}
	}
	if h.Get(headerRequestStart) == "" {
		h.Set(headerRequestStart, strconv.FormatInt(x.access.Time.UnixMilli(), 10))
	}
	h.Set(web.RequestIDHeader, x.access.RequestID)
	h.Del(headerRouterError)
	if !toService(pr.In.Context()) {
		for _, name := range []string{headerProxySignature, headerProxyMetadata, headerForwardedURL} {
			h.Del(name)
		}
	}
}

// modifyResponse sees every answer of a backend, upgrades too.
func (p *Proxy) modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	x.access.Status = res.StatusCode
	// Only the router says what the router did.
	res.Header.Del(headerRouterError)
	x.w.Header().Del(web.RequestIDHeader)
	res.Header.Set(web.RequestIDHeader, x.access.RequestID)
	if len(res.Trailer) > 0 {
		// HTTP/2 has trailers after a body of known length, HTTP/1 has not.
		res.Header.Del("Content-Length")
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		x.hangUp(res.Header)
	}
	return nil
}

// failed answers when no backend did.
func (p *Proxy) failed(_ http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	switch {
	case errors.Is(r.Context().Err(), context.Canceled):
		x.w.WriteHeader(statusClientGone)
		return
	case x.body != nil && x.body.failed.Load():
		x.refuse(http.StatusBadRequest, "incomplete_request", "The request ended before its body did.")
		return
	}
	p.options.Log.InfoContext(r.Context(), "no backend answered", "route", x.access.Route, "host", x.access.Host,
		"attempts", x.access.Attempts, "error", err)
	x.refuse(http.StatusBadGateway, errEndpointFailure, "Registered endpoint failed to handle the request.")
}

func forwardedFor(r *http.Request) string {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	if before := r.Header["X-Forwarded-For"]; len(before) > 0 {
		return strings.Join(before, ", ") + ", " + ip
	}
	return ip
}

func (p *Proxy) forwardedProto(r *http.Request) string {
	given := strings.ToLower(r.Header.Get("X-Forwarded-Proto"))
	switch {
	case !p.options.DistrustForwardedProto && (given == "http" || given == "https"):
		return given
	case r.TLS != nil:
		return "https"
	default:
		return "http"
	}
}

// requestID is the id that the server gave the request, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get(web.RequestIDHeader)
	if id != "" && len(id) <= 128 && strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_:.") == "" {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// recorder remembers what was answered. Flushing and hijacking reach the real
// writer through Unwrap.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// countedBody counts what the client sent, and notes how it ended.
type countedBody struct {
	io.ReadCloser
	bytes  atomic.Int64
	whole  atomic.Bool
	failed atomic.Bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	switch {
	case errors.Is(err, io.EOF):
		b.whole.Store(true)
	case err != nil && !errors.Is(err, http.ErrBodyReadAfterClose):
		b.failed.Store(true)
	}
	return n, err
}
