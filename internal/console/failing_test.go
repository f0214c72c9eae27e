package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// TestCutLists opens pages whose lists have more than one page.
func TestCutLists(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	list := func(total int, resource string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(rw, `{"pagination":{"total_results":%d},"resources":[%s]}`, total, resource)
		}
	}
	w.API.HandleFunc("GET /v3/organizations", list(6001, `{"guid":"o","name":"the-org"}`))
	w.API.HandleFunc("GET /v3/spaces", list(1, `{"guid":"s","name":"the-space"}`))
	w.API.HandleFunc("GET /v3/app_summaries", list(7000, `{"guid":"a","name":"the-app","space_guid":"s"}`))
	w.API.HandleFunc("GET /v3/deployments", list(100, ""))
	status, text := w.Get("/console")
	for _, want := range []string{"first 1 of 6001 organizations", "cf orgs", "first 1 of 7000 apps", "cf apps"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: %q is not in %s", status, want, text)
		}
	}
	w.API.HandleFunc("GET /v3/roles", list(0, ""))
	w.API.HandleFunc("GET /v3/service_instances", list(8000, `{"guid":"i","name":"the-db"}`))
	w.API.HandleFunc("GET /v3/service_credential_bindings", list(9000, `{"guid":"b"}`))
	status, services := w.Get("/console/services")
	bindings, instances := strings.Index(services, "first 1 of 9000 service credential bindings"),
		strings.Index(services, "first 1 of 8000 service instances")
	if status != http.StatusOK || bindings < 0 || instances < bindings {
		t.Errorf("%d: no notices, or not in order, in %s", status, services)
	}
	// A list that is complete, and one of which only the newest are meant to be shown.
	for _, not := range []string{"of 1 spaces", "deployments."} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in %s", not, text)
		}
	}
}

// TestPagesOfAFailingAPI opens every page while the API does not work: each says what is wrong.
func TestPagesOfAFailingAPI(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"the database is away": {http.StatusServiceUnavailable,
			`{"errors":[{"code":10015,"title":"CF-ServiceUnavailable","detail":"The database does not answer. Try again in a moment."}]}`, "The database does not answer. Try again in a moment."},
		"the disk is full": {http.StatusInsufficientStorage,
			`{"errors":[{"detail":"The disk of the server is almost full."}]}`, "The disk of the server is almost full."},
		"a defect": {http.StatusInternalServerError, `{"errors":[{"detail":"An unknown error occurred."}]}`,
			"An unknown error occurred."},
		"no text at all": {http.StatusBadGateway, ``, "Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pagetest.New(t, New)
			w.Session.Scopes = []string{"cloud_controller.admin", "scim.read", "scim.write", "clients.read", "clients.admin",
				"notifications.manage", "notification_templates.read"}
			w.API.HandleFunc("/", func(rw http.ResponseWriter, _ *http.Request) {
				rw.WriteHeader(test.status)
				fmt.Fprint(rw, test.body)
			})
			for _, path := range []string{"", "/apps", "/search?q=x", "/apps/other", "/apps/other/logs", "/apps/other/tasks",
				"/apps/other/log-lines", "/services", "/services/marketplace", "/members", "/orgs/o", "/audit", "/system", "/users",
				"/clients"} {
				status, text := w.Get("/console" + path)
				if status < http.StatusInternalServerError || !strings.Contains(text, test.want) ||
					!strings.Contains(text, `role="alert"`) {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
		})
	}
}

// brokenStore is a store whose database fails.
type brokenStore struct{ page.Store }

func (brokenStore) Get(context.Context, string) (*page.Session, error) {
	return nil, errors.New("no such table: console_sessions")
}

// TestPageOfADefect opens a page while the sessions cannot be read: it says that something is
// wrong, and where the reason is, and not the reason itself.
func TestPageOfADefect(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	w.Console.Options.Sessions = brokenStore{w.Console.Options.Sessions}
	status, text := w.Get("/console")
	if status != http.StatusInternalServerError ||
		!strings.Contains(text, "An unknown error occurred. Its id in the server") ||
		!strings.Contains(text, `role="alert"`) || strings.Contains(text, "console_sessions") {
		t.Errorf("%d %s", status, text)
	}
}
