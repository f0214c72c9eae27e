package router_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/router"
)

// dialFront opens a connection to the front.
func (f *front) dial() (net.Conn, *bufio.Reader) {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

func send(t testing.TB, w io.Writer, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		t.Fatal(err)
	}
}

// answerTo reads an answer to a request with a method, and its body.
func answerTo(t testing.TB, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// What is plain goes by the fast path, all else by the server, and clients cannot
// tell the difference; also not when one connection has both.
func TestFastPathAndServerAnswerAlike(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s|%s|%s|%v", r.Method, r.Host, r.RequestURI, b, r.Header.Get("X-Own"),
			r.Header["X-Forwarded-For"])
	}))
	c, r := f.dial()
	plain := int64(0)
	for i, tc := range []struct {
		request string
		want    string
		fast    bool
	}{
		{"GET /a?b=%20c HTTP/1.1\r\nHost: app.test\r\nX-Own: 1\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n",
			"GET app.test /a?b=%20c||1|[9.9.9.9, 127.0.0.1]", true},
		{"POST /p HTTP/1.1\r\nHost: app.test:80\r\nContent-Length: 5\r\n\r\nhello",
			"POST app.test:80 /p|hello||[127.0.0.1]", true},
		{"DELETE /p HTTP/1.1\r\nhost: APP.test\r\nconnection: Keep-Alive\r\n\r\n", "DELETE APP.test /p|||[127.0.0.1]", true},
		{"POST /p HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
			"POST app.test /p|hello||[127.0.0.1]", false},
		{"GET /after HTTP/1.1\r\nHost: app.test\r\nX-Own: 2\r\n\r\n", "GET app.test /after||2|[127.0.0.1]", false},
	} {
		send(t, c, "%s", tc.request)
		res, body := answerTo(t, r, "GET")
		if res.StatusCode != http.StatusOK || body != tc.want {
			t.Errorf("%d: %d %q, want %q", i, res.StatusCode, body, tc.want)
		}
		if tc.fast {
			plain++
		}
		if got := router.FastPathServed(f.proxy); got != plain {
			t.Errorf("%d: %d requests on the fast path, want %d", i, got, plain)
		}
		<-f.access
	}
}

// Requests that come together, in pieces and one byte at a time are the same.
func TestPipelinedAndInPieces(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.RequestURI, b)
	}))
	c, r := f.dial()
	var all strings.Builder
	for i := range 20 {
		fmt.Fprintf(&all, "PUT /%d HTTP/1.1\r\nHost: app.test\r\nContent-Length: 3\r\n\r\nabc", i)
	}
	send(t, c, "%s", all.String())
	for i := range 20 {
		if _, body := answerTo(t, r, "PUT"); body != fmt.Sprintf("/%d abc", i) {
			t.Fatalf("answer %d is %q, want /%d abc", i, body, i)
		}
	}
	for _, b := range []byte("PUT /slow HTTP/1.1\r\nHost: app.test\r\nContent-Length: 3\r\n\r\nabc") {
		send(t, c, "%c", b)
	}
	if _, body := answerTo(t, r, "PUT"); body != "/slow abc" {
		t.Fatalf("body is %q, want /slow abc", body)
	}
	if got := router.FastPathServed(f.proxy); got != 21 {
		t.Errorf("%d requests on the fast path", got)
	}
}

// Hosts that are not for apps reach the server, whatever routes there are.
func TestFastPathLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	var table router.Table
	app := backend(t, says("app"))
	table.Set(router.Route{GUID: "wild", Host: "*.test", Backends: []router.Backend{app}})
	table.Set(router.Route{GUID: "apex", Host: "test", Backends: []router.Backend{app}})
	p := router.NewProxy(&table, router.Options{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "api")
	}))
	fast := router.NewFastPath(server.Listener)
	server.Listener = fast
	server.Start()
	t.Cleanup(func() {
		server.Close()
		p.Close()
	})
	ask := func(host string) string {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		send(t, c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		_, body := answerTo(t, bufio.NewReader(c), "GET")
		return body
	}
	if got := ask("x.test"); got != "api" {
		t.Errorf("before there is a proxy: %q", got)
	}
	fast.Use(p, func(host string) bool { return host == "api.test" || host == "test" })
	for host, want := range map[string]string{"x.test": "app /", "api.test": "api", "test": "api", "elsewhere": "api"} {
		for range 2 {
			if got := ask(host); got != want {
				t.Errorf("%s answers %q, want %q", host, got, want)
			}
		}
	}
}

// A listener that closes lets the request under way finish, and ends those that
// wait for one.
func TestFastPathDrains(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	asked, goOn := make(chan struct{}), make(chan struct{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(asked)
			<-goOn
		}
		fmt.Fprint(w, "done")
	}))
	idle, idleReader := f.dial()
	send(t, idle, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	answerTo(t, idleReader, "GET")
	busy, busyReader := f.dial()
	send(t, busy, "GET /slow HTTP/1.1\r\nHost: app.test\r\n\r\n")
	<-asked
	f.server.Listener.Close()
	if _, err := idleReader.ReadByte(); err == nil {
		t.Error("an idle connection was not closed")
	}
	drained := make(chan struct{})
	go func() {
		f.server.Listener.(*router.FastPath).Drain()
		close(drained)
	}()
	close(goOn)
	if _, body := answerTo(t, busyReader, "GET"); body != "done" {
		t.Errorf("body is %q, want done", body)
	}
	<-drained
}

// Answers without a length, with chunks and trailers, before others and without
// a body.
func TestFastPathAnswers(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	raw := func(answer string) router.Backend {
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
	for i, tc := range []struct {
		method, answer string
		status         int
		body           string
	}{
		{"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", 200, "until the end"},
		{"GET", "HTTP/1.0 200 OK\r\nX: close\r\n\r\nold", 200, "old"},
		{"GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		{"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok", 200, "ok"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Trailer: " +
			"1\r\n\r\n", 200, "abc0123456789"},
		{"GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 103, ""},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n", 200, ""},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304, ""},
		{"GET", "HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
	} {
		host := fmt.Sprintf("a%d.test", i)
		f.route(host, raw(tc.answer))
		for range 2 {
			c, r := f.dial()
			for range 2 {
				send(t, c, "%s / HTTP/1.1\r\nHost: %s\r\n\r\n", tc.method, host)
				res, body := answerTo(t, r, tc.method)
				if res.StatusCode != tc.status || body != tc.body {
					t.Errorf("answer to case %d is %d %q, want %d %q", i, res.StatusCode, body, tc.status, tc.body)
				}
				if tc.status == 103 {
					if res, body = answerTo(t, r, tc.method); res.StatusCode != http.StatusOK || body != "ok" {
						t.Errorf("%d: after it %d %q", i, res.StatusCode, body)
					}
				}
				if strings.Contains(tc.answer, "Folded") && res.Header.Get("X-Folded") != "a b" {
					t.Errorf("header is %v, want X-Folded: a b", res.Header)
				}
				if res.Close {
					break
				}
			}
		}
	}
}

// rawBackend speaks over connections by itself.
func rawBackend(t testing.TB, serve func(net.Conn, *bufio.Reader)) router.Backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				serve(c, bufio.NewReader(c))
			})
		}
	}()
	return router.Backend{Address: l.Addr().String(), AppGUID: "app", InstanceGUID: "raw-" + l.Addr().String()}
}

// An app that answers HEAD with a body, a moment later, does not answer the next
// request with it.
func TestFastPathLateBody(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	late, sent := make(chan struct{}), make(chan struct{})
	f.route("app.test", rawBackend(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if req.Method != http.MethodHead {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue")
				continue
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
			<-late
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
			close(sent)
		}
	}))
	c, r := f.dial()
	send(t, c, "HEAD / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	answerTo(t, r, "HEAD")
	close(late)
	<-sent
	send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	if _, body := answerTo(t, r, "GET"); body != "true" {
		t.Errorf("the answer is %q", body)
	}
}

// A request that the server had to cut off has its line when the listener is
// drained.
func TestFastPathDrainLogsAll(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	asked := make(chan struct{})
	f.route("app.test", backend(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		_, _ = io.Copy(io.Discard, r.Body) // ends when the router gives up
	}))
	c, _ := f.dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
	<-asked
	f.server.Listener.Close()
	f.server.CloseClientConnections()
	f.server.Listener.(*router.FastPath).Drain()
	select {
	case a := <-f.access:
		if a.Method != http.MethodPost {
			t.Errorf("access is %+v, want a POST", a)
		}
	default:
		t.Error("the request was not told of")
	}
}

// TestFastPathClosesTheOldest has more connections than the bound: those that have waited for the
// longest time are closed, and one that was used meanwhile is kept.
func TestFastPathClosesTheOldest(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	const most = 5
	path := f.server.Listener.(*router.FastPath) //nolint:forcetypeassert // see newFront
	router.SetMost(path, most)
	f.route("app.test", backend(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "done") }))
	ask := func(c net.Conn, r *bufio.Reader) {
		t.Helper()
		send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
		if _, body := answerTo(t, r, "GET"); body != "done" {
			t.Fatalf("body is %q, want done", body)
		}
		testkit.Eventually(t, "the connections are idle", func() bool { return router.AllWait(path) })
	}
	var conns []net.Conn
	var readers []*bufio.Reader
	for i := range most + 2 {
		if i == most { // the first becomes the one that was used last
			ask(conns[0], readers[0])
		}
		c, r := f.dial()
		conns, readers = append(conns, c), append(readers, r)
		ask(c, r)
	}
	for i, r := range readers {
		if i == 1 || i == 2 {
			if _, err := r.ReadByte(); err == nil {
				t.Errorf("connection %d is open", i)
			}
			continue
		}
		ask(conns[i], r)
	}
}

// A listener has a bound of connections: one that waits for a request makes room for a new
// one, and if all are busy a new one is refused.
func TestFastPathIsBounded(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	const most = 5
	router.SetMost(f.server.Listener.(*router.FastPath), most) //nolint:forcetypeassert // see newFront
	asked, goOn := make(chan struct{}), make(chan struct{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			asked <- struct{}{}
			<-goOn
		}
		fmt.Fprint(w, "done")
	}))
	// A connection whose client has its answer is busy for another moment.
	idle := func() {
		t.Helper()
		testkit.Eventually(t, "the connections are idle", //nolint:forcetypeassert // see newFront
			func() bool { return router.AllWait(f.server.Listener.(*router.FastPath)) })
	}
	// Far more than the bound, and each is served.
	for i := range 10 * most {
		idle()
		c, r := f.dial()
		send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
		if _, body := answerTo(t, r, "GET"); body != "done" {
			t.Fatalf("connection %d: body is %q, want done", i, body)
		}
	}
	idle()
	var readers []*bufio.Reader
	for range most {
		c, r := f.dial()
		send(t, c, "GET /slow HTTP/1.1\r\nHost: app.test\r\n\r\n")
		<-asked
		readers = append(readers, r)
	}
	testkit.Eventually(t, "one more is refused", func() bool {
		c, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		_, err = c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	})
	close(goOn)
	for i, r := range readers {
		if _, body := answerTo(t, r, "GET"); body != "done" {
			t.Errorf("slow request %d: body is %q, want done", i, body)
		}
	}
	c, r := f.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	if _, body := answerTo(t, r, "GET"); body != "done" {
		t.Errorf("afterwards: body is %q, want done", body)
	}
}
