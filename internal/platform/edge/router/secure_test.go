package router_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/router"
)

// secured is a proxy that terminates TLS for all names of example.org.
type secured struct {
	*front
	authority *testkit.Authority
	transport *http.Transport
}

func newSecured(t *testing.T, o router.Options, listener router.TLS) *secured {
	t.Helper()
	f := &front{t: t, table: new(router.Table)}
	authority := testkit.NewAuthority(t)
	p := router.NewProxy(f.table, o)
	server := httptest.NewUnstartedServer(p)
	listener.Config = &tls.Config{
		Certificates: []tls.Certificate{authority.Certificate("*.example.org")}, NextProtos: []string{"h2", "http/1.1"},
		ClientCAs: authority.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
	}
	fast := router.NewTLSFastPath(server.Listener, listener)
	fast.Use(p, nil)
	server.Listener = fast
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Start()
	f.proxy, f.server, f.addr = p, server, fast.Addr().String()
	s := &secured{front: f, authority: authority}
	s.fresh(false)
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		server.Close()
		p.Close()
	})
	return s
}

// fresh makes a client without connections.
func (s *secured) fresh(http2 bool) {
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	s.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.addr)
		},
		TLSClientConfig:    &tls.Config{RootCAs: s.authority.Pool()}, //nolint:gosec // the default versions
		DisableCompression: true, ForceAttemptHTTP2: http2,
	}
	s.client = &http.Client{Transport: s.transport}
}

// seen answers with what the app sees of a request.
func seen(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	if v := r.URL.Query().Get("hsts"); v != "" {
		w.Header().Set("Strict-Transport-Security", v)
	}
	fmt.Fprintf(w, "%s %d %s", r.Header.Get("X-Forwarded-Proto"), n, r.Header.Get("X-Forwarded-Client-Cert"))
}

// TestTLS serves HTTP/1 with TLS on the fast path, and HTTP/2 and large requests with the
// server; apps see https, and clients one Strict-Transport-Security header.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := newSecured(t, router.Options{}, router.TLS{HSTS: "max-age=1000"})
	f.route("app.example.org", backend(t, seen))
	large := bytes.Repeat([]byte("x"), 1<<20)
	for _, c := range []struct {
		name  string
		http2 bool
		body  []byte
		query string
		fast  bool
		hsts  string
	}{
		{"small", false, nil, "", true, "max-age=1000"},
		{"again", false, []byte("body"), "", true, "max-age=1000"},
		{"an app's own header", false, nil, "?hsts=max-age%3D5", true, "max-age=5"},
		{"large", false, large, "?hsts=max-age%3D5", false, "max-age=5"},
		{"HTTP/2", true, nil, "?hsts=max-age%3D5", false, "max-age=5"},
		{"large HTTP/2", true, large, "?hsts=max-age%3D5", false, "max-age=5"},
	} {
		f.fresh(c.http2)
		before := router.FastPathServed(f.proxy)
		res := f.do(f.request(http.MethodPost, "https://app.example.org/"+c.query, bytes.NewReader(c.body)))
		got := text(t, res.Body)
		if want := fmt.Sprintf("https %d ", len(c.body)); got != want ||
			res.ProtoMajor != map[bool]int{true: 2, false: 1}[c.http2] {
			t.Errorf("%s: %s %q, want %q", c.name, res.Proto, got, want)
		}
		if fast := router.FastPathServed(f.proxy) > before; fast != c.fast {
			t.Errorf("%s: fast path %t, want %t", c.name, fast, c.fast)
		}
		if got := res.Header.Values("Strict-Transport-Security"); len(got) != 1 || got[0] != c.hsts {
			t.Errorf("%s: Strict-Transport-Security is %q, want %q", c.name, got, c.hsts)
		}
	}
}

// TestTLSUpgrade passes both directions of an upgraded connection on.
func TestTLSUpgrade(t *testing.T) {
	t.Parallel()
	f := newSecured(t, router.Options{}, router.TLS{})
	f.route("app.example.org", backend(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		fmt.Fprintf(conn, "got %s", line)
	}))
	conn, err := tls.Dial("tcp", f.addr, &tls.Config{ServerName: "app.example.org", //nolint:gosec // the default versions
		RootCAs: f.authority.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: app.example.org\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v, want 101", res, err)
	}
	defer res.Body.Close()
	fmt.Fprint(conn, "hello\n")
	if got := text(t, r); got != "got hello\n" {
		t.Errorf("got %q", got)
	}
}

// TestTLSOtherName does not serve a request on the fast path if its connection is for
// another name: the server in front of the proxy refuses it.
func TestTLSOtherName(t *testing.T) {
	t.Parallel()
	f := newSecured(t, router.Options{}, router.TLS{})
	f.route("app.example.org", backend(t, seen))
	for _, c := range []struct {
		name, host string
		fast       int64
	}{{"app.example.org", "app.example.org", 1}, {"app.example.org", "APP.example.org:443", 1},
		{"other.example.org", "app.example.org", 0}, {"", "app.example.org", 0}} {
		before := router.FastPathServed(f.proxy)
		conn, err := tls.Dial("tcp", f.addr, //nolint:gosec // the certificate is not of interest
			&tls.Config{ServerName: c.name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", c.host)
		if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		conn.Close()
		if got := router.FastPathServed(f.proxy) - before; got != c.fast {
			t.Errorf("connection for %q, request for %q: fast path served %d, want %d", c.name, c.host, got, c.fast)
		}
	}
}

// TestTLSPlainRequest tells a client that it forgot TLS.
func TestTLSPlainRequest(t *testing.T) {
	t.Parallel()
	f := newSecured(t, router.Options{}, router.TLS{})
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: app.example.org\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if got := text(t, conn); !strings.HasPrefix(got, "HTTP/1.0 400 ") || !strings.Contains(got, "This port serves HTTPS") {
		t.Errorf("got %q", got)
	}
}

// TestClientCerts passes certificates on as gorouter does.
func TestClientCerts(t *testing.T) {
	t.Parallel()
	for _, mode := range []router.ClientCerts{"", router.AlwaysForward, router.Forward, router.SanitizeSet} {
		for _, http2 := range []bool{false, true} {
			f := newSecured(t, router.Options{ClientCerts: mode}, router.TLS{})
			f.route("app.example.org", backend(t, seen))
			client := f.authority.Certificate("client")
			own := base64.StdEncoding.EncodeToString(client.Certificate[0])
			for _, c := range []struct {
				certified bool
				sent      string
				want      map[router.ClientCerts]string
			}{
				{false, "", map[router.ClientCerts]string{}},
				{false, "forged", map[router.ClientCerts]string{router.AlwaysForward: "forged"}},
				{true, "", map[router.ClientCerts]string{router.SanitizeSet: own}},
				{true, "sent", map[router.ClientCerts]string{router.AlwaysForward: "sent", router.Forward: "sent",
					router.SanitizeSet: own}},
			} {
				f.fresh(http2)
				if c.certified {
					f.transport.TLSClientConfig.Certificates = []tls.Certificate{client}
				}
				r := f.request(http.MethodGet, "https://app.example.org/", nil)
				if c.sent != "" {
					r.Header.Set("X-Forwarded-Client-Cert", c.sent)
				}
				if got := text(t, f.do(r).Body); got != "https 0 "+c.want[mode] {
					t.Errorf("mode %q, HTTP/2 %t, certificate %t, header %q: app got %q, want %q", mode, http2, c.certified, c.sent,
						got, c.want[mode])
				}
			}
		}
	}
}

// TestTLSDrain lets a request that is in progress finish when the listener closes, and ends
// handshakes that wait.
func TestTLSDrain(t *testing.T) {
	t.Parallel()
	f := newSecured(t, router.Options{}, router.TLS{})
	arrived, proceed := make(chan struct{}), make(chan struct{})
	f.route("app.example.org", backend(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-proceed
		fmt.Fprint(w, "finished")
	}))
	waiting, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	f.transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	answer := make(chan string, 1)
	go func() {
		res, err := f.client.Get("https://app.example.org/")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answer <- string(b)
	}()
	<-arrived
	fast := f.server.Listener.(*router.FastPath) //nolint:forcetypeassert // newSecured made it
	_ = fast.Close()
	close(proceed)
	if got := <-answer; got != "finished" {
		t.Errorf("got %q", got)
	}
	fast.Drain()
	_ = waiting.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := waiting.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the handshake that waits is not ended: %v", err)
	}
}
