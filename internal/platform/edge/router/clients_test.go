package router_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"ingot/internal/platform/edge/router"
)

// gRPC with its own client and server: HTTP/2 from the client to the instance,
// with trailers and streams in both.
func TestGRPC(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, service := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	f := newFront(t, router.Options{})
	f.route("grpc.test", router.Backend{Address: l.Addr().String(), AppGUID: "app", InstanceGUID: "grpc",
		Protocol: router.HTTP2})
	conn, err := grpc.NewClient("passthrough:///"+f.addr, grpc.WithAuthority("grpc.test"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := grpc_health_v1.NewHealthClient(conn)
	for range 3 {
		res, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || res.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("check is %v, %v, want SERVING", res, err)
		}
	}
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "unknown"}); err == nil ||
		!strings.Contains(err.Error(), "NotFound") {
		t.Errorf("an error in the trailers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "one"})
	if err != nil {
		t.Fatal(err)
	}
	want := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	for i := range 6 {
		res, err := watch.Recv()
		if err != nil || res.Status != want {
			t.Fatalf("answer %d is %v, %v, want %v", i, res, err, want)
		}
		want = grpc_health_v1.HealthCheckResponse_SERVING
		if i%2 == 1 {
			want = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		service.SetServingStatus("one", want)
	}
	cancel()
	if _, err := watch.Recv(); err == nil {
		t.Error("a stream that was cancelled goes on")
	}
}

// A stream in both directions at once over HTTP/2, each part answered before
// the next is sent.
func TestHTTP2InBothDirections(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	b := backend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		_ = control.Flush()
		lines, n := bufio.NewScanner(r.Body), 0
		for lines.Scan() {
			n++
			fmt.Fprintf(w, "%s %s\n", r.Proto, lines.Text())
			_ = control.Flush()
		}
		w.Header().Set("X-Sum", fmt.Sprint(n))
	})
	b.Protocol = router.HTTP2
	f.route("h2.test", b)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, f.addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	read, write := io.Pipe()
	res, err := (&http.Client{Transport: transport}).Do(f.request(http.MethodPost, "http://h2.test/", read))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for i := range 50 {
		send(t, write, "line %d\n", i)
		if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("HTTP/2.0 line %d\n", i) {
			t.Fatalf("line is %q, %v, want HTTP/2.0 line %d", got, err, i)
		}
	}
	write.Close()
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) || res.Trailer.Get("X-Sum") != "50" {
		t.Errorf("end is %v with trailer %v, want %v and X-Sum: 50", err, res.Trailer, io.EOF)
	}
}

// Streams that are opened and reset at once do not pile up at the app, and do
// not keep others from it.
func TestHTTP2RapidReset(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var active, most atomic.Int64
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/flood" {
			n := active.Add(1)
			defer active.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, "fine")
	}))
	c, _ := f.dial()
	send(t, c, "%s", http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for i := range 5000 {
		block.Reset()
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "app.test"},
			{":path", "/flood"}} {
			if err := encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				t.Fatal(err)
			}
		}
		id := uint32(2*i + 1)
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()),
			EndStream: true, EndHeaders: true}); err != nil {
			break // it is hung up on us
		}
		if err := framer.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			break
		}
	}
	if _, body := f.get("http://app.test/"); body != "fine" {
		t.Errorf("body is %q, want fine", body)
	}
	c.Close()
	<-ended
	if most.Load() > 300 {
		t.Errorf("%d requests of a flood were at the app at once", most.Load())
	}
}

// A block of headers without end is not read to the end.
func TestHTTP2ContinuationFlood(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, says("app")))
	c, _ := f.dial()
	send(t, c, "%s", http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	junk := make([]byte, 16<<10)
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: junk})
	for sent := 0; err == nil; sent += len(junk) {
		if sent > 64<<20 {
			t.Fatal("64 MB of headers were taken")
		}
		err = framer.WriteContinuation(1, false, junk)
	}
}

// A browser that has a session comes back to the same instance, until that is
// gone; a session without instance is balanced.
func TestStickySessions(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		var all []router.Backend
		for i := range 3 {
			b := backend(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/login" {
					http.SetCookie(w, &http.Cookie{Name: "JSESSIONID", Value: "abc", Path: "/", MaxAge: 3600,
						SameSite: http.SameSiteLaxMode})
				}
				fmt.Fprint(w, i)
			})
			b.InstanceGUID = fmt.Sprintf("instance-%d", i)
			all = append(all, b)
		}
		f.route("app.test", all...)
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		f.client.Jar = jar
		get := func(path string) (*http.Response, string) {
			res := f.do(f.with("GET", "http://app.test"+path, header, nil))
			return res, text(t, res.Body)
		}
		res, at := get("/login")
		var sticky *http.Cookie
		for _, c := range res.Cookies() {
			if c.Name == "__VCAP_ID__" {
				sticky = c
			}
		}
		if sticky == nil || sticky.Value != "instance-"+at || sticky.Path != "/" || !sticky.HttpOnly ||
			sticky.MaxAge != 3600 || sticky.SameSite != http.SameSiteLaxMode || sticky.Secure {
			t.Fatalf("sticky cookie is %+v, want instance-%s for 1h", sticky, at)
		}
		for range 7 {
			if res, got := get("/"); got != at || len(res.Cookies()) != 0 {
				t.Errorf("at %s instead of %s, %v", got, at, res.Cookies())
			}
		}
		// The instance goes away: another one takes over, and says so.
		var rest []router.Backend
		for _, b := range all {
			if b.InstanceGUID != "instance-"+at {
				rest = append(rest, b)
			}
		}
		f.route("app.test", rest...)
		res, now := get("/")
		if len(res.Cookies()) != 1 || res.Cookies()[0].Value != "instance-"+now || now == at {
			t.Errorf("cookies are %v, want one of instance-%s, which is not %s", res.Cookies(), now, at)
		}
		for range 5 {
			if _, got := get("/"); got != now {
				t.Errorf("at %s instead of %s", got, now)
			}
		}
	})
}

// Events reach the client one by one, as they are sent.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		next := make(chan int)
		f.route("app.test", backend(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range next {
				fmt.Fprintf(w, "data: %d\n\n", i)
				_ = http.NewResponseController(w).Flush()
			}
		}))
		go func() { next <- 0 }()
		r := f.with("GET", "http://app.test/", header, nil)
		r.Header.Set("Accept", "text/event-stream")
		res := f.do(r)
		lines := bufio.NewScanner(res.Body)
		for i := range 20 {
			if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) || !lines.Scan() {
				t.Fatalf("line is %q, %v, want data: %d", lines.Text(), lines.Err(), i)
			}
			if i < 19 {
				next <- i + 1
			}
		}
		close(next)
		if lines.Scan() {
			t.Errorf("more: %q", lines.Text())
		}
	})
}

func TestConnectionClose(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, says("app")))
	c, r := f.dial()
	send(t, c, "GET /x HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n")
	if res, body := answerTo(t, r, "GET"); body != "app /x" || !res.Close {
		t.Errorf("answer is %v %q, want app /x and a closed connection", res, body)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	// The app closes; the client's connection stays.
	f.route("closes.test", backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, "bye")
	}))
	c, r = f.dial()
	for range 3 {
		send(t, c, "GET / HTTP/1.1\r\nHost: closes.test\r\n\r\n")
		if res, body := answerTo(t, r, "GET"); body != "bye" || res.Close {
			t.Errorf("answer is %v %q, want bye and an open connection", res, body)
		}
	}
}
