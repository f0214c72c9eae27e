package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"ingot/internal/base/web"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		proxies, peer string
		forwarded     []string
		want          string
	}{
		"no proxy":              {"", "192.0.2.1:5", nil, "192.0.2.1"},
		"no proxy is trusted":   {"", "127.0.0.1:5", []string{"198.51.100.7"}, "127.0.0.1"},
		"another is trusted":    {"10.0.0.0/8", "192.0.2.1:5", []string{"198.51.100.7"}, "192.0.2.1"},
		"proxy":                 {"127.0.0.1", "127.0.0.1:5", []string{"198.51.100.7"}, "198.51.100.7"},
		"client lies":           {"127.0.0.1", "127.0.0.1:5", []string{"203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		"client lies in a line": {"127.0.0.1", "127.0.0.1:5", []string{"203.0.113.1", "198.51.100.7"}, "198.51.100.7"},
		"two proxies": {"127.0.0.1, 10.0.0.0/8", "127.0.0.1:5", []string{"203.0.113.1, 198.51.100.7, 10.1.2.3"},
			"198.51.100.7"},
		"proxies only":          {"127.0.0.1, 10.0.0.0/8", "127.0.0.1:5", []string{"10.1.2.3"}, "10.1.2.3"},
		"proxy says nothing":    {"127.0.0.1", "127.0.0.1:5", nil, "127.0.0.1"},
		"proxy says nonsense":   {"127.0.0.1", "127.0.0.1:5", []string{"198.51.100.7, unknown"}, "127.0.0.1"},
		"IPv6 peer":             {"::1", "[::1]:5", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		"IPv6 in brackets":      {"::1", "[::1]:5", []string{"[2001:db8:1:2:3::4]"}, "2001:db8:1:2::/64"},
		"IPv4 in IPv6":          {"127.0.0.0/8", "[::ffff:127.0.0.1]:5", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		"zone":                  {"", "[fe80::1%eth0]:5", nil, "fe80::/64"},
		"an unnamed connection": {"127.0.0.1", "@", []string{"198.51.100.7"}, "invalid IP"},
	} {
		proxies, err := web.ParseProxies(tc.proxies)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tc.peer
		r.Header["X-Forwarded-For"] = tc.forwarded
		if got := web.AddressKey(proxies.Client(r)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	for _, bad := range []string{"all", "10.0.0.0/33", "proxy.example.org"} {
		if _, err := web.ParseProxies(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
