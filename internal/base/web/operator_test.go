package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"ingot/internal/base/web"
)

// The operator's listener has no login, so web pages of other sites are refused:
// by the host name they send when it resolves to this address, and by what
// browsers send about a request's origin.
func TestGuardOperator(t *testing.T) {
	t.Parallel()
	h := web.GuardOperator(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), http.NotFoundHandler(),
		web.OperatorNames("ops.example.org:8082", "example.com", "https://cf.example.net"), "", quiet)
	for name, tc := range map[string]struct {
		method, host string
		header       map[string]string
		want         int
	}{
		"address":              {"GET", "127.0.0.1:8082", nil, 200},
		"IPv6":                 {"GET", "[::1]:8082", nil, 200},
		"another address":      {"GET", "192.0.2.7:8082", nil, 200},
		"localhost":            {"GET", "localhost:8082", nil, 200},
		"no name":              {"GET", "", nil, 200},
		"its own name":         {"GET", "OPS.example.org:8082", nil, 200},
		"the domain":           {"GET", "example.com:8082", nil, 200},
		"the public name":      {"GET", "cf.example.net:8082", nil, 200},
		"rebound name":         {"GET", "evil.example:8082", nil, 403},
		"looks like localhost": {"GET", "localhost.evil.example:8082", nil, 403},
		"below localhost":      {"GET", "evil.apps.localhost:8082", nil, 403},
		"garbage":              {"GET", "localhost:80:80", nil, 403},
		"not an address":       {"GET", "127.0.0.1.evil.example", nil, 403},

		"page of its own": {"POST", "localhost:8082", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		"typed by hand": {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "none",
			"Sec-Fetch-Mode": "navigate"}, 200},
		"followed link": {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		"image of another": {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		"frame in another": {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		"script of an app": {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "same-site",
			"Sec-Fetch-Mode": "cors"}, 403},
		"form of another": {"POST", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site",
			"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403},
		"old browser, other":   {"GET", "localhost:8082", map[string]string{"Origin": "http://evil.example"}, 403},
		"old browser, post":    {"POST", "localhost:8082", map[string]string{"Origin": "http://evil.example"}, 403},
		"old browser, its own": {"POST", "localhost:8082", map[string]string{"Origin": "http://localhost:8082"}, 200},
	} {
		r := httptest.NewRequest(tc.method, "/metrics", nil)
		r.Host = tc.host
		for k, v := range tc.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: got %d, want %d: %s", name, w.Code, tc.want, w.Body)
		}
	}
}
