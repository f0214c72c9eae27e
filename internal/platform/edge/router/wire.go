package router

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"ingot/internal/base/rootless"
)

// wire sends requests to backends, each to the one whose turn it is. A backend that cannot
// be connected to has not seen the request, so another one gets it.
type wire struct {
	dialer   *net.Dialer
	attempts int
	http1    *http.Transport
	http2    *http.Transport
	services *http.Transport
	table    *Table
}

func newWire(o Options, t *Table) *wire {
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}
	common := func() *http.Transport {
		return &http.Transport{
			Proxy: nil, // apps are local: ignore the proxy settings of the environment
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dialInstance(ctx, dialer, network, address)
			},
			DisableCompression:     true, // pass bodies on unchanged
			MaxIdleConns:           10000,
			MaxIdleConnsPerHost:    100,
			IdleConnTimeout:        90 * time.Second,
			ResponseHeaderTimeout:  o.ResponseHeaderTimeout,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: 1 << 20,
			Protocols:              new(http.Protocols),
			TLSClientConfig:        o.RouteServiceTLS,
		}
	}
	w := &wire{dialer: dialer, attempts: o.Attempts, http1: common(), http2: common(), services: common(), table: t}
	w.services.Protocols.SetHTTP1(true)
	w.services.Protocols.SetHTTP2(true)
	// Users choose the URLs of route services.
	guarded := *dialer
	guarded.Control = o.RouteServices.Control
	w.services.DialContext = guarded.DialContext
	w.http1.Protocols.SetHTTP1(true)
	w.http2.Protocols.SetUnencryptedHTTP2(true)
	w.http2.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	return w
}

// dialInstance connects to an instance, in the network of instances.
func dialInstance(ctx context.Context, d *net.Dialer, network, address string) (net.Conn, error) {
	return rootless.Dial(ctx, func() (net.Conn, error) { return d.DialContext(ctx, network, address) })
}

func (w *wire) close() {
	w.http1.CloseIdleConnections()
	w.http2.CloseIdleConnections()
	w.services.CloseIdleConnections()
}

// RoundTrip sends the request of an exchange.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if x.service != nil {
		res, err := w.services.RoundTrip(r)
		return limitTrailers(res), err
	}
	var tried []*endpoint
	var failure error
	for looks, attempt := 0, 0; len(tried) < w.attempts; attempt++ {
		now := time.Now()
		e := x.pool.next(tried, now, x.sticky, x.hashed)
		if e == nil && looks < maxLooks && x.lookAgain(w.table, r.URL.EscapedPath()) {
			looks, tried = looks+1, tried[:0]
			continue
		}
		if e == nil {
			break
		}
		tried = append(tried, e)
		x.choose(e, now)
		res, err := w.transport(e, r).RoundTrip(addressed(r, e, attempt))
		if err == nil {
			e.state.restore()
			return limitTrailers(res), nil
		}
		failure = err
		if r.Context().Err() != nil || !x.mayRepeat(err) {
			break
		}
	}
	if failure == nil {
		failure = errors.New("no backend left to try")
	}
	return nil, failure
}

// transport chooses the protocol. Upgrades exist in HTTP/1 only.
func (w *wire) transport(e *endpoint, r *http.Request) *http.Transport {
	if e.Protocol == HTTP2 && r.Header.Get("Upgrade") == "" {
		return w.http2
	}
	return w.http1
}

// addressed returns r addressed to e. A transport may still read a request after it failed, so only the first attempt
// changes r itself. It also closes the body, but the next attempt needs it.
func addressed(r *http.Request, e *endpoint, attempt int) *http.Request {
	out := r
	if attempt > 0 || r.Body != nil {
		out = r.WithContext(r.Context())
	}
	if attempt > 0 {
		u := *r.URL
		out.URL, out.Header = &u, r.Header.Clone()
	}
	out.URL.Host = e.Address
	out.Header.Set(headerApplicationID, e.AppGUID)
	out.Header.Set(headerInstanceID, e.InstanceGUID)
	out.Header.Set(headerInstanceIndex, strconv.Itoa(e.Index))
	if r.Body != nil {
		out.Body = io.NopCloser(r.Body)
	}
	return out
}

// bufferPool is a pool of buffers for copying responses.
type bufferPool struct{ pool sync.Pool }

const copyBuffer = 32 << 10

func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[copyBuffer]byte); ok {
		return b[:]
	}
	return make([]byte, copyBuffer)
}

func (p *bufferPool) Put(b []byte) {
	if len(b) == copyBuffer {
		p.pool.Put((*[copyBuffer]byte)(b))
	}
}
