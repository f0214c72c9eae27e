package system

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// gated is a server in front of another, which does not answer until it is
// opened.
func gated(t *testing.T, server string) (address string, open *atomic.Bool) {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	open = &atomic.Bool{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(gate.Close)
	return gate.URL, open
}

// TestExternalAuthorizationServer uses one Ingot as the authorization server of
// another, which starts while that one does not answer yet.
func TestExternalAuthorizationServer(t *testing.T) {
	t.Parallel()
	uaa := startSystem(t, testConfig(t))
	admin := adminToken(t, uaa)
	gate, open := gated(t, uaa.Endpoints().API)

	c := testConfig(t)
	c.AuthURL = gate + "/"
	s := startSystem(t, c)
	base := s.Endpoints().API

	a := call(t, http.MethodGet, base+"/readyz", "", nil)
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, partAuth) {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	links, _ := call(t, http.MethodGet, base+"/", "", nil).json(t)["links"].(map[string]any)
	for _, name := range []string{"login", "uaa"} {
		if l, _ := links[name].(map[string]any); l["href"] != gate {
			t.Errorf("link %s: %v", name, links[name])
		}
	}
	if a := call(t, http.MethodPost, base+"/oauth/token", "", nil); a.status != http.StatusNotFound {
		t.Errorf("it serves tokens itself: %d", a.status)
	}

	if a := call(t, http.MethodGet, base+"/v3/users/x", admin, nil); a.status != http.StatusServiceUnavailable ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("a token that cannot be checked yet: %d %v %s", a.status, a.header, a.body)
	}
	open.Store(true)

	// From "wait" it goes to an answer, and never over "wrong".
	deadline := time.Now().Add(time.Minute)
	for {
		a := call(t, http.MethodGet, base+"/v3/users/x", admin, nil)
		if a.status == http.StatusNotFound {
			break
		}
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Fatalf("answer is %d %v %s, want 503 with Retry-After until 404", a.status, a.header, a.body)
		}
		if time.Now().After(deadline) {
			t.Fatal("it never noticed")
		}
	}
	if a := call(t, http.MethodGet, base+"/readyz", "", nil); a.status != http.StatusOK {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
}
