package router_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/platform/edge/router"
)

func TestRouteService(t *testing.T) {
	t.Parallel()
	var f *front
	kept := make(chan http.Header, 10)
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept <- r.Header.Clone()
		if r.URL.Path != "/service" {
			http.Error(w, r.URL.Path, http.StatusTeapot)
			return
		}
		// It does what route services do: sends the request where it was for.
		out, err := http.NewRequestWithContext(r.Context(), r.Method, r.Header.Get("X-Cf-Forwarded-Url"), r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		for _, name := range []string{"X-Cf-Proxy-Signature", "X-Cf-Proxy-Metadata", "X-Cf-Forwarded-Url"} {
			out.Header.Set(name, r.Header.Get(name))
		}
		out.Header.Set("X-By", "the service")
		res, err := f.client.Do(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(service.Close)
	roots := x509.NewCertPool()
	roots.AddCert(service.Certificate())
	f = newFront(t, router.Options{RouteServiceTLS: &tls.Config{RootCAs: roots}, RouteServices: safedial.Everywhere})
	app := backend(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "app %s %s by %s%s", r.RequestURI, body, r.Header.Get("X-By"), r.Header.Get("X-Cf-Proxy-Signature"))
	})
	f.table.Set(router.Route{GUID: "r", Host: "app.test", RouteServiceURL: service.URL + "/service",
		Backends: []router.Backend{app}})
	f.table.Set(router.Route{GUID: "s", Host: "other.test", RouteServiceURL: service.URL + "/service",
		Backends: []router.Backend{app}})
	res := f.do(f.request(http.MethodPost, "http://app.test/a/b?c=d", strings.NewReader("body")))
	if got := text(t, res.Body); res.StatusCode != http.StatusOK || got != "app /a/b?c=d body by the service" {
		t.Fatalf("answer is %d %q, want 200 from the app by the service", res.StatusCode, got)
	}
	h := <-kept
	if h.Get("X-Cf-Forwarded-Url") != "http://app.test/a/b?c=d" {
		t.Errorf("header is %v, want X-Cf-Forwarded-Url: http://app.test/a/b?c=d", h)
	}
	fresh := func(url string, age time.Duration) http.Header {
		signature, metadata := router.Sign(f.proxy, url, time.Now().Add(-age))
		return http.Header{"X-Cf-Proxy-Signature": {signature}, "X-Cf-Proxy-Metadata": {metadata},
			"X-Cf-Forwarded-Url": {url}}
	}
	ask := func(url string, h http.Header) (int, string) {
		r := f.request(http.MethodGet, url, nil)
		r.Header = h
		res := f.do(r)
		return res.StatusCode, text(t, res.Body)
	}
	if status, got := ask("http://app.test/x", fresh("http://app.test/x", 30*time.Second)); status != 200 ||
		got != "app /x  by " {
		t.Errorf("a good signature: %d %q", status, got)
	}
	for name, bad := range map[string]http.Header{
		"old":             fresh("http://app.test/x", 61*time.Second),
		"of another path": fresh("http://app.test/y", 0),
		"of another host": fresh("http://other.test/x", 0),
		"forged": {"X-Cf-Proxy-Signature": {"forged"}, "X-Cf-Proxy-Metadata": {"x"},
			"X-Cf-Forwarded-Url": {"http://app.test/x"}},
		"without metadata": {"X-Cf-Proxy-Signature": fresh("http://app.test/x", 0)["X-Cf-Proxy-Signature"],
			"X-Cf-Forwarded-Url": {"http://app.test/x"}},
		"without address": {"X-Cf-Proxy-Signature": fresh("http://app.test/x", 0)["X-Cf-Proxy-Signature"],
			"X-Cf-Proxy-Metadata": fresh("http://app.test/x", 0)["X-Cf-Proxy-Metadata"]},
	} {
		if status, got := ask("http://app.test/x", bad); status != 400 ||
			got != "400 Bad Request: Failed to validate Route Service Signature\n" {
			t.Errorf("%s: answer is %d %q, want 400 and a bad signature", name, status, got)
		}
	}
	// One that cannot be reached is a bad gateway, and never skipped.
	f.table.Set(router.Route{GUID: "d", Host: "dead.test", RouteServiceURL: "https://" + dead(t).Address,
		Backends: []router.Backend{app}})
	if status, got := ask("http://dead.test/x", http.Header{}); status != 502 || strings.Contains(got, "app") {
		t.Errorf("answer is %d %q, want 502 and nothing of the app", status, got)
	}
}

// TestRouteServiceGuarded does not send requests to a route service on this
// machine that is no app here.
func TestRouteServiceGuarded(t *testing.T) {
	t.Parallel()
	called := false
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	t.Cleanup(service.Close)
	f := newFront(t, router.Options{})
	app := backend(t, func(http.ResponseWriter, *http.Request) {})
	f.table.Set(router.Route{GUID: "r", Host: "app.test", RouteServiceURL: service.URL, Backends: []router.Backend{app}})
	res := f.do(f.request(http.MethodGet, "http://app.test/", nil))
	if got := text(t, res.Body); called || res.StatusCode != http.StatusBadGateway ||
		!strings.Contains(got, "--allow-networks") {
		t.Errorf("called %t: %d %q", called, res.StatusCode, got)
	}
}
