package router_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/edge/router"
)

// modes are the two ways that requests go: a header that only the server
// understands sends them by it.
var modes = map[string]string{"fast": "X-Nothing", "server": "Te"}

func eachMode(t *testing.T, f func(t *testing.T, header string)) {
	t.Helper()
	for name, header := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, header)
		})
	}
}

func (f *front) with(method, url, header string, body io.Reader) *http.Request {
	f.t.Helper()
	r := f.request(method, url, body)
	r.Header.Set(header, "trailers")
	return r
}

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// A backend that ends connections without an answer gets no more requests while
// there is another; what can be repeated is, what cannot is answered with 502.
func TestBackendResets(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		for name, end := range map[string]func(net.Conn){"reset": reset, "close": func(c net.Conn) { c.Close() }} {
			f := newFront(t, router.Options{})
			var asked atomic.Int32
			bad := rawBackend(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err == nil {
					asked.Add(1)
				}
				end(c)
			})
			good := backend(t, says("good"))
			f.route("app.test", bad, good)
			for i := range 6 {
				res := f.do(f.with("GET", "http://app.test/", header, nil))
				if body := text(t, res.Body); res.StatusCode != http.StatusOK || body != "good /" {
					t.Fatalf("%s: answer %d is %d %q, want 200 good", name, i, res.StatusCode, body)
				}
			}
			// One that only closes may be fine otherwise: it is asked again.
			if n := asked.Load(); name == "reset" && n != 1 || n == 0 {
				t.Errorf("%s: the bad one was asked %d times", name, n)
			}
			f.route("only.test", bad)
			before := asked.Load()
			res := f.do(f.with("POST", "http://only.test/", header, strings.NewReader("x")))
			if body := text(t, res.Body); res.StatusCode != http.StatusBadGateway ||
				res.Header.Get("X-Cf-Routererror") != "endpoint_failure" ||
				body != "502 Bad Gateway: Registered endpoint failed to handle the request.\n" {
				t.Errorf("%s: answer is %d %q, want 502 endpoint_failure", name, res.StatusCode, body)
			}
			if asked.Load() != before+1 {
				t.Errorf("%s: a POST was repeated", name)
			}
		}
	})
}

// A client that breaks off is no reason to think badly of the backend.
func TestClientBreaksOffUpload(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			fmt.Fprint(w, "fine")
		}
	}))
	for _, head := range []string{"Content-Length: 100000\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nab"} {
		c, _ := f.dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: app.test\r\n%s", head)
		c.Close()
		<-f.access
		if _, body := f.get("http://app.test/"); body != "fine" {
			t.Errorf("body is %q, want fine", body)
		}
		if a := <-f.access; a.Attempts != 1 || a.Status != http.StatusOK {
			t.Errorf("access is %+v, want 1 attempt with status 200", a)
		}
	}
	if n := ejections(t, f); n != 0 {
		t.Errorf("%v ejections", n)
	}
}

func ejections(t *testing.T, f *front) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.proxy)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "ingot_router_ejections_total" {
			return family.Metric[0].GetCounter().GetValue()
		}
	}
	t.Fatal("ejections are not counted")
	return 0
}

func TestBackendTalksGarbage(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		for i, garbage := range []string{
			"\x16\x03\x01 this is not HTTP\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/1.1 abc OK\r\n\r\n",
			"HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
			"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n",
			"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Long: "+strings.Repeat("y", 1000)+"\r\n", 1200),
		} {
			host := fmt.Sprintf("g%d.test", i)
			f.route(host, rawBackend(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err == nil {
					_, _ = io.WriteString(c, garbage)
					_, _ = r.ReadByte() // until it is hung up on us
				}
			}))
			if res := f.do(f.with("GET", "http://"+host+"/", header, nil)); res.StatusCode != http.StatusBadGateway {
				t.Errorf("answer to %.40q is %d, want %d", garbage, res.StatusCode, http.StatusBadGateway)
			}
		}
	})
}

// Chunks that are none end the answer in a way that the client notices.
func TestBackendBreaksOff(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		for i, broken := range []string{
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX3\r\nabc\r\n0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
		} {
			host := fmt.Sprintf("b%d.test", i)
			f.route(host, rawBackend(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err == nil {
					_, _ = io.WriteString(c, broken)
				}
			}))
			res, err := f.client.Do(f.with("GET", "http://"+host+"/", header, nil))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err == nil {
				t.Errorf("%q looks whole to the client", broken)
			}
		}
	})
}

// A backend that closes connections while they are idle loses no request.
func TestBackendClosesIdleConnections(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		closed := make(chan struct{}, 1)
		f.route("app.test", rawBackend(t, func(c net.Conn, r *bufio.Reader) {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			c.Close()
			closed <- struct{}{}
		}))
		for i := range 30 {
			method, body := "GET", io.Reader(nil)
			if i%2 == 1 && header != "Te" { // the transport decides for itself there
				method, body = "POST", strings.NewReader("once")
			}
			res := f.do(f.with(method, "http://app.test/", header, body))
			if got := text(t, res.Body); res.StatusCode != http.StatusOK || got != "ok" {
				t.Fatalf("answer %d is %d %q, want 200 ok", i, res.StatusCode, got)
			}
			<-closed
		}
	})
}

// A client that goes away while the backend thinks or streams takes the request
// with it.
func TestClientVanishesFromASilentBackend(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		f := newFront(t, router.Options{})
		asked, gone := make(chan struct{}), make(chan struct{})
		f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
			if begun {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			close(asked)
			<-r.Context().Done()
			close(gone)
		}))
		c, _ := f.dial()
		send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
		<-asked
		c.Close()
		<-gone
		a := <-f.access
		if want := map[bool]int{false: 499, true: 200}[begun]; a.Status != want {
			t.Errorf("begun %v: %+v", begun, a)
		}
		if router.FastPathServed(f.proxy) != 1 {
			t.Error("the fast path did not serve it")
		}
	}
}

// A slow backend is waited for, and the client may say the next thing meanwhile.
func TestSlowBackendAndEagerClient(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	goOn := make(chan struct{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 5 { // one byte at a time
			<-goOn
			fmt.Fprint(w, i)
			_ = http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	c, r := f.dial()
	send(t, c, "GET /1 HTTP/1.1\r\nHost: app.test\r\n\r\n")
	timer := time.NewTimer(400 * time.Millisecond) // longer than the fast path waits without looking
	<-timer.C
	send(t, c, "GET /2 HTTP/1.1\r\nHost: app.test\r\n\r\n")
	for range 2 {
		go func() {
			for range 5 {
				goOn <- struct{}{}
			}
		}()
	}
	for _, want := range []string{"01234/1", "01234/2"} {
		if _, body := answerTo(t, r, "GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
}

// However much a backend sends and however slowly a client reads, little of it
// is in memory.
//
//nolint:paralleltest // it measures the heap, which others would fill
func TestSoakLargeAnswerInLittleMemory(t *testing.T) {
	size := int64(128 << 20)
	if os.Getenv("INGOT_SOAK") == "1" {
		size = 1 << 30
	}
	f := newFront(t, router.Options{})
	block := make([]byte, 64<<10)
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		for sent := int64(0); sent < size; sent += int64(len(block)) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	for _, path := range []string{"/length", "/chunked"} {
		c, r := f.dial()
		send(t, c, "GET %s HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n", path)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		var most uint64
		for read := int64(0); read < size; {
			n, err := io.CopyN(io.Discard, res.Body, size/8)
			if read += n; err != nil {
				t.Fatalf("after %d bytes of %d: %v", read, size, err)
			}
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		res.Body.Close()
		if most > before.HeapAlloc+16<<20 {
			t.Errorf("%s: the heap grew from %d to %d", path, before.HeapAlloc, most)
		}
		if a := <-f.access; a.ResponseBytes != size {
			t.Errorf("%s: %d bytes counted", path, a.ResponseBytes)
		}
	}
}
