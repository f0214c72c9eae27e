package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"ingot/internal/base/testkit"
)

// TestProtocols tests all protocols that the router supports.
func TestProtocols(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		file := write(t, "manifest.yml", `
applications:
- name: talker
  buildpacks: [binary_buildpack]
  memory: 128M
  disk_quota: 128M
  command: ./talker
  routes:
  - route: one.apps.localhost
  - route: two.apps.localhost
    protocol: http2
`)
		cfOK(t, home, "push", "-f", file, "-p", talker(t))
		contains(t, cfOK(t, home, "map-route", "talker", "apps.localhost", "--hostname", "mapped", "--app-protocol",
			"http2"), "OK")
		contains(t, columns(cfOK(t, home, "routes")), "dev one apps.localhost http http1 8080 talker",
			"dev two apps.localhost http http2 8080 talker", "dev mapped apps.localhost http http2 8080 talker")
		app := guid(t, home, "talker")
		s.running(t, app, 1)
		protocolsByRoute(t, s)
		together(t,
			part{"grpc", func(t *testing.T) { protocolGRPC(t, s) }},
			part{"websocket", func(t *testing.T) { protocolWebSocket(t, s) }},
			part{"upload", func(t *testing.T) { protocolUpload(t, s) }},
		)
		protocolEvents(t, s)
		requestsAreCounted(t, s, home, app)
		destinationsTakeEffect(t, s, app)
	})
}

var buildTalker = sync.OnceValues(func() (string, error) {
	base, err := buildDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "talker")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o",
		filepath.Join(dir, "talker"), "./testdata/talker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return dir, nil
})

// talker returns a folder with the program of testdata/talker, to be pushed.
func talker(t testing.TB) string {
	t.Helper()
	dir, err := buildTalker()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// speaking returns a client for a protocol whose connections all go to the
// server.
func (s *site) speaking(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true, ExpectContinueTimeout: patience,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.listen[0])
		},
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// ask sends a request and returns the response with its complete body.
func ask(t testing.TB, c *http.Client, method, url string, body io.Reader,
	change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// protocolsByRoute checks that the route decides the protocol to the app, and the
// client that to the router.
func protocolsByRoute(t *testing.T, s *site) {
	for _, http2 := range []bool{false, true} {
		client := s.speaking(t, http2)
		for host, want := range map[string]string{"one": `"proto":"HTTP/1.1"`, "two": `"proto":"HTTP/2.0"`,
			"mapped": `"proto":"HTTP/2.0"`} {
			res, body := ask(t, client, http.MethodGet, "http://"+host+".apps.localhost/proto", nil, nil)
			if res.StatusCode != http.StatusOK || !strings.Contains(body, want) || (res.ProtoMajor == 2) != http2 {
				t.Errorf("%s: %s %s %s, want %s", host, res.Proto, res.Status, body, want)
			}
			contains(t, body, `"X-Forwarded-Proto":["http"]`, `"X-Vcap-Request-Id":`, `"X-Request-Start":`,
				`"X-Cf-Instanceindex":["0"]`)
		}
	}
}

// protocolGRPC calls with a real client: single calls, errors, and a stream.
func protocolGRPC(t *testing.T, s *site) {
	for _, host := range []string{"two", "mapped"} {
		conn, err := grpc.NewClient("passthrough:///"+s.listen[0], grpc.WithAuthority(host+".apps.localhost"),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		callHealth(t, s, grpc_health_v1.NewHealthClient(conn))
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func callHealth(t *testing.T, s *site, client grpc_health_v1.HealthClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if res, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		res.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("check is %v, %v, want SERVING", res, err)
	}
	if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "nobody"}); status.Code(
		err) != codes.NotFound {
		t.Errorf("an error of the app arrives as %v", err)
	}
	watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "flips"})
	if err != nil {
		t.Fatal(err)
	}
	before := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for i := range 5 {
		got, err := watch.Recv()
		if err != nil || got.Status == before {
			t.Fatalf("answer %d is %v, %v, want a status other than %v", i, got, err, before)
		}
		before = got.Status
		s.get(t, "one", "/next?grpc").want(t, http.StatusOK)
	}
}

func protocolWebSocket(t *testing.T, s *site) {
	for _, host := range []string{"one", "two"} { // where the app speaks HTTP/2, too
		c, _, err := websocket.Dial(t.Context(), "ws://"+host+".apps.localhost/ws",
			&websocket.DialOptions{HTTPClient: s.speaking(t, false)})
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(-1)
		for _, n := range []int{1, 100, 1 << 20} {
			want := strings.Repeat("x", n)
			if err := c.Write(t.Context(), websocket.MessageBinary, []byte(want)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
				t.Fatalf("%s: %d bytes back of %d, %v", host, len(got), n, err)
			}
		}
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
	}
}

// protocolUpload sends bodies without a length, with trailers, and with
// Expect: 100-continue.
func protocolUpload(t *testing.T, s *site) {
	const size = 3 << 20
	for _, http2 := range []bool{false, true} {
		client := s.speaking(t, http2)
		for host, proto := range map[string]string{"one": "HTTP/1.1", "two": "HTTP/2.0"} {
			url := "http://" + host + ".apps.localhost/upload"
			res, body := ask(t, client, http.MethodPost, url, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", size))},
				func(r *http.Request) {
					r.Trailer = http.Header{"X-Sum": {"all"}}
				})
			if want := fmt.Sprintf(`%s %d <nil> "all"`, proto, size); body != want || res.Trailer.Get("X-Last") != "done" {
				t.Errorf("%s, http2 %v: %q, want %q; trailer %v", host, http2, body, want, res.Trailer)
			}
		}
		if http2 {
			continue
		}
		expect := func(refuse, want string) (asked bool) {
			trace := &httptrace.ClientTrace{
				Got100Continue: func() { asked = true },
				Got1xxResponse: func(int, textproto.MIMEHeader) error { return nil },
			}
			_, body := ask(t, client, http.MethodPost, "http://one.apps.localhost/upload", strings.NewReader("hello"),
				func(r *http.Request) {
					r.Header.Set("Expect", "100-continue")
					if refuse != "" {
						r.Header.Set("X-Refuse", refuse)
					}
					*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
				})
			if body != want {
				t.Errorf("refused %q: %q, want %q", refuse, body, want)
			}
			return asked
		}
		if !expect("", `HTTP/1.1 5 <nil> ""`) {
			t.Error("an app that reads the body did not ask for it")
		}
		// The router asks for the body of an app that does not answer within a second.
		testkit.Eventually(t, "an app that refuses the body is not sent it",
			func() bool { return !expect("yes", "not wanted\n") })
	}
	if res, body := ask(t, s.speaking(t, false), http.MethodHead, "http://one.apps.localhost/proto", nil,
		nil); res.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: %s %q", res.Status, body)
	}
}

// protocolEvents reads events one by one and disconnects: the app notices. It also
// notices when a client disconnects during a large response.
func protocolEvents(t *testing.T, s *site) {
	for _, http2 := range []bool{false, true} {
		for _, host := range []string{"one", "two"} {
			for _, path := range []string{"/events", "/endless"} {
				ctx, leave := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+".apps.localhost"+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := s.speaking(t, http2).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewReader(res.Body)
				for i := 0; i < 3 && path == "/events"; i++ {
					got, err := lines.ReadString('\n')
					if _, blank := lines.ReadString('\n'); err != nil || blank != nil || got != fmt.Sprintf("data: %d\n", i) {
						t.Fatalf("line is %q, %v, want data: %d; the blank line: %v", got, err, i, blank)
					}
					s.get(t, "one", "/next").want(t, http.StatusOK)
				}
				leave()
				res.Body.Close()
				s.get(t, "one", "/ended").want(t, http.StatusOK)
			}
		}
	}
}

// requestsAreCounted looks for the requests in the log, the stats and the metrics.
func requestsAreCounted(t *testing.T, s *site, home, app string) {
	var stats struct {
		Resources []struct {
			Instance string `json:"instance_guid"`
			Router   struct {
				Requests int64
				Status   map[string]int64
				Latency  map[string]float64 `json:"latency_ms"`
			}
		}
	}
	look := func() int64 {
		s.call(t, http.MethodGet, "/v3/apps/"+app+"/processes/web/stats", s.adminToken(t), nil).want(t, http.StatusOK).
			into(t, &stats)
		return stats.Resources[0].Router.Requests
	}
	before := look()
	s.get(t, "one", "/proto").want(t, http.StatusOK)
	s.get(t, "two", "/nothing").want(t, http.StatusNotFound)
	testkit.Eventually(t, "both requests are counted", func() bool {
		// Those before may be counted late, so the number alone does not tell.
		return look() >= before+2 && stats.Resources[0].Router.Status["4xx"] > 0
	})
	r := stats.Resources[0].Router
	if before == 0 || r.Status["2xx"] == 0 || r.Status["4xx"] == 0 || r.Latency["p99"] <= 0 {
		t.Errorf("router stats are %+v, want 2xx, 4xx and a latency", r)
	}
	contains(t, columns(cfOK(t, home, "app", "talker")), "#0 running") // the real client does not mind
	metrics := string(s.call(t, http.MethodGet, s.Admin+"/metrics", "", nil).want(t, http.StatusOK).Body)
	instance := stats.Resources[0].Instance
	contains(t, metrics, fmt.Sprintf(
		`ingot_router_instance_requests_total{app_id=%q,class="2xx",instance_id=%q,instance_index="0"}`, app, instance),
		fmt.Sprintf(`ingot_router_app_requests_total{app_id=%q,class="4xx"}`, app),
		fmt.Sprintf(`ingot_router_instance_request_duration_seconds_count{app_id=%q,instance_id=%q,instance_index="0"}`,
			app, instance))
}

// destinationsTakeEffect checks that a change of a route's destinations has taken
// effect when the client gets the response.
func destinationsTakeEffect(t *testing.T, s *site, app string) {
	token := s.adminToken(t)
	route := s.list(t, token, "/v3/routes?hosts=mapped")[0]["guid"].(string)
	path := "/v3/routes/" + route + "/destinations"
	var found struct {
		Destinations []struct{ GUID string }
	}
	s.call(t, http.MethodGet, path, token, nil).want(t, http.StatusOK).into(t, &found)
	for i := range 20 {
		s.call(t, http.MethodDelete, path+"/"+found.Destinations[0].GUID, token, nil).want(t, http.StatusNoContent)
		s.get(t, "mapped", "/proto").want(t, http.StatusNotFound)
		protocol := []string{"http1", "http2"}[i%2]
		body := map[string]any{"destinations": []any{map[string]any{"app": map[string]any{"guid": app},
			"protocol": protocol}}}
		s.call(t, http.MethodPost, path, token, body).want(t, http.StatusOK).into(t, &found)
		want := map[string]string{"http1": "HTTP/1.1", "http2": "HTTP/2.0"}
		contains(t, string(s.get(t, "mapped", "/proto").want(t, http.StatusOK).Body), want[protocol])
		other := []string{"http2", "http1"}[i%2]
		s.call(t, http.MethodPatch, path+"/"+found.Destinations[0].GUID, token, map[string]any{"protocol": other}).
			want(t, http.StatusOK)
		contains(t, string(s.get(t, "mapped", "/proto").want(t, http.StatusOK).Body), want[other])
	}
}
