package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/samples/internal/sampletest"
)

func identityOf(t *testing.T, env func(string) string) *identity {
	t.Helper()
	id, err := newIdentity(env)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestMutualTLS has a server that accepts one app, and clients of that app, of another,
// of another platform, and without a certificate.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	p := sampletest.NewPlatform(t)
	here := p.Instance("back")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: server("front"), ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { s.Close() })
	go func() { _ = s.Serve(tls.NewListener(l, identityOf(t, here).server())) }()
	ask := func(id *identity, app string) (int, string) {
		w := httptest.NewRecorder()
		client(id, app, l.Addr().String()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		text, _ := io.ReadAll(w.Body)
		return w.Code, string(text)
	}
	front := identityOf(t, p.Instance("front"))
	if status, text := ask(front, "back"); status != 200 || text != "hello instance instance-of-front of app front\n" {
		t.Errorf("the right app got %d %s", status, text)
	}
	p.Renew("back", filepath.Dir(here("CF_INSTANCE_CERT")))
	if status, text := ask(front, "back"); status != 200 {
		t.Errorf("after a renewal: %d %s", status, text)
	}
	for what, x := range map[string]struct {
		id        *identity
		app, want string
	}{
		"another app":      {identityOf(t, p.Instance("other")), "back", "app other may not call this app"},
		"another server":   {front, "imposter", `the server is the app "back" and not "imposter"`},
		"another platform": {identityOf(t, sampletest.NewPlatform(t).Instance("front")), "back", "certificate"},
	} {
		if status, text := ask(x.id, x.app); status == 200 || !strings.Contains(text, x.want) {
			t.Errorf("%s: got %d %s, want %q", what, status, text, x.want)
		}
	}
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_, err = io.ReadAll(c)
		c.Close()
	}
	if err == nil {
		t.Error("a client without a certificate is served")
	}
	if _, err := newIdentity(func(string) string { return "" }); err == nil ||
		!strings.Contains(err.Error(), "CF_INSTANCE_CERT") {
		t.Errorf("without certificates: %v", err)
	}
}
