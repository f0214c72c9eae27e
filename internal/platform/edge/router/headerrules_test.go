package router_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"ingot/internal/base/safedial"
	"ingot/internal/platform/edge/router"
)

// The places where header rules apply:
//
//	requests:  headers, trailers; on the fast path, by the server, in HTTP/2, to HTTP/2 backends,
//	           upgrades, at the second attempt, to route services elsewhere and here
//	responses: headers, trailers, informational responses, upgrades; on the same paths
//
// forgedNames are the headers that apps must not believe of a client, and clients must not of
// an app; both without those that frame a message.
var (
	forgedRequest = []string{
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port",
		"X-Forwarded-Client-Cert",
		"X-Cf-Applicationid", "X-Cf-Instanceid", "X-Cf-Instanceindex", "X-Cf-Routererror", "X-Cf-Proxy-Metadata",
		"X-Cf-Forwarded-Url",
	}
	forgedTrailers = append(slices.Clone(forgedRequest), "X-Cf-Proxy-Signature", "X-Vcap-Request-Id", "X-Request-Start",
		"Traceparent", "B3", "X-B3-Traceid", "X-B3-Spanid",
		"Host", "Cookie", "Connection", "Keep-Alive", "Proxy-Authorization", "Te", "Upgrade", "Authorization",
		"Content-Type", "X-Named")
	forgedResponse = []string{"X-Cf-Routererror", "X-Vcap-Request-Id", "Keep-Alive", "Proxy-Connection",
		"Proxy-Authenticate", "Te", "Upgrade", "X-Named"}
)

const forged = "forged"

// forgedIn returns what of a header is forged.
func forgedIn(h http.Header) (names []string) {
	for name, values := range h {
		if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, forged) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// http2Client returns a client that speaks HTTP/2 with a front.
func (f *front) http2Client() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, f.addr)
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// gotRequest is what an app got.
type gotRequest struct{ header, trailer http.Header }

// way is how a request reaches an app.
type way struct {
	client   string // "fast", "server", "upgrade" or "http2"
	protocol router.Protocol
	service  string // "here" or "elsewhere"
	retry    bool
}

func TestHeaderRulesOfRequests(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]way{
		"fast path":            {client: "fast"},
		"fast path, retried":   {client: "fast", retry: true},
		"server":               {client: "server"},
		"server, retried":      {client: "server", retry: true},
		"upgrade":              {client: "upgrade"},
		"server to HTTP/2":     {client: "server", protocol: router.HTTP2},
		"HTTP/2":               {client: "http2"},
		"HTTP/2 to HTTP/2":     {client: "http2", protocol: router.HTTP2},
		"service elsewhere":    {client: "server", service: "elsewhere"},
		"service here":         {client: "server", service: "here"},
		"HTTP/2, service here": {client: "http2", service: "here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.test(t)
		})
	}
}

// front returns a front with a route to an app, and what the app gets.
func (w way) front(t *testing.T) (*front, <-chan gotRequest) {
	t.Helper()
	got := make(chan gotRequest, 1)
	app := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- gotRequest{r.Header, r.Trailer}
	}
	f := newFront(t, router.Options{RouteServices: safedial.Everywhere,
		Trusted: func(netip.AddrPort) bool { return false }})
	b := backend(t, app)
	b.Protocol = w.protocol
	route := router.Route{GUID: "app", Host: "app.test", Backends: []router.Backend{b}}
	switch {
	case w.retry:
		route.Backends = []router.Backend{dead(t), b, dead(t), dead(t)}
	case w.service == "here":
		f.table.Set(router.Route{GUID: "service", Host: "service.test", Backends: []router.Backend{b}})
		route.RouteServiceURL = "https://service.test/"
	case w.service == "elsewhere":
		elsewhere := httptest.NewServer(http.HandlerFunc(app))
		t.Cleanup(elsewhere.Close)
		route.RouteServiceURL = elsewhere.URL
	}
	f.table.Set(route)
	return f, got
}

// request returns a request with forged headers and trailers.
func (w way) request(f *front) *http.Request {
	r := f.request(http.MethodGet, "http://app.test/", nil)
	if w.client != "fast" && w.client != "upgrade" {
		r = f.request(http.MethodPost, "http://app.test/", io.MultiReader(strings.NewReader("body")))
		r.Trailer = http.Header{"X-Sum": {"1"}}
		for _, name := range forgedTrailers {
			r.Trailer[name] = []string{forged}
		}
		if w.client == "http2" { // the server refuses the others
			maps.DeleteFunc(r.Trailer, func(name string, _ []string) bool {
				return name == "X-Named" ||
					!httpguts.ValidTrailerHeader(name)
			})
		}
	}
	for _, name := range forgedRequest {
		r.Header.Set(name, forged)
	}
	r.Header.Set("X-Own", "1")
	switch w.client {
	case "upgrade":
		r.Header.Set("Connection", "Upgrade, X-Named")
		r.Header.Set("Upgrade", "shout")
		r.Header.Set("X-Named", forged)
	case "server":
		r.Header.Set("Connection", "X-Named")
		r.Header.Set("X-Named", forged)
	}
	return r
}

func (w way) test(t *testing.T) {
	f, got := w.front(t)
	r := w.request(f)
	client := f.client
	if w.client == "http2" {
		client = f.http2Client()
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status is %d: %s", res.StatusCode, text(t, res.Body))
	}
	g := <-got
	if bad := forgedIn(g.header); bad != nil || g.header.Get("X-Own") != "1" {
		t.Errorf("the app gets forged headers %q, and X-Own %q, want 1", bad, g.header["X-Own"])
	}
	if bad := forgedIn(g.trailer); bad != nil || r.Body != nil && g.trailer.Get("X-Sum") != "1" {
		t.Errorf("the app gets forged trailers %q, and X-Sum %q, want 1", bad, g.trailer["X-Sum"])
	}
	for name := range g.trailer {
		if name != "X-Sum" {
			t.Errorf("the trailer %s is announced", name)
		}
	}
	if n := router.FastPathServed(f.proxy); (n == 1) != (w.client == "fast") {
		t.Errorf("the fast path served %d requests", n)
	}
}

// response is what a client got.
type response struct {
	status          int
	early           []http.Header
	header, trailer http.Header
	body            string
}

// fetch gets a response, with the informational ones before it.
func fetch(t testing.TB, client *http.Client, r *http.Request) response {
	t.Helper()
	var mu sync.Mutex
	var got response
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			got.early = append(got.early, http.Header(h))
			return nil
		},
	}))
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body := text(t, res.Body)
	mu.Lock()
	defer mu.Unlock()
	got.status, got.header, got.trailer, got.body = res.StatusCode, res.Header, res.Trailer, body
	return got
}

// answering returns a backend that sends bytes as they are.
func answering(t testing.TB, answer string) router.Backend {
	return rawBackend(t, func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil || strings.Contains(answer, "close") {
				return
			}
		}
	})
}

// forgers are what answers with forged headers and trailers: bytes for a connection, an app that
// speaks HTTP/2, and a route service.
func forgers(t *testing.T) (raw string, http2App router.Backend, service *httptest.Server) {
	t.Helper()
	var head strings.Builder
	for _, name := range forgedResponse {
		fmt.Fprintf(&head, "%s: %s\r\n", name, forged)
	}
	named := "Connection: X-Named\r\n" + head.String() + "X-Own: 1\r\n"
	raw = "HTTP/1.1 103 Early Hints\r\n" + named + "\r\n" +
		"HTTP/1.1 200 OK\r\n" + named + "Transfer-Encoding: chunked\r\nTrailer: X-Sum, " +
		strings.Join(forgedResponse, ", ") + "\r\n\r\n" +
		"4\r\nbody\r\n0\r\nX-Sum: 1\r\nX-Late: 1\r\n" + head.String() +
		"Content-Length: 99\r\nTransfer-Encoding: forged\r\nContent-Type: forged\r\n\r\n"
	http2App = backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Cf-Routererror")
		for _, name := range []string{"X-Cf-Routererror", "X-Vcap-Request-Id"} {
			w.Header().Set(name, forged)
			w.Header().Set(http.TrailerPrefix+name, forged)
		}
		w.Header().Set("X-Own", "1")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	})
	http2App.Protocol = router.HTTP2
	service = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString(raw)
		_ = rw.Flush()
	}))
	t.Cleanup(service.Close)
	return raw, http2App, service
}

func TestHeaderRulesOfResponses(t *testing.T) {
	t.Parallel()
	raw, http2App, service := forgers(t)
	for name, tc := range map[string]struct {
		host   string
		http2  bool
		header string
	}{
		"fast path":                {host: "app.test", header: "X-None"},
		"server":                   {host: "app.test", header: "Te"},
		"HTTP/2":                   {host: "app.test", header: "Te", http2: true},
		"from HTTP/2":              {host: "http2.test", header: "Te"},
		"HTTP/2 from HTTP/2":       {host: "http2.test", header: "Te", http2: true},
		"from a service":           {host: "service.test", header: "Te"},
		"HTTP/2, from the service": {host: "service.test", header: "Te", http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{RouteServices: safedial.Everywhere})
			plain := answering(t, raw)
			f.route("app.test", plain)
			f.route("http2.test", http2App)
			f.table.Set(router.Route{GUID: "s", Host: "service.test", RouteServiceURL: service.URL,
				Backends: []router.Backend{plain}})
			client := f.client
			if tc.http2 {
				client = f.http2Client()
			}
			got := fetch(t, client, f.with(http.MethodGet, "http://"+tc.host+"/", tc.header, nil))
			if got.status != http.StatusOK || got.body != "body" || len(got.early) != 1 {
				t.Fatalf("got %d %q after %d informational responses, want 200 body after 1", got.status, got.body, len(got.early))
			}
			for part, h := range map[string]http.Header{"informational response": got.early[0], "header": got.header,
				"trailer": got.trailer} {
				want := map[string]string{"X-Own": "1"}
				if part == "trailer" {
					want = map[string]string{"X-Sum": "1", "X-Late": "1"}
					if len(h) != len(want) {
						t.Errorf("trailers are %v", h)
					}
				}
				if bad := forgedIn(h); bad != nil {
					t.Errorf("%s: the client gets forged %q", part, bad)
				}
				for name, value := range want {
					if h.Get(name) != value {
						t.Errorf("%s: %s is %q, want %q", part, name, h[name], value)
					}
				}
			}
			if ids := got.header["X-Vcap-Request-Id"]; len(ids) != 1 {
				t.Errorf("request ids are %q, want one", ids)
			}
			if served := router.FastPathServed(f.proxy); (served == 1) != (tc.header == "X-None") {
				t.Errorf("the fast path served %d requests", served)
			}
		})
	}
}

// An upgrade keeps the headers of the upgrade, and no other that concerns a connection.
func TestHeaderRulesOfUpgrades(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", answering(t,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Named\r\nUpgrade: shout\r\nX-Named: "+
			"forged\r\nKeep-Alive: forged\r\n"+
			"Proxy-Authenticate: forged\r\nX-Cf-Routererror: forged\r\nX-Own: 1\r\n\r\n"))
	c, r := f.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := res.Header
	if bad := forgedIn(h); res.StatusCode != http.StatusSwitchingProtocols || bad != nil || h.Get("X-Own") != "1" ||
		h.Get("Connection") != "Upgrade" || h.Get("Upgrade") != "shout" {
		t.Errorf("got %d %v, forged %q", res.StatusCode, h, bad)
	}
}

// A header that Connection names is not passed on, however long its name is.
func TestHeadersNamedInConnection(t *testing.T) {
	t.Parallel()
	const longest = 40
	var head strings.Builder
	var names []string
	for n := 1; n <= longest; n++ {
		name := strings.Repeat("z", n)
		names = append(names, name)
		fmt.Fprintf(&head, "%s: named\r\n%s: kept\r\n", name, strings.Repeat("y", n))
	}
	answer := "HTTP/1.1 200 OK\r\n" + head.String() + "Connection: " + strings.Join(names, ", ") +
		"\r\nContent-Length: 2\r\n\r\nok"
	check := func(t *testing.T, h http.Header) {
		t.Helper()
		for n := 1; n <= longest; n++ {
			named, kept := h.Get(strings.Repeat("z", n)), h.Get(strings.Repeat("y", n))
			if named != "" || kept != "kept" {
				t.Errorf("names of %d characters: a header that Connection names is %q, another %q", n, named, kept)
			}
		}
	}
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		f.route("raw.test", answering(t, answer))
		app := make(chan http.Header, 1)
		f.route("app.test", backend(t, func(_ http.ResponseWriter, r *http.Request) { app <- r.Header }))
		res := f.do(f.with(http.MethodGet, "http://raw.test/", header, nil))
		if body := text(t, res.Body); body != "ok" {
			t.Errorf("body is %q, want ok", body)
		}
		check(t, res.Header)
		r := f.with(http.MethodGet, "http://app.test/", header, nil)
		for n := 1; n <= longest; n++ {
			r.Header.Set(strings.Repeat("z", n), "named")
			r.Header.Set(strings.Repeat("y", n), "kept")
		}
		r.Header.Set("Connection", strings.Join(names, ", "))
		f.do(r)
		check(t, <-app)
	})
}

// Clients cannot tell by a response whether it came by the fast path or by the server.
func TestFastPathAndServerPassTheSameOn(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
	for i, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: 1\r\nA: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nX-A: 1\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-A\r\nConnection: ,x-b ,\r\nX-A: 1\r\nX-B: 1\r\nX-C: " +
			"1\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Set-Cookie\r\nSet-Cookie: JSESSIONID=1\r\n\r\nok",
		"HTTP/1.1 407 No\r\nContent-Length: 2\r\nProxy-Authenticate: Basic\r\nWww-Authenticate: Basic\r\nTe: x\r\nTrailer: " +
			"X-A\r\n\r\nok",
		"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 " +
			"OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\nKeep-Alive: 1\r\nX-Vcap-Request-Id: 1\r\n\r\nHTTP/1.1 103 Early " +
			"Hints\r\nLink: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		chunked + "\r\n2\r\nok\r\n0\r\n\r\n",
		chunked + "\r\n2\r\nok\r\n0\r\nX-A: 1\r\nX-A: 2\r\nX-B:  b \r\n\r\n",
		chunked + "Trailer: X-A\r\n\r\n2\r\nok\r\n0\r\nX-A: 1\r\n\r\n",
		chunked +
			"Trailer: X-A, X-Cf-Routererror\r\nTrailer: X-B\r\n\r\n2\r\nok\r\n0\r\nX-A: 1\r\nX-Cf-Routererror: 1\r\n\r\n",
		chunked + "Trailer: X-Cf-Routererror\r\n\r\n2\r\nok\r\n0\r\nX-Cf-Routererror: 1\r\n\r\n",
		chunked + "Connection: X-A\r\nTrailer: X-A, X-B\r\n\r\n2\r\nok\r\n0\r\nX-A: 1\r\nX-B: 1\r\n\r\n",
		chunked + "\r\n2\r\nok\r\n0\r\nAuthorization: 1\r\nIf-Match: 1\r\nGrpc-Status: 0\r\nX-Request-Id: 7\r\n\r\n",
	} {
		host := fmt.Sprintf("a%d.test", i)
		f.route(host, answering(t, answer))
		got := map[string]response{}
		for mode, header := range modes {
			f.client.CloseIdleConnections() // one that was handed to the server stays there
			r := fetch(t, f.client, f.with(http.MethodGet, "http://"+host+"/", header, nil))
			for _, name := range []string{"X-Vcap-Request-Id", "Date", "Content-Length", "Connection"} {
				delete(r.header, name)
			}
			for _, h := range r.early {
				delete(h, "Date")
			}
			if len(r.trailer) == 0 {
				r.trailer = nil
			}
			for mode, other := range got {
				if !reflect.DeepEqual(r, other) {
					t.Errorf("case %d: %+v, and by the %s %+v", i, r, mode, other)
				}
			}
			got[mode] = r
		}
	}
}

// A fold continues no header that the router has read before.
func TestFoldedFraming(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	for i, answer := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n , identity\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n 3\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nConnection: close,\r\n X-A\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nok",
	} {
		host := fmt.Sprintf("a%d.test", i)
		f.route(host, answering(t, answer))
		if res, _ := f.get("http://" + host + "/"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("case %d is answered with %d %v, want 502", i, res.StatusCode, res.Header)
		}
	}
}

// What HTTP/1 cannot express is the client's fault.
func TestMalformedHTTP2Requests(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, says("app")))
	for name, fields := range map[string][2]string{
		"a space in the method":   {"GE T", "/"},
		"a colon in the method":   {"GET:", "/"},
		"a newline in the method": {"GET\r\nX: y", "/"},
		"a space in the path":     {"GET", "/a b"},
		"a space in the query":    {"GET", "/?a HTTP/1.1"},
	} {
		if got := f.http2Status(fields[0], fields[1]); got != "400" {
			t.Errorf("%s: status is %s, want 400", name, got)
		}
	}
	if got := f.http2Status("PURGE", "/?a;b"); got != "200" {
		t.Errorf("a valid request: status is %s, want 200", got)
	}
}

// http2Status sends a request without the checks of a client, and returns the status. A
// stream that is reset has the status "400", too.
func (f *front) http2Status(method, path string) string {
	f.t.Helper()
	c, _ := f.dial()
	send(f.t, c, "%s", http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		f.t.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "app.test"},
		{":path", path}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true,
		EndHeaders: true}); err != nil {
		f.t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			f.t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return "400"
		}
	}
}
