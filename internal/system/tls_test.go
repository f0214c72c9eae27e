package system

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// tlsServer is a server with a certificate for example.test and the names below it.
type tlsServer struct {
	*System
	t         *testing.T
	authority *testkit.Authority
	dir       string
	client    *http.Client
}

func startTLS(t *testing.T, change func(*Config)) *tlsServer {
	t.Helper()
	s := &tlsServer{t: t, authority: testkit.NewAuthority(t), dir: t.TempDir()}
	c := testConfig(t)
	c.Domain, c.TLSListen, c.TCPPorts = "example.test", "127.0.0.1:0", "none"
	c.TLSCerts, c.TLSKeys = s.authority.Write(s.dir, "example.test", "*.example.test", "*.apps.example.test")
	if change != nil {
		change(&c)
	}
	s.System = startSystem(t, c)
	transport := &http.Transport{
		// All names are this server.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
		},
		TLSClientConfig:   &tls.Config{RootCAs: s.authority.Pool()}, //nolint:gosec // the default versions
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Timeout: time.Minute, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// port returns the port with TLS.
func (s *tlsServer) port() string {
	s.t.Helper()
	u, err := url.Parse(s.Endpoints().Public)
	if err != nil {
		s.t.Fatal(err)
	}
	return u.Port()
}

func (s *tlsServer) do(method, address string, body url.Values) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "application/json")
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(text)
}

// TestTLS serves all parts with TLS: links, issuers and redirects are right, and clients
// without TLS are redirected.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, func(c *Config) { c.HSTS = "max-age=1000" })
	public := "https://api.example.test:" + s.port()
	if got := s.Endpoints().Public; got != public {
		t.Errorf("public URL is %s, want %s", got, public)
	}
	res, body := s.do(http.MethodGet, public+"/", nil)
	if res.ProtoMajor != 2 || res.Header.Get("Strict-Transport-Security") != "max-age=1000" {
		t.Errorf("protocol %s, headers %v", res.Proto, res.Header)
	}
	for _, want := range []string{
		`"self":{"href":"` + public + `"}`, `"login":{"href":"` + public + `"}`, `"log_cache":{"href":"` + public + `"}`,
		`"logging":{"href":"wss://api.example.test:` + s.port() + `"}`,
		`"notifications":{"href":"https://notifications.example.test:` + s.port() + `"}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the root document lacks %s: %s", want, body)
		}
	}
	res, body = s.do(http.MethodPost, "https://uaa.example.test:"+s.port()+"/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"admin"},
		"client_secret": {readSecret(t, s.System, adminClientFile)},
	})
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &token); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("token: %d %s", res.StatusCode, body)
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token.Access, ".")[1])
	if err != nil || !strings.Contains(string(claims), `"iss":"`+public+`/oauth/token"`) {
		t.Errorf("claims are %s, %v, want the issuer %s/oauth/token", claims, err, public)
	}
	for address, want := range map[string]int{
		"https://login.example.test:" + s.port() + "/login":           http.StatusOK,
		"https://notifications.example.test:" + s.port() + "/healthz": http.StatusOK,
		"https://log-cache.example.test:" + s.port() + "/readyz":      http.StatusOK,
		"https://none.apps.example.test:" + s.port() + "/":            http.StatusNotFound,
	} {
		if res, body := s.do(http.MethodGet, address, nil); res.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", address, res.StatusCode, body, want)
		}
	}
}

// TestPlainRedirects redirects clients without TLS, but not health checks and this machine.
func TestPlainRedirects(t *testing.T) {
	t.Parallel()
	s := startTLS(t, nil)
	plain, err := url.Parse(s.Endpoints().API)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, host, path string
		status             int
		location           string
	}{
		{http.MethodGet, "api.example.test", "/v3/info?x=1", 308, "https://api.example.test:" + s.port() + "/v3/info?x=1"},
		{http.MethodPost, "UAA.example.test", "/oauth/token", 308, "https://uaa.example.test:" + s.port() + "/oauth/token"},
		{http.MethodGet, "example.test", "/", 308, "https://example.test:" + s.port() + "/"},
		{http.MethodGet, "none.apps.example.test", "/", 404, ""},
		{http.MethodGet, "127.0.0.1", "/v3/info", 200, ""},
		{http.MethodGet, "localhost", "/readyz", 200, ""},
	} {
		res, body := s.do(c.method, "http://"+c.host+":"+plain.Port()+c.path, nil)
		if res.StatusCode != c.status || res.Header.Get("Location") != c.location ||
			res.Header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s %s%s: %d to %q, want %d to %q\n%s", c.method, c.host, c.path, res.StatusCode,
				res.Header.Get("Location"), c.status, c.location, body)
		}
	}
	kept := startTLS(t, func(c *Config) { c.PlainHTTP = true })
	plain, err = url.Parse(kept.Endpoints().API)
	if err != nil {
		t.Fatal(err)
	}
	if res, _ := kept.do(http.MethodGet, "http://api.example.test:"+plain.Port()+"/v3/info",
		nil); res.StatusCode != http.StatusOK {
		t.Errorf("with --plain-http: %d, want 200", res.StatusCode)
	}
}

// TestMisdirected refuses requests for another name than that of the connection.
func TestMisdirected(t *testing.T) {
	t.Parallel()
	s := startTLS(t, nil)
	for _, c := range []struct {
		name, host string
		status     int
	}{
		{"api.example.test", "api.example.test:" + s.port(), 200},
		{"api.example.test", "API.example.test.", 200},
		{"", "127.0.0.1:" + s.port(), 200},
		{"api.example.test", "login.example.test", 421},
		{"api.example.test", "127.0.0.1", 421},
		{"", "api.example.test", 421},
	} {
		conn, err := tls.Dial("tcp", "127.0.0.1:"+s.port(), //nolint:gosec // the certificate is not of interest
			&tls.Config{ServerName: c.name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /v3/info HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", c.host)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != c.status {
			t.Errorf("connection for %q, request for %q: %d, want %d", c.name, c.host, res.StatusCode, c.status)
		}
		res.Body.Close()
		conn.Close()
	}
}

// TestTLSStart refuses to start with files that cannot be used, and leaves no port open.
func TestTLSStart(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	c.TLSListen, c.TLSCerts, c.TLSKeys = "127.0.0.1:0", "/none/cert.pem", "/none/key.pem"
	err := newSystem(t, c).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--tls-cert: certificate /none/cert.pem") {
		t.Errorf("got %v", err)
	}
}

// TestTLSConfig explains values that cannot be used.
func TestTLSConfig(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/ca.pem"
	if err := os.WriteFile(file, testkit.NewAuthority(t).PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	good := TLSConfig{TLSListen: "127.0.0.1:0", TLSCerts: "a,b", TLSKeys: "c, d", ForwardClientCert: "off"}
	for want, change := range map[string]func(*TLSConfig){
		"":                                     func(*TLSConfig) {},
		"--tls-listen: it needs a certificate": func(c *TLSConfig) { c.TLSCerts, c.TLSKeys = "", "" },
		"--tls-listen: \"x\" is not HOST:PORT": func(c *TLSConfig) { c.TLSListen = "x" },
		"--tls-cert: there must be a key for each certificate": func(c *TLSConfig) { c.TLSKeys = "c" },
		"--tls-cert: it needs --tls-listen":                    func(c *TLSConfig) { c.TLSListen = "" },
		"--hsts: it needs max-age":                             func(c *TLSConfig) { c.HSTS = "preload" },
		"--hsts: \"forever\" is not one of":                    func(c *TLSConfig) { c.HSTS = "max-age=1; forever" },
		"--hsts: \"-1\" is not a number of seconds":            func(c *TLSConfig) { c.HSTS = "max-age=-1" },
		"--forward-client-cert: \"on\" is not one of":          func(c *TLSConfig) { c.ForwardClientCert = "on" },
		"--client-ca: --forward-client-cert sanitize_set needs": func(
			c *TLSConfig) {
			c.ForwardClientCert = "sanitize_set"
		},
		"--client-ca: it needs --forward-client-cert": func(c *TLSConfig) { c.ClientCA = file },
		"--acme-email: \"x\" is not an email address": func(c *TLSConfig) { c.ACMEEmail = "x" },
		"--acme-directory: it needs --acme-email": func(
			c *TLSConfig) {
			c.ACMEDirectory = "https://ca.example.org"
		},
		"--acme-directory: it must begin with https:// or http://": func(c *TLSConfig) {
			c.ACMEEmail,
				c.ACMEDirectory = "a@b.c", "ca"
		},
		"--acme-dns-hook: it needs --acme-email": func(c *TLSConfig) { c.ACMEDNSHook = "x" },
	} {
		c := good
		change(&c)
		err := firstProblem(c.checks())
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
