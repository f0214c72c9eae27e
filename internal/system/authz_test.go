package system

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/web"
	"ingot/internal/notify/httpext"
)

var variable = regexp.MustCompile(`\{[^}]*\}`)

// TestEveryRouteHasADecision walks every route of every table: no request gets in
// without a token where one is needed, a token alone is not enough, and what
// is open says why. A new route is covered by being there.
func TestEveryRouteHasADecision(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	b := s.built.Load()
	live := b.front.Live.Load()

	// A client that the platform accepts tokens of, and that may do nothing.
	a := call(t, http.MethodPost, s.Endpoints().API+"/oauth/clients", adminToken(t, s), map[string]any{
		"client_id": "nobody", "client_secret": "a long enough secret",
		"authorized_grant_types": []string{"client_credentials"},
		"authorities":            []string{"cloud_controller.nothing"},
	})
	if a.status != http.StatusCreated {
		t.Fatalf("create the client: %d %s", a.status, a.body)
	}
	without := clientToken(t, s, "nobody", "a long enough secret")

	for name, mux := range map[string]*web.Mux{
		"origin": live.Origin, "auth": live.Auth, "notifications": live.Notifications.(*httpext.Versions).V1,
		"notifications v2": live.Notifications.(*httpext.Versions).V2, "admin": b.admin, "starting": b.front.Health,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(mux.Routes()) == 0 {
				t.Fatal("no routes")
			}
			for _, route := range mux.Routes() {
				checkRoute(t, mux, route, without)
			}
		})
	}
}

func checkRoute(t *testing.T, mux *web.Mux, route web.Route, without string) {
	t.Helper()
	what := route.Method + " " + route.Pattern
	switch route.Decision {
	case "public", "own":
		if strings.TrimSpace(route.Reason) == "" {
			t.Errorf("%s is %s and does not say why", what, route.Decision)
		}
		return
	case "token":
		if len(route.Scopes) == 0 && strings.TrimSpace(route.Reason) == "" {
			t.Errorf("%s takes any token and does not say how it decides further", what)
		}
	default:
		t.Errorf("%s has the decision %q", what, route.Decision)
		return
	}
	ask := func(bearer string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(route.Method, variable.ReplaceAllString(route.Pattern, "x"), strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		if bearer != "" {
			r.Header.Set("Authorization", "bearer "+bearer)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	if w := ask(""); w.Code != http.StatusUnauthorized {
		t.Errorf("%s without a token: %d, want 401: %s", what, w.Code, w.Body)
	}
	if w := ask("no.token.atall"); w.Code != http.StatusUnauthorized {
		t.Errorf("%s with a forged token: %d, want 401: %s", what, w.Code, w.Body)
	}
	// Cloud Foundry's routing API answers a token without the scope with 401, too.
	routing := strings.HasPrefix(route.Pattern, "/routing/")
	if w := ask(without); w.Code != http.StatusForbidden && w.Code != http.StatusNotFound &&
		(!routing || w.Code != http.StatusUnauthorized) {
		t.Errorf("%s with a token that may nothing: %d, want 403 or 404: %s", what, w.Code, w.Body)
	}
}
