package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"ingot/internal/base/web"
)

// TestBrowserAddress checks the address that the APIs see of a browser.
func TestBrowserAddress(t *testing.T) {
	t.Parallel()
	proxies, err := web.ParseProxies("10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ peer, forwarded, want string }{
		"direct":               {"192.0.2.1:1234", "", "192.0.2.1:1234"},
		"direct, with a claim": {"192.0.2.1:1234", "198.51.100.7", "192.0.2.1:1234"},
		"proxy":                {"10.0.0.1:1234", "198.51.100.7", "198.51.100.7:1234"},
		"proxy, with a claim":  {"10.0.0.1:1234", "127.0.0.1, 198.51.100.7", "198.51.100.7:1234"},
		"proxy, nothing said":  {"10.0.0.1:1234", "", "10.0.0.1:1234"},
		"IPv6":                 {"10.0.0.1:1234", "2001:db8::1", "[2001:db8::1]:1234"},
		"no address":           {"pipe", "198.51.100.7", "pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := ""
			api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = r.RemoteAddr
				w.WriteHeader(http.StatusUnauthorized)
			})
			c := New(Options{Platform: api, Proxies: proxies}, nil, nil)
			r := httptest.NewRequest(http.MethodGet, CallbackPath, http.NoBody)
			r.RemoteAddr = test.peer
			if test.forwarded != "" {
				r.Header.Set("X-Forwarded-For", test.forwarded)
			}
			if err := c.exchange(r, &Session{}, url.Values{}); err == nil || seen != test.want {
				t.Errorf("token request from %q (%v), want %q", seen, err, test.want)
			}
			if _, err := c.Platform(r, &Session{}).Raw(nil, http.MethodGet, "/v3/apps", nil); err == nil || seen != test.want {
				t.Errorf("request from %q (%v), want %q", seen, err, test.want)
			}
		})
	}
}
