package httpext_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/notify"
)

var pathVariable = regexp.MustCompile(`\{(\w+)\}`)

// escapedFully escapes every byte, also those that programs leave as they are.
func escapedFully(text string) string {
	var b strings.Builder
	for i := range len(text) {
		_, _ = fmt.Fprintf(&b, "%%%02X", text[i])
	}
	return b.String()
}

// TestEscapedPaths calls every route that has a name in its path with the name as it is and escaped, each in a service
// of its own with the same content: both mean the same.
func TestEscapedPaths(t *testing.T) {
	t.Parallel()
	names := map[string]string{"user": "u-1", "kind": "news", "client": "shop", "topic": "weather", "name": "weekly",
		"email": "a@example.com", "subscriber": "mailto:a@example.com", "number": "1", "version": "1", "locale": "de",
		"channel": "webhook", "id": "u-1"}
	type answer struct {
		status int
		body   string
	}
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|"(created|updated|since|at)[^,}]*`)
	walk := func(write func(string) string) map[string]answer {
		w, shop := world(t)
		w.Directory.Users["u-1"] = "u1@example.com"
		w.Directory.Members["u-1"] = []string{"u-1"}
		w.Expect(1, shop, "PUT", "/topics/weather", `{"description":"Weather"}`, 201, "")
		w.Expect(1, shop, "POST", "/topics/weather/subscribers", `{"subscribers":[{"email":"a@example.com"}]}`, 200, "")
		all := w.Client("shop", "notification_preferences.admin", "notifications.write", "notifications.manage",
			"notifications.admin", "notification_templates.read", "notification_templates.write",
			"critical_notifications.write", "emails.write", "notification_templates.admin")
		got := map[string]answer{}
		for _, version := range []int{1, 2} {
			for _, r := range w.Routes[version] {
				if r.Decision != "token" || !strings.Contains(r.Pattern, "{") {
					continue
				}
				path := pathVariable.ReplaceAllStringFunc(r.Pattern, func(v string) string {
					name := names[strings.Trim(v, "{}")]
					if name == "" {
						name = "x-1"
					}
					return write(name)
				})
				a := w.Call(version, all, r.Method, path, "{}")
				got[fmt.Sprint(version, " ", r.Method, " ", r.Pattern)] = answer{a.Status, ids.ReplaceAllString(a.Body, "")}
			}
		}
		return got
	}
	plain, escaped := walk(func(s string) string { return s }), walk(escapedFully)
	if len(plain) < 80 {
		t.Errorf("only %d routes", len(plain))
	}
	for route, want := range plain {
		if escaped[route] != want {
			t.Errorf("%s: %v, escaped %v", route, want, escaped[route])
		}
	}
}

// TestPreferencesOfEscapedUsers changes preferences of an address whose path is escaped as programs do.
func TestPreferencesOfEscapedUsers(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	admin := w.Client("support", "notification_preferences.admin")
	for i, path := range []string{"mailto%3Adora0%40example.org", "mailto:Dora1%40example.org",
		"mailto:dora2@example.org"} {
		for _, route := range []string{"/preferences/", "/user_preferences/"} {
			for _, off := range []bool{true, false} {
				a := w.Call(1, admin, "PATCH", route+path, fmt.Sprintf(`{"global_unsubscribe":%t}`, off))
				user := notify.AddressSubscriber(fmt.Sprintf("dora%d@example.org", i))
				global, _, err := w.Store.Preferences(t.Context(), user)
				if err != nil || a.Status >= 300 || global != off {
					t.Errorf("%s%s: %d %s, stored %t, %v", route, path, a.Status, a.Body, global, err)
				}
			}
		}
	}
	for _, path := range []string{"mailto%253Adora%2540example.org", "mailto:dora%2540example.org"} {
		for _, route := range []string{"/preferences/", "/user_preferences/"} {
			for _, method := range []string{"GET", "PATCH"} {
				w.Expect(1, admin, method, route+path, `{"global_unsubscribe":true}`, 422, "the user's id is escaped twice")
			}
		}
	}
}
