package system

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/web"
	"ingot/internal/notify/httpext"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	f := &front{domain: "example.org"}
	for host, want := range map[string]target{
		"127.0.0.1":            targetOrigin,
		"127.0.0.1:8080":       targetOrigin,
		"10.1.2.3:80":          targetOrigin,
		"[::1]":                targetOrigin,
		"[::1]:8080":           targetOrigin,
		"[fe80::1%eth0]:8080":  targetOrigin,
		"localhost":            targetOrigin,
		"LOCALHOST:8080":       targetOrigin,
		"localhost.":           targetOrigin,
		"localhost:":           targetOrigin,
		"":                     targetOrigin, // HTTP/1.0
		"example.org":          targetOrigin,
		"Example.ORG.:443":     targetOrigin,
		"api.example.org":      targetOrigin,
		"API.example.org:8080": targetOrigin,

		"uaa.example.org":           targetAuth,
		"login.example.org:8080":    targetAuth,
		"notifications.example.org": targetNotifications,

		"app.apps.example.org":        targetApp,
		"example.com":                 targetApp,
		"api.localhost":               targetApp, // of another domain
		"xapi.example.org":            targetApp,
		"api.example.org.evil.com":    targetApp,
		"api.example.org..":           targetApp,
		"evil.com:80@api.example.org": targetApp,
		"api.example.org:80@evil.com": targetApp,
		"api.example.org:abc":         targetApp,
		"api.example.org:99999":       targetApp,
		"api.example.org:80:80":       targetApp,
		"api.example.org:-1":          targetApp,
		"::1":                         targetApp, // needs brackets
		"[::1":                        targetApp,
		"::1]":                        targetApp,
		"[::1]x":                      targetApp,
		"[::1]x:80":                   targetApp,
		"[127.0.0.1]":                 targetApp,
		"[localhost]":                 targetApp,
		"[[::1]]":                     targetApp,
		"127.1":                       targetApp,
		"0x7f.0.0.1":                  targetApp,
		"localhost\x00":               targetApp,
		"localhost\n":                 targetApp,
		"\tlocalhost":                 targetApp,
		"localhost/..":                targetApp,
		".":                           targetOrigin, // the root's own name: empty
		"..":                          targetApp,
		":":                           targetOrigin,
	} {
		if got := f.target(host); got != want {
			t.Errorf("%q goes to %s, want %s", host, got, want)
		}
	}
}

func TestTargetNames(t *testing.T) {
	t.Parallel()
	for p, want := range map[target]string{targetApp: "app", targetOrigin: "origin", targetAuth: "auth", targetNotifications: "notifications"} {
		if p.String() != want {
			t.Errorf("%d is %q, want %q", p, p, want)
		}
	}
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	mux := func(name string) *web.Mux {
		m := web.NewMux(web.FormatV3, discard, nil)
		m.Group(name, web.FormatV3, nil).Handle(http.MethodGet, "/who", web.Public("a test"), func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write([]byte(name))
			return err
		})
		return m
	}
	f := &front{domain: "localhost", log: discard}
	f.live.Store(&routes{origin: mux("origin"), auth: mux("auth"), notifications: &httpext.Versions{V1: mux("notifications")}})
	for host, want := range map[string]string{
		"api.localhost:1": "origin", "uaa.localhost": "auth", "notifications.localhost": "notifications",
		"shop.apps.localhost":    "404 Not Found: Requested route ('shop.apps.localhost') does not exist.\n",
		"shop.localhost:8080":    "404 Not Found: Requested route ('shop.localhost:8080') does not exist.\n",
		"a\r\nSet-Cookie: x\x00": `404 Not Found: Requested route ('a\r\nSet-Cookie: x\x00') does not exist.` + "\n",
		"<script>\u202e":         `404 Not Found: Requested route ('<script>\u202e') does not exist.` + "\n",
	} {
		r := httptest.NewRequest(http.MethodGet, "/who", nil)
		r.Host = host
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Body.String() != want {
			t.Errorf("%q: %q, want %q", host, w.Body, want)
		}
		if strings.HasPrefix(want, "404") {
			if w.Code != http.StatusNotFound || w.Header().Get("X-Cf-Routererror") != "unknown_route" ||
				!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
				t.Errorf("%q: answer is %d %v, want 404 unknown_route as text", host, w.Code, w.Header())
			}
		}
	}
	// Without a built-in authorization server its names are unknown routes.
	f.live.Store(&routes{origin: mux("origin"), notifications: &httpext.Versions{V1: mux("notifications")}})
	r := httptest.NewRequest(http.MethodGet, "/who", nil)
	r.Host = "uaa.localhost"
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Header().Get("X-Cf-Routererror") != "unknown_route" {
		t.Errorf("answer is %d %s, want an unknown route", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	f.notifications().ServeHTTP(w, r)
	if w.Body.String() != "notifications" {
		t.Errorf("answer is %d %s, want notifications", w.Code, w.Body)
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for want, addr := range map[string]net.TCPAddr{
		"http://127.0.0.1:8080":        {IP: net.IPv4(127, 0, 0, 1), Port: 8080},
		"http://127.0.0.1:1":           {IP: net.IPv4zero, Port: 1},
		"http://127.0.0.1:2":           {IP: net.IPv6unspecified, Port: 2},
		"http://[::1]:3":               {IP: net.IPv6loopback, Port: 3},
		"http://192.0.2.1:4":           {IP: net.IPv4(192, 0, 2, 1), Port: 4},
		"http://[fe80::1%25eth0]:8080": {IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 8080},
	} {
		if got := urlOf(&addr); got != want {
			t.Errorf("%v: %s, want %s", &addr, got, want)
		}
	}
}

// A request to an app is told to wait until routes and instances are known:
// before, it is not known that the app does not exist.
func TestAppsWhileTheServerStarts(t *testing.T) {
	t.Parallel()
	f := &front{domain: "localhost", log: discard}
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "shop.apps.localhost"
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return w
	}
	waits := func(when string) {
		t.Helper()
		if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Header().Get("X-Cf-Routererror") != "no_endpoints" {
			t.Errorf("%s: answer is %d %v %s, want 503 no_endpoints with Retry-After 1", when, w.Code, w.Header(), w.Body)
		}
	}
	waits("before there are route tables")
	routed := false
	f.live.Store(&routes{
		apps:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		routed: func() bool { return routed },
	})
	waits("before the routes are published")
	routed = true
	if w := ask(); w.Code != http.StatusNoContent {
		t.Errorf("then: %d %s", w.Code, w.Body)
	}
}
