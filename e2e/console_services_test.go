package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// richSchema has every kind of field.
const richSchema = `{"type":"object","additionalProperties":false,"required":["size"],"properties":{
	"size":{"type":"integer","minimum":1,"description":"Size in GB"},
	"ratio":{"type":"number","default":0.5},
	"backup":{"type":"boolean","default":true},
	"region":{"type":"string","enum":["eu","us"],"description":"Where it runs"},
	"extensions":{"type":"array","items":{"type":"string","enum":["hstore","citext"]}},
	"users":{"type":"array","items":{"type":"string"}},
	"limits":{"type":"object","properties":{"connections":{"type":"integer"},"label":{"type":"string"}}},
	"rules":{"type":"array","items":{"type":"object"},"description":"<b>not bold</b>"}}}`

// TestConsoleServices uses the pages of services, members, clients, users and audit events in a real
// browser, as a developer, a manager, an administrator and an auditor.
func TestConsoleServices(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	broker := brokertest.New(t, &brokertest.Broker{
		Polls: 1,
		Hook: func(r *brokertest.Request) (*brokertest.Reply, bool) {
			if r.Operation() == "last_operation" {
				<-release
			}
			return nil, false
		},
		Change: func(catalog map[string]any) {
			var schema map[string]any
			if err := json.Unmarshal([]byte(richSchema), &schema); err != nil {
				t.Error(err)
			}
			for _, one := range catalog["services"].([]any)[0].(map[string]any)["plans"].([]any) {
				if plan := one.(map[string]any); plan["name"] == brokertest.Async {
					plan["schemas"] = map[string]any{"service_instance": map[string]any{
						"create": map[string]any{"parameters": schema}}}
				}
			}
		},
	})
	s := startApps(t, options{Engine: "process"})
	t.Cleanup(func() { s.emptySpace(t) })
	home := s.admin(t)
	token := s.adminToken(t)
	cfOK(t, home, "create-service-broker", "fakes", brokertest.Username, brokertest.Password, broker.URL)
	cfOK(t, home, "enable-service-access", "fake")
	cfOK(t, home, pushProbe(t, "shop", "--no-start")...)
	for _, name := range []string{"dora", "mona", "eve"} {
		s.createUser(t, token, name, name+"-password")
	}
	cfOK(t, home, "set-space-role", "dora", "demo", "dev", "SpaceDeveloper")
	cfOK(t, home, "set-space-role", "eve", "demo", "dev", "SpaceAuditor")
	cfOK(t, home, "set-org-role", "mona", "demo", "OrgManager")
	c := &consoleFixture{site: s, home: home, token: token, broker: broker, release: release}
	for _, p := range []part{ //nolint:paralleltest // one after another: they share the apps and services
		{"services", c.services}, {"app", c.app}, {"provided", c.provided}, {"members", c.members}, {"clients", c.clients},
		{"users", c.users}, {"audit", c.audit}, {"auditor", c.auditor},
	} {
		t.Run(p.name, p.test)
	}
}

type consoleFixture struct {
	*site
	home, token string
	broker      *brokertest.Broker
	release     chan struct{}
}

// as opens a browser and logs a user in. Its console must stay without errors, but for those
// with a text.
func (c *consoleFixture) as(t *testing.T, user, password, but string) *browser {
	t.Helper()
	b := openBrowser(t)
	quiet := b.listen(t)
	t.Cleanup(func() { quiet(but) })
	b.do(t, chromedp.Navigate(c.API+"/"), visible("#username"))
	b.consoleLogin(t, user, password)
	return b
}

// open loads a page of the console.
func (c *consoleFixture) open(t *testing.T, b *browser, path string) {
	t.Helper()
	b.do(t, chromedp.Navigate(c.API+"/console"+path), visible("main h1"))
}

// services creates service instances as a developer, from the form of a schema, and uses them.
func (c *consoleFixture) services(t *testing.T) {
	b := c.as(t, "dora", "dora-password", "422")
	c.open(t, b, "/services")
	contains(t, b.shown(), "No service instances found.", "cf services")
	c.open(t, b, "/services/marketplace")
	contains(t, b.shown(), "For tests", "free", "paid", "9.5", "USD", "cf create-service fake PLAN NAME")
	b.everySize(t, "console-marketplace")
	b.click(t, "a[aria-label$=', plan async']", "form.form")
	contains(t, b.shown(), "Size in GB", "<b>not bold</b>", "demo / dev",
		"cf create-service fake async NAME -c PARAMETERS.json")
	b.everySize(t, "console-new-service")

	// What was typed survives a problem.
	key := func(name, text string) chromedp.Action[chromedp.Void] {
		return typeInto("[name='"+name+"']", text)
	}
	b.do(t, key("name", "orders"), key("param/size", "7"), key("param/users", "ann\nbob"), key("param/limits/connections",
		"20"), key("param/rules", "{wrong"),
		clickOn("input[value=citext]"), key("param/region", "us"))
	b.submit(t, "form.form button", "See the marked fields.")
	contains(t, b.shown(), "This is not JSON.")
	b.everySize(t, "console-new-service-problem")
	b.do(t, emptied("[name='param/rules']"), key("param/rules", `[{"allow":"all"}]`))
	b.submit(t, "form.form button", "The service instance is being created.")
	contains(t, b.shown(), "orders", "create in progress")
	b.everySize(t, "console-service-progress")
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.notReloaded = true`)); err != nil {
		t.Fatal(err)
	}
	close(c.release)
	b.awaitText(t, "create succeeded")
	if same, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.notReloaded === true`)); err != nil || !same {
		t.Errorf("the page was reloaded (%v)", err)
	}
	for _, i := range c.broker.Instances() {
		got, err := json.Marshal(i.Parameters)
		const want = `{"backup":true,"extensions":["citext"],"limits":{"connections":20},"ratio":0.5,"region":"us","rules":[{"allow":"all"}],"size":7,"users":["ann","bob"]}`
		if err != nil || string(got) != want {
			t.Errorf("the broker got %s, want %s (%v)", got, want, err)
		}
	}

	// Bind, a key, unbind.
	b.submit(t, "form[action$='/bind'] button", "Bound. Restart the app to use it.")
	b.awaitText(t, "cf unbind-service shop orders")
	b.do(t, typeInto("form[action$='/keys/create'] input[name=name]", "laptop"))
	b.submit(t, "form[action$='/keys/create'] button", "The key is being created.")
	b.awaitText(t, "cf service-key orders laptop")
	lacks(t, b.shown(), "secret-")
	b.everySize(t, "console-service")
	b.submit(t, "form[action$='/show'] button:not(.quiet)", "Credentials of laptop")
	contains(t, b.shown(), "password", "secret-", "cf service-key orders laptop")
	b.everySize(t, "console-credentials")
	app := guid(t, c.home, "shop")
	c.open(t, b, "/apps/"+app+"/services")
	contains(t, b.shown(), "orders", "fake", "async", "cf unbind-service shop orders")
	b.everySize(t, "console-app-services")
	c.open(t, b, "/services")
	contains(t, b.shown(), "orders", "fake", "async", "shop", "demo / dev")
	b.everySize(t, "console-services")
	b.do(t, typeInto("#find", "order\r"))
	b.awaitText(t, "Search · Ingot")
	b.click(t, "main ul a[href*='/services/']", "dl.card")
	c.bound(t)
	b.submit(t, "tbody tr form[action$='/drop'] button.quiet", "It is being deleted.")
	testkit.Eventually(t, "the app is not bound any more",
		func() bool { return !strings.Contains(b.shown(), "cf unbind-service") })
	b.submit(t, "tbody tr form[action$='/drop'] button.quiet", "It is being deleted.")
	testkit.Eventually(t, "the key is deleted", func() bool { return !strings.Contains(b.shown(), "laptop") })

	// Deleting needs the name.
	b.do(t, typeInto("input[name=confirm]", "order"))
	b.submit(t, "form[action$='/delete'] button", "Type the name orders to confirm.")
	b.do(t, typeInto("input[name=confirm]", "orders"))
	b.submit(t, "form[action$='/delete'] button", "The service instance is being deleted.")
	b.awaitText(t, "No service instances found.")
	if left := c.broker.Instances(); len(left) > 0 {
		t.Errorf("left at the broker: %v", left)
	}
}

// app binds from the page of an app, and changes and shares a service instance.
func (c *consoleFixture) app(t *testing.T) {
	cfOK(t, c.home, "enable-feature-flag", "service_instance_sharing")
	cfOK(t, c.home, "create-space", "second", "-o", "demo")
	cfOK(t, c.home, "set-space-role", "dora", "demo", "second", "SpaceDeveloper")
	cfOK(t, c.home, "create-service", "fake", "sync", "stock", "-c", `{"size":3}`, "--wait")
	b := c.as(t, "dora", "dora-password", "422")
	page := "/apps/" + guid(t, c.home, "shop") + "/services"
	c.open(t, b, page)
	contains(t, b.shown(), "No services are bound.", "cf bind-service shop SERVICE")
	b.do(t, typeInto("input[name=name]", "main-db"))
	b.submit(t, "form[action$='/services/bind'] button", "Bound.")
	contains(t, b.shown(), "main-db", "cf unbind-service shop stock")
	c.bound(t)
	b.submit(t, "form[action$='/unbind'] button", "It is being deleted.")
	testkit.Eventually(t, "no service is bound", func() bool {
		c.open(t, b, page)
		return strings.Contains(b.shown(), "No services are bound.")
	})

	at := "/services/" + c.list(t, c.token, "/v3/service_instances?names=stock")[0]["guid"].(string)
	c.open(t, b, at+"?parameters=1")
	contains(t, b.shown(), `"size": 3`, "cf share-service stock -s SPACE -o ORG")
	b.submit(t, "form[action$='/share'] button", "The service instance is shared.")
	contains(t, b.shown(), "demo / second")
	b.submit(t, "form[action$='/unshare'] button", "not shared with the space any more")
	b.do(t, typeInto("form[action$='/update'] select[name=plan]", "paid"))
	b.submit(t, "form[action$='/update'] button", "The update has begun.")
	b.awaitText(t, "update succeeded")
	contains(t, columns(cfOK(t, c.home, "service", "stock")), "plan: paid")
	// The broker refuses what its schema does not allow; what was typed stays.
	b.do(t, typeInto("form[action$='/update'] select[name=plan]", "sync"), typeInto("form[action$='/update'] textarea",
		`{"size": 0}`))
	b.submit(t, "form[action$='/update'] button", "Parameters are not valid")
	contains(t, b.shown(), `{"size": 0}`)
	b.everySize(t, "console-service-problem")
	cfOK(t, c.home, "delete-service", "stock", "-f", "--wait")
	cfOK(t, c.home, "delete-space", "second", "-o", "demo", "-f")
}

// provided creates a user-provided service instance, and one of the bundled broker.
func (c *consoleFixture) provided(t *testing.T) {
	const hostile = `<img src=x onerror="document.title='it ran'">`
	space := c.list(t, c.token, "/v3/spaces?names=dev")[0]["guid"].(string)
	c.call(t, http.MethodPost, c.API+"/v3/service_instances", c.token, object{
		"type": "user-provided", "name": hostile, "relationships": object{"space": object{"data": object{"guid": space}}},
	}).want(t, http.StatusCreated)
	b := c.as(t, "dora", "dora-password", "\x00")
	c.open(t, b, "/services?q=onerror")
	contains(t, b.shown(), hostile)
	b.click(t, "tbody a", "dl.card")
	contains(t, b.shown(), hostile, "cf bind-service APP '<img")
	c.open(t, b, "/services/new?type=user-provided")
	b.do(t, typeInto("input[name=name]", "mail-gateway"), typeInto("textarea", `{"url":"https://mail.example.com"}`))
	b.submit(t, "form.form button", "The service instance is being created.")
	contains(t, b.shown(), "mail-gateway", "cf bind-service APP mail-gateway")
	b.everySize(t, "console-user-provided")
	b.submit(t, "form[action$='/show'] button", "https://mail.example.com")
	if !onSystem("redis-server") {
		return
	}
	c.open(t, b, "/services/marketplace?q=redis")
	b.click(t, "article a.button", "form.form")
	contains(t, b.shown(), "What Redis does when its memory is full")
	b.do(t, typeInto("input[name=name]", "cache"), typeInto("select[name='param/maxmemory_policy']", "allkeys-lru"))
	b.submit(t, "form.form button", "The service instance is being created.")
	b.awaitText(t, "create succeeded")
	b.do(t, typeInto("form[action$='/keys/create'] input[name=name]", "k"))
	b.submit(t, "form[action$='/keys/create'] button", "The key is being created.")
	b.awaitText(t, "cf service-key cache k")
	b.submit(t, "form[action$='/show'] button", "Credentials of k")
	contains(t, b.shown(), "redis://", "password")
	contains(t, cfOK(t, c.home, "service", "cache", "--params"), "allkeys-lru")
}

// auditor sees the same without forms.
func (c *consoleFixture) auditor(t *testing.T) {
	b := c.as(t, "eve", "eve-password", "403")
	c.open(t, b, "/services")
	contains(t, b.shown(), "mail-gateway")
	lacks(t, b.shown(), "User-provided")
	b.click(t, "tbody a", "dl.card")
	lacks(t, b.shown(), "Delete", "Bind an app", "Create a key", "Show credentials", "Update")
	c.noForms(t, b)
	c.open(t, b, "/services/marketplace")
	lacks(t, b.shown(), "Create", "cf create-service")
	c.open(t, b, "/apps/"+guid(t, c.home, "shop")+"/services")
	c.noForms(t, b)
	c.open(t, b, "/members")
	lacks(t, b.shown(), "Clients", "Users")
	b.click(t, "main section a", "table.matrix")
	contains(t, b.shown(), "dora", "mona", "eve")
	lacks(t, b.shown(), "Add a user", "cf set-org-role")
	c.noForms(t, b)
	c.open(t, b, "/audit")
	c.noForms(t, b)
	for _, path := range []string{"/users", "/clients"} {
		c.open(t, b, path)
		contains(t, b.shown(), "Forbidden")
	}
}

// bound waits until no binding is being created: a page lists it before, but it cannot be
// deleted meanwhile.
func (c *consoleFixture) bound(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the bindings are created", func() bool {
		for _, b := range c.list(t, c.token, "/v3/service_credential_bindings") {
			if b["last_operation"].(map[string]any)["state"] != "succeeded" {
				return false
			}
		}
		return true
	})
}

// submit clicks the button of a form, and waits until another page shows a text: the one
// before may have the same text.
func (b *browser) submit(t testing.TB, what, text string) {
	t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.before = true`)); err != nil {
		t.Fatal(err)
	}
	b.do(t, clickOn(what))
	testkit.Eventually(t, "another page is shown", func() bool {
		other, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.before !== true`))
		return err == nil && other
	})
	b.awaitText(t, text)
}

// noForms checks that the page has no forms that change something, but the one to log out.
func (c *consoleFixture) noForms(t *testing.T, b *browser) {
	t.Helper()
	n, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](`document.querySelectorAll("main form[method=post]").length`))
	if err != nil || n > 0 {
		t.Errorf("there are %v forms (%v) on\n%s", n, err, b.shown())
	}
}

// members assigns roles as the manager of an organization, and creates a user as an
// administrator.
func (c *consoleFixture) members(t *testing.T) {
	c.createUser(t, c.token, "nina", "nina-password")
	b := c.as(t, "mona", "mona-password", "422")
	c.open(t, b, "/members")
	b.everySize(t, "console-members")
	b.click(t, "main section h2 a", "table.matrix")
	contains(t, b.shown(), "dora", "mona", "eve", "dev: developer", "Quota of the organization: default",
		"cf set-org-role USER demo ROLE")
	lacks(t, b.shown(), "Create the user")
	b.everySize(t, "console-org")
	b.do(t, typeInto("button[aria-label='Auditor: eve']", "\r")) // by keyboard
	b.awaitText(t, "The role was assigned.")
	b.do(t, visible("button[aria-label='Auditor: eve'][aria-checked=true]"))
	b.submit(t, "button[aria-label='Auditor: eve']", "The role was removed.")

	// The roles in a space; a user who is added becomes a member of the organization.
	b.click(t, ".tabs a:last-child", "button[aria-label='Developer: dora'][aria-checked=true]")
	b.do(t, typeInto("input[name=username]", "no-one-has-this-name"))
	b.submit(t, "form[action$='/invite'] button", "No user exists with the username 'no-one-has-this-name'.")
	b.do(t, emptied("input[name=username]"), typeInto("input[name=username]", "nina"))
	b.submit(t, "form[action$='/invite'] button", "The role was assigned.")
	contains(t, cfOK(t, c.home, "space-users", "demo", "dev"), "nina")
	b.do(t, visible("button[aria-label='Developer: nina'][aria-checked=true]"))
	b.everySize(t, "console-space-roles")
	b.click(t, ".tabs a:first-child", "button[aria-label='Member: nina'][aria-checked=true]")
	b.do(t, typeInto("main input[type=search]", "nin\r"), absent("button[aria-label='Member: dora']"))
	b.click(t, "tbody [popovertarget]", "button.danger")
	b.submit(t, "button.danger", "The user was removed from the organization.")
	lacks(t, cfOK(t, c.home, "org-users", "demo", "--all-users"), "nina")

	admin := c.as(t, "admin", c.secret(t, "admin-password"), "\x00")
	org := c.list(t, c.token, "/v3/organizations?names=demo")[0]["guid"].(string)
	c.open(t, admin, "/orgs/"+org)
	admin.do(t, typeInto("input[name=username]", "fred@example.com"), clickOn("input[name=create]"))
	admin.submit(t, "form[action$='/invite'] button", "It is shown only now.")
	admin.everySize(t, "console-secret")
	c.userTokens(t, "fred@example.com", c.shownSecret(t, admin))
	contains(t, cfOK(t, c.home, "org-users", "demo", "--all-users"), "fred@example.com")
}

// shownSecret returns the secret on the page.
func (c *consoleFixture) shownSecret(t *testing.T, b *browser) string {
	t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.getElementById("secret").textContent`))
	if err != nil || len(text) < 20 {
		t.Fatalf("the secret is %q (%v)", text, err)
	}
	return text
}

// clients creates, changes and deletes OAuth clients.
func (c *consoleFixture) clients(t *testing.T) {
	b := c.as(t, "admin", c.secret(t, "admin-password"), "422")
	c.open(t, b, "/clients")
	contains(t, b.shown(), "ingot-console", "system", "client_credentials", "ingot clients")
	b.everySize(t, "console-clients")
	b.click(t, "a[href$='/clients/new']", "input[name=id]")
	b.everySize(t, "console-new-client")
	b.do(t, typeInto("input[name=id]", "my-sender"), typeInto("textarea[name=authorities]",
		"notifications.write\nwrong\\scope"))
	b.submit(t, "form.form button", "is not a scope name")
	b.do(t, emptied("textarea[name=authorities]"), typeInto("textarea[name=authorities]", "notifications.write"))
	b.submit(t, "form.form button", "It is shown only now.")
	c.clientToken(t, "my-sender", c.shownSecret(t, b))

	c.open(t, b, "/clients/my-sender")
	b.everySize(t, "console-client")
	b.do(t, typeInto("textarea[name=authorities]", "\nnotifications.manage"))
	b.submit(t, "form[action$='/update'] button", "The client was changed.")
	b.submit(t, "form[action$='/secret'] button", "has a new secret")
	scopes := claims(t, c.clientToken(t, "my-sender", c.shownSecret(t, b)))["scope"]
	contains(t, fmt.Sprint(scopes), "notifications.write", "notifications.manage")
	c.open(t, b, "/clients/my-sender")
	b.do(t, typeInto("form[action$='/delete'] input[name=confirm]", "my-sender"))
	b.submit(t, "form[action$='/delete'] button", "The client was deleted.")

	// One that Ingot uses needs its name.
	c.open(t, b, "/clients/cf")
	b.do(t, typeInto("form[action$='/update'] input[name=confirm]", "yes"))
	b.submit(t, "form[action$='/update'] button", "Type the name cf to confirm.")
	b.everySize(t, "console-system-client")
}

// users changes a user of the authorization server.
func (c *consoleFixture) users(t *testing.T) {
	b := c.as(t, "admin", c.secret(t, "admin-password"), "\x00")
	c.open(t, b, "/users")
	contains(t, b.shown(), "dora", "eve", "active", "cf create-user USER PASSWORD")
	b.everySize(t, "console-users")
	b.do(t, typeInto("#find", "nin\r"))
	b.awaitText(t, "Search · Ingot")
	b.click(t, "main a[href*='/users/']", "dl.card")
	b.do(t, typeInto("select[name=group]", "cloud_controller.global_auditor"))
	b.submit(t, "form[action$='/groups/add'] button", "The groups were changed.")
	b.everySize(t, "console-user")
	contains(t, fmt.Sprint(claims(t, c.userTokens(t, "nina", "nina-password").Access)["scope"]),
		"cloud_controller.global_auditor")
	b.submit(t, "form[action$='/groups/remove'] button", "The groups were changed.")
	b.submit(t, "form[action$='/active'] button", "all sessions have ended")
	c.login(t, "nina", "nina-password").want(t, http.StatusUnauthorized)
	b.submit(t, "form[action$='/active'] button", "The user can log in.")
	b.submit(t, "form[action$='/password'] button", "It is shown only now.")
	c.userTokens(t, "nina", c.shownSecret(t, b))
}

// audit filters and exports audit events.
func (c *consoleFixture) audit(t *testing.T) {
	space := c.list(t, c.token, "/v3/spaces?names=dev")[0]["guid"].(string)
	in := object{"space": object{"data": object{"guid": space}}}
	c.call(t, http.MethodPost, c.API+"/v3/apps", c.token, object{"name": "=1+2", "relationships": in}).
		want(t, http.StatusCreated)
	b := c.as(t, "admin", c.secret(t, "admin-password"), "\x00")
	c.open(t, b, "/audit")
	contains(t, b.shown(), "audit.user.space_developer_add", "Export as CSV", "cf curl")
	b.everySize(t, "console-audit")
	c.open(t, b, "/audit?type=audit.service_key.show&actor=DOR&in=space:"+space)
	contains(t, b.shown(), "audit.service_key.show", "dora", "laptop", "demo / dev")
	lacks(t, b.shown(), "audit.service_key.create\n")
	c.open(t, b, "/audit?type=audit.user.organization_auditor_add&target=eve")
	contains(t, b.shown(), "mona", "audit.user.organization_auditor_add\n")
	b.do(t, typeInto("input[name=target]", "no such thing\r"))
	b.awaitText(t, "No events found.")
	c.open(t, b, "/audit?type=audit.app.create")
	b.click(t, "tbody summary", "pre.details")
	b.everySize(t, "console-audit-details")

	fetch := func(query string) string {
		t.Helper()
		text, err := chromedp.Run(b.ctx,
			chromedp.Evaluate[string](`(() => { const x = new XMLHttpRequest(); x.open("GET", "/console/audit/export?`+query+
				`", false); x.send(); return x.responseText })()`))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	rows, err := csv.NewReader(strings.NewReader(fetch("format=csv&type=audit.app.create"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][0] != "time" || rows[1][5] != "'=1+2" || rows[2][5] != "shop" ||
		rows[1][8] != "demo / dev" {
		t.Errorf("the rows are %q (%v)", rows, err)
	}
	lines := strings.Split(strings.TrimSpace(fetch("format=jsonl&actor=mona")), "\n")
	for _, line := range lines {
		var e struct {
			Actor struct{ Name string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Actor.Name != "mona" {
			t.Errorf("a line is %s (%v)", line, err)
		}
	}
	if len(lines) < 4 {
		t.Errorf("the lines are %q", lines)
	}
}
