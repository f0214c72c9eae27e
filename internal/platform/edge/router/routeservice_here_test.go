package router_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/safedial"
	"ingot/internal/platform/edge/router"
)

// TestRouteService sees that requests pass a route service elsewhere and one
// that is an app here, and that it cannot be bypassed.
func TestRouteServiceHere(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, name := range []string{"X-Cf-Proxy-Signature", "X-Cf-Proxy-Metadata", "X-Cf-Forwarded-Url"} {
			if r.Header.Get(name) != "" {
				t.Errorf("the app sees %s", name)
			}
		}
		_, _ = io.WriteString(w, "app "+r.URL.RequestURI()+" "+r.Header.Get("X-Passed")+" "+string(body))
	}))
	defer app.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var proxy *httptest.Server
	var seen http.Header
	service := func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		to := r.Header.Get("X-Cf-Forwarded-Url")
		if r.URL.RequestURI() != "/check?x=1" || !strings.HasPrefix(to, "http://a.example/") {
			t.Errorf("the service is asked for %s on the way to %s", r.URL.RequestURI(), to)
		}
		next, err := http.NewRequestWithContext(r.Context(), r.Method, proxy.URL+strings.TrimPrefix(to, "http://a.example"),
			r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		next.Host = "a.example"
		for _, name := range []string{"X-Cf-Proxy-Signature", "X-Cf-Proxy-Metadata", "X-Cf-Forwarded-Url"} {
			next.Header.Set(name, r.Header.Get(name))
		}
		next.Header.Set("X-Passed", "yes")
		res, err := client.Do(next)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(service))
	defer elsewhere.Close()
	here := httptest.NewServer(http.HandlerFunc(service))
	defer here.Close()

	table := &router.Table{}
	p := router.NewProxy(table, router.Options{RouteServiceTLS: elsewhere.Client().Transport.(*http.Transport).
		TLSClientConfig, RouteServices: safedial.Everywhere})
	defer p.Close()
	proxy = httptest.NewServer(p)
	defer proxy.Close()
	backend := func(s *httptest.Server) []router.Backend {
		return []router.Backend{{Address: strings.TrimPrefix(s.URL, "http://"), AppGUID: "app"}}
	}
	table.Set(router.Route{GUID: "service", Host: "service.example", Backends: backend(here)})
	ask := func(path string, header http.Header) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.URL+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "a.example"
		for k, v := range header {
			r.Header[k] = v
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	for _, address := range []string{elsewhere.URL + "/check?x=1", "https://service.example/check?x=1"} {
		table.Set(router.Route{GUID: "a", Host: "a.example", RouteServiceURL: address, Backends: backend(app)})
		if status, body := ask("/p%2Fq?z=%20", nil); status != 200 || body != "app /p%2Fq?z=%20 yes body" {
			t.Errorf("by %s: %d %q", address, status, body)
		}
		// A signature is for one address only, and cannot be made up.
		stolen := http.Header{"X-Cf-Forwarded-Url": seen["X-Cf-Forwarded-Url"],
			"X-Cf-Proxy-Signature": seen["X-Cf-Proxy-Signature"], "X-Cf-Proxy-Metadata": seen["X-Cf-Proxy-Metadata"]}
		if status, body := ask("/other", stolen); status != 400 || !strings.Contains(body, "Signature") {
			t.Errorf("a stolen signature: %d %q", status, body)
		}
		if status, _ := ask("/", http.Header{"X-Cf-Proxy-Signature": {"x"}, "X-Cf-Proxy-Metadata": {"AAAA"}}); status != 400 {
			t.Errorf("a forged signature: %d", status)
		}
		if status, _ := ask("/", http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}); status != 503 {
			t.Errorf("a websocket: %d", status)
		}
	}
	table.Set(router.Route{GUID: "a", Host: "a.example", RouteServiceURL: "https://127.0.0.1:1/", Backends: backend(app)})
	if status, body := ask("/", nil); status != 502 || strings.Contains(body, "app ") {
		t.Errorf("a service that is not there: %d %q", status, body)
	}
}
