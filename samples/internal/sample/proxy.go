package sample

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Limits of servers that strangers can connect to.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = 64 << 10
	// bodyTimeout is how long a client may pause within a request's body.
	bodyTimeout = time.Minute
)

// NewServer returns a server with limits for clients that send slowly or never.
// Uploads and downloads may take as long as they need while they progress.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           steady(handler, bodyTimeout),
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(errorLog(), slog.LevelInfo),
	}
}

// errorLog returns what the error log of a server or a proxy writes to.
func errorLog() slog.Handler { return quiet{slog.Default().Handler()} }

// quiet leaves out connections that are closed without a handshake: health checks do
// that, and it is not worth a line.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasSuffix(r.Message, ": EOF") || strings.HasSuffix(r.Message, "connection reset by peer") {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// steady limits the pauses within a request's body.
func steady(next http.Handler, pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &steadyBody{r.Body, http.NewResponseController(w), pause}
		}
		next.ServeHTTP(w, r)
	})
}

type steadyBody struct {
	io.ReadCloser
	control *http.ResponseController
	pause   time.Duration
}

func (b *steadyBody) Read(p []byte) (int, error) {
	// Not every connection has deadlines; without them there is no limit.
	_ = b.control.SetReadDeadline(time.Now().Add(b.pause))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// The server keeps reading, to notice when the client disconnects. That
		// must not time out while the app prepares its response.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// LimitListener accepts at most n connections at a time; others wait in the queue
// of the system.
func LimitListener(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n), done: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	done  chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, release: func() { <-l.slots }}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *limitedConn) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}

// CloseWrite passes on that one direction of a WebSocket has ended.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NewProxy returns a proxy to a server. prepare changes the outgoing request. It is
// called after the headers for this hop are removed, so that a client cannot have
// headers removed that prepare sets.
func NewProxy(target *url.URL, transport http.RoundTripper,
	prepare func(*httputil.ProxyRequest)) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host
			// Go drops parameters with semicolons, which an app may use.
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			prepare(p)
		},
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(errorLog(), slog.LevelInfo),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
				return // the client has gone
			}
			slog.Warn("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
			status := http.StatusBadGateway
			if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
				status = http.StatusGatewayTimeout
			}
			http.Error(w, "The server behind this proxy cannot be reached: see `cf logs APP --recent`.", status)
		},
	}
}

// NewTransport returns a transport for a proxy, with a limit for the time until a
// response begins.
func NewTransport(response time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: response,
		MaxIdleConnsPerHost:   64, IdleConnTimeout: idleTimeout,
		// The client decides, not the proxy between.
		DisableCompression: true,
	}
}

// StripHeaders removes headers by name, also when they are written with
// underscores: some frameworks do not tell the two apart.
func StripHeaders(h http.Header, names ...string) {
	for key := range h {
		for _, name := range names {
			if textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(key, "_", "-")) == textproto.CanonicalMIMEHeaderKey(name) {
				delete(h, key)
			}
		}
	}
}
