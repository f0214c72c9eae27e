package safedial_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/safedial"
)

// TestTransport reaches apps of this server by their routes, whatever their names
// lead to, and nothing else on this machine.
func TestTransport(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.WriteString(w, r.Host+r.URL.Path)
	}))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	routes := safedial.Routes{At: at, Has: func(host, _ string) bool {
		return strings.HasPrefix(host,
			"broker.apps.test")
	}}
	client := &http.Client{Transport: safedial.Transport(&http.Transport{}, safedial.Guard{}, routes, time.Minute)}
	defer client.CloseIdleConnections()
	for _, address := range []string{"http://broker.apps.test/v2/catalog", "https://broker.apps.test:8443/v2/catalog"} {
		answer, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if !strings.HasPrefix(string(text), "broker.apps.test") || !strings.HasSuffix(string(text), "/v2/catalog") {
			t.Errorf("%s answers %s, want broker.apps.test and /v2/catalog", address, text)
		}
	}
	if answer, err := client.Get(server.URL); err == nil {
		answer.Body.Close()
		t.Error("loopback is reached")
	} else if !safedial.Refused(err) {
		t.Error(err)
	}
	open := &http.Client{Transport: safedial.Transport(&http.Transport{}, safedial.Guard{}.With(safedial.Everywhere),
		safedial.Routes{}, time.Minute)}
	defer open.CloseIdleConnections()
	answer, err := open.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

func TestCheck(t *testing.T) {
	t.Parallel()
	routes := safedial.Routes{Has: func(host, _ string) bool { return host == "app.apps.test:8080" }}
	names := map[string][]netip.Addr{
		"private.test": {netip.MustParseAddr("10.0.0.1")}, "public.test": {netip.MustParseAddr("93.184.216.34")},
		"both.test": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("93.184.216.34")},
	}
	lookup := func(host string) ([]netip.Addr, error) {
		if a := names[host]; a != nil {
			return a, nil
		}
		return nil, errors.New("no such host")
	}
	for address, want := range map[string]bool{
		"http://127.0.0.1:9/x": false, "http://[::1]/": false, "http://169.254.169.254/": false,
		"http://168.63.129.16/": false,
		"http://private.test/":  false, "http://public.test/": true, "http://both.test/": true, "http://unknown.test/": true,
		"http://93.184.216.34/": true, "http://app.apps.test:8080/hook": true,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		err = safedial.Check(safedial.Guard{}, routes, u, lookup)
		if (err == nil) != want || err != nil && !errors.Is(err, safedial.ErrPrivate) {
			t.Errorf("checking %s: error is %v, want allowed %v", address, err, want)
		}
	}
}
