package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"ingot/internal/base/handbook"
	"ingot/internal/base/testkit"
	"ingot/internal/base/web"
	"ingot/internal/console"
)

// people look at the screens.
var people = [4]string{"admin", "developer", "auditor", "stranger"}

// screen is a page of the console.
type screen struct {
	pattern string   // of the route, below /console, or of the documentation
	params  []string // of the pattern, in order
	query   string
	status  [4]int // for each of people
	shows   string // text that the administrator sees
	// own means that the forms change only what belongs to the user who sees them.
	own bool
	// plants are the planted fields that the page shows, see TestConsoleHostileInput.
	plants []string
}

var (
	forAll     = [4]int{200, 200, 200, 200}
	forMembers = [4]int{200, 200, 200, 404}
	forWriters = [4]int{200, 200, 403, 404}
	forAdmins  = [4]int{200, 403, 403, 403}
)

// places are what pages are about.
type places struct {
	app, build, service, org, user, send, message string
	task, revision                                string
	sample, job                                   string // an app that was deployed by the server, and its job
	manifest                                      string // a job that applied one
	template                                      string // with two versions
}

// newPlaces returns the app shop with its build, service and org, and a message of a new client.
func (s *site) newPlaces(t *testing.T, token, app, user string) *places {
	t.Helper()
	first := func(path string) string {
		t.Helper()
		return s.list(t, token, path)[0]["guid"].(string)
	}
	p := &places{app: app, user: user, build: first("/v3/apps/" + app + "/builds"),
		task: first("/v3/apps/" + app + "/tasks"), revision: first("/v3/apps/" + app + "/revisions"),
		service: first("/v3/service_instances"), org: first("/v3/organizations?names=demo")}
	space := first("/v3/spaces?names=dev")
	var deployed struct{ App, Job struct{ GUID string } }
	s.call(t, http.MethodPost, s.API+"/v3/ingot/spaces/"+space+"/deploy", token,
		object{"name": "sampled", "sample": true}).want(t, http.StatusAccepted).into(t, &deployed)
	p.sample, p.job = deployed.App.GUID, deployed.Job.GUID
	s.reaches(t, "sampled", "/", http.StatusOK)
	applied := s.send(t, "/v3/spaces/"+space+"/actions/apply_manifest", token, "application/x-yaml",
		strings.NewReader("applications:\n- name: shop\n"))
	_, p.manifest, _ = strings.Cut(applied.want(t, http.StatusAccepted).Header.Get("Location"), "/v3/jobs/")
	m := &mailFixture{Server: s.Server}
	m.base, m.admin = s.Notifications, token
	m.newSender(t, "screens-sender", sendingAuthorities...).want(t, http.StatusCreated)
	m.token = m.clientToken(t, "screens-sender", "my-secret")
	m.ask(t, http.MethodPut, "/notifications",
		object{"source_name": "Shop", "notifications": object{"news": object{"description": "News"}}}).
		want(t, http.StatusNoContent)
	m.ask(t, http.MethodPost, "/users/"+user, object{"kind_id": "news", "subject": "Big news", "text": "It is here.",
		"html": "<p>It is <b>here</b>.</p>"}).want(t, http.StatusOK)
	p.template = m.versions(t, "Sale")
	boss := s.userTokens(t, "admin", s.secret(t, "admin-password")).Access
	s.call(t, http.MethodPut, s.Notifications+"/partials/footer?shared=true", boss,
		object{"text": "Your shop", "html": "<p>Your shop</p>", "variants": object{"de": object{"text": "Dein Laden"}}}).
		want(t, http.StatusNoContent)
	s.call(t, http.MethodPut, s.Notifications+"/providers/gateway?shared=true", boss, object{"channel": "sms",
		"url": "https://192.0.2.1/{{secret \"token\"}}", "json": object{"to": "{{phone}}", "text": "{{text}}"},
		"secrets": object{"token": "very-secret"}}).want(t, http.StatusOK)
	m.ask(t, http.MethodPut, "/topics/releases", object{"description": "New releases"}).want(t, http.StatusCreated)
	m.ask(t, http.MethodPost, "/topics/releases/subscribers", object{"subscribers": []object{{"user": user},
		{"email": "dora@example.org"}}}).want(t, http.StatusOK)
	m.ask(t, http.MethodPost, "/templates", object{"name": "Layouted", "subject": "{{.Subject}}",
		"text": `{{template "footer" .}}`, "html": "<p>h</p>"}).want(t, http.StatusCreated)
	var sends struct{ Sends []struct{ ID string } }
	m.ask(t, http.MethodGet, "/sends", nil).want(t, http.StatusOK).into(t, &sends)
	var messages struct{ Messages []struct{ ID string } }
	m.ask(t, http.MethodGet, "/messages", nil).want(t, http.StatusOK).into(t, &messages)
	if len(sends.Sends) != 1 || len(messages.Messages) != 1 {
		t.Fatalf("sends %v and messages %v, want one of each", sends, messages)
	}
	p.send, p.message = sends.Sends[0].ID, messages.Messages[0].ID
	testkit.Eventually(t, "the mail is caught", func() bool {
		return strings.Contains(s.call(t, http.MethodGet, s.Admin+"/mailbox/messages", "", nil).want(t, http.StatusOK).
			String(), "Big news")
	})
	return p
}

// versions creates a template and changes it, so that it has two versions.
func (p *mailFixture) versions(t *testing.T, name string) (id string) {
	t.Helper()
	template := object{"name": name, "subject": "{{.Subject}}", "text": "old\n{{.Text}}", "html": "<p>old</p>"}
	id = p.ask(t, http.MethodPost, "/templates", template).want(t, http.StatusCreated).object(t)["template-id"].(string)
	template["text"] = "new\n{{.Text}}"
	p.ask(t, http.MethodPut, "/templates/"+id, template).want(t, http.StatusNoContent)
	return id
}

// consoleScreens lists the pages of the console: a new page is a line.
func consoleScreens(p *places) []screen {
	app := p.app
	return []screen{
		{pattern: "", status: forAll, shows: "demo"},
		{pattern: "/search", query: "?q=shop", status: forAll, shows: "shop"},
		{pattern: "/apps", status: forAll, shows: "shop.apps.localhost"},
		{pattern: "/apps/{guid}", params: []string{app}, status: forMembers, shows: "Exited with status 3"},
		{pattern: "/apps/{guid}/logs", params: []string{app}, status: forMembers, shows: "APP/PROC/WEB/0"},
		{pattern: "/apps/{guid}/history", params: []string{app}, status: forMembers, shows: "Instance 0 crashed"},
		{pattern: "/apps/{guid}/deployments", params: []string{app}, status: forMembers, shows: "Initial revision"},
		{pattern: "/apps/{guid}/environment", params: []string{app}, status: forWriters, shows: "VCAP_SERVICES"},
		{pattern: "/apps/{guid}/routes", params: []string{app}, status: forMembers, shows: "shop.apps.localhost"},
		{pattern: "/apps/{guid}/tasks", params: []string{app}, status: forMembers, shows: "greet"},
		{pattern: "/apps/{guid}/tasks/{task}", params: []string{app, p.task}, status: forMembers, shows: "echo hello"},
		{pattern: "/apps/{guid}/revisions/{revision}", params: []string{app, p.revision}, status: forMembers,
			shows: "What a rollback would change"},
		{pattern: "/apps/{guid}/sidecars", params: []string{app}, status: forWriters, shows: "Add a sidecar"},
		{pattern: "/apps/{guid}/manifest", params: []string{app}, status: forWriters, shows: "cf create-app-manifest shop"},
		{pattern: "/apps/{guid}/applying/{job}", params: []string{app, p.manifest}, status: forWriters,
			shows: "The manifest was applied."},
		{pattern: "/domains", status: forAll, shows: "apps.localhost"},
		{pattern: "/apps/{guid}/events", params: []string{app}, status: forMembers, shows: "audit.app.process.crash"},
		{pattern: "/apps/{guid}/builds/{build}", params: []string{app, p.build}, status: forMembers, shows: "staged"},
		{pattern: "/apps/{guid}/services", params: []string{app}, status: forMembers, shows: "prices"},
		{pattern: "/apps/{guid}/settings", params: []string{app}, status: forWriters, shows: "cf rename shop"},
		{pattern: "/apps/{guid}/shell", params: []string{app}, status: forWriters, shows: "cf ssh shop"},
		{pattern: "/apps/new", status: forAll, shows: "Deploy a sample"},
		{pattern: "/apps/{guid}/deploy", params: []string{app}, status: forWriters, shows: "ingot push shop"},
		{pattern: "/apps/{guid}/deploying/{job}", params: []string{p.sample, p.job}, status: forMembers,
			shows: "deployed and running"},
		{pattern: "/services", status: forAll, shows: "prices"},
		{pattern: "/services/marketplace", status: forAll, shows: "postgres"},
		{pattern: "/services/new", query: "?type=user-provided", status: forAll, shows: "cf create-user-provided-service"},
		{pattern: "/services/{guid}", params: []string{p.service}, status: forMembers, shows: "prices"},
		{pattern: "/members", status: forAll, shows: "demo"},
		{pattern: "/orgs/{guid}", params: []string{p.org}, status: forMembers, shows: "developer"},
		{pattern: "/audit", status: forAll, shows: "audit.app.process.crash"},
		{pattern: "/users", status: forAdmins, shows: "developer"},
		{pattern: "/users/{id}", params: []string{p.user}, status: forAdmins, shows: "cloud_controller.read"},
		{pattern: "/clients", status: forAdmins, shows: "ingot-console"},
		{pattern: "/clients/new", status: forAdmins, shows: "Create"},
		{pattern: "/clients/{id}", params: []string{"cf"}, status: forAdmins, shows: "refresh_token"},
		{pattern: "/notifications", status: forAdmins, shows: "News"},
		{pattern: "/notifications/clients/{client}/kinds/{kind}", params: []string{"screens-sender", "news"},
			status: forAdmins, shows: "email at once"},
		{pattern: "/notifications/templates", status: forAdmins, shows: "Default"},
		{pattern: "/notifications/templates/new", status: forAdmins, shows: "Preview"},
		{pattern: "/notifications/templates/{template}", params: []string{"default"}, status: forAdmins, shows: "Preview"},
		{pattern: "/notifications/templates/{template}", params: []string{"campaign:default"}, status: forAdmins,
			shows: "Preview"},
		{pattern: "/notifications/templates/{template}/versions", params: []string{p.template}, status: forAdmins,
			shows: "From version"},
		{pattern: "/notifications/templates/{template}/versions/{version}", params: []string{p.template, "1"},
			status: forAdmins, shows: "What a rollback would change"},
		{pattern: "/notifications/partials", status: forAdmins, shows: "footer"},
		{pattern: "/notifications/new-partial", status: forAdmins, shows: "In another language"},
		{pattern: "/notifications/partials/{partial}", params: []string{"footer"}, query: "?shared=true", status: forAdmins,
			shows: "Layouted"},
		{pattern: "/notifications/providers", status: forAdmins, shows: "192.0.2.1"},
		{pattern: "/notifications/new-provider", status: forAdmins, shows: "Secret token"},
		{pattern: "/notifications/providers/{provider}", params: []string{"gateway"}, query: "?shared=true",
			status: forAdmins, shows: "Value of token"},
		{pattern: "/notifications/topics", query: "?client=screens-sender", status: forAdmins, shows: "releases"},
		{pattern: "/notifications/topics/{topic}", params: []string{"releases"}, query: "?client=screens-sender",
			status: forAdmins, shows: "dora@example.org"},
		{pattern: "/notifications/send", status: forAdmins, shows: "Register one"},
		{pattern: "/notifications/sends", status: forAdmins, shows: "news"},
		{pattern: "/notifications/sends/{send}", params: []string{p.send}, status: forAdmins, shows: "news"},
		{pattern: "/notifications/messages/{message}", params: []string{p.message}, status: forAdmins, shows: "delivered"},
		{pattern: "/notifications/campaigns", status: forAdmins, shows: "Campaign"},
		{pattern: "/notifications/mailbox", status: forAdmins, shows: "Big news"},
		{pattern: "/notifications/mailbox/{number}", params: []string{"1"}, status: forAdmins, shows: "Big news"},
		{pattern: "/notifications/suppressions", status: forAdmins, shows: "Suppress"},
		{pattern: "/notifications/recipients", query: "?email=nobody@example.com", status: forAdmins, shows: "Erase"},
		{pattern: "/notifications/figures", query: "?by=domain&in=48+hours", status: forAdmins, shows: "Tried again"},
		{pattern: "/notifications/recurring", status: forAdmins, shows: "notifications repeat"},
		{pattern: "/preferences", status: forAll, shows: "Notification preferences", own: true},
		{pattern: "/system", status: forAdmins, shows: "Engine"},
		{pattern: "/system/history", query: "?range=24h", status: forAdmins, shows: "Messages that wait"},
		{pattern: "/docs", status: forAll, shows: "ten minutes"},
		{pattern: "/docs/*", params: []string{"tls"}, status: forAll, shows: "Wildcard certificates"},
		{pattern: "/docs/*", params: []string{"console"}, status: forAll, shows: "The console"},
		{pattern: "/docs/search", query: "?q=certificate", status: forAll, shows: "TLS"},
	}
}

// notScreens are the other GET routes of the console.
var notScreens = map[string]string{
	"/assets/{hash}/{name}":     "a file",
	"/docs/images/{name}":       "a picture",
	"/login":                    "leads to the authorization server",
	"/callback":                 "leads to a page",
	"/live/*":                   "a stream",
	"/*":                        "says that there is no such page",
	"/apps/{guid}/log-lines":    "a download",
	"/apps/{guid}/logs/stream":  "a stream",
	"/apps/{guid}/shell/socket": "a WebSocket",
	"/audit/export":             "a download",
	"/notifications/mailbox/{number}/html": "the content of a frame with a policy of its own, see " +
		"TestConsoleNotifications",
	"/notifications/mailbox/{number}/source": "text",
}

// consoleRoutes returns the patterns of the console's GET routes, below /console.
func consoleRoutes() []string {
	m := web.NewMux(web.FormatV3, nil, nil)
	console.New(console.Options{}).Routes(m)
	var all []string
	for _, r := range m.Routes() {
		if r.Method == http.MethodGet {
			all = append(all, strings.TrimPrefix(r.Pattern, console.Path))
		}
	}
	return all
}

// TestEveryScreenIsTested fails for a page that is in no table.
func TestEveryScreenIsTested(t *testing.T) {
	t.Parallel()
	routes := consoleRoutes()
	if len(routes) < 10 {
		t.Fatalf("the console has the routes %q", routes)
	}
	for name, table := range map[string][]screen{"consoleScreens": consoleScreens(&places{}),
		"hostilePages": hostilePages(&planted{})} {
		tested := map[string]bool{}
		for _, s := range table {
			tested[s.pattern] = true
			if !slices.Contains(routes, s.pattern) {
				t.Errorf("%s has %q, which is no route of the console", name, s.pattern)
			}
		}
		for _, route := range routes {
			if !tested[route] && notScreens[route] == "" {
				t.Errorf("GET %s%s is not in %s", console.Path, route, name)
			}
		}
	}
}

var parameter = regexp.MustCompile(`\{[^}]*\}|\*`)

// path returns the address of the screen on its server.
func (s screen) path() string {
	rest := s.params
	root := console.Path
	if strings.HasPrefix(s.pattern, handbook.Path) {
		root = ""
	}
	return root + parameter.ReplaceAllStringFunc(s.pattern, func(string) string {
		if len(rest) == 0 {
			return "missing"
		}
		one := rest[0]
		rest = rest[1:]
		return one
	}) + s.query
}

// TestConsoleScreens opens every screen in a real browser as an administrator, a space
// developer, an auditor and a user without roles. What an administrator sees is checked on a
// phone and on a large screen, light and dark; for the others that is done only where they see
// elements that the administrator does not see.
func TestConsoleScreens(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := startApps(t, options{Engine: "process", Args: forProviders})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "shop")...)
	app := guid(t, home, "shop")
	cfOK(t, home, "create-user-provided-service", "prices", "-p", `{"uri":"https://prices.example.com"}`)
	cfOK(t, home, "bind-service", "shop", "prices")
	cfOK(t, home, "run-task", "shop", "--command", "echo hello", "--name", "greet")
	s.breaks(t, "shop", "/exit?code=3")
	s.reaches(t, "shop", "/", http.StatusOK)
	passwords := [4]string{s.secret(t, "admin-password")}
	user := ""
	for i, name := range people {
		if i > 0 {
			passwords[i] = name + "-password"
			user = s.createUser(t, s.adminToken(t), name, passwords[i])
		}
	}
	all := s.newPlaces(t, s.adminToken(t), app, user)
	cfOK(t, home, "set-space-role", "developer", "demo", "dev", "SpaceDeveloper")
	cfOK(t, home, "set-space-role", "auditor", "demo", "dev", "SpaceAuditor")

	quiet, stays := b.listen(t), b.origins(t)
	looks := &lookedAt{}
	for i, name := range people {
		if _, err := chromedp.Call(b.ctx, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
		b.do(t, chromedp.Navigate(s.API+console.Path), visible("#username"))
		b.consoleLogin(t, name, passwords[i])
		for _, one := range consoleScreens(all) {
			b.screen(t, s.API, one, i, looks)
		}
	}
	quiet("the server responded with a status of 40")
	stays(s.API)
}

// lookedAt is what was checked for the people before.
type lookedAt struct {
	elements map[string]map[string]bool // by pattern, the kinds of elements
	refusals map[int]bool               // by status
}

// news reports whether a page has kinds of elements that it did not have for anyone before.
func (l *lookedAt) news(pattern string, elements []string) bool {
	if l.elements == nil {
		l.elements = map[string]map[string]bool{}
	}
	if l.elements[pattern] == nil {
		l.elements[pattern] = map[string]bool{}
	}
	before := len(l.elements[pattern])
	for _, one := range elements {
		l.elements[pattern][one] = true
	}
	return len(l.elements[pattern]) > before
}

// refused reports whether a page that answers with an error was looked at before: all of one
// status look the same.
func (l *lookedAt) refused(status int) bool {
	if l.refusals == nil {
		l.refusals = map[int]bool{}
	}
	seen := l.refusals[status]
	l.refusals[status] = true
	return seen
}

// answered is a page that was requested and not opened.
type answered struct {
	Status int
	Forms  []string
}

// ask requests a page without opening it.
func (b *browser) ask(t *testing.T, path string) answered {
	t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[answered](fmt.Sprintf(`fetch(%q).then(async r => {
		const page = new DOMParser().parseFromString(await r.text(), "text/html");
		return {Status: r.status, Forms: (%s)(page)};
	})`, path, changingForms), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return got
}

// changingForms is a function that returns the targets of the forms of a document that change
// something.
const changingForms = `d => [...d.querySelectorAll("form[method=post]")].map(f => f.getAttribute("action")).filter(a => a !== "/console/logout")`

// kindsOfElements returns the kinds of elements of the page: their names with their classes
// and those of their parents.
const kindsOfElements = `(() => {
	const name = e => e ? e.nodeName + "." + [...e.classList].sort().join(".") + (e.getAttribute("role") || "") + (e.type || "") : "";
	return [...new Set([...document.querySelectorAll("body *:not(svg *)")].map(e => name(e.parentElement) + " > " + name(e)))];
})()`

// screen checks a page as one of people.
func (b *browser) screen(t *testing.T, origin string, s screen, who int, before *lookedAt) {
	t.Helper()
	name := people[who] + " at " + s.path()
	got := answered{}
	if want := s.status[who]; want != http.StatusOK && before.refused(want) {
		got = b.ask(t, s.path())
	} else {
		answer, err := chromedp.Run(b.ctx, chromedp.NavigateResponse(origin+s.path()))
		if err == nil {
			got.Status = int(answer.Status)
			got.Forms, err = chromedp.Run(b.ctx, chromedp.Evaluate[[]string](`(`+changingForms+`)(document)`))
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if who == 0 {
			b.awaitText(t, s.shows)
		}
		b.looks(t, s, who, before)
	}
	if got.Status != s.status[who] {
		t.Errorf("%s: status %d, want %d\n%s", name, got.Status, s.status[who], b.shown())
	}
	if who > 1 && !s.own && len(got.Forms) > 0 {
		t.Errorf("%s: the forms %q are shown", name, got.Forms)
	}
}

// looks checks the page as it is shown now.
func (b *browser) looks(t *testing.T, s screen, who int, before *lookedAt) {
	t.Helper()
	elements, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](kindsOfElements))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("/", "-", "{guid}", "app", "{", "", "}", "", "*", "document")
	picture := strings.Trim(names.Replace(s.pattern), "-")
	picture = "console-" + people[who] + "-" + cmp.Or(picture, "home")
	if before.news(s.pattern, elements) {
		b.everywhere(t, picture)
		return
	}
	b.fits(t, picture, 360, true)
}

// everywhere checks a page in both sizes, light and dark. The rules that depend on the size are
// checked in both sizes, and those that depend on the colors in both schemes.
func (b *browser) everywhere(t testing.TB, name string) {
	t.Helper()
	b.explains(t, name)
	b.fits(t, name, 1440, false)
	b.accessible(t, name, 1440, false, allRules)
	b.fits(t, name, 1440, true)
	b.accessible(t, name, 1440, true, colorRules)
	b.fits(t, name, 360, true)
	b.accessible(t, name, 360, true, sizeRules)
	if os.Getenv("INGOT_SCREENSHOTS") != "" {
		b.fits(t, name, 360, false)
	}
}

// explains checks that a page with variables in a command says what they are, and no other does.
func (b *browser) explains(t testing.TB, name string) {
	t.Helper()
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]bool](`(() => {
		const text = document.body.textContent;
		return [text.includes('"$N/'), text.includes("is the address of the notification service")];
	})()`))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if found[0] != found[1] {
		t.Errorf("%s: a command with $N: %t, what that is: %t", name, found[0], found[1])
	}
}

// axe is axe-core.
var axe = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile(filepath.Join("..", ".tools", "axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("%w; run: make setup-test", err)
	}
	return string(text), nil
})

// Selections of the rules of axe-core.
const (
	allRules   = `runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}, rules: {"target-size": {enabled: true}}`
	colorRules = `runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}`
	// sizeRules are those about what the style sheet hides or moves on a phone.
	sizeRules = `runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}, rules: {"target-size": {enabled: true}, "color-contrast": {enabled: false}}`
)

// accessible checks the page, as it is shown now, against the rules of WCAG 2.2 AA. It does not
// look into frames: they show mails, and those are not ours.
func (b *browser) accessible(t testing.TB, name string, width int64, dark bool, rules string) {
	t.Helper()
	script, err := axe()
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`typeof axe === "object"`))
	if err == nil && !loaded {
		_, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool](script+`; true`))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := `axe.run(document, {` + rules + `, resultTypes: ["violations"], iframes: false,
	}).then(r => r.violations.map(v => v.id + ": " + v.help + v.nodes.map(n => "\n\t" + n.html + "\n\t" + n.failureSummary).join("")))`
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, one := range found {
		t.Errorf("%s, %d points wide, dark %t: %s", name, width, dark, one)
	}
}

// origins collects the origins of all requests. The function it returns reports those other
// than one.
func (b *browser) origins(t *testing.T) func(only string) {
	t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	requests := chromedp.Events(ctx, network.RequestWillBeSent)
	seen := map[string]bool{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r, err := range requests {
			if err != nil {
				return
			}
			seen[r.Request.URL] = true
		}
	}()
	return func(only string) {
		t.Helper()
		cancel()
		<-done
		if len(seen) == 0 {
			t.Error("no request was seen")
		}
		for address := range seen {
			if address != only && !strings.HasPrefix(address, only+"/") && !strings.HasPrefix(address, "data:") {
				t.Error("a page requested " + address)
			}
		}
	}
}
