package front

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/web"
)

var discard = slog.New(slog.DiscardHandler)

func TestTarget(t *testing.T) {
	t.Parallel()
	f := &Front{Domain: "example.org"}
	for host, want := range map[string]Target{
		"127.0.0.1":            Origin,
		"127.0.0.1:8080":       Origin,
		"10.1.2.3:80":          Origin,
		"[::1]":                Origin,
		"[::1]:8080":           Origin,
		"[fe80::1%eth0]:8080":  Origin,
		"localhost":            Origin,
		"LOCALHOST:8080":       Origin,
		"localhost.":           Origin,
		"localhost:":           Origin,
		"":                     Origin, // HTTP/1.0
		"example.org":          Origin,
		"Example.ORG.:443":     Origin,
		"api.example.org":      Origin,
		"API.example.org:8080": Origin,

		"uaa.example.org":           Auth,
		"login.example.org:8080":    Auth,
		"notifications.example.org": Notifications,

		"app.apps.example.org":        App,
		"example.com":                 App,
		"api.localhost":               App, // of another domain
		"xapi.example.org":            App,
		"api.example.org.evil.com":    App,
		"api.example.org..":           App,
		"evil.com:80@api.example.org": App,
		"api.example.org:80@evil.com": App,
		"api.example.org:abc":         App,
		"api.example.org:99999":       App,
		"api.example.org:80:80":       App,
		"api.example.org:-1":          App,
		"::1":                         App, // needs brackets
		"[::1":                        App,
		"::1]":                        App,
		"[::1]x":                      App,
		"[::1]x:80":                   App,
		"[127.0.0.1]":                 App,
		"[localhost]":                 App,
		"[[::1]]":                     App,
		"127.1":                       App,
		"0x7f.0.0.1":                  App,
		"localhost\x00":               App,
		"localhost\n":                 App,
		"\tlocalhost":                 App,
		"localhost/..":                App,
		".":                           Origin, // the root's own name: empty
		"..":                          App,
		":":                           Origin,
	} {
		if got := f.Target(host); got != want {
			t.Errorf("%q goes to %s, want %s", host, got, want)
		}
	}
}

func TestTargetNames(t *testing.T) {
	t.Parallel()
	for p, want := range map[Target]string{App: "app", Origin: "origin", Auth: "auth", Notifications: "notifications"} {
		if p.String() != want {
			t.Errorf("%d is %q, want %q", p, p, want)
		}
	}
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	mux := func(name string) *web.Mux {
		m := web.NewMux(web.FormatV3, discard, nil)
		m.Group(name, web.FormatV3, nil).Handle(http.MethodGet, "/who", web.Public("a test"),
			func(w http.ResponseWriter, _ *http.Request) error {
				_, err := w.Write([]byte(name))
				return err
			})
		return m
	}
	f := &Front{Domain: "localhost", Log: discard}
	f.Live.Store(&Routes{Origin: mux("origin"), Auth: mux("auth"), Notifications: mux("notifications")})
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
	f.Live.Store(&Routes{Origin: mux("origin"), Notifications: mux("notifications")})
	r := httptest.NewRequest(http.MethodGet, "/who", nil)
	r.Host = "uaa.localhost"
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Header().Get("X-Cf-Routererror") != "unknown_route" {
		t.Errorf("answer is %d %s, want an unknown route", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	f.Notifications().ServeHTTP(w, r)
	if w.Body.String() != "notifications" {
		t.Errorf("answer is %d %s, want notifications", w.Code, w.Body)
	}
}

// A request to an app is told to wait until routes and instances are known:
// before, it is not known that the app does not exist.
func TestAppsWhileTheServerStarts(t *testing.T) {
	t.Parallel()
	f := &Front{Domain: "localhost", Log: discard}
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "shop.apps.localhost"
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return w
	}
	waits := func(when string) {
		t.Helper()
		if w := ask(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" ||
			w.Header().Get("X-Cf-Routererror") != "no_endpoints" {
			t.Errorf("%s: answer is %d %v %s, want 503 no_endpoints with Retry-After 1", when, w.Code, w.Header(), w.Body)
		}
	}
	waits("before there are route tables")
	routed := false
	f.Live.Store(&Routes{
		Apps:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		Routed: func() bool { return routed },
	})
	waits("before the routes are published")
	routed = true
	if w := ask(); w.Code != http.StatusNoContent {
		t.Errorf("then: %d %s", w.Code, w.Body)
	}
}

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]web.Format{"/": web.FormatV3, "/v3/apps": web.FormatV3,
		"/oauth/token": web.FormatOAuth, "/Users": web.FormatOAuth} {
		if got := formatOf(Origin, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if formatOf(Auth, "/") != web.FormatOAuth || formatOf(Notifications, "/Users") != web.FormatNotifications {
		t.Error("a host of its own decides the format")
	}
}
