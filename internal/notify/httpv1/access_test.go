package httpv1_test

import (
	"regexp"
	"strings"
	"testing"

	"ingot/internal/notify/apitest"
)

var variable = regexp.MustCompile(`\{\w+\}`)

// TestScopes calls every route without a token, with a bad one, and with one
// that has every scope but those that are needed.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for version, routes := range w.Routes {
		for _, r := range routes {
			path := variable.ReplaceAllString(r.Pattern, "x")
			if r.Decision != "token" {
				continue
			}
			w.Expect(version, "", r.Method, path, "{}", 401, "Authorization header is invalid: missing")
			a := w.Expect(version, "a.b.c", r.Method, path, "{}", 401, "")
			if !strings.HasPrefix(a.Message(), "Authorization header is invalid: ") {
				t.Errorf("%s %s with a broken token: %s", r.Method, path, a.Message())
			}
			var others []string
			for _, s := range append([]string{"notification_preferences.read", "notification_preferences.write"},
				apitest.All...) {
				needed := false
				for _, n := range r.Scopes {
					needed = needed || n == s
				}
				if !needed {
					others = append(others, s)
				}
			}
			w.Expect(version, w.Client("c", others...), r.Method, path, "{}", 403,
				"You are not authorized to perform the requested action")
		}
	}
	expired := w.Expired()
	w.Expect(2, expired, "GET", "/senders", "", 401, "Authorization header is invalid: corrupt")
	if a := w.Expect(1, expired, "GET", "/templates", "", 401, ""); !strings.Contains(a.Message(), "expired") {
		t.Errorf("an expired token: %s", a.Message())
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("c")
	w.Expect(1, c, "GET", "/info/", "", 404, "")
	w.Expect(1, c, "POST", "/users/a/b", "{}", 404, "")
	w.Expect(1, c, "DELETE", "/notifications", "", 405, "")
	if a := w.Expect(1, "", "GET", "/info", "", 200, ""); strings.TrimSpace(a.Body) != `{"version":1}` ||
		!strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		t.Errorf("info: %s %v", a.Body, a.Header)
	}
}
