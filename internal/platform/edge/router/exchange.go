package router

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"ingot/internal/base/web"
)

// exchange is a request in progress.
type exchange struct {
	access     Access
	counters   *counters
	w          *recorder // nil on the fast path
	body       *countedBody
	match      *Match
	pool       *pool         // the pool of match, or a part of it
	sticky     string        // instance that the session cookie names
	hashed     string        // value that selects the instance
	repeatable bool          // another instance may be tried after a failure
	trusted    bool          // the client's X-Forwarded-* headers are believed
	service    *serviceVisit // set when the request goes to a route service first
	returned   bool          // the request comes from a route service
	tls        *tls.ConnectionState
	endpoint   *endpoint // backend of the last attempt
	stats      *instanceStats
	began      time.Time // start of the last attempt
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// choose makes e the backend of the exchange.
func (x *exchange) choose(e *endpoint, now time.Time) {
	if x.endpoint != nil {
		x.endpoint.state.active.Add(-1)
		x.stats.active.Add(-1)
		x.counters.retries.Add(1)
	}
	x.stats = x.counters.of(e)
	e.state.active.Add(1)
	x.stats.active.Add(1)
	x.endpoint, x.began = e, now
	x.access.Attempts++
}

// maxLooks is how often a request follows a route that changes. Attempts are counted anew
// each time, because the backends are different.
const maxLooks = 8

// lookAgain switches to the route's current pool when every backend of the old one has been
// tried, because the route may have changed meanwhile. It returns false if it has not.
func (x *exchange) lookAgain(t *Table, path string) bool {
	if x.pool != x.match.pool {
		return false // the client asked for a particular instance
	}
	m, ok := t.Serving(x.access.Host, path)
	if !ok || m == x.match || m.Route.RouteServiceURL != x.match.Route.RouteServiceURL {
		return false
	}
	if x.w == nil && !m.plain() {
		return false
	}
	if before, now := x.pool.hash, m.pool.hash; x.hashed != "" && (now == nil || now.header != before.header) {
		x.hashed = "" // it belongs to the old route's header
	}
	x.match, x.pool, x.access.Route = m, m.pool, m.Route.GUID
	return true
}

// mayRepeat records the failure of the chosen backend and reports whether another may be
// tried.
func (x *exchange) mayRepeat(err error) bool {
	if x.body != nil && x.body.failed.Load() {
		return false // the client closed the connection
	}
	unreached, ended := notConnected(err), hungUp(err)
	if unreached || errors.Is(err, syscall.ECONNRESET) {
		x.endpoint.state.eject(time.Now())
		x.counters.ejections.Add(1)
	}
	return unreached || ended && x.repeatable
}

// closeIfUnread makes this the last response on its connection when it starts before the request
// has been read: net/http cannot continue after a full-duplex request that was left unread
// (it panics), and the rest of the request is useless.
func (x *exchange) closeIfUnread(answer http.Header) {
	if x.body != nil && !x.body.whole.Load() && x.http1() {
		answer.Set("Connection", "close")
	}
}

// http1 reports whether the client uses HTTP/1.
func (x *exchange) http1() bool { return strings.HasPrefix(x.access.Proto, "HTTP/1.") }

// refuse sends an error of the router itself.
func (x *exchange) refuse(status int, word, message string) {
	x.access.RouterError = word
	h := x.w.Header()
	h.Set(headerRouterError, word)
	h.Set(web.RequestIDHeader, x.access.RequestID)
	h.Set("Cache-Control", "no-cache, no-store")
	x.closeIfUnread(h)
	http.Error(x.w, fmt.Sprintf("%d %s: %s", status, http.StatusText(status), message), status)
}

// finish logs and counts the request, even one that panicked.
func (p *Proxy) finish(x *exchange) {
	a := &x.access
	a.Duration = time.Since(a.Time)
	a.RouterTime = a.Duration
	if e := x.endpoint; e != nil {
		e.state.active.Add(-1)
		x.stats.active.Add(-1)
		a.RouterTime = x.began.Sub(a.Time)
		a.Backend, a.App, a.Process, a.Instance, a.Index = e.Address, e.AppGUID, e.ProcessGUID, e.InstanceGUID,
			strconv.Itoa(e.Index)
	}
	if x.w != nil {
		if a.Status == 0 {
			a.Status = x.w.status
		}
		a.ResponseBytes = x.w.bytes
	}
	if x.body != nil {
		a.RequestBytes = x.body.bytes.Load()
	}
	p.counters.observe(a, x.stats)
	if a.trace.recorded {
		p.options.Tracer.Record(x.span())
	}
	if p.options.AccessLog != nil {
		p.options.AccessLog(*a)
	}
}

// trusts reports whether what the request says of its client is believed.
func (p *Proxy) trusts(r *http.Request) bool {
	if p.options.Trusted == nil {
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.options.Trusted(from)
}

// forwarded sets for whom the request is, as the app gets it.
func (x *exchange) forwarded(r *http.Request) {
	x.access.ForwardedFor, x.access.ForwardedProto = x.forwardedFor(r), x.forwardedProto(r)
}

func (x *exchange) forwardedFor(r *http.Request) string {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	if before := r.Header["X-Forwarded-For"]; x.trusted && len(before) > 0 {
		return strings.Join(before, ", ") + ", " + ip
	}
	return ip
}

func (x *exchange) forwardedProto(r *http.Request) string {
	given := strings.ToLower(r.Header.Get("X-Forwarded-Proto"))
	switch {
	case x.trusted && (given == "http" || given == "https"):
		return given
	case r.TLS != nil:
		return "https"
	default:
		return "http"
	}
}

// requestID returns the id that the server or the client gave the request, if it is valid.
func requestID(r *http.Request) string {
	if id := r.Header.Get(web.RequestIDHeader); goodRequestID(id) {
		return id
	}
	return ""
}

func goodRequestID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < '0' || c > ':') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func newRequestID() string {
	var s [36]byte
	putRequestID(s[:])
	return string(s[:])
}

func putRequestID(s []byte) {
	// Ids have to differ, and need not be secret: crypto/rand would ask the kernel for each request.
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(b[8:], rand.Uint64())
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
}

// recorder records the response. Flushing and hijacking reach the real writer through
// Unwrap.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	empty  bool // the response has no body
	begun  atomic.Bool
	waits  waiting // for the client to accept data
	// awaits is set while ReverseProxy waits for the final response. What it writes until
	// then is an informational one, whose headers must not replace those of the final one.
	awaits bool
	early  http.Header
}

// Header returns the headers of the next response.
func (w *recorder) Header() http.Header {
	if !w.awaits {
		return w.ResponseWriter.Header()
	}
	if w.early == nil {
		w.early = http.Header{}
	}
	return w.early
}

// inform writes an informational response.
func (w *recorder) inform(status int) {
	h := w.ResponseWriter.Header()
	final := maps.Clone(h)
	clear(h)
	limitHeader(w.early)
	maps.Copy(h, w.early)
	w.ResponseWriter.WriteHeader(status)
	clear(h)
	maps.Copy(h, final)
}

func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FlushError does not flush the head of a response without a body: in HTTP/2 such a
// response consists of one frame, and gRPC reads errors only from that.
func (w *recorder) FlushError() error {
	if w.empty {
		return nil
	}
	w.waits.begin()
	defer w.waits.end()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *recorder) WriteHeader(status int) {
	if w.awaits && status < 200 {
		w.inform(status)
		return
	}
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
		w.begun.Store(true)
		// The server would guess the type of a response that has none.
		if h := w.Header(); len(h["Content-Type"]) == 0 {
			h["Content-Type"] = nil
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.waits.begin()
	n, err := w.ResponseWriter.Write(b)
	w.waits.end()
	w.bytes += int64(n)
	return n, err
}

// countedBody counts the bytes that the client sent, and records how the body ended.
type countedBody struct {
	io.ReadCloser
	bytes  atomic.Int64
	whole  atomic.Bool
	failed atomic.Bool

	waits   waiting // for the client to send data
	stalled atomic.Bool
	atEnd   func() // called when the whole body has been read; may be nil
}

func (b *countedBody) Read(p []byte) (int, error) {
	b.waits.begin()
	n, err := b.ReadCloser.Read(p)
	b.waits.end()
	b.bytes.Add(int64(n))
	switch {
	case errors.Is(err, io.EOF):
		if !b.whole.Swap(true) && b.atEnd != nil {
			b.atEnd()
		}
	case err != nil && !errors.Is(err, http.ErrBodyReadAfterClose):
		b.failed.Store(true)
	}
	return n, err
}
