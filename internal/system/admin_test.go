package system

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// The admin address has no login, so that web pages of others are kept away: by
// the name they send when theirs was made to lead here, and by what browsers say
// of a request's origin.
func TestAdminAddressIsForItsOperator(t *testing.T) {
	t.Parallel()
	h := guardAdmin(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), adminNames("ops.example.org:8082", "example.com", "https://cf.example.net"), discard)
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

		"page of its own":      {"POST", "localhost:8082", map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		"typed by hand":        {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200},
		"followed link":        {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200},
		"image of another":     {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403},
		"frame in another":     {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403},
		"script of an app":     {"GET", "localhost:8082", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403},
		"form of another":      {"POST", "localhost:8082", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403},
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
			t.Errorf("%s: %d, want %d: %s", name, w.Code, tc.want, w.Body)
		}
	}
}

// The check stands before everything on the admin listener.
func TestAdminListenerChecksTheHost(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	client := &http.Client{Timeout: time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	for host, want := range map[string]int{"": 200, "rebound.example": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoints().Admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, res.StatusCode, want)
		}
	}
}
