package apps

import (
	"fmt"
	"testing"

	"ingot/internal/base/cfapi"
)

func TestCountRequests(t *testing.T) {
	t.Parallel()
	rtr := func(host, path string, status int, seconds string) line {
		return line{Source: "RTR", Text: fmt.Sprintf(
			`%s - [2026-01-01T12:00:00.000000000Z] "GET %s HTTP/1.1" %d 0 5 "-" "curl" "127.0.0.1:1" "127.0.0.1:2" x_forwarded_for:"127.0.0.1" response_time:%s gorouter_time:0.0001 app_id:"x"`, host, path, status, seconds)}
	}
	routes := []route{{Route: cfapi.Route{URL: "shop.example.com"}},
		{Route: cfapi.Route{URL: "shop.example.com/v1"}}, {Route: cfapi.Route{URL: "other.example.com"}}}
	got := countRequests(routes, []line{
		rtr("shop.example.com", "/", 200, "0.010"), rtr("shop.example.com:8080", "/v10?q=1", 503, "0.030"),
		rtr("SHOP.example.com", "/v1/x", 200, "0.5"),
		rtr("shop.example.com", "/v1?a", 404, "0.5"), rtr("elsewhere.example.com", "/", 500, "1"),
		{Source: "APP/PROC/WEB", Text: rtr("shop.example.com", "/", 200, "1").Text}, {Source: "RTR", Text: "nonsense"},
		{Source: "RTR", Text: `shop.example.com - [2026-01-01T12:00:00Z] "TCP" "-" 1 2`},
	})
	for i, want := range []figures{{Requests: 2, Errors: 1, P95: 30}, {Requests: 2, P95: 500}, {}} {
		if got[i].Requests != want.Requests || got[i].Errors != want.Errors || got[i].P95 != want.P95 {
			t.Errorf("%s has %+v, want %+v", routes[i].URL, got[i], want)
		}
	}
}

func TestSpark(t *testing.T) {
	t.Parallel()
	say := func(v float64) string { return fmt.Sprintf("%g%%", v) }
	if one := newSpark("CPU", []float64{1}, say); one != nil {
		t.Errorf("one value is drawn as %v", one)
	}
	got := newSpark("CPU", []float64{0, 50, 25}, say)
	if got == nil || got.Points != "0,19 40,1 80,10" || got.Label != "CPU: now 25%, at most 50%" {
		t.Errorf("%+v", got)
	}
	if got := newSpark("CPU", []float64{0, 0}, say); got == nil || got.Points != "0,19 80,19" {
		t.Errorf("nothing used: %+v", got)
	}
}

func TestUnmapCommand(t *testing.T) {
	t.Parallel()
	domains := []cfapi.Thing{{Name: "example.com"}, {Name: "apps.example.com"}}
	for url, want := range map[string]string{
		"shop.apps.example.com":      "cf unmap-route shop apps.example.com --hostname shop",
		"shop.apps.example.com/v1/x": "cf unmap-route shop apps.example.com --hostname shop --path v1/x",
		"example.com":                "cf unmap-route shop example.com",
		"tcp.other.com:1024":         "cf unmap-route shop tcp.other.com:1024",
	} {
		if got := unmapCommand("shop", url, domains); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
