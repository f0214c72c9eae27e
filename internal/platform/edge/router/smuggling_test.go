package router_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform/edge/router"
)

// However a request is written, a backend never sees one that we did not see:
// what is hidden in a body stays in it.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	const hidden = "GET /hidden HTTP/1.1\r\nHost: app.test\r\n\r\n"
	for name, request := range map[string]string{
		"CL.TE": "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 45\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n" + hidden,
		"TE.CL": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\nContent-Length: " +
			"4\r\n\r\n2a\r\n" + hidden + "\r\n0\r\n\r\n",
		"TE.TE": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: " +
			"x\r\n\r\n0\r\n\r\n" + hidden,
		"TE with a tab": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding:\tchunked\r\nContent-Length: " +
			"3\r\n\r\n0\r\n\r\n" + hidden,
		"TE with a space before": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding : chunked\r\nContent-Length: " +
			"40\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths": "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n" +
			hidden,
		"two lengths in one": "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0, 40\r\n\r\n" + hidden,
		"length with a sign": "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: +0\r\n\r\n" + hidden,
		"length in hex":      "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0x0\r\n\r\n" + hidden,
		"a folded length": "POST / HTTP/1.1\r\nHost: app.test\r\nX: y\r\n Content-Length: 0\r\nContent-Length: " +
			"40\r\n\r\n" + hidden,
		"a folded TE": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: " +
			"40\r\n\r\n" + hidden,
		"a bare newline": "POST / HTTP/1.1\r\nHost: app.test\nContent-Length: 40\r\n\r\n" + hidden,
		"a bare newline in one": "POST / HTTP/1.1\r\nHost: app.test\r\nX: y\nTransfer-Encoding: " +
			"chunked\r\nContent-Length: 40\r\n\r\n" + hidden,
		"a bare return": "POST / HTTP/1.1\r\nHost: app.test\r\nX: y\rContent-Length: 0\r\nContent-Length: 40\r\n\r\n" +
			hidden,
		"a NUL": "POST / HTTP/1.1\r\nHost: app.test\r\nX: a\x00b\r\nContent-Length: 40\r\n\r\n" + hidden,
		"a bad chunk size": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n" + hidden,
		"a chunk too long": "POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n" + hidden,
		"a hop by name": "POST / HTTP/1.1\r\nHost: app.test\r\nConnection: Content-Length\r\nContent-Length: " +
			"40\r\n\r\n" + hidden,
		"two hosts":             "GET / HTTP/1.1\r\nHost: app.test\r\nHost: other.test\r\n\r\n",
		"no host":               "GET / HTTP/1.1\r\nX: y\r\n\r\n",
		"a host with a path":    "GET / HTTP/1.1\r\nHost: app.test/x\r\n\r\n",
		"another in the target": "GET http://app.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
		"HTTP/0.9":              "GET /index.html\r\n\r\n",
		"a body with GET":       "GET / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 40\r\n\r\n" + hidden,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{})
			var mu sync.Mutex
			var seen []string
			record := func(c net.Conn, r *bufio.Reader) {
				// It trusts what it is sent, as a careless app would.
				for {
					q, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(q.Body)
					mu.Lock()
					seen = append(seen, q.Method+" "+q.Host+q.RequestURI)
					mu.Unlock()
					if bytes.Contains(body, []byte("\x00")) {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}
			f.route("app.test", rawBackend(t, record))
			other := rawBackend(t, record)
			f.route("other.test", other)
			c, r := f.dial()
			send(t, c, "%s", request)
			// What we saw is what we logged; the client may end when it is answered.
			res, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
			if err != nil && name != "HTTP/0.9" {
				t.Fatal(err)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			_ = c.(*net.TCPConn).CloseWrite()
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_, _ = io.Copy(io.Discard, r)
			f.server.CloseClientConnections()
			mu.Lock()
			defer mu.Unlock()
			counted := 0
			for len(f.access) > 0 {
				if a := <-f.access; a.Backend != "" {
					counted++
				}
			}
			if len(seen) > counted {
				t.Errorf("the backend saw %q, we saw %d", seen, counted)
			}
			for _, s := range seen {
				if strings.Contains(s, "other.test") && name != "another in the target" {
					t.Errorf("it reached another app: %q", s)
				}
			}
			if err == nil && res.StatusCode == http.StatusOK && counted == 0 {
				t.Error("no answer")
			}
		})
	}
}

func TestOversizedHeaders(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.server.Config.MaxHeaderBytes = 64 << 10
	f.route("app.test", backend(t, func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Long")[:3])
	}))
	for size, want := range map[int]int{1000: 200, 8000: 200, 9000: 200, 60000: 200, 200000: 431} {
		c, r := f.dial()
		go func() {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: app.test\r\nX-Long: "+strings.Repeat("y", size)+"\r\n\r\n")
		}()
		if res, _ := answerTo(t, r, "GET"); res.StatusCode != want {
			t.Errorf("a header of %d bytes is answered with %d, want %d", size, res.StatusCode, want)
		}
	}
}
