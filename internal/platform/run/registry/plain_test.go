package registry

import (
	"net/url"
	"testing"
)

// TestPlain are the addresses that may be used without TLS.
func TestPlain(t *testing.T) {
	t.Parallel()
	g := &guarded{plain: []string{"registry.example.com:5000", "old.example.com"}}
	for address, want := range map[string]bool{
		"http://127.0.0.1:5000/v2/": true, "http://127.9.9.9/v2/": true, "http://[::1]:5000/v2/": true,
		"http://localhost:5000/v2/":            true,
		"http://registry.example.com:5000/v2/": true, "http://old.example.com/v2/": true,
		"http://old.example.com:81/v2/":   true,
		"http://registry.example.com/v2/": false, "http://10.0.0.1/v2/": false, "http://192.168.1.1:5000/v2/": false,
		"http://x.local/v2/":       false,
		"http://example.com/token": false, "ftp://127.0.0.1/": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.allowed(u); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
