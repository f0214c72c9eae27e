package router_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/router"
)

// http1 is what a route has that names no protocol.
const http1 router.Protocol = ""

// front is a proxy that listens, and a client that asks it for any host.
type front struct {
	t      testing.TB
	table  *router.Table
	addr   string
	client *http.Client
	access chan router.Access
	proxy  *router.Proxy
	server *httptest.Server
}

func newFront(t testing.TB, o router.Options) *front {
	t.Helper()
	f := &front{t: t, table: new(router.Table), access: make(chan router.Access, 1000)}
	o.AccessLog = func(a router.Access) {
		select {
		case f.access <- a:
		default:
		}
	}
	if o.Trusted == nil {
		o.Trusted = func(netip.AddrPort) bool { return true }
	}
	p := router.NewProxy(f.table, o)
	server := httptest.NewUnstartedServer(p)
	fast := router.NewFastPath(server.Listener)
	fast.Use(p, nil)
	server.Listener = fast
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(complaints{t}, nil), slog.LevelError)
	server.Start()
	f.proxy, f.server = p, server
	f.addr = server.Listener.Addr().String()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, f.addr)
		},
		DisableCompression:    true,
		MaxIdleConnsPerHost:   100,
		ExpectContinueTimeout: 10 * time.Second,
	}
	f.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		p.Close()
	})
	return f
}

// complaints fails the test for each panic that the server reports.
type complaints struct{ t testing.TB }

func (c complaints) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("panic")) {
		c.t.Errorf("server reports a panic: %s", b)
	}
	return len(b), nil
}

// backend serves h and returns how to reach it.
func backend(t testing.TB, h http.HandlerFunc) router.Backend {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return router.Backend{Address: s.Listener.Addr().String(), AppGUID: "app", ProcessGUID: "process",
		InstanceGUID: "instance-" + s.Listener.Addr().String()}
}

// dead is an address without a listener.
func dead(t testing.TB) router.Backend {
	t.Helper()
	return router.Backend{Address: testkit.Refusing(t), AppGUID: "app", InstanceGUID: "dead"}
}

func (f *front) route(host string, backends ...router.Backend) {
	f.table.Set(router.Route{GUID: "route-" + host, Host: host, Backends: backends})
}

func (f *front) do(r *http.Request) *http.Response {
	f.t.Helper()
	res, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (f *front) request(method, url string, body io.Reader) *http.Request {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, url, body)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *front) get(url string) (*http.Response, string) {
	f.t.Helper()
	res := f.do(f.request(http.MethodGet, url, nil))
	return res, text(f.t, res.Body)
}

func text(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func says(word string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, word+" "+r.URL.RequestURI()) }
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("empty.test")
	f.route("dead.test", dead(t), dead(t))
	for host, tc := range map[string]struct {
		status int
		word   string
		body   string
	}{
		"unknown.test": {404, "unknown_route", "404 Not Found: Requested route ('unknown.test') does not exist.\n"},
		"empty.test":   {404, "unknown_route", "404 Not Found: Requested route ('empty.test') does not exist.\n"},
		"dead.test":    {502, "endpoint_failure", "502 Bad Gateway: Registered endpoint failed to handle the request.\n"},
	} {
		res := f.do(f.request(http.MethodGet, "http://"+host+"/x", nil))
		if body := text(t, res.Body); res.StatusCode != tc.status || body != tc.body ||
			res.Header.Get("X-Cf-Routererror") != tc.word || res.Header.Get("X-Vcap-Request-Id") == "" {
			t.Errorf("%s answers %d %q %v, want %d %q %s", host, res.StatusCode, body, res.Header, tc.status, tc.body, tc.word)
		}
		if a := <-f.access; a.Status != tc.status || a.RouterError != tc.word || a.Host != host {
			t.Errorf("access %+v", a)
		}
	}
}

// A backend that refuses connections is reported, both ways that requests go. The answer says
// nothing of it: its reader need not be one who may see the app.
func TestRefusedBackendIsReported(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		reported := make(chan router.Backend, 1)
		f := newFront(t, router.Options{Refused: func(b router.Backend) { reported <- b }})
		side := dead(t)
		side.Port = 9090
		f.route("side.test", side)
		res := f.do(f.with("GET", "http://side.test/", header, nil))
		const want = "502 Bad Gateway: Registered endpoint failed to handle the request.\n"
		if body := text(t, res.Body); res.StatusCode != http.StatusBadGateway || body != want {
			t.Errorf("the answer is %d %q, want 502 %q", res.StatusCode, body, want)
		}
		if b := <-reported; b.Port != 9090 {
			t.Errorf("port %d was reported, want 9090", b.Port)
		}
	})
}

func TestRoutesByHostAndPath(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, says("app")))
	f.table.Set(router.Route{GUID: "p", Host: "app.test", Path: "/api",
		Backends: []router.Backend{backend(t, says("api"))}})
	f.table.Set(router.Route{GUID: "w", Host: "*.test", Backends: []router.Backend{backend(t, says("wild"))}})
	for url, want := range map[string]string{
		"http://app.test/":               "app /",
		"http://APP.test:8080/a%2Fb?q=1": "app /a%2Fb?q=1",
		"http://app.test/api/x":          "api /api/x",
		"http://app.test/apix?a;b":       "app /apix?a;b",
		"http://x.y.test//d//e":          "wild //d//e",
	} {
		if _, got := f.get(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// The router does not verify client certificates, so the header would be forged.
func TestClientCertificateHeaderIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var got http.Header
	f.route("app.test", backend(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	for name, more := range map[string]map[string]string{"fast path": {}, "other path": {"Te": "trailers"}} {
		r := f.request(http.MethodGet, "http://app.test/", nil)
		r.Header["x-forwarded-client-CERT"] = []string{"forged"}
		r.Header.Add("X-Forwarded-Client-Cert", "forged, too")
		r.Header.Set("X-Forwarded-Client-Certificate", "another header")
		for k, v := range more {
			r.Header.Set(k, v)
		}
		if res := f.do(r); res.StatusCode != http.StatusOK {
			t.Fatalf("status is %d, want %d", res.StatusCode, http.StatusOK)
		}
		if got["X-Forwarded-Client-Cert"] != nil || got.Get("X-Forwarded-Client-Certificate") == "" {
			t.Errorf("%s: the app gets %v", name, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var got http.Header
	var host string
	b := backend(t, func(w http.ResponseWriter, r *http.Request) {
		got, host = r.Header.Clone(), r.Host
		w.Header().Set("X-Cf-Routererror", "forged")
		w.Header().Set("X-Vcap-Request-Id", "forged")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header()["X-Two"] = []string{"a", "b"}
	})
	b.Index, b.AppGUID = 3, testGUID
	f.route("app.test", b)
	r := f.request(http.MethodGet, "http://app.test:99/", nil)
	for name, value := range map[string]string{
		"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside", "Forwarded": "for=x",
		"X-Cf-Applicationid": "forged", "X-Cf-Instanceid": "forged", "X-Cf-Instanceindex": "forged",
		"X-Cf-Routererror":     "forged",
		"X-Cf-Proxy-Signature": "forged", "X-Vcap-Request-Id": "bad\tid", "Connection": "X-Secret-Hop", "X-Secret-Hop": "1",
		"Proxy-Authorization": "x", "Te": "trailers", "X-Cf-App-Instance": testGUID + ":3", "User-Agent": "",
	} {
		r.Header.Set(name, value)
	}
	res := f.do(r)
	if res.StatusCode != http.StatusOK || host != "app.test:99" {
		t.Fatalf("status is %d, host %q, want 200 and app.test:99", res.StatusCode, host)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside",
		"Forwarded":          "for=x",
		"X-Cf-Applicationid": testGUID, "X-Cf-Instanceid": b.InstanceGUID, "X-Cf-Instanceindex": "3", "X-Cf-Routererror": "",
		"X-Cf-Proxy-Signature": "", "X-Secret-Hop": "", "Proxy-Authorization": "", "Te": "trailers", "User-Agent": "",
		"Accept-Encoding": "",
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	id := got.Get("X-Vcap-Request-Id")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("request id %q", id)
	}
	ms, err := strconv.ParseInt(got.Get("X-Request-Start"), 10, 64)
	if err != nil || time.Since(time.UnixMilli(ms)) > time.Minute {
		t.Errorf("X-Request-Start %q", got.Get("X-Request-Start"))
	}
	h := res.Header
	if h.Get("X-Cf-Routererror") != "" || h.Get("X-Hop") != "" || len(h["X-Two"]) != 2 ||
		len(h["X-Vcap-Request-Id"]) != 1 || h.Get("X-Vcap-Request-Id") != id {
		t.Errorf("answer %v", h)
	}

}

// What a client says of whom it forwards a request for is believed only if it is a
// trusted proxy, on the fast path and off it.
func TestForwardedHeadersOfClients(t *testing.T) {
	t.Parallel()
	var got http.Header
	b := backend(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	for trusted, want := range map[bool]map[string]string{
		true: {"X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside",
			"X-Forwarded-Port": "99", "Forwarded": "for=x", "X-Other": "1"},
		false: {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "", "X-Forwarded-Port": "",
			"Forwarded": "", "X-Other": "1"},
	} {
		f := newFront(t, router.Options{Trusted: func(from netip.AddrPort) bool {
			return trusted && from.Addr().
				IsLoopback()
		}})
		f.route("app.test", b)
		for _, path := range []string{"fast path", "server"} {
			r := f.request(http.MethodGet, "http://app.test/", nil)
			for name, value := range map[string]string{
				"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside", "X-Forwarded-Port": "99",
				"Forwarded":         "for=x",
				"X-Vcap-Request-Id": "from-before", "X-Other": "1",
				"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			} {
				r.Header.Set(name, value)
			}
			if path == "server" {
				r.Header.Set("Te", "trailers")
			}
			f.do(r)
			for name, want := range want {
				if got.Get(name) != want {
					t.Errorf("%s, trusted %t: %s is %q, want %q", path, trusted, name, got.Get(name), want)
				}
			}
			// In front of the server, web.Trust removes the id.
			if id := got.Get("X-Vcap-Request-Id"); path == "fast path" && (id == "from-before") != trusted {
				t.Errorf("%s, trusted %t: request id %q", path, trusted, id)
			}
			if parent := got.Get("Traceparent"); !strings.Contains(parent, "0af7651916cd43dd8448eb211c80319c") {
				t.Errorf("%s, trusted %t: Traceparent %q, want one of the client's trace", path, trusted, parent)
			}
			if a := <-f.access; a.ForwardedFor != want["X-Forwarded-For"] {
				t.Errorf("%s, trusted %t: access log has %q, want %q", path, trusted, a.ForwardedFor, want["X-Forwarded-For"])
			}
		}
	}
}

func TestBalancing(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var backends []router.Backend
	hold := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(hold) }))
	for i := range 3 {
		b := backend(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				w.Header().Set("X-Index", strconv.Itoa(i))
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-hold:
				case <-r.Context().Done():
				}
				return
			}
			fmt.Fprint(w, i)
		})
		b.Index = i
		backends = append(backends, b)
	}
	count := func(n int) map[string]int {
		got := map[string]int{}
		for range n {
			_, body := f.get("http://app.test/")
			got[body]++
		}
		return got
	}
	f.route("app.test", backends...)
	if got := count(30); got["0"] != 10 || got["1"] != 10 || got["2"] != 10 {
		t.Errorf("round robin: %v", got)
	}
	weighted := append([]router.Backend{}, backends...)
	weighted[0].Weight, weighted[1].Weight, weighted[2].Weight = 70, 20, 10
	f.route("app.test", weighted...)
	if got := count(100); got["0"] != 70 || got["1"] != 20 || got["2"] != 10 {
		t.Errorf("weighted: %v", got)
	}
	f.table.Set(router.Route{GUID: "route-app.test", Host: "app.test", Backends: backends,
		Options: map[string]string{"loadbalancing": "least-connection"}})
	held := f.do(f.request(http.MethodGet, "http://app.test/hold", nil))
	if got := count(6); got[held.Header.Get("X-Index")] != 0 {
		t.Errorf("the busy instance %s got requests: %v", held.Header.Get("X-Index"), got)
	}
	held.Body.Close()
}

func TestDeadBackendsAreSkipped(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	body := strings.Repeat("body", 1000)
	alive := backend(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, _ = w.Write(b)
	})
	alive2 := alive
	alive2.Protocol = router.HTTP2
	deadH2 := dead(t)
	deadH2.Protocol = router.HTTP2
	f.route("app.test", dead(t), dead(t), alive)
	f.route("h2.test", deadH2, deadH2, alive2)
	for _, host := range []string{"app.test", "h2.test"} {
		for i := range 12 {
			res := f.do(f.request(http.MethodPost, "http://"+host+"/", io.MultiReader(strings.NewReader(body))))
			if got := text(t, res.Body); res.StatusCode != http.StatusOK || got != body {
				t.Fatalf("%s: %d, %d bytes", host, res.StatusCode, len(got))
			}
			a := <-f.access
			if a.RequestBytes != 4000 || a.ResponseBytes != 4000 || a.Backend != alive.Address {
				t.Errorf("access is %+v, want 4000 bytes each way with %s", a, alive.Address)
			}
			if i > 3 && a.Attempts != 1 {
				t.Errorf("%s: request %d took %d attempts: dead ones are remembered", host, i, a.Attempts)
			}
		}
	}
}

// What reached an instance is not repeated elsewhere.
func TestBrokenAnswerIsNotRetried(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var asked atomic.Int32
	broken := func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			c.Close()
		}
	}
	f.route("app.test", backend(t, broken), backend(t, broken))
	res := f.do(f.request(http.MethodPost, "http://app.test/", strings.NewReader("x")))
	if res.StatusCode != http.StatusBadGateway || asked.Load() != 1 ||
		res.Header.Get("X-Cf-Routererror") != "endpoint_failure" {
		t.Errorf("%d after %d", res.StatusCode, asked.Load())
	}
}

func TestResponseHeaderTimeout(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{ResponseHeaderTimeout: 50 * time.Millisecond})
	f.route("app.test", backend(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	if res, _ := f.get("http://app.test/"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("status is %d, want %d", res.StatusCode, http.StatusBadGateway)
	}
}

func TestAccessLine(t *testing.T) {
	t.Parallel()
	a := router.Access{
		Host: "app.test", Time: time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("x", 3600)), Method: http.MethodGet,
		URI: "/p?q=1", Proto: "HTTP/1.1",
		Status: 200, RequestBytes: 12, ResponseBytes: 1234, UserAgent: "curl \"8\"\r\nforged - [x]",
		RemoteAddr: "1.2.3.4:5678", Backend: "10.0.0.1:8080",
		ForwardedFor: "9.9.9.9, 1.2.3.4", ForwardedProto: "http", RequestID: "id", Duration: 1234567 * time.Nanosecond,
		RouterTime: 123 * time.Microsecond,
		App:        "app", Index: "0", Instance: "inst",
	}
	want := `app.test - [2026-03-04T04:06:07.000000008Z] "GET /p?q=1 HTTP/1.1" 200 12 1234 "-" "curl \"8\"\r\nforged - [x]" "1.2.3.4:5678" "10.0.0.1:8080" ` +
		`x_forwarded_for:"9.9.9.9, 1.2.3.4" x_forwarded_proto:"http" vcap_request_id:"id" response_time:0.001235 gorouter_time:0.000123 ` +
		`app_id:"app" app_index:"0" instance_id:"inst" x_cf_routererror:"-" x_b3_traceid:"-" x_b3_spanid:"-" x_b3_parentspanid:"-" b3:"-" traceparent:"-" tracestate:"-"`
	if got := a.Line(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for c := range 256 {
		value := "a" + string([]byte{byte(c)}) + "b"
		a := router.Access{Host: "h", Method: value, URI: value, Proto: "p", UserAgent: value}
		got := a.Line()
		if want := strconv.Quote(value+" "+value+" p") + ` "-" 0 0 "-" ` + strconv.Quote(value) +
			" "; !strings.Contains(got, want) {
			t.Errorf("line is %s, want %s in it", got, want)
		}
	}
	a = router.Access{Host: "a b\n\"x", URI: strings.Repeat("x", 100000), RouterError: "unknown_route"}
	got := a.Line()
	if strings.Contains(got, "\n") || len(got) > 22000 || !strings.HasPrefix(got, `a\x20b\n\"x - [`) ||
		!strings.Contains(got, ` x_cf_routererror:"unknown_route" x_b3_traceid:`) {
		t.Errorf("line is %.100s … %s, want it escaped, cut and with the router error", got, got[max(0, len(got)-100):])
	}
}

func TestAccessOfARequest(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	b := backend(t, says("x"))
	f.route("app.test", b)
	r := f.request(http.MethodPost, "http://app.test/p?q", strings.NewReader("12345"))
	r.Header.Set("Referer", "http://from/")
	f.do(r)
	a := <-f.access
	if a.Method != http.MethodPost || a.URI != "/p?q" || a.Status != 200 || a.ResponseBytes != 6 ||
		a.Referer != "http://from/" || a.Backend != b.Address ||
		a.Route != "route-app.test" || a.Process != "process" || a.Instance != b.InstanceGUID || a.Index != "0" ||
		a.Attempts != 1 || a.Duration < a.RouterTime || a.RouterTime <= 0 {
		t.Errorf("access is %+v, want POST /p?q with status 200 of instance %s", a, b.InstanceGUID)
	}
}

// Requests are answered right while routes change all the time: by an instance
// of their own app, or not at all.
func TestTrafficDuringChanges(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	const apps = 4
	var backends [apps][]router.Backend
	for i := range apps {
		for range 2 {
			backends[i] = append(backends[i], backend(t, says("app"+strconv.Itoa(i))))
		}
	}
	f.route("app0.test", backends[0]...) // from before the first request on
	var stop atomic.Bool
	var all sync.WaitGroup
	var served atomic.Int64
	for range 4 {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				i := n % apps
				res, body := f.get(fmt.Sprintf("http://app%d.test/", i))
				switch {
				case res.StatusCode == http.StatusOK && body == fmt.Sprintf("app%d /", i):
					served.Add(1)
				case i > 0 && (res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusServiceUnavailable):
				default:
					t.Errorf("app%d: %d %q", i, res.StatusCode, body)
				}
			}
		})
	}
	for n := range 10000 {
		i := n % apps
		switch {
		case i == 0 || n%7 < 4: // app 0 always has a route
			f.route(fmt.Sprintf("app%d.test", i), backends[i][:1+n%2]...)
		case n%7 == 4:
			f.route(fmt.Sprintf("app%d.test", i))
		default:
			f.table.Remove(fmt.Sprintf("route-app%d.test", i))
		}
		if n == 0 || n%2000 == 0 {
			for before := served.Load(); served.Load() < before+20 && !t.Failed(); {
				<-f.access
			}
		}
	}
	stop.Store(true)
	all.Wait()
}

func BenchmarkProxy(b *testing.B) {
	f := newFront(b, router.Options{})
	f.route("app.test", backend(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequest(http.MethodGet, "http://app.test/", nil)
			res, err := f.client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	})
}

// BenchmarkDirect is BenchmarkProxy without the proxy.
func BenchmarkDirect(b *testing.B) {
	at := backend(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequest(http.MethodGet, "http://"+at.Address+"/", nil)
			res, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	})
}
