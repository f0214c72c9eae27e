package system

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// from is a client at an address of this machine, whose connections begin with a text.
func from(t *testing.T, address, first string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, at)
		if err == nil {
			_, err = io.WriteString(c, first)
		}
		return c, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// get makes a request with headers.
func get(t *testing.T, client *http.Client, address string, headers map[string]string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// login asks for a token with a password.
func login(t *testing.T, client *http.Client, base, user, password string) answer {
	t.Helper()
	res, err := client.PostForm(base+"/oauth/token", url.Values{"grant_type": {"password"}, "username": {user},
		"password": {password}, "client_id": {"cf"}, "client_secret": {""}})
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

// What a proxy says of its clients is believed only from --trusted-proxies.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.TrustedProxies = "127.0.0.7"
	s := startSystem(t, c)
	base := s.Endpoints().API
	for address, trusted := range map[string]bool{"127.0.0.7": true, "127.0.0.8": false} {
		a := get(t, from(t, address, ""), base+"/", map[string]string{"X-Forwarded-Proto": "https",
			"X-Vcap-Request-Id": "from-before"})
		if got := strings.Contains(a.body, `"href":"https://`); a.status != 200 || got != trusted {
			t.Errorf("from %s: https links %t, want %t: %s", address, got, trusted, a.body)
		}
		if got := a.header.Get("X-Vcap-Request-Id"); (got == "from-before") != trusted {
			t.Errorf("from %s: request id %q", address, got)
		}
	}
	// The address that limits count is the one the trusted proxy names.
	forwarded := func(client *http.Client, of string) *http.Client {
		return &http.Client{Transport: withHeader{client.Transport, "X-Forwarded-For", of}}
	}
	proxy, stranger := from(t, "127.0.0.7", ""), from(t, "127.0.0.8", "")
	password := readSecret(t, s, adminPasswordFile)
	for i := range 5 {
		login(t, forwarded(proxy, "203.0.113.7"), base, "admin", fmt.Sprint("wrong", i))
		login(t, forwarded(stranger, "203.0.113.9"), base, "admin", fmt.Sprint("wrong", i))
	}
	for _, one := range []struct {
		client *http.Client
		of     string
		want   int
	}{{proxy, "203.0.113.7", 401}, {proxy, "203.0.113.9", 200}, {stranger, "203.0.113.10", 401}} {
		if a := login(t, forwarded(one.client, one.of), base, "admin", password); a.status != one.want {
			t.Errorf("as %s: %d, want %d: %s", one.of, a.status, one.want, a.body)
		}
	}
}

type withHeader struct {
	next        http.RoundTripper
	name, value string
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return h.next.RoundTrip(r)
}

// Load balancers of --proxy-protocol-from name the client of a connection; others
// cannot. The server's own calls, which have no header, work.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.ProxyProtocolFrom = "127.0.0.1,127.0.0.7"
	s := startSystem(t, c)
	base, password := s.Endpoints().API, readSecret(t, s, adminPasswordFile)
	header := func(client string) string { return "PROXY TCP4 " + client + " 192.0.2.1 5000 80\r\n" }
	for i := range 5 {
		if a := login(t, from(t, "127.0.0.7", header("203.0.113.7")), base, "admin",
			fmt.Sprint("wrong", i)); a.status != 401 {
			t.Fatalf("a wrong password: %d %s", a.status, a.body)
		}
	}
	for client, want := range map[string]int{"203.0.113.7": 401, "203.0.113.8": 200} {
		if a := login(t, from(t, "127.0.0.7", header(client)), base, "admin", password); a.status != want {
			t.Errorf("a right password from %s: %d, want %d: %s", client, a.status, want, a.body)
		}
	}
	// A header of an address that is not listed is not HTTP.
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.8")}}).DialContext(t.Context(), "tcp",
		strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "%sGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", header("203.0.113.7"))
	if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "400") {
		t.Errorf("a header from elsewhere: %q, %v, want 400", line, err)
	}
	// The ssh gateway greets a client behind a load balancer.
	for _, first := range []string{header("203.0.113.7"), ""} {
		ssh, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.7")}}).DialContext(t.Context(), "tcp",
			s.Endpoints().SSH)
		if err != nil {
			t.Fatal(err)
		}
		_ = ssh.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(ssh, "%sSSH-2.0-test\r\n", first)
		if line, err := bufio.NewReader(ssh).ReadString('\n'); !strings.HasPrefix(line, "SSH-2.0") {
			t.Errorf("ssh with %q: %q, %v", first, line, err)
		}
		_ = ssh.Close()
	}
}

// A pipeline that logs in often, with the right password and with real hashes, is never
// refused, whatever others try at the same time.
func TestPipelineLogins(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.LoginLimits.Account = "10/100m"
	s := startSystem(t, c)
	base, password := s.Endpoints().API, readSecret(t, s, adminPasswordFile)
	pipeline := from(t, "127.0.0.2", "")
	if a := login(t, pipeline, base, "admin", password); a.status != 200 {
		t.Fatalf("the first login: %d %s", a.status, a.body)
	}
	var all sync.WaitGroup
	for i := range 30 { // more than the limit of the account, from many addresses
		attacker := from(t, fmt.Sprint("127.0.9.", i+1), "")
		all.Go(func() {
			if a := login(t, attacker, base, "admin", fmt.Sprint("guess ", i)); a.status != 401 &&
				(a.status != 429 || a.header.Get("Retry-After") == "") {
				t.Errorf("a guess: %d %v %s, want 401, or 429 with Retry-After", a.status, a.header, a.body)
			}
		})
	}
	for range 50 {
		all.Go(func() {
			if a := login(t, pipeline, base, "admin", password); a.status != 200 {
				t.Errorf("a right password: %d %s, want 200", a.status, a.body)
			}
		})
	}
	all.Wait()
}

// The API's limits, with the headers and errors of Cloud Foundry.
func TestAPIRateLimits(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.APILimits = APILimits{General: 3, Unauthenticated: 2, Interval: time.Hour}
	s := startSystem(t, c)
	base, admin := s.Endpoints().API, adminToken(t, s)
	for _, id := range []string{"one", "two"} {
		a := call(t, http.MethodPost, base+"/oauth/clients", admin, map[string]any{
			"client_id": id, "client_secret": "s", "authorized_grant_types": []string{"client_credentials"},
			"authorities": []string{"cloud_controller.read"},
		})
		if a.status != http.StatusCreated {
			t.Fatalf("create a client: %d %s", a.status, a.body)
		}
	}
	one, two := clientToken(t, s, "one", "s"), clientToken(t, s, "two", "s")
	check := func(who, token string, limit int, code int, title, detail string) {
		t.Helper()
		for i := range limit {
			a := call(t, http.MethodGet, base+"/v3/apps", token, nil)
			if a.status == 429 || a.header.Get("X-RateLimit-Limit") != strconv.Itoa(limit) ||
				a.header.Get("X-RateLimit-Remaining") != strconv.Itoa(limit-1-i) {
				t.Errorf("%s, request %d: %d %v", who, i, a.status, a.header)
			}
		}
		a := call(t, http.MethodGet, base+"/v3/apps", token, nil)
		want := fmt.Sprintf(`{"errors":[{"code":%d,"title":%q,"detail":%q}]}`, code, title, detail)
		if a.status != 429 || strings.TrimSpace(a.body) != want || a.header.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("%s, over the limit: %d %v %s, want %s", who, a.status, a.header, a.body, want)
		}
		reset, err := strconv.ParseInt(a.header.Get("X-RateLimit-Reset"), 10, 64)
		after, err2 := strconv.Atoi(a.header.Get("Retry-After"))
		if in := time.Until(time.Unix(reset, 0)); err != nil || err2 != nil || in < -time.Minute || in > time.Hour ||
			after < 1 || after > 3600 {
			t.Errorf("%s: reset %s, Retry-After %s", who, a.header.Get("X-RateLimit-Reset"), a.header.Get("Retry-After"))
		}
	}
	check("a client", one, 3, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")
	check("another client", two, 3, 10013, "CF-RateLimitExceeded", "Rate Limit Exceeded")
	check("nobody", "", 2, 10014, "CF-IPBasedRateLimitExceeded",
		"Rate Limit Exceeded: Unauthenticated requests from this IP address have exceeded the limit. Please log in.")
	if a := call(t, http.MethodGet, base+"/v3/apps", "not a token", nil); a.status != 429 {
		t.Errorf("a wrong token counts as none: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/", "/v3", "/v2/info", "/healthz", "/oauth/token_key", "/login"} {
		if a := call(t, http.MethodGet, base+path, "", nil); a.status == 429 || a.header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s: %d %v, want no limit", path, a.status, a.header)
		}
	}
	for range 10 {
		if a := call(t, http.MethodGet, base+"/v3/apps", admin, nil); a.status != 200 ||
			a.header.Get("X-RateLimit-Limit") != "" {
			t.Fatalf("an administrator: %d %v, want no limit", a.status, a.header)
		}
	}
}

// trustedFile is a PEM file with the certificate of a server.
func trustedFile(t *testing.T, server *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var payloads = regexp.MustCompile(`"payload":"([^"]*)"`)

// decoded returns the lines in an answer of log-cache.
func decoded(t *testing.T, body string) (out string) {
	t.Helper()
	for _, found := range payloads.FindAllStringSubmatch(body, -1) {
		line, err := base64.StdEncoding.DecodeString(found[1])
		if err != nil {
			t.Fatal(err)
		}
		out += string(line) + "\n"
	}
	return out
}

// A service broker and a log drain with certificates of a private authority work with
// --trusted-ca, and fail with a clear message without.
func TestTrustedCA(t *testing.T) {
	t.Parallel()
	broker := httptest.NewTLSServer(&brokertest.Broker{})
	t.Cleanup(broker.Close)
	file := trustedFile(t, broker)
	receiver, err := tls.Listen("tcp", "127.0.0.1:0", broker.TLS.Clone())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { receiver.Close() })
	received := make(chan string, 100)
	go func() {
		for {
			c, err := receiver.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					received <- lines.Text()
				}
			}()
		}
	}()
	for _, trusted := range []bool{true, false} {
		t.Run(fmt.Sprintf("trusted %t", trusted), func(t *testing.T) {
			t.Parallel()
			c := testConfig(t)
			c.DrainNetworks = "all"
			if trusted {
				c.TrustedCA = file
			}
			s := startSystem(t, c)
			base, token := s.Endpoints().API, adminToken(t, s)
			a := call(t, http.MethodPost, base+"/v3/service_brokers", token, map[string]any{"name": "private", "url": broker.URL,
				"authentication": map[string]any{
					"type": "basic", "credentials": map[string]string{"username": brokertest.Username,
						"password": brokertest.Password},
				}})
			if a.status != http.StatusAccepted {
				t.Fatalf("register the broker: %d %s", a.status, a.body)
			}
			var job answer
			testkit.Eventually(t, "the broker is registered or refused", func() bool {
				job = call(t, http.MethodGet, a.header.Get("Location"), token, nil)
				return !strings.Contains(job.body, `"PROCESSING"`)
			})
			if trusted != strings.Contains(job.body, `"COMPLETE"`) || !trusted && !strings.Contains(job.body, "certificate") {
				t.Errorf("the job says %s", job.body)
			}
			app := someApp(t, base, token)
			space := call(t, http.MethodGet, base+"/v3/apps/"+app, token, nil).
				json(t)["relationships"].(map[string]any)["space"].(map[string]any)["data"].(map[string]any)["guid"].(string)
			a = call(t, http.MethodPost, base+"/v3/service_instances", token, map[string]any{
				"type": "user-provided", "name": "drain", "syslog_drain_url": "syslog-tls://" + receiver.Addr().String(),
				"relationships": to("space", space),
			})
			instance, _ := a.json(t)["guid"].(string)
			a = call(t, http.MethodPost, base+"/v3/service_credential_bindings", token, map[string]any{
				"type": "app", "relationships": map[string]any{"app": to("app", app)["app"],
					"service_instance": to("service_instance", instance)["service_instance"]},
			})
			if a.status != http.StatusCreated {
				t.Fatalf("bind the drain: %d %s", a.status, a.body)
			}
			n := 0
			testkit.Eventually(t, "the drain gets a line, or says why not", func() bool {
				n++
				// leaves a line
				call(t, http.MethodPatch, base+"/v3/apps/"+app, token, map[string]any{"name": fmt.Sprint("renamed", n)})
				if trusted {
					return len(received) > 0
				}
				text := call(t, http.MethodGet, base+"/api/v1/read/"+app+"?limit=1000&envelope_types=LOG", token, nil).body
				return strings.Contains(decoded(t, text), "certificate")
			})
		})
	}
}
