package router_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform/edge/router"
)

func TestStreaming(t *testing.T) {
	t.Parallel()
	for _, protocol := range []router.Protocol{http1, router.HTTP2} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{})
			next := make(chan string)
			b := backend(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("X-Proto", r.Proto)
				for event := range next {
					fmt.Fprintf(w, "data: %s\n\n", event)
					_ = http.NewResponseController(w).Flush()
				}
			})
			b.Protocol = protocol
			f.route("app.test", b)
			// The answer's header comes with the first event.
			go func() { next <- "first" }()
			res := f.do(f.request(http.MethodGet, "http://app.test/", nil))
			if want := map[router.Protocol]string{http1: "HTTP/1.1",
				router.HTTP2: "HTTP/2.0"}[protocol]; res.Header.Get("X-Proto") != want {
				t.Errorf("the backend saw %s", res.Header.Get("X-Proto"))
			}
			lines := bufio.NewScanner(res.Body)
			for _, want := range []string{"first", "second", "third"} {
				if want != "first" {
					next <- want
				}
				lines.Scan()
				if lines.Text() != "data: "+want {
					t.Errorf("%q, want %s", lines.Text(), want)
				}
				lines.Scan()
			}
			close(next)
			if lines.Scan() {
				t.Errorf("more: %q", lines.Text())
			}
		})
	}
}

// A backend may answer while the request is still coming in.
// TestPartOfKnownLength: the beginning of a response reaches the client while the app waits, also if its length
// is known.
func TestPartOfKnownLength(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{})
			arrived := make(chan struct{})
			f.route("app.test", backend(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "6")
				fmt.Fprint(w, "abc")
				_ = http.NewResponseController(w).Flush()
				<-arrived
				fmt.Fprint(w, "def")
			}))
			if client == "HTTP/2.0" {
				f.client.Transport.(*http.Transport).Protocols = new(http.Protocols)
				f.client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
			}
			res := f.do(f.request(http.MethodGet, "http://app.test/", nil))
			part := make([]byte, 3)
			if _, err := io.ReadFull(res.Body, part); err != nil || string(part) != "abc" || res.Proto != client {
				t.Errorf("%s: %q, %v", res.Proto, part, err)
			}
			close(arrived)
			if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "def" {
				t.Errorf("the rest is %q, %v", rest, err)
			}
		})
	}
}

func TestFullDuplex(t *testing.T) {
	t.Parallel()
	for _, protocol := range []router.Protocol{http1, router.HTTP2} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{})
			b := backend(t, func(w http.ResponseWriter, r *http.Request) {
				c := http.NewResponseController(w)
				_ = c.EnableFullDuplex()
				w.WriteHeader(http.StatusOK)
				_ = c.Flush()
				buf := make([]byte, 1)
				for {
					n, err := r.Body.Read(buf)
					_, _ = w.Write(buf[:n])
					_ = c.Flush()
					if err != nil {
						return
					}
				}
			})
			b.Protocol = protocol
			f.route("app.test", b)
			in, out := io.Pipe()
			res := f.do(f.request(http.MethodPost, "http://app.test/", in))
			for _, c := range []byte("ping-pong") {
				if _, err := out.Write([]byte{c}); err != nil {
					t.Fatal(err)
				}
				var got [1]byte
				if _, err := io.ReadFull(res.Body, got[:]); err != nil || got[0] != c {
					t.Fatalf("read %q, %v, want %q", got, err, c)
				}
			}
			out.Close()
			if rest := text(t, res.Body); rest != "" {
				t.Errorf("more: %q", rest)
			}
		})
	}
}

func TestUpload64MB(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	b := backend(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %d %x %v", r.ContentLength, n, h.Sum(nil), err)
	})
	f.route("app.test", b)
	const size = 64 << 20
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	sum := sha256.Sum256(data)
	for name, want := range map[string]string{
		"length":  fmt.Sprintf("%d %d %x <nil>", size, size, sum),
		"chunked": fmt.Sprintf("-1 %d %x <nil>", size, sum),
	} {
		var body io.Reader = bytes.NewReader(data)
		if name == "chunked" {
			body = io.MultiReader(body)
		}
		if got := text(t, f.do(f.request(http.MethodPut, "http://app.test/", body)).Body); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// An app that sends back what it gets while it gets it.
func TestEcho64MB(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, r.Body, make([]byte, 8<<10))
	}))
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	got, err := io.ReadAll(f.do(f.request(http.MethodPut, "http://app.test/", bytes.NewReader(data))).Body)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A backend that refuses an upload early is heard, and the next request works.
func TestEarlyRefusal(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			fmt.Fprint(w, "too much")
		}
	}))
	for n := range 40 {
		host := []string{"app.test", "nobody.test"}[n%2]
		r := f.request(http.MethodPost, "http://"+host+"/", bytes.NewReader(make([]byte, 1<<(10+n%12))))
		res, err := f.client.Do(r)
		if err == nil {
			if !slices.Contains([]int{http.StatusRequestEntityTooLarge, http.StatusBadGateway, http.StatusNotFound},
				res.StatusCode) {
				t.Errorf("status is %d, want 413, 502 or 404", res.StatusCode)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		if res, _ := f.get("http://app.test/"); res.StatusCode != http.StatusOK {
			t.Errorf("after it: %d", res.StatusCode)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	read := false
	body := func() io.Reader {
		return readerFunc(func(p []byte) (int, error) {
			if read {
				return 0, io.EOF
			}
			read = true
			return copy(p, "hello"), nil
		})
	}
	r := f.request(http.MethodPost, "http://app.test/no", body())
	r.Header.Set("Expect", "100-continue")
	if res := f.do(r); res.StatusCode != http.StatusForbidden || read {
		t.Errorf("%d, body sent: %v", res.StatusCode, read)
	}
	r = f.request(http.MethodPost, "http://app.test/yes", body())
	r.Header.Set("Expect", "100-continue")
	if got := text(t, f.do(r).Body); got != "hello" {
		t.Errorf("body is %q, want hello", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestHeadAndTrailers(t *testing.T) {
	t.Parallel()
	for _, protocol := range []router.Protocol{http1, router.HTTP2} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{})
			b := backend(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.Header().Set("Content-Length", "4711")
					return
				}
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Trailer", "X-Announced")
				fmt.Fprintf(w, "%s %s", body, r.Trailer.Get("X-Sent"))
				w.Header().Set("X-Announced", "one")
				w.Header().Set(http.TrailerPrefix+"X-Sudden", "two")
			})
			b.Protocol = protocol
			f.route("app.test", b)
			if res := f.do(f.request(http.MethodHead, "http://app.test/", nil)); res.ContentLength != 4711 ||
				res.StatusCode != http.StatusOK {
				t.Errorf("HEAD: %d, length %d", res.StatusCode, res.ContentLength)
			}
			r := f.request(http.MethodPost, "http://app.test/", io.MultiReader(strings.NewReader("body")))
			r.Trailer = http.Header{"X-Sent": nil}
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), readerFunc(func([]byte) (int, error) {
				r.Trailer.Set("X-Sent", "zero")
				return 0, io.EOF
			})))
			res := f.do(r)
			if got := text(t, res.Body); got != "body zero" {
				t.Errorf("body is %q, want body zero", got)
			}
			if res.Trailer.Get("X-Announced") != "one" || res.Trailer.Get("X-Sudden") != "two" {
				t.Errorf("trailers %v", res.Trailer)
			}
		})
	}
}

func TestClientVanishes(t *testing.T) {
	t.Parallel()
	for _, protocol := range []router.Protocol{http1, router.HTTP2} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			f := newFront(t, router.Options{})
			entered, left := make(chan struct{}), make(chan struct{})
			b := backend(t, func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				close(left)
			})
			b.Protocol = protocol
			f.route("app.test", b)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-entered
				cancel()
			}()
			if _, err := f.client.Do(f.request(http.MethodGet, "http://app.test/", nil).WithContext(ctx)); !errors.Is(err,
				context.Canceled) {
				t.Errorf("error is %v, want %v", err, context.Canceled)
			}
			<-left
			if a := <-f.access; a.Status != 499 {
				t.Errorf("access is %+v, want status 499", a)
			}
		})
	}
}

// Requests to a backend that is taken away are answered by it to the end.
func TestRemovedBackendFinishes(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	entered, leave := make(chan struct{}), make(chan struct{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		fmt.Fprint(w, "done")
	}))
	answer := make(chan string, 1)
	go func() {
		_, body := f.get("http://app.test/")
		answer <- body
	}()
	<-entered
	f.table.Remove("route-app.test")
	if res, _ := f.get("http://app.test/"); res.StatusCode != http.StatusNotFound {
		t.Errorf("status is %d, want %d", res.StatusCode, http.StatusNotFound)
	}
	close(leave)
	if got := <-answer; got != "done" {
		t.Errorf("body is %q, want done", got)
	}
}

// Any protocol that begins with an upgrade passes, WebSocket or not.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	b := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "shout" || r.Header.Get("Connection") != "Upgrade" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nhello\n")
		_ = rw.Flush()
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprint(rw, strings.ToUpper(line))
			_ = rw.Flush()
		}
	})
	b.Protocol = router.HTTP2 // upgrades go by HTTP/1 all the same
	f.route("app.test", b)
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /chat HTTP/1.1\r\nHost: app.test\r\nConnection: keep-alive, upgrade\r\nUpgrade: shout\r\n\r\n")
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "shout" ||
		len(res.Header["X-Vcap-Request-Id"]) != 1 {
		t.Fatalf("answer is %+v, %v, want an upgrade to shout with one request id", res, err)
	}
	for _, say := range []string{"", "more\n", "again\n"} {
		fmt.Fprint(c, say)
		want := "hello\n"
		if say != "" {
			want = strings.ToUpper(say)
		}
		if got, err := r.ReadString('\n'); got != want || err != nil {
			t.Errorf("%q, want %q, %v", got, want, err)
		}
	}
	c.Close()
	if a := <-f.access; a.Status != http.StatusSwitchingProtocols || a.App != "app" {
		t.Errorf("access is %+v, want status %d of app", a, http.StatusSwitchingProtocols)
	}
}

func TestNoTunnelForHTTP2(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Upgrade")+r.Header.Get("Http2-Settings")+r.Header.Get("Connection"))
	}))
	r := f.request(http.MethodGet, "http://app.test/", nil)
	r.Header.Set("Connection", "Upgrade, HTTP2-Settings")
	r.Header.Set("Upgrade", "h2c")
	r.Header.Set("Http2-Settings", "x")
	if res := f.do(r); res.StatusCode != http.StatusOK || text(t, res.Body) != "" {
		t.Errorf("status is %d, want %d and an empty body", res.StatusCode, http.StatusOK)
	}
}
