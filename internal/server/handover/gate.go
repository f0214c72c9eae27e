package handover

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

// Gate is what requests to the API pass. While the server is handed over they wait; then
// the next process serves them, also those that arrive later on connections which this
// process still has. The zero value is an open gate.
type Gate struct {
	mu     sync.Mutex
	inside int
	shut   bool
	empty  chan struct{} // closed when shut and none is inside
	passed chan struct{} // closed when next is set
	next   *Forwarder
}

// Serve calls here while the gate is open. Otherwise the next process serves the request, as
// one of the named listener, as soon as it can.
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, listener string, here func()) {
	g.mu.Lock()
	if !g.shut {
		g.inside++
		g.mu.Unlock()
		defer g.leave()
		here()
		return
	}
	passed := g.passed
	g.mu.Unlock()
	select {
	case <-passed:
		// This process is about to leave: the client's next request must not meet a connection that closes.
		if r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		g.next.forward(w, r, listener)
	case <-r.Context().Done():
	}
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.shut && g.inside == 0 {
		close(g.empty)
	}
}

// Shut lets requests wait from now on. empty is closed when those before are finished.
func (g *Gate) Shut() (empty <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut, g.empty, g.passed = true, make(chan struct{}), make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

// Pass lets the process behind next serve the requests that wait and those that come. It is called once,
// after Shut.
func (g *Gate) Pass(next *Forwarder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = next
	close(g.passed)
}

// IsShut reports whether requests wait or are passed on.
func (g *Gate) IsShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// The headers of forwarded requests: what the next process cannot see itself.
const (
	headerRemote = "Ingot-Forwarded-Remote"
	headerTLS    = "Ingot-Forwarded-Tls"
	headerFor    = "Ingot-Forwarded-For-Listener"
)

// Forwarder passes requests on to the process that listens on DIR/forward.sock.
type Forwarder struct {
	proxy  *httputil.ReverseProxy
	client *http.Client
}

// NewForwarder returns a forwarder for a data directory.
func NewForwarder(dir string, log *slog.Logger) *Forwarder {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
			err = at(dir, ForwardName, func(path string) error {
				c, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
				return err
			})
			return c, err
		},
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second, DisableCompression: true,
	}
	f := &Forwarder{client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	f.proxy = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "forward", p.In.Host
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := p.In.Header.Values(name); len(values) > 0 {
					p.Out.Header[name] = values
				}
			}
			p.Out.Header.Del(headerTLS)
			p.Out.Header.Set(headerRemote, p.In.RemoteAddr)
			if p.In.TLS != nil {
				p.Out.Header.Set(headerTLS, "on "+p.In.TLS.ServerName)
			}
		},
	}
	return f
}

// Close closes idle connections.
func (f *Forwarder) Close() { f.client.CloseIdleConnections() }

// forward passes a request on as one of a listener, by its name.
func (f *Forwarder) forward(w http.ResponseWriter, r *http.Request, listener string) {
	r = r.Clone(r.Context())
	r.Header.Set(headerFor, listener)
	f.proxy.ServeHTTP(w, r)
}

// Post sends a body to the handler of a name in the other process.
func (f *Forwarder) Post(ctx context.Context, name string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://forward/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(headerFor, name)
	res, err := f.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the new process answered %s", res.Status)
	}
	return nil
}

// Forwarded returns the handler for DIR/forward.sock. It restores what the other process
// saw of the client, and calls the handler of the listener.
func Forwarded(handlers map[string]http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := handlers[r.Header.Get(headerFor)]
		if h == nil {
			http.Error(w, "no such listener", http.StatusMisdirectedRequest)
			return
		}
		r.RemoteAddr = r.Header.Get(headerRemote)
		if name, ok := r.Header[headerTLS]; ok {
			r.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: strings.TrimPrefix(name[0], "on ")}
		}
		for _, name := range []string{headerFor, headerRemote, headerTLS} {
			r.Header.Del(name)
		}
		h.ServeHTTP(w, r)
	})
}
