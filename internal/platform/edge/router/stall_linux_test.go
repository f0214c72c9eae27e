package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"ingot/internal/platform/edge/router"
)

// flood answers without an end, and closes gone when the client is gone.
func flood(gone chan<- struct{}) http.HandlerFunc {
	block := make([]byte, 64<<10)
	return func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		<-r.Context().Done()
		close(gone)
	}
}

// A client that takes nothing for long loses its connection, and the app is told;
// one that is slow does not.
func TestClientStopsReading(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		fast := f.server.Listener.(*router.FastPath)
		gone := make(chan struct{})
		f.route("app.test", backend(t, flood(gone)))
		c, r := f.dial()
		send(t, c, "GET / HTTP/1.1\r\nHost: app.test\r\n%s: trailers\r\n\r\n", header)
		if _, err := http.ReadResponse(r, nil); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		look := func() int {
			now = now.Add(router.StalledAfter)
			return router.EndStalled(fast, now)
		}
		look()
		for range 5 {
			for before, _ := router.Progress(fast); ; {
				if _, err := r.Discard(64 << 10); err != nil {
					t.Fatal(err)
				}
				if acked, _ := router.Progress(fast); acked != before {
					break
				}
			}
			if n := look(); n != 0 {
				t.Fatal("the connection of a client that goes on was ended")
			}
		}
		for look() == 0 { // until all buffers are full
			runtime.Gosched()
		}
		<-gone
		if n := router.Stalled(f.proxy); n != 1 {
			t.Errorf("%d connections counted", n)
		}
		<-f.access
		if _, err := io.Copy(io.Discard, r); err == nil {
			t.Error("the answer seems to be whole")
		}
		if _, waiting := router.Progress(fast); waiting != 0 {
			t.Errorf("something waits for %d clients that are gone", waiting)
		}
	})
}

// In HTTP/2 a client can keep a single stream from going on.
func TestClientStopsReadingAStream(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	gone := make(chan struct{})
	f.route("app.test", backend(t, flood(gone)))
	f.route("other.test", backend(t, says("other")))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, f.addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	res, err := client.Do(f.request(http.MethodGet, "http://app.test/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n := router.BreakOffStalled(f.proxy, time.Now()); n != 0 {
		t.Errorf("%d requests broken off at once", n)
	}
	for router.BreakOffStalled(f.proxy, time.Now().Add(2*router.StalledAfter)) == 0 {
		runtime.Gosched()
	}
	<-gone
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the answer seems to be whole")
	}
	// The connection is as good as before.
	res, err = client.Do(f.request(http.MethodGet, "http://other.test/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := text(t, res.Body); got != "other /x" || res.ProtoMajor != 2 {
		t.Errorf("answer is %q over %s, want other /x over HTTP/2", got, res.Proto)
	}
	if n := router.Stalled(f.proxy); n != 1 {
		t.Errorf("%d counted", n)
	}
}

// A request whose body does not come is broken off, unless its answer has begun.
func TestClientStopsSending(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	got, gone := make(chan struct{}), make(chan struct{})
	f.route("upload.test", backend(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 5)); err != nil {
			t.Error(err)
		}
		close(got)
		if _, err := r.Body.Read(make([]byte, 1)); err == nil {
			t.Error("the body seems to be whole")
		}
		close(gone)
	}))
	f.route("talk.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, lines.Text())
			_ = control.Flush()
		}
	}))
	future := time.Now().Add(time.Hour)
	c, r := f.dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: upload.test\r\nContent-Length: 100000\r\n\r\nhello")
	<-got
	if n := router.BreakOffStalled(f.proxy, time.Now()); n != 0 {
		t.Errorf("%d requests broken off at once", n)
	}
	for router.BreakOffStalled(f.proxy, future) == 0 {
		runtime.Gosched()
	}
	res, body := answerTo(t, r, "POST")
	if res.StatusCode != http.StatusRequestTimeout || res.Header.Get("X-Cf-Routererror") != "incomplete_request" ||
		!res.Close {
		t.Errorf("answer is %v %q, want 408 incomplete_request and a closed connection", res, body)
	}
	<-gone

	c, r = f.dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: talk.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for _, word := range []string{"one\n", "two\n", "end\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != word {
			t.Fatalf("line is %q, %v, want %q", line, err, word)
		}
		if n := router.BreakOffStalled(f.proxy, future); n != 0 {
			t.Error("a conversation was broken off")
		}
		if word == "end\n" {
			send(t, c, "0\r\n\r\n")
			continue
		}
		send(t, c, "4\r\n%s\r\n", map[string]string{"one\n": "two\n", "two\n": "end\n"}[word])
	}
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Error(err)
	}
}
