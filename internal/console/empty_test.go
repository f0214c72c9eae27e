package console

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/base/web"
	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// noList are the pages without a list that may be empty, by their pattern, with the reason.
var noList = map[string]string{
	"/assets/{hash}/{name}": "files", "/login": "a redirect", "/callback": "a redirect", "/*": "unknown pages",
	"/live/*":                                      "the live parts of the other pages",
	"/apps/new":                                    "forms",
	"/apps/{guid}/deploy":                          "forms",
	"/apps/{guid}/deploying/{job}":                 "one job; its lines appear by themselves",
	"/apps/{guid}/builds/{build}":                  "one build",
	"/apps/{guid}/tasks/{task}":                    "one task; its lines appear by themselves",
	"/apps/{guid}/environment":                     "its table always has rows for new variables",
	"/apps/{guid}/applying/{job}":                  "one job",
	"/apps/{guid}/manifest":                        "one text",
	"/apps/{guid}/settings":                        "forms",
	"/apps/{guid}/shell":                           "a terminal",
	"/apps/{guid}/shell/socket":                    "a WebSocket",
	"/apps/{guid}/logs":                            "lines appear by themselves; the page names the command",
	"/apps/{guid}/logs/stream":                     "a stream",
	"/apps/{guid}/log-lines":                       "a download",
	"/audit/export":                                "a download",
	"/services/new":                                "a form",
	"/clients/new":                                 "a form",
	"/clients/{id}":                                "one client",
	"/notifications/templates":                     "the default template always exists",
	"/notifications/templates/new":                 "a form",
	"/notifications/templates/{template}":          "a form",
	"/notifications/new-provider":                  "a form",
	"/notifications/providers/{provider}":          "a form",
	"/notifications/new-partial":                   "a form",
	"/notifications/partials/{partial}":            "a form",
	"/notifications/sends/{send}":                  "one send; it has messages",
	"/notifications/messages/{message}":            "one message",
	"/notifications/mailbox/{number}":              "one mail",
	"/notifications/mailbox/{number}/html":         "a document in a frame",
	"/notifications/mailbox/{number}/source":       "a download",
	"/notifications/clients/{client}/kinds/{kind}": "one kind; the page names the command that gives it a workflow",
	"/notifications/recipients":                    "what is stored about one recipient",
	"/system/history":                              "charts, which say what was not measured",
}

// emptyPage is a page with lists: its pattern, an address, and what it says to do when the lists are empty.
type emptyPage struct {
	pattern, path string
	want          []string
}

// emptyPages are all pages with lists.
var emptyPages = []emptyPage{
	{"", "", []string{"ingot create-org ORG", "ingot create-space SPACE -o ORG", "Create both"}},
	{"", "?with=space", []string{"ingot push", "Deploy a sample"}},
	{"/apps", "/apps?with=space", []string{"ingot push", "Deploy a sample", `href="/console/apps/new"`}},
	{"/apps/{guid}", "/apps/a", []string{"ingot scale shop -i 1", `href="#instances-web"`}},
	{"/apps/{guid}/deployments", "/apps/a/deployments", []string{"ingot push shop", `href="/console/apps/a/deploy"`,
		"ingot rollback shop --version VERSION"}},
	{"/apps/{guid}/history", "/apps/a/history", []string{"ingot events shop", `href="/console/apps/a/events"`}},
	{"/apps/{guid}/routes", "/apps/a/routes", []string{"ingot map-route shop DOMAIN --hostname HOST", `href="#map"`}},
	{"/apps/{guid}/services", "/apps/a/services", []string{"ingot bind-service shop SERVICE", "/services/marketplace"}},
	{"/apps/{guid}/sidecars", "/apps/a/sidecars", []string{"ingot apply-manifest -f manifest.yml", `href="#add"`}},
	{"/apps/{guid}/tasks", "/apps/a/tasks", []string{"ingot run-task shop --command COMMAND", `href="#run"`}},
	{"/apps/{guid}/events", "/apps/a/events", []string{"ingot events shop"}},
	{"/apps/{guid}/revisions/{revision}", "/apps/a/revisions/r", []string{"ingot revisions shop",
		`href="/console/apps/a/deployments"`}},
	{"/domains", "/domains", []string{"ingot create-private-domain ORG example.com"}},
	{"/services", "/services", []string{"ingot create-service postgres small my-db --wait",
		`href="/console/services/marketplace"`}},
	{"/services/marketplace", "/services/marketplace", []string{"ingot create-service-broker BROKER USER PASSWORD URL"}},
	{"/services/{guid}", "/services/i", []string{"ingot bind-service APP db", "ingot create-service-key db KEY",
		`href="#bind"`, `href="#key"`}},
	{"/members", "/members", []string{"ingot create-org ORG", `href="#place"`}},
	{"/orgs/{guid}", "/orgs/o", []string{"ingot set-org-role USER acme OrgManager", `href="#add"`}},
	{"/audit", "/audit", []string{"ingot events APP", `href="/console/audit"`}},
	{"/users", "/users", []string{"ingot create-user USER", `href="#create"`}},
	{"/users/{id}", "/users/u", []string{`href="#group"`}},
	{"/clients", "/clients", []string{"ingot create-client CLIENT --authorities LIST",
		`href="/console/clients/new"`}},
	{"/search", "/search?q=x", []string{"ingot apps", `href="/console/apps"`}},
	{"/system", "/system", []string{"ingot backup TARGET"}},
	{"/notifications", "/notifications", []string{"ingot notifications register KIND", `href="#register"`}},
	{"/notifications/templates/{template}/versions", "/notifications/templates/t/versions", []string{
		"ingot notifications versions t", `href="/console/notifications/templates/t"`}},
	{"/notifications/templates/{template}/versions/{version}", "/notifications/templates/t/versions/1", []string{
		"ingot notifications versions t --rollback 1", `href="/console/notifications/templates/t/versions"`}},
	{"/notifications/providers", "/notifications/providers", []string{"ingot notifications providers --set",
		`href="/console/notifications/new-provider"`}},
	{"/notifications/topics", "/notifications/topics", []string{"ingot notifications topics --set", `href="#declare"`}},
	{"/notifications/topics/{topic}", "/notifications/topics/releases", []string{
		"ingot notifications topics --subscribe"}},
	{"/notifications/partials", "/notifications/partials", []string{"ingot notifications partials --set",
		`href="/console/notifications/new-partial"`}},
	{"/notifications/send", "/notifications/send", []string{"ingot notifications register KIND",
		`href="/console/notifications#register"`}},
	{"/notifications/sends", "/notifications/sends", []string{"ingot notifications send KIND",
		`href="/console/notifications/send"`}},
	{"/notifications/figures", "/notifications/figures", []string{"ingot notifications send"}},
	{"/notifications/recurring", "/notifications/recurring", []string{"ingot notifications"}},
	{"/notifications/campaigns", "/notifications/campaigns", []string{"ingot notifications send KIND",
		`href="#sender"`}},
	{"/notifications/mailbox", "/notifications/mailbox", []string{"ingot notifications send KIND",
		`href="/console/notifications/send"`}},
	{"/notifications/suppressions", "/notifications/suppressions", []string{`ingot notifications suppressions --add`}}, // the client has no command
	{"/preferences", "/preferences", []string{"ingot notifications preferences"}},
}

// routesOf returns the patterns of the console, below its path.
func routesOf(c *page.Console, method string) (patterns []string) {
	mux := web.NewMux(web.FormatV3, slog.New(slog.DiscardHandler), nil)
	c.Routes(mux)
	for _, r := range mux.Routes() {
		if below, ok := strings.CutPrefix(r.Pattern, Path); ok && r.Method == method {
			patterns = append(patterns, below)
		}
	}
	return patterns
}

// everyScope are the scopes of an administrator.
var everyScope = []string{"cloud_controller.admin", "scim.read", "scim.write", "clients.read", "clients.write",
	"clients.admin", "uaa.admin", "notifications.manage", "notifications.write", "notifications.admin", "emails.write",
	"notification_templates.read", "notification_templates.write", "critical_notifications.write"}

// emptyWorld is a platform with only one of each resource that a page is about, and if wanted a space.
func emptyWorld(t *testing.T, withSpace bool) *pagetest.World {
	t.Helper()
	w := pagetest.New(t, New)
	answers := map[string]string{
		"/v3/apps/a":              `{"guid":"a","name":"shop","state":"STARTED"}`,
		"/v3/apps/a/processes":    `{"pagination":{"total_pages":1},"resources":[{"guid":"p","type":"web","instances":0}]}`,
		"/v3/service_instances/i": `{"guid":"i","name":"db","type":"user-provided"}`,
		"/v3/organizations/o":     `{"guid":"o","name":"acme"}`,
		"/v3/revisions/r":         `{"guid":"r","version":1,"deployable":true,"relationships":{"app":{"data":{"guid":"a"}}}}`,
		"/Users/u":                `{"id":"u","userName":"ann","groups":[]}`,
		"/oauth/clients/x":        `{"client_id":"x"}`,
	}
	if withSpace {
		answers["/v3/organizations"] = `{"pagination":{"total_pages":1},"resources":[{"guid":"o","name":"acme"}]}`
		answers["/v3/spaces"] = `{"pagination":{"total_pages":1},"resources":[{"guid":"s","name":"dev",
			"relationships":{"organization":{"data":{"guid":"o"}}}}]}`
	}
	w.API.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			answer = `{"pagination":{"total_results":0,"total_pages":1},"resources":[]}`
		}
		fmt.Fprint(rw, answer)
	})
	w.Console.Options.Notifications = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, "{}")
	})
	return w
}

var (
	emptyPart = regexp.MustCompile(`(?s)<p class="(?:card )?empty">.*?</p>|<section class="card empty"[^>]*>.*?</section>`)
	innerLink = regexp.MustCompile(`href="#([^"]+)"`)
)

// Empty pages say what to do: with the command of the client, and with a link or a button where the console can do it.
func TestEmptyPages(t *testing.T) {
	t.Parallel()
	seen, listed := map[string]bool{}, map[string]bool{}
	for _, c := range emptyPages {
		listed[c.pattern] = true
	}
	for _, pattern := range routesOf(pagetest.New(t, New).Console, http.MethodGet) {
		seen[pattern] = true
		if listed[pattern] == (noList[pattern] != "") {
			t.Errorf("%s%s needs an entry in emptyPages if it has a list, or a reason in noList", Path, pattern)
		}
	}
	for pattern := range noList {
		if !seen[pattern] {
			t.Errorf("noList has %s, which is not a page", pattern)
		}
	}
	for _, c := range emptyPages {
		if !seen[c.pattern] {
			t.Errorf("emptyPages has %s, which is not a page", c.pattern)
			continue
		}
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			for _, scopes := range [][]string{everyScope, nil} {
				w := emptyWorld(t, strings.HasSuffix(c.path, "with=space"))
				w.Session.Scopes = scopes
				w.Login()
				status, text := w.Get(Path + c.path)
				if scopes == nil && status == http.StatusForbidden || status == http.StatusSeeOther {
					continue // the page is not for users without scopes
				}
				parts := emptyPart.FindAllString(text, -1)
				if status != http.StatusOK || len(parts) == 0 {
					t.Fatalf("%d, or nothing says that a list is empty: %s", status, text)
				}
				for _, part := range parts {
					if !strings.Contains(part, `class="cf`) && c.path != "/users/u" {
						t.Errorf("no command in %s", part)
					}
					for _, link := range innerLink.FindAllStringSubmatch(part, -1) {
						if !strings.Contains(text, ` id="`+link[1]+`"`) {
							t.Errorf("with scopes %v, %s leads nowhere: %s", scopes, link[0], text)
						}
					}
				}
				// Users without roles cannot help themselves on the pages about organizations.
				asks := strings.Contains(text, "ingot set-space-role USER ORG SPACE SpaceDeveloper")
				if of := c.path == "" || c.path == "/members"; asks != (of && scopes == nil) {
					t.Errorf("with scopes %v it says %v whom to ask: %s", scopes, asks, text)
				}
				for _, want := range c.want {
					if scopes != nil && !strings.Contains(text, want) {
						t.Errorf("it lacks %q: %s", want, text)
					}
				}
			}
		})
	}
}
