package router_test

import (
	"fmt"
	"net/http"
	"testing"

	"ingot/internal/platform/edge/router"
)

const (
	testGUID  = "7f0c2a4e-1d2b-4c3d-9e8f-001122334455"
	otherGUID = "7f0c2a4e-1d2b-4c3d-9e8f-001122334499"
)

// The headers with which clients ask for an instance, and what is wrong with
// them, are gorouter's.
func TestPins(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var all []router.Backend
	for i := range 4 {
		b := backend(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) })
		b.AppGUID, b.ProcessGUID, b.Index = testGUID, testGUID, i%2
		if i > 1 {
			b.ProcessGUID = otherGUID // a second process, with indices of its own
		}
		all = append(all, b)
	}
	f.route("app.test", all...)
	f.route("empty.test")
	const app, process = "X-Cf-App-Instance", "X-Cf-Process-Instance"
	missing := func(format string, args ...any) string {
		return "400 Bad Request: Requested instance " + fmt.Sprintf(format, args...) +
			" does not exist for route ('app.test')\n"
	}
	badApp, badProcess := "400 Bad Request: Invalid X-CF-App-Instance Header\n",
		"400 Bad Request: Invalid X-CF-Process-Instance Header\n"
	for _, tc := range []struct {
		header, value string
		status        int
		word, body    string
	}{
		{process, testGUID + ":1", 200, "", "1"},
		{process, otherGUID + ":1", 200, "", "3"},
		{process, otherGUID + ":0", 200, "", "2"},
		{process, otherGUID + ":2", 400, "unknown_route", missing("('2') with process guid ('%s')", otherGUID)},
		{process, "7f0c2a4e-1d2b-4c3d-9e8f-000000000000", 400, "unknown_route",
			missing("with process guid ('7f0c2a4e-1d2b-4c3d-9e8f-000000000000')")},
		{process, "process:1", 400, "invalid_cf_process_instance_header", badProcess},
		{process, testGUID + ":", 400, "invalid_cf_process_instance_header", badProcess},
		{process, testGUID + ":+1", 400, "invalid_cf_process_instance_header", badProcess},
		{app, testGUID + ":7", 400, "unknown_route", missing("('7') with guid ('%s')", testGUID)},
		{app, otherGUID + ":0", 400, "unknown_route", missing("('0') with guid ('%s')", otherGUID)},
		{app, testGUID, 400, "invalid_cf_app_instance_header", badApp},
		{app, testGUID + ":-1", 400, "invalid_cf_app_instance_header", badApp},
		{app, "app:1", 400, "invalid_cf_app_instance_header", badApp},
	} {
		for range 3 {
			r := f.request(http.MethodGet, "http://app.test/", nil)
			r.Header.Set(tc.header, tc.value)
			res := f.do(r)
			if body := text(t, res.Body); res.StatusCode != tc.status || body != tc.body ||
				res.Header.Get("X-Cf-Routererror") != tc.word {
				t.Errorf("%s: %s: answer is %d %q %v, want %d %q %s", tc.header, tc.value, res.StatusCode, body, res.Header,
					tc.status, tc.body, tc.word)
			}
		}
	}
	// A process without an index is any of its instances.
	seen := map[string]int{}
	for range 4 {
		r := f.request(http.MethodGet, "http://app.test/", nil)
		r.Header.Set(process, otherGUID)
		seen[text(t, f.do(r).Body)]++
	}
	if seen["2"] != 2 || seen["3"] != 2 {
		t.Errorf("instances of a process: %v", seen)
	}
	r := f.request(http.MethodGet, "http://empty.test/", nil)
	r.Header.Set(app, testGUID+":0")
	if res := f.do(r); res.StatusCode != http.StatusBadRequest || res.Header.Get("X-Cf-Routererror") != "unknown_route" {
		t.Errorf("an instance of a route without any: %d %v", res.StatusCode, res.Header)
	}
}

// A route without a backend is as if it were not there: a shorter path or a
// wildcard answers, and otherwise the router itself; with its first backend it is back.
func TestRoutesWithoutBackends(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		cart := func(backends ...router.Backend) {
			f.table.Set(router.Route{GUID: "cart", Host: "shop.test", Path: "/cart", Backends: backends})
		}
		f.route("shop.test", backend(t, says("shop")))
		f.route("*.test", backend(t, says("wild")))
		f.route("other.test")
		cart()
		check := func(host, want string) {
			t.Helper()
			res := f.do(f.with("GET", "http://"+host, header, nil))
			if body := text(t, res.Body); body != want {
				t.Errorf("%s: %d %q, want %q", host, res.StatusCode, body, want)
			}
		}
		check("shop.test/cart/1", "shop /cart/1")
		check("other.test/x", "wild /x")
		b := backend(t, says("cart"))
		cart(b)
		check("shop.test/cart/1", "cart /cart/1")
		f.table.Remove("route-*.test")
		cart()
		check("shop.test/cart/1", "shop /cart/1")
		check("other.test/x", "404 Not Found: Requested route ('other.test') does not exist.\n")
		f.table.Remove("route-shop.test")
		check("shop.test/cart/1", "404 Not Found: Requested route ('shop.test') does not exist.\n")
		if m, ok := f.table.Lookup("shop.test", "/cart/1"); !ok || m.Route.GUID != "cart" {
			t.Error("the table has forgotten the route")
		}
	})
}

// Routes of one host keep their sessions apart: the cookie has the route's path,
// and everything else of the session's own.
func TestStickyCookiesOfPaths(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		f.table.Set(router.Route{GUID: "cart", Host: "shop.test", Path: "/Cart",
			Backends: []router.Backend{backend(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/cart/both":
					w.Header().Add("Set-Cookie", "__Host-JSESSIONID=a; Path=/; Secure; HttpOnly; Partitioned; SameSite=None")
					w.Header().Add("Set-Cookie", "JSESSIONID=; Path=/; Max-Age=0")
				case "/cart/expires":
					w.Header().Add("Set-Cookie",
						"JSESSIONID=a; Path=/elsewhere; Expires=Wed, 21 Oct 2037 07:28:00 GMT; SameSite=Strict")
				}
			})}})
		for path, want := range map[string][]string{
			"/cart/both": {
				"__VCAP_ID__=%s; Path=/Cart; HttpOnly; Secure; SameSite=None; Partitioned",
				"__VCAP_ID__=%s; Path=/Cart; Max-Age=0; HttpOnly",
			},
			"/cart/expires": {"__VCAP_ID__=%s; Path=/Cart; Expires=Wed, 21 Oct 2037 07:28:00 GMT; HttpOnly; SameSite=Strict"},
			"/cart/none":    nil,
		} {
			res := f.do(f.with("GET", "http://shop.test"+path, header, nil))
			var got []string
			for _, line := range res.Header["Set-Cookie"] {
				if line[:5] == "__VCA" {
					got = append(got, line)
				}
			}
			a := <-f.access
			if len(got) != len(want) {
				t.Fatalf("cookies of %s are %v, want %d", path, got, len(want))
			}
			for i := range got {
				if got[i] != fmt.Sprintf(want[i], a.Instance) {
					t.Errorf("%s: %q, want %q", path, got[i], want[i])
				}
			}
		}
	})
}
