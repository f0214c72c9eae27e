package console

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"ingot/internal/console/pagetest"
)

// service is a notification service that answers what is given, by method and path, and keeps what it was asked.
type service struct {
	answers map[string]string

	mu    sync.Mutex // pages ask several things at a time
	asked []string   // method, address and body
}

// serve makes it that of a console whose user has scopes.
func (s *service) serve(w *pagetest.World, scopes ...string) {
	w.Session.Scopes = scopes
	w.Login()
	w.Console.Options.Notifications = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // of memory
		address := r.Method + " " + r.URL.RequestURI()
		s.mu.Lock()
		s.asked = append(s.asked, strings.TrimSpace(address+" "+string(body)))
		s.mu.Unlock()
		answer, ok := s.answers[address]
		if !ok {
			answer, ok = s.answers[r.Method+" "+r.URL.EscapedPath()]
		}
		switch status, text, refused := strings.Cut(answer, ": "); {
		case !ok:
			rw.WriteHeader(http.StatusNotFound)
			fmt.Fprint(rw, `{"errors":["not found"]}`)
		case refused && status == "422":
			rw.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprintf(rw, `{"errors":[%q]}`, text)
		default:
			fmt.Fprint(rw, answer)
		}
	})
}

// was reports whether it was asked something.
func (s *service) was(asked string) bool { return slices.Contains(s.asked, asked) }

// hostileJSON is a text that tries to be markup, in JSON.
const hostileJSON = `\"><script>alert(1)</script>`

// has fails unless a page has a status and texts, and no markup of others.
func has(t *testing.T, what string, status, want int, text string, texts ...string) {
	t.Helper()
	if status != want || strings.Contains(text, "<script>alert") {
		t.Errorf("%s: %d, want %d\n%s", what, status, want, shortened(text))
	}
	for _, one := range texts {
		if !strings.Contains(text, one) {
			t.Errorf("%s lacks %q\n%s", what, one, shortened(text))
		}
	}
}

// submit sends a form, and returns the status, the page, and where the browser is sent.
func submit(t *testing.T, w *pagetest.World, path string, form url.Values) (status int, text, location string) {
	t.Helper()
	form.Set("csrf", pagetest.CSRF(w.Session))
	resp, text := answers(t, w, http.MethodPost, Path+path, w.Cookie, form)
	return resp.StatusCode, text, resp.Header.Get("Location")
}

// newVersions is a template with three versions.
func newVersions() *service {
	const difference = `{"from":%s,"to":%s,"parts":[{"part":"html","locale":"de","lines":[" <p>","-alt ` + hostileJSON +
		`","+neu",""]}]}`
	return &service{answers: map[string]string{
		"GET /templates/t": `{"name":"Sale ` + hostileJSON + `"}`,
		"GET /templates/t/versions": `{"versions":[{"version":3,"current":true,"updated_at":"2026-11-19T10:00:00Z",
			"changed_by":"` + hostileJSON + `"},{"version":2},{"version":1}]}`,
		"GET /templates/t/versions/3/difference?from=2": fmt.Sprintf(difference, "2", "3"),
		"GET /templates/t/versions/1/difference?from=2": fmt.Sprintf(difference, "2", "1"),
		"GET /templates/t/versions/1/difference?from=3": fmt.Sprintf(difference, "3", "1"),
		"GET /templates/t/versions/3/difference?from=3": `{"from":3,"to":3,"parts":[]}`,
		"POST /templates/t/rollback":                    `{"version":4}`,
	}}
}

// TestVersions lists the versions of a template, compares two, and goes back to one after its differences were shown.
func TestVersions(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newVersions()
	api.serve(w, everyScope...)
	const at = "/notifications/templates/t/versions"
	status, text := w.Get(Path + at)
	has(t, "the list", status, http.StatusOK, text, "From version 2 to 3", "in use", "html (de)", "<del>-alt &#34;&gt;",
		"<ins>&#43;neu</ins>", "Roll back to 1…", `href="/console/notifications/templates/t/versions/1"`,
		"ingot notifications versions t --diff 3 --from 2")
	status, text = w.Get(Path + at + "?from=2&to=1")
	has(t, "a comparison", status, http.StatusOK, text, "--diff 1 --from 2")
	status, text = w.Get(Path + at + "?from=2&to=..%2F7")
	has(t, "a version that does not exist", status, http.StatusNotFound, text, `role="alert"`)

	status, text = w.Get(Path + at + "/1")
	has(t, "a version", status, http.StatusOK, text, "What a rollback would change", "<ins>&#43;neu</ins>",
		"Roll back to 1<",
		`name="now" value="3"`)
	status, text = w.Get(Path + at + "/3")
	has(t, "the version in use", status, http.StatusOK, text, "has the texts that are in use")
	if strings.Contains(text, "/rollback\"") {
		t.Error("the version in use can be rolled back to")
	}

	const rollback = "/notifications/templates/t/rollback"
	status, text, _ = submit(t, w, rollback, url.Values{"version": {"1"}, "now": {"2"}})
	has(t, "an old page", status, http.StatusConflict, text, "was changed meanwhile", `role="alert"`, `name="now" value="3"`)
	if api.was(`POST /templates/t/rollback {"version":1}`) {
		t.Error("the template was rolled back though the differences were others")
	}
	status, text, to := submit(t, w, rollback, url.Values{"version": {"1"}, "now": {"3"}})
	if status != http.StatusSeeOther || to != Path+at+"?said=rolled-back" ||
		!api.was(`POST /templates/t/rollback {"version":1}`) {
		t.Errorf("the rollback: %d %s, asked %q\n%s", status, to, api.asked, text)
	}
	api.answers["POST /templates/t/rollback"] = `422: The partial "footer" does not exist.`
	status, text, _ = submit(t, w, rollback, url.Values{"version": {"1"}, "now": {"3"}})
	has(t, "a refused rollback", status, http.StatusUnprocessableEntity, text,
		"The partial &#34;footer&#34; does not exist.",
		"Roll back to 1<")
}

// TestVersionsOfOthers checks which versions a user may see and go back to.
func TestVersionsOfOthers(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newVersions()
	api.serve(w, "notification_templates.read")
	const at = Path + "/notifications/templates/t/versions"
	status, text := w.Get(at + "/1")
	has(t, "without the scope to write", status, http.StatusOK, text, "requires the scope notification_templates.write")
	if strings.Contains(text, "<button>Roll back") {
		t.Error("a reader is offered to roll back")
	}
	api.serve(w, "notifications.write")
	for _, path := range []string{at, at + "/1"} {
		status, text = w.Get(path)
		has(t, path, status, http.StatusForbidden, text, "You need the scope notification_templates.read")
	}
	// The default template for campaigns has another id in requests about versions.
	api.serve(w, everyScope...)
	api.answers["GET /templates/default"] = `{"name":"Default"}`
	api.answers["GET /templates/default-v2/versions"] = `{"versions":[{"version":1,"current":true}]}`
	status, text = w.Get(Path + "/notifications/templates/campaign:default/versions")
	has(t, "the default template for campaigns", status, http.StatusOK, text, "has not been changed yet")
}
