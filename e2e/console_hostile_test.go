package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"ingot/internal/base/testkit"
	"ingot/internal/console"
)

// payload is text that would become markup, code or a link wherever it is not escaped.
func payload(field string) string {
	return field +
		` javascript:alert(0) "'><img src=x onerror=alert(1)></script></textarea></title><script>alert(2)</script>{{.}}`
}

// payloads are alternatives for fields that accept fewer characters.
func payloads(field string) []string {
	name := strings.ReplaceAll(field, " ", "-")
	return []string{payload(field), name + " <img src=x onerror=alert(1)>{{.}}", name + "<img/src=x/onerror=alert(1)>",
		name + "<b>{{.}}", "/" + name + "%22%3E%3Cimg%20src=x%3E"}
}

// planted is a server with a payload in every field that a user can set.
type planted struct {
	*site
	token           string
	app, space, org string // guids
	build, service  string // guids
	task, revision  string // guids
	user, hostile   string // ids
	plan            string // guid
	template        string // id
	send, message   string // ids
	plain           int64  // the number of a mail without HTML
	// values are the payloads that the APIs accepted, by field.
	values map[string]string
}

// plant sets a field to the first payload that the API accepts. It may refuse all of them,
// but must not fail.
func (p *planted) plant(t *testing.T, field, method, path string, body func(text string) object) (r *reply) {
	t.Helper()
	for _, text := range payloads(field) {
		r = p.call(t, method, path, p.token, body(text))
		switch {
		case r.Status < 300:
			p.values[field] = text
			return r
		case r.Status < 400 || r.Status >= 500:
			t.Errorf("%s: %s", field, r)
		}
	}
	return r
}

func related(kind, guid string) object {
	return object{kind: object{"data": object{"guid": guid}}}
}

// plantPlatform sets the fields of the platform.
func (p *planted) plantPlatform(t *testing.T) {
	t.Helper()
	annotated := object{"annotations": object{"note": payload("annotation")}}
	at := "/v3/apps/" + p.app
	p.plant(t, "sidecar", http.MethodPost, at+"/sidecars", func(text string) object {
		return object{"name": text, "command": "sleep 1000 # " + payload("sidecar command"), "process_types": []string{"web"}}
	})
	p.values["sidecar command"] = payload("sidecar command")
	other := func(name string, options object) object {
		return object{"name": name, "command": "sleep 1000", "process_types": []string{"web"}, "options": options}
	}
	p.plant(t, "sidecar pre-stop", http.MethodPost, at+"/sidecars",
		func(text string) object { return other("stops", object{"pre_stop": text}) })
	p.plant(t, "sidecar variable", http.MethodPost, at+"/sidecars",
		func(text string) object { return other("variables", object{"env": object{text: payload("value")}}) })
	p.plant(t, "sidecar check", http.MethodPost, at+"/sidecars", func(text string) object {
		return other("checks", object{"ports": []int{9090}, "health_check": object{"type": "http", "endpoint": "/" + text}})
	})
	p.plant(t, "env value", http.MethodPatch, at+"/environment_variables",
		func(text string) object { return object{"var": object{"PLAIN": text}} })
	p.plant(t, "env name", http.MethodPatch, at+"/environment_variables",
		func(text string) object { return object{"var": object{text: "x"}} })
	p.plant(t, "label", http.MethodPatch, at,
		func(text string) object { return object{"metadata": object{"labels": object{"note": text}}} })
	p.plant(t, "annotation", http.MethodPatch, at,
		func(text string) object { return object{"metadata": object{"annotations": object{"note": text}}} })
	p.plant(t, "buildpack", http.MethodPatch, at, func(text string) object {
		return object{"lifecycle": object{"type": "buildpack",
			"data": object{"buildpacks": []string{"https://example.com/" + text}}}}
	})
	p.plant(t, "task", http.MethodPost, at+"/tasks",
		func(text string) object { return object{"name": text, "command": "true # " + payload("task command")} })
	p.values["task command"] = payload("task command")
	process := p.list(t, p.token, at+"/processes")[0]["guid"].(string)
	p.plant(t, "process command", http.MethodPatch, "/v3/processes/"+process,
		func(text string) object { return object{"command": "./probe # " + text} })
	domain := p.list(t, p.token, "/v3/domains?names=apps.localhost")[0]["guid"].(string)
	where := related("space", p.space)
	where["domain"] = related("domain", domain)["domain"]
	p.plant(t, "route host", http.MethodPost, "/v3/routes",
		func(text string) object { return object{"host": text, "relationships": where} })
	r := p.plant(t, "route path", http.MethodPost, "/v3/routes", func(text string) object {
		return object{"host": "planted", "path": "/" + strings.TrimPrefix(text, "/"), "relationships": where,
			"metadata": annotated}
	})
	if r.Status == http.StatusCreated {
		p.call(t, http.MethodPost, "/v3/routes/"+r.object(t)["guid"].(string)+"/destinations", p.token,
			object{"destinations": []object{{"app": object{"guid": p.app}}}}).want(t, http.StatusOK)
	}
	p.plant(t, "service", http.MethodPost, "/v3/service_instances", func(text string) object {
		return object{
			"type": "user-provided", "name": text, "tags": []string{payload("service tag")}, "metadata": annotated,
			"credentials": object{"uri": payload("credential")}, "syslog_drain_url": "syslog-tls://example.com/" +
				payload("drain"), "relationships": related("space", p.space),
		}
	})
	for _, one := range p.list(t, p.token, "/v3/service_instances") {
		with := related("app", p.app)
		with["service_instance"] = related("x", one["guid"].(string))["x"]
		p.call(t, http.MethodPost, "/v3/service_credential_bindings", p.token,
			object{"type": "app", "name": payload("binding"), "relationships": with})
		p.values["service tag"], p.values["credential"] = payload("service tag"), payload("credential")
	}
	p.plant(t, "quota", http.MethodPost, "/v3/organization_quotas", func(text string) object {
		return object{"name": text, "relationships": object{"organizations": object{"data": []object{{"guid": p.org}}}}}
	})
	p.plant(t, "space quota", http.MethodPost, "/v3/space_quotas", func(text string) object {
		of := related("organization", p.org)
		of["spaces"] = object{"data": []object{{"guid": p.space}}}
		return object{"name": text, "relationships": of}
	})
	p.plant(t, "security group", http.MethodPost, "/v3/security_groups", func(text string) object {
		return object{"name": text, "rules": []object{{"protocol": "all", "destination": "192.0.2.1",
			"description": payload("rule")}}}
	})
	p.plant(t, "feature flag", http.MethodPatch, "/v3/feature_flags/diego_docker",
		func(text string) object { return object{"enabled": true, "custom_error_message": text} })
	p.plant(t, "private domain", http.MethodPost, "/v3/domains",
		func(text string) object { return object{"name": text, "relationships": related("organization", p.org)} })
	for field, path := range map[string]string{"app": at, "space": "/v3/spaces/" + p.space,
		"org": "/v3/organizations/" + p.org} {
		p.plant(t, field, http.MethodPatch, path,
			func(text string) object { return object{"name": text, "metadata": annotated} })
	}
}

// hostilePages lists the pages of the console with the planted fields that they show.
func hostilePages(p *planted) []screen {
	q := "?q=" + url.QueryEscape(payload("query"))
	app := []string{p.app}
	return []screen{
		{pattern: "", plants: []string{"space", "org"}},
		{pattern: "/search", query: "?q=app", plants: []string{"app"}},
		{pattern: "/search", query: q, plants: []string{"query"}},
		{pattern: "/apps", plants: []string{"app", "space", "org"}},
		{pattern: "/apps", query: q + "&health=" + url.QueryEscape(payload("health")) + "&space=" +
			url.QueryEscape(payload("place")), plants: []string{"query"}},
		{pattern: "/apps/{guid}", params: app, plants: []string{"app", "space", "org", "sidecar", "sidecar command",
			"sidecar pre-stop"}},
		{pattern: "/apps/{guid}", params: []string{url.PathEscape(payload("guid"))}},
		{pattern: "/apps/{guid}/logs", params: app, plants: []string{"app", "log line", "error line", "broken line"}},
		{pattern: "/apps/{guid}/logs", params: app, query: q + "&source=" + url.QueryEscape(payload("s")) + "&instance=" +
			url.QueryEscape(payload("i")) + "&stream=" + url.QueryEscape(payload("o")), plants: []string{"query"}},
		{pattern: "/apps/{guid}/history", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/history", params: app, query: "?range=" + url.QueryEscape(payload("r")) + "&process=" +
			url.QueryEscape(payload("type")) + "&instance=" + url.QueryEscape(payload("i")), plants: []string{"app"}},
		{pattern: "/apps/{guid}/deployments", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/environment", params: app, plants: []string{"app", "env value", "env name"}},
		{pattern: "/apps/{guid}/routes", params: app, plants: []string{"app", "route path"}},
		{pattern: "/apps/{guid}/tasks", params: app, plants: []string{"app", "task", "task command"}},
		{pattern: "/apps/{guid}/tasks/{task}", params: []string{p.app, p.task},
			plants: []string{"app", "task", "task command"}},
		{pattern: "/apps/{guid}/revisions/{revision}", params: []string{p.app, p.revision},
			plants: []string{"app", "sidecar"}},
		{pattern: "/apps/{guid}/revisions/{revision}", params: []string{p.app, url.PathEscape(payload("revision"))}},
		{pattern: "/apps/{guid}/sidecars", params: app, plants: []string{"app", "sidecar"}},
		{pattern: "/apps/{guid}/manifest", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/applying/{job}", params: []string{p.app, url.PathEscape(payload("job"))},
			query: "?after=" + url.QueryEscape(payload("after"))},
		{pattern: "/domains", plants: []string{"org"}},
		{pattern: "/apps/{guid}/events", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/builds/{build}", params: []string{p.app, p.build}, plants: []string{"app"}},
		{pattern: "/apps/{guid}/services", params: app, plants: []string{"app", "service"}},
		{pattern: "/apps/{guid}/settings", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/shell", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/shell", params: app, query: "?process=" + url.QueryEscape(payload("type")) + "&instance=" +
			url.QueryEscape(payload("i"))},
		{pattern: "/apps/new", query: "?space=" + url.QueryEscape(payload("place")), plants: []string{"space", "org"}},
		{pattern: "/apps/{guid}/deploy", params: app, plants: []string{"app"}},
		{pattern: "/apps/{guid}/deploying/{job}", params: []string{p.app, url.PathEscape(payload("job"))}},
		{pattern: "/services", plants: []string{"service", "space", "org"}},
		{pattern: "/services", query: q, plants: []string{"query"}},
		{pattern: "/services/marketplace", query: q},
		{pattern: "/services/marketplace", plants: []string{"offering", "offering title", "offering text",
			"offering tag", "bullet"}},
		{pattern: "/services/new", query: "?plan=" + p.plan, plants: []string{"offering", "plan", "schema title",
			"schema help", "schema value"}},
		{pattern: "/services/new", query: "?type=user-provided&space=" + url.QueryEscape(payload("place"))},
		{pattern: "/services/new", query: "?plan=" + url.QueryEscape(payload("plan"))},
		{pattern: "/services/{guid}", params: []string{p.service}, plants: []string{"service", "service tag"}},
		{pattern: "/members", query: q, plants: []string{"org"}},
		{pattern: "/orgs/{guid}", params: []string{p.org}, plants: []string{"org", "quota"}},
		{pattern: "/orgs/{guid}", params: []string{p.org}, query: "?space=" + p.space,
			plants: []string{"space", "space quota"}},
		{pattern: "/audit", plants: []string{"app"}},
		{pattern: "/audit", query: "?type=" + url.QueryEscape(payload("query")) + "&actor=" +
			url.QueryEscape(payload("actor")), plants: []string{"query"}},
		{pattern: "/users", plants: []string{"user"}},
		{pattern: "/users/{id}", params: []string{p.hostile}, plants: []string{"user"}},
		{pattern: "/clients", plants: []string{"client"}},
		{pattern: "/clients/new"},
		{pattern: "/clients/{id}", params: []string{"hostile-sender"}},
		{pattern: "/clients/{id}", params: []string{"named"}, plants: []string{"client name"}},
		{pattern: "/notifications", plants: []string{"kind", "source", "template"}},
		{pattern: "/notifications/clients/{client}/kinds/{kind}", params: []string{"hostile-sender", "tips"},
			plants: []string{"workflow"}},
		{pattern: "/notifications/templates", plants: []string{"template", "campaign template"}},
		{pattern: "/notifications/templates/new"},
		{pattern: "/notifications/templates/{template}", params: []string{p.template},
			plants: []string{"template", "template subject"}},
		{pattern: "/notifications/templates/{template}/versions", params: []string{p.template}, plants: []string{"template",
			"template subject"}},
		{pattern: "/notifications/templates/{template}/versions", params: []string{p.template},
			query: "?from=1&to=" + url.QueryEscape(payload("version"))},
		{pattern: "/notifications/templates/{template}/versions/{version}", params: []string{p.template, "2"},
			plants: []string{"template", "template subject"}},
		{pattern: "/notifications/partials"},
		{pattern: "/notifications/new-partial"},
		{pattern: "/notifications/partials/{partial}", params: []string{"footer"}, query: "?shared=true",
			plants: []string{"partial text", "template"}},
		{pattern: "/notifications/partials/{partial}", params: []string{url.PathEscape(payload("partial"))}},
		{pattern: "/notifications/providers"},
		{pattern: "/notifications/new-provider"},
		{pattern: "/notifications/providers/{provider}", params: []string{"gateway"}, query: "?shared=true"},
		{pattern: "/notifications/providers/{provider}", params: []string{url.PathEscape(payload("provider"))}},
		{pattern: "/notifications/topics", query: "?client=hostile-sender", plants: []string{"topic"}},
		{pattern: "/notifications/topics", query: "?client=" + url.QueryEscape(payload("query")), plants: []string{"query"}},
		{pattern: "/notifications/topics/{topic}", params: []string{"releases"}, query: "?client=hostile-sender&after=" +
			url.QueryEscape(payload("after")), plants: []string{"topic"}},
		{pattern: "/notifications/topics/{topic}", params: []string{url.PathEscape(payload("topic"))}},
		{pattern: "/notifications/send", query: "?to=" + url.QueryEscape(payload("to"))},
		{pattern: "/notifications/sends", plants: []string{"mail subject"}},
		{pattern: "/notifications/sends/{send}", params: []string{p.send}, plants: []string{"mail subject"}},
		{pattern: "/notifications/messages/{message}", params: []string{p.message}},
		{pattern: "/notifications/campaigns", plants: []string{"campaign sender", "campaign type", "campaign text",
			"campaign template"}},
		{pattern: "/notifications/mailbox", plants: []string{"mail subject"}},
		{pattern: "/notifications/mailbox", query: q, plants: []string{"query"}},
		{pattern: "/notifications/mailbox/{number}", params: []string{"1"}, query: "?view=text",
			plants: []string{"mail subject", "mail text"}},
		{pattern: "/notifications/mailbox/{number}", params: []string{"1"}, query: "?view=headers",
			plants: []string{"mail subject"}},
		{pattern: "/notifications/suppressions", query: q},
		{pattern: "/notifications/recipients", query: "?user=" + url.QueryEscape(payload("recipient"))},
		{pattern: "/notifications/figures", query: "?by=domain&domain=" + url.QueryEscape(payload("domain"))},
		{pattern: "/notifications/recurring", query: "?after=" + url.QueryEscape(payload("after"))},
		{pattern: "/preferences"},
		{pattern: "/system"},
		{pattern: "/system/history", query: "?range=" + url.QueryEscape(payload("r"))},
		{pattern: "/docs"},
		{pattern: "/docs/*", params: []string{"tls"}},
		{pattern: "/docs/*", params: []string{url.PathEscape(payload("document"))}},
		{pattern: "/docs/search", query: q}, // has too many words
		{pattern: "/docs/search", query: "?q=" + url.QueryEscape(`"><img src=x onerror=alert(1)>`)},
	}
}

// TestConsoleHostileInput puts a payload in every field that a user can set, and opens every
// page: it is shown as text, and creates no element, no attribute and no link.
func TestConsoleHostileInput(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process", Args: forProviders})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "shop")...)
	p := &planted{site: s, token: s.adminToken(t), app: guid(t, home, "shop"),
		values: map[string]string{"query": payload("query")}}
	p.space = s.list(t, p.token, "/v3/spaces?names=dev")[0]["guid"].(string)
	p.org = s.list(t, p.token, "/v3/organizations?names=demo")[0]["guid"].(string)
	p.build = s.list(t, p.token, "/v3/apps/"+p.app+"/builds")[0]["guid"].(string)
	p.plantLines(t)
	p.plantPlatform(t)
	p.task = s.list(t, p.token, "/v3/apps/"+p.app+"/tasks")[0]["guid"].(string)
	p.revision = s.list(t, p.token, "/v3/apps/"+p.app+"/revisions")[0]["guid"].(string)
	p.service = s.list(t, p.token, "/v3/service_instances")[0]["guid"].(string)
	p.plan = p.plantBroker(t)
	p.plantOthers(t)

	browser := p.consoleClient(t, "admin", s.secret(t, "admin-password"))
	p.plantCampaigns(t, browser)
	for _, one := range hostilePages(p) {
		p.harmless(t, browser, s.API+one.path(), one.plants)
	}
	for address, plants := range map[string][]string{
		s.API + "/console/callback?state=x&error=" + url.QueryEscape(payload("e")): nil,
		s.API + "/console?said=" + url.QueryEscape(payload("said")):                {"org"},
		s.API + "/login?return_to=" + url.QueryEscape(payload("to")):               nil,
		s.API + "/login?error=" + url.QueryEscape(payload("e")):                    nil,
		s.Admin + "/mailbox": {"mail subject"},
		s.Admin + "/mailbox?to=" + url.QueryEscape(payload("query")):         {"query"},
		s.Admin + "/mailbox/view/1":                                          {"mail subject", "mail text"},
		s.Notifications + "/unsubscribe/" + url.PathEscape(payload("token")): nil,
		p.unsubscribeLink(t):                                                 {"kind", "other kind", "source"},
	} {
		p.harmless(t, browser, address, plants)
	}
	refused, err := browser.PostForm(s.API+"/login.do", url.Values{"username": {payload("query")}, "password": {"x"},
		"return_to": {payload("to")}})
	if err != nil {
		t.Fatal(err)
	}
	p.check(t, "the refused login", refused, []string{"query"})
}

// plantLines lets the app print hostile lines.
func (p *planted) plantLines(t *testing.T) {
	t.Helper()
	for field, line := range map[string][2]string{
		"log line":    {"/stdout", payload("log line") + "\x1b[31m\x1b]0;title\a\u202e"},
		"error line":  {"/stderr", payload("error line")},
		"broken line": {"/stdout", payload("broken line") + "\xff\xfe\x00"},
		"long line":   {"/stdout", strings.Repeat("long", 5000)},
	} {
		p.get(t, "shop", line[0]+"?text="+url.QueryEscape(line[1])).want(t, http.StatusOK)
		p.values[field] = payload(field)
	}
	testkit.Eventually(t, "the lines are in the log", func() bool {
		all := ""
		for _, l := range p.log(t, p.app) {
			all += l.Text
		}
		return strings.Contains(all, "log line") && strings.Contains(all, "error line") &&
			strings.Contains(all, "broken line")
	})
}

// unsubscribeLink returns the link of the planted mail.
func (p *planted) unsubscribeLink(t *testing.T) string {
	t.Helper()
	var message struct {
		Headers []struct{ Name, Value string }
	}
	p.call(t, http.MethodGet, fmt.Sprintf("%s/mailbox/messages/%d", p.Admin, p.plain), "", nil).want(t, http.StatusOK).
		into(t, &message)
	for _, h := range message.Headers {
		if h.Name == "List-Unsubscribe" {
			return strings.Trim(strings.TrimSpace(h.Value), "<>")
		}
	}
	t.Fatal("the mail has no link to unsubscribe")
	return ""
}

// consoleClient returns an HTTP client that is logged in to the console.
func (p *site) consoleClient(t *testing.T, user, password string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: p.client.Transport}
	page, err := client.Get(p.API + console.Path)
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	to := page.Request.URL.Query().Get("return_to")
	page, err = client.PostForm(p.API+"/login.do", url.Values{"username": {user}, "password": {password},
		"return_to": {to}})
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if page.Request.URL.Path != console.Path || page.StatusCode != http.StatusOK {
		t.Fatalf("the login ends at %s with status %d", page.Request.URL, page.StatusCode)
	}
	return client
}

// harmless opens a page and checks it.
func (p *planted) harmless(t *testing.T, client *http.Client, address string, plants []string) {
	t.Helper()
	r, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	p.check(t, address, r, plants)
}

// check fails for markup that no page of Ingot has, and for planted fields that the page does
// not show as they are.
func (p *planted) check(t *testing.T, name string, r *http.Response, plants []string) {
	t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := r.Header.Get("Content-Type"); r.StatusCode >= 500 || !strings.HasPrefix(kind, "text/html") {
		t.Errorf("%s: status %d, %s", name, r.StatusCode, kind)
		return
	}
	if policy := r.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("%s: the content security policy is %q", name, policy)
	}
	doc, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for n := range doc.Descendants() {
		switch n.Type {
		case html.TextNode:
			texts = append(texts, n.Data)
		case html.ElementNode:
			if wrong := wrongElement(n); wrong != "" {
				t.Errorf("%s: %s", name, wrong)
			}
			for _, a := range n.Attr {
				texts = append(texts, a.Val)
			}
		}
	}
	all := strings.Join(texts, "\n")
	for _, field := range plants {
		if value := p.values[field]; value == "" || !strings.Contains(all, value) {
			t.Errorf("%s does not show the %s %q as text", name, field, value)
		}
	}
}

// wrongElement says what an element has that no page of Ingot has.
func wrongElement(n *html.Node) string {
	get := func(name string) string {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val
			}
		}
		return ""
	}
	asset := func(name string) bool {
		return strings.HasPrefix(get(name), console.Path+"/assets/") ||
			strings.HasPrefix(get(name), "data:image/svg+xml;base64,")
	}
	ok := true
	switch n.Data {
	case "img":
		ok = asset("src")
	case "link":
		ok = asset("href")
	case "script":
		// An inline script runs only if its hash is in the policy.
		ok = asset("src") || get("src") == "" && get("type") == "module"
	case "iframe":
		ok = n.Attr != nil && get("sandbox") != "" && !strings.Contains(get("sandbox"), "allow-scripts")
	case "style":
		ok = n.Parent.Data == "head"
	case "svg": // charts
		ok = slices.Contains([]string{"spark", "bar", "chart"}, get("class"))
	case "object", "embed", "base", "frame", "math", "video", "audio":
		ok = false
	case "meta":
		ok = get("http-equiv") == ""
	}
	if !ok {
		return fmt.Sprintf("the element <%s> with %v", n.Data, n.Attr)
	}
	for _, a := range n.Attr {
		switch {
		case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
			return fmt.Sprintf("<%s> has the attribute %s", n.Data, a.Key)
		case a.Key == "href" || a.Key == "src" || a.Key == "action" || a.Key == "formaction":
			u, err := url.Parse(a.Val)
			if err != nil || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" && !asset(a.Key) {
				return fmt.Sprintf("<%s> leads to %q", n.Data, a.Val)
			}
		}
	}
	return ""
}

// TestHostileChecker checks that the test above can fail.
func TestHostileChecker(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{
		`<p title="&lt;script&gt;">&lt;script&gt;</p>`:                        false,
		`<a href="/console/apps">x</a><a href="https://example.com">y</a>`:    false,
		`<iframe sandbox="allow-popups" src="/mailbox/view/1/html"></iframe>`: false,
		`<script>alert(1)</script>`:                                           true,
		`<script src="https://example.com/x.js"></script>`:                    true,
		`<img src=x>`:                                                     true,
		`<p onclick="x()">`:                                               true,
		`<p style="x">`:                                                   true,
		`<a href="javascript:alert(1)">x</a>`:                             true,
		`<form action="data:text/html,x">`:                                true,
		`<button formaction=" javascript:alert(1)">`:                      true,
		`<iframe src="/x"></iframe>`:                                      true,
		`<iframe sandbox="allow-scripts" src="/x"></iframe>`:              true,
		`<meta http-equiv="refresh" content="0;url=https://example.com">`: true,
		`<base href="https://example.com">`:                               true,
		`<svg onload="x()"></svg>`:                                        true,
		`<style>p { background: url(https://example.com) }</style><p>in a body</p>`: false,
		`<p><style>p { background: url(https://example.com) }</style></p>`:          true,
	} {
		doc, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		found := ""
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode {
				found += wrongElement(n)
			}
		}
		if (found != "") != wrong {
			t.Errorf("%s: %q, want something wrong: %t", text, found, wrong)
		}
	}
}
