package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/samples/internal/sample"
	"ingot/samples/internal/sampletest"
)

// serve runs a proxy with an environment and returns its address.
func serve(t *testing.T, env func(string) string) (*proxy, string) {
	t.Helper()
	p, err := configure(env)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sample.ServeWith(ctx, p.server(), sample.LimitListener(l, p.connections)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
	})
	return p, l.Addr().String()
}

// backend is an app that responds with its request as JSON, and echoes what follows an
// upgrade.
func backend(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(c, buffered)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{"headers": r.Header, "host": r.Host, "path": r.RequestURI,
			"body": string(body)})
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// caller returns a client with the certificate of an app, that does not verify servers.
func caller(t *testing.T, env func(string) string, h2 bool) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if env != nil {
		pair, err := tls.LoadX509KeyPair(env("CF_INSTANCE_CERT"), env("CF_INSTANCE_KEY"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: h2, DisableKeepAlives: !h2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func get(t *testing.T, c *http.Client, address string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader("the body"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = []string{headers[i+1]} // not canonical
	}
	answer, err := c.Do(r)
	if err != nil {
		return nil, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// TestPeers calls a proxy with certificates of several apps, with both versions of HTTP.
func TestPeers(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	_, address := serve(t, p.Instance("back", "TLS_PROXY_UPSTREAM", backend(t), "TLS_PROXY_PEERS", "app:front,app:other"))
	for _, h2 := range []bool{false, true} {
		r, text := get(t, caller(t, p.Instance("front"), h2), "https://"+address+"/a%2Fb?x=1;y=2",
			"X-Forwarded-Client-Cert", "forged", "x_forwarded_client_cert", "forged", "X-Forwarded-For", "6.6.6.6",
			"X-Other", "kept")
		if r == nil || r.StatusCode != http.StatusOK || (r.ProtoMajor == 2) != h2 {
			t.Fatalf("h2 %v: %+v %s", h2, r, text)
		}
		var got struct {
			Headers          http.Header
			Host, Path, Body string
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if got.Path != "/a%2Fb?x=1;y=2" || got.Body != "the body" || got.Host != address ||
			got.Headers.Get("X-Other") != "kept" {
			t.Errorf("the app got %+v", got)
		}
		if strings.Contains(text, "forged") || strings.Contains(text, "6.6.6.6") ||
			len(got.Headers.Get(certificateHeader)) < 100 || got.Headers.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("the app got headers %v", got.Headers)
		}
	}
	if r, text := get(t, caller(t, p.Instance("third"), false), "https://"+address+"/"); r == nil ||
		r.StatusCode != http.StatusForbidden ||
		!strings.Contains(text, "app:third") || !strings.Contains(text, "TLS_PROXY_PEERS accepts app:front,app:other") {
		t.Errorf("another app: %+v %s", r, text)
	}
	for what, env := range map[string]func(string) string{"no certificate": nil,
		"another platform": sampletest.NewPlatform(t).Instance("front")} {
		if r, text := get(t, caller(t, env, false), "https://"+address+"/"); r != nil || !strings.Contains(text, "tls:") {
			t.Errorf("%s: %+v %s", what, r, text)
		}
	}
}

// TestHopByHop sends a request whose Connection header names the header that the proxy
// sets: it must not be removed.
func TestHopByHop(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	_, address := serve(t, p.Instance("back", "TLS_PROXY_UPSTREAM", backend(t)))
	text := raw(t, p.Instance("front"), address,
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: close, X-Forwarded-Client-Cert\r\n\r\n")
	if !strings.Contains(text, "200 OK") || !strings.Contains(text, certificateHeader) {
		t.Errorf("answer: %s", text)
	}
}

// raw sends bytes in a connection of an app's and returns the answer.
func raw(t *testing.T, env func(string) string, address, request string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(env("CF_INSTANCE_CERT"), env("CF_INSTANCE_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(c)
	return string(text)
}

// TestSmuggling sends requests whose length is ambiguous: the app behind must see one
// request, or none.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	env := p.Instance("back", "TLS_PROXY_UPSTREAM", backend(t))
	_, address := serve(t, env)
	for request, want := range map[string]string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde": "400 Bad Request",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n": "Unsupported " +
			"transfer encoding",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n": "400 Bad Request",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 100<<10) +
			"\r\n\r\n": "431 Request Header Fields Too Large",
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET": `"body":"abc"`,
	} {
		if text := raw(t, env, address, request); !strings.Contains(text, want) {
			t.Errorf("%.90q: %s, want %q", request, text, want)
		}
	}
}

// TestRenewal replaces the certificate of a running proxy: first only one of the files,
// which must not interrupt it.
func TestRenewal(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	env := p.Instance("back", "TLS_PROXY_UPSTREAM", backend(t))
	front := p.Instance("front")
	proxy, address := serve(t, env)
	serial := func() string {
		r, text := get(t, caller(t, front, false), "https://"+address+"/")
		if r == nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%+v %s", r, text)
		}
		return r.TLS.PeerCertificates[0].SerialNumber.String()
	}
	lookNow := func() {
		proxy.identity.mu.Lock()
		proxy.identity.next = time.Time{}
		proxy.identity.mu.Unlock()
	}
	first := serial()
	key, err := os.ReadFile(env("CF_INSTANCE_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	p.Renew("back", filepath.Dir(env("CF_INSTANCE_CERT")))
	fresh, err := os.ReadFile(env("CF_INSTANCE_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key     []byte
		changes bool
	}{{key, false}, {fresh, true}} {
		if err := os.WriteFile(env("CF_INSTANCE_KEY"), step.key, 0o600); err != nil {
			t.Fatal(err)
		}
		lookNow()
		if got := serial(); (got != first) != step.changes {
			t.Errorf("the certificate is %s, at first %s, want a change %v", got, first, step.changes)
		}
	}
}

// TestOut calls the proxy of another app through the proxy of this one, and the proxy of
// an app that is not accepted. A WebSocket goes through both.
func TestOut(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	_, back := serve(t, p.Instance("back", "TLS_PROXY_UPSTREAM", backend(t), "TLS_PROXY_PEERS", "same-app,app:front"))
	_, address := serve(t, p.Instance("front", "TLS_PROXY_MODE", "out", "TLS_PROXY_UPSTREAM", back, "TLS_PROXY_PEERS",
		"app:back"))
	r, text := get(t, caller(t, nil, false), "http://"+address+"/x")
	if r == nil || r.StatusCode != http.StatusOK || !strings.Contains(text, `"host":"`+back+`"`) ||
		!strings.Contains(text, certificateHeader) {
		t.Errorf("%+v %s", r, text)
	}
	_, wrong := serve(t, p.Instance("front", "TLS_PROXY_MODE", "out", "TLS_PROXY_UPSTREAM", back, "TLS_PROXY_PEERS",
		"app:imposter"))
	if r, text := get(t, caller(t, nil, false), "http://"+wrong+"/x"); r == nil || r.StatusCode != http.StatusBadGateway {
		t.Errorf("a server that is not accepted: %+v %s", r, text)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %+v, %v", answer, err)
	}
	answer.Body.Close()
	fmt.Fprintf(c, "ping\n")
	if line, err := in.ReadString('\n'); line != "ping\n" {
		t.Errorf("the WebSocket answers %q, %v", line, err)
	}
}

// TestOptional accepts clients without a certificate, and says nothing about them.
func TestOptional(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	for _, how := range []string{"optional", "none"} {
		_, address := serve(t, p.Instance("back", "TLS_PROXY_UPSTREAM", backend(t), "TLS_PROXY_CLIENT_AUTH", how))
		r, text := get(t, caller(t, nil, true), "https://"+address+"/", "X-Forwarded-Client-Cert", "forged")
		if r == nil || r.StatusCode != http.StatusOK || strings.Contains(text, certificateHeader) {
			t.Errorf("%s: %+v %s", how, r, text)
		}
	}
}

// TestAppIsDown answers 502 while the app does not listen.
func TestAppIsDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := sampletest.NewPlatform(t)
	_, address := serve(t, p.Instance("back", "TLS_PROXY_UPSTREAM", l.Addr().String()))
	if r, text := get(t, caller(t, p.Instance("front"), true), "https://"+address+"/"); r == nil ||
		r.StatusCode != http.StatusBadGateway {
		t.Errorf("%+v %s", r, text)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	for want, env := range map[string][]string{
		"TLS_PROXY_MODE is \"both\"":    {"TLS_PROXY_MODE", "both"},
		"TLS_PROXY_UPSTREAM is not set": {"TLS_PROXY_MODE", "out"},
		"must be an address of localhost": {"TLS_PROXY_MODE", "out", "TLS_PROXY_UPSTREAM", "a:1",
			"TLS_PROXY_LISTEN", ":9000"},
		"TLS_PROXY_LISTEN is \"x\"":         {"TLS_PROXY_LISTEN", "x"},
		`"front" must be app:GUID`:          {"TLS_PROXY_PEERS", "front"},
		`"any" must be`:                     {"TLS_PROXY_PEERS", "app:1,any"},
		"CF_INSTANCE_CERT, CF_INSTANCE_KEY": {"CF_INSTANCE_CERT", ""},
		"read the certificate":              {"TLS_PROXY_CERT", "/nowhere"},
		"contains no certificate":           {"TLS_PROXY_CA", os.DevNull},
		"TLS_PROXY_RESPONSE_TIMEOUT":        {"TLS_PROXY_RESPONSE_TIMEOUT", "soon"},
		"TLS_PROXY_MAX_CONNECTIONS":         {"TLS_PROXY_MAX_CONNECTIONS", "0"},
	} {
		if _, err := configure(p.Instance("back", env...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", env, err, want)
		}
	}
	got, err := configure(p.Instance("back", "TLS_PROXY_PEERS", "same-app, same-space,same-organization,app:x",
		"PORT", "1234"))
	if err != nil || got.peers.String() != "app:back,space:s,organization:o,app:x" || got.upstream != "127.0.0.1:1234" ||
		got.listen != ":8443" {
		t.Errorf("%+v, %v", got, err)
	}
}
