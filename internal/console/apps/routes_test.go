package apps

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"ingot/internal/base/cfapi"
)

func TestRouteLink(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ host, proto, url, protocol, want string }{
		{"localhost:8080", "", "web.apps.example.com", "http", "http://web.apps.example.com:8080"},
		{"api.example.com", "https", "web.apps.example.com/v1/x", "http", "https://web.apps.example.com/v1/x"},
		{"[::1]:8080", "", "web.apps.example.com/v1", "http", "http://web.apps.example.com:8080/v1"},
		{"localhost:8080", "", "tcp.example.com:1024", "tcp", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/console", nil)
		r.Host = test.host
		r.Header.Set("X-Forwarded-Proto", test.proto)
		if got := (route{Route: cfapi.Route{URL: test.url, Protocol: test.protocol}}).link(r); got != test.want {
			t.Errorf("%s at %s is %s, want %s", test.url, test.host, got, test.want)
		}
	}
}
