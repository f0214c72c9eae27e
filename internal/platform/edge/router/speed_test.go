package router_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"ingot/internal/platform/edge/router"
)

// bareBackend answers whatever has an empty line at its end with the same bytes,
// so that next to nothing of what is measured is its own.
func bareBackend(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var open sync.Map
	t.Cleanup(func() {
		_ = l.Close()
		open.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close()
			return true
		})
		all.Wait()
	})
	answer := []byte("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: text/plain; " +
		"charset=utf-8\r\nContent-Length: 6\r\n\r\nhello\n")
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			all.Go(func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
						if _, err := c.Write(answer); err != nil {
							return
						}
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// ask sends the same request on so many connections, n times altogether.
func ask(b *testing.B, addr string, connections int) {
	b.Helper()
	askFor(b, addr, connections, []byte("GET / HTTP/1.1\r\nHost: app.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"))
}

func askFor(b *testing.B, addr string, connections int, request []byte) {
	b.Helper()
	var all sync.WaitGroup
	left := make(chan struct{}, connections)
	b.ReportAllocs()
	for range connections {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		r := bufio.NewReader(c)
		all.Go(func() {
			defer c.Close()
			for range left {
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				for {
					line, err := r.ReadSlice('\n')
					if err != nil {
						b.Error(err)
						return
					}
					if string(line) == "hello\n" {
						break
					}
				}
			}
		})
	}
	for b.Loop() {
		left <- struct{}{}
	}
	close(left)
	all.Wait()
}

// BenchmarkBeside has the fast path, the whole proxy and a stock proxy do the
// same. What is allocated is allocated by them: client and backend do not.
func BenchmarkBeside(b *testing.B) {
	b.Run("fast", func(b *testing.B) {
		f := newFront(b, router.Options{})
		f.route("app.test", router.Backend{Address: bareBackend(b), AppGUID: "app", InstanceGUID: "instance"})
		ask(b, f.addr, 64)
	})
	for name, ratio := range map[string]float64{"fast, no request recorded": 0, "fast, every request recorded": 1} {
		b.Run(name, func(b *testing.B) {
			tr, c := tracer(b, ratio)
			c.Answer(func(http.ResponseWriter) bool { return true }) // without decoding
			f := newFront(b, router.Options{Tracer: tr})
			f.route("app.test", router.Backend{Address: bareBackend(b), AppGUID: "app", InstanceGUID: "instance"})
			ask(b, f.addr, 64)
		})
	}
	b.Run("fast, upload of 1 kB", func(b *testing.B) {
		f := newFront(b, router.Options{})
		f.route("app.test", router.Backend{Address: bareBackend(b), AppGUID: "app", InstanceGUID: "instance"})
		body := strings.Repeat("x", 1020) + "\r\n\r\n" // the backend waits for these
		askFor(b, f.addr, 64, []byte("PUT / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 1024\r\n\r\n"+body))
	})
	b.Run("stock", func(b *testing.B) {
		p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: bareBackend(b)})
		transport := &http.Transport{MaxIdleConnsPerHost: 64}
		b.Cleanup(transport.CloseIdleConnections)
		p.Transport = transport
		s := httptest.NewServer(p)
		b.Cleanup(s.Close)
		ask(b, s.Listener.Addr().String(), 64)
	})
}

func BenchmarkAccessLine(b *testing.B) {
	a := router.Access{
		Host: "app.test", Method: "GET", URI: "/a/path?with=query", Proto: "HTTP/1.1", Status: 200,
		UserAgent:  "Mozilla/5.0 (X11; Linux x86_64)",
		RemoteAddr: "127.0.0.1:5678", Backend: "10.0.0.1:8080", ForwardedFor: "127.0.0.1", ForwardedProto: "http",
		RequestID: "7f0c2a4e-1d2b-4c3d-9e8f-001122334455", App: "7f0c2a4e-1d2b-4c3d-9e8f-001122334455", Index: "0",
		Instance: "7f0c2a4e-1d2b-4c3d-9e8f-001122334456",
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = a.AppendLine(out[:0])
	}
}

// BenchmarkHTTP2 has the proxy and a stock one pass on requests of HTTP/2 to an app that speaks HTTP/1.1. The client is
// the same for both. Without a proxy, the server answers at once: that is the part of the client and of the standard
// library's HTTP/2, which no proxy built on it can do without.
func BenchmarkHTTP2(b *testing.B) {
	for name, handler := range map[string]func() http.Handler{
		"no proxy": func() http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
		},
		"router": func() http.Handler {
			f := newFront(b, router.Options{})
			f.route("app.test", router.Backend{Address: bareBackend(b), AppGUID: "app", InstanceGUID: "instance"})
			return f.proxy
		},
		"stock": func() http.Handler {
			p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: bareBackend(b)})
			transport := &http.Transport{MaxIdleConnsPerHost: 64}
			b.Cleanup(transport.CloseIdleConnections)
			p.Transport = transport
			return p
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewUnstartedServer(handler())
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			b.Cleanup(s.Close)
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				t := &http.Transport{Protocols: &protocols, DisableCompression: true}
				defer t.CloseIdleConnections()
				for pb.Next() {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL, nil)
					if err != nil {
						b.Error(err)
						return
					}
					req.Host = "app.test"
					res, err := t.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, err = io.Copy(io.Discard, res.Body)
					if err != nil || res.StatusCode != http.StatusOK {
						b.Errorf("%s, %v", res.Status, err)
					}
					_ = res.Body.Close()
				}
			})
		})
	}
}

// echoBackend accepts every upgrade, and sends back what comes after it.
func echoBackend(b *testing.B) string {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, rw)
	}))
	b.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// BenchmarkFrames has the router and a stock proxy pass on frames of WebSockets to an app that echoes them.
func BenchmarkFrames(b *testing.B) {
	b.Run("router", func(b *testing.B) {
		f := newFront(b, router.Options{})
		f.route("app.test", router.Backend{Address: echoBackend(b), AppGUID: "app", InstanceGUID: "instance"})
		echoFrames(b, f.addr)
	})
	b.Run("stock", func(b *testing.B) {
		s := httptest.NewServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: echoBackend(b)}))
		b.Cleanup(s.Close)
		echoFrames(b, s.Listener.Addr().String())
	})
	b.Run("no proxy", func(b *testing.B) { echoFrames(b, echoBackend(b)) })
}

// echoFrames sends a frame on each of 64 connections, and waits for it to come back before the next one.
func echoFrames(b *testing.B, addr string) {
	b.Helper()
	var all sync.WaitGroup
	left := make(chan struct{}, 64)
	b.ReportAllocs()
	for range 64 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET /echo HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil) //nolint:bodyclose // the connection is closed
		if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			b.Fatal(res, err)
		}
		all.Go(func() {
			defer c.Close()
			frame, back := make([]byte, 131), make([]byte, 131)
			for range left {
				if _, err := c.Write(frame); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(r, back); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for b.Loop() {
		left <- struct{}{}
	}
	close(left)
	all.Wait()
}
