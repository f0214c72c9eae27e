package console

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// answers sends a request and returns the response with its text.
func answers(t *testing.T, w *pagetest.World, method, path, cookie string, form url.Values) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.Server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if cookie != "" {
		req.Header.Set("Cookie", cookie)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

var parameters = regexp.MustCompile(`\{[^}]*\}|\*`)

// withoutSession are the routes below the console that need no session, with their reason.
var withoutSession = map[string]string{
	"/assets/{hash}/{name}": "files", "/login": "begins a login", "/callback": "ends a login",
}

// Without a session, pages lead to the login, and forms are answered with a page, whether they exist or not.
func TestRoutesWithoutSession(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		table := http.MethodGet
		if method == http.MethodPost {
			table = method
		}
		for _, pattern := range routesOf(w.Console, table) {
			if withoutSession[pattern] != "" {
				continue
			}
			path := Path + parameters.ReplaceAllString(pattern, "unknown")
			resp, text := answers(t, w, method, path, "", nil)
			kind := resp.Header.Get("Content-Type")
			want := http.StatusFound
			if method == http.MethodPost {
				want = http.StatusUnauthorized
			}
			if resp.StatusCode != want || !strings.HasPrefix(kind, "text/html") ||
				method == http.MethodPost && !strings.Contains(text, `role="alert"`) ||
				method != http.MethodPost && !strings.HasPrefix(resp.Header.Get("Location"), Path+"/login?to=") {
				t.Errorf("%s %s: %s %s %s", method, path, resp.Status, kind, text)
			}
		}
	}
}

// notOfOne are the routes with a parameter that do not say what is unknown, with their reason.
var notOfOne = map[string]string{
	"/apps/{guid}/settings/git/remove": "succeeds if nothing is left; the next page says that the app does not exist",
	"/assets/{hash}/{name}":            "files", "/apps/{guid}/shell/socket": "a WebSocket, which has no page",
}

// What does not exist is answered with a page that says so, and not with JSON or as a failure.
func TestUnknownResources(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	w.Session.Scopes = everyScope
	w.Login()
	notFound := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v3/") && !strings.Contains(r.URL.Path, "unknown") {
			fmt.Fprint(rw, `{"pagination":{"total_results":0,"total_pages":1},"resources":[]}`)
			return
		}
		rw.WriteHeader(http.StatusNotFound)
		fmt.Fprint(rw, `{"errors":[{"code":10010,"title":"CF-ResourceNotFound","detail":"It was not found"}]}`)
	})
	w.API.Handle("/", notFound)
	w.Console.Options.Notifications = notFound
	w.Console.Options.Gateway = nil
	n := 0
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		table := http.MethodGet
		if method == http.MethodPost {
			table = method
		}
		for _, pattern := range routesOf(w.Console, table) {
			if !parameters.MatchString(pattern) || notOfOne[pattern] != "" {
				continue
			}
			n++
			for _, value := range []string{"unknown", "unknown%2F..%2Fx", "unknown%22%3E%3Cscript%3E"} {
				path := Path + parameters.ReplaceAllString(pattern, value)
				resp, text := answers(t, w, method, path, w.Cookie, filled(w.Session))
				kind := resp.Header.Get("Content-Type")
				ok := resp.StatusCode == http.StatusNotFound
				if method == http.MethodPost { // a form may be refused before its resource is looked up
					ok = resp.StatusCode >= http.StatusBadRequest && resp.StatusCode < http.StatusInternalServerError
				}
				if !ok || !strings.HasPrefix(kind, "text/html") || method != http.MethodHead &&
					(!strings.Contains(text, `role="alert"`) || strings.Contains(text, `"><script>`)) {
					t.Errorf("%s %s: %s %s %s", method, path, resp.Status, kind, shortened(text))
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("%d routes have a parameter", n)
	}
}

// filled is a form with the fields of many pages.
func filled(s *page.Session) url.Values {
	return url.Values{"csrf": {pagetest.CSRF(s)}, "name": {"x"}, "text": {"applications: []"}, "confirm": {"x"},
		"group": {"x"}}
}

// shortened returns the part of a page that differs.
func shortened(text string) string {
	if i := strings.Index(text, "<main"); i >= 0 {
		return text[i:]
	}
	return text
}
