package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
	"ingot/internal/notify/mail/mailtest"
)

// TestConsoleNotifications uses the pages of the notification service in a real browser as an
// administrator: kinds, templates and the mailbox.
func TestConsoleNotifications(t *testing.T) {
	t.Parallel()
	b, p, quiet := openNotifications(t)
	b.notifyKinds(t, p)
	b.notifyTemplates(t, p)
	b.notifyMailbox(t, p)
	// Forms with mistakes, and what the hostile mail tried.
	quiet("status of 4", "/console/notifications/mailbox/")
}

// openNotifications starts a server with a client that has sent a notification to eve, and logs in
// to the console as an administrator.
func openNotifications(t *testing.T) (*browser, *mailFixture, func(but ...string)) {
	t.Helper()
	b := openBrowser(t)
	p := &mailFixture{Server: start(t, options{})}
	p.base, p.admin = p.Notifications, p.adminToken(t)
	p.newSender(t, "my-sender", sendingAuthorities...).want(t, http.StatusCreated)
	p.token = p.clientToken(t, "my-sender", "my-secret")
	p.register(t, "news", "tips", "fire-alarm")
	eve := p.createUser(t, p.admin, "eve", "eve-password")
	p.newSpace(t, eve)
	p.ask(t, http.MethodPost, "/users/"+eve, object{"kind_id": "news", "subject": "For eve", "text": "the words"}).
		want(t, http.StatusOK)
	quiet := b.listen(t)
	b.do(t, chromedp.Navigate(p.API+"/console/notifications"), visible("#username"))
	b.consoleLogin(t, "admin", p.secret(t, "admin-password"))
	return b, p, quiet
}

// TestConsoleNotificationsSends sends from the console, and uses it as a user who may only choose
// what to receive.
func TestConsoleNotificationsSends(t *testing.T) {
	t.Parallel()
	b, p, quiet := openNotifications(t)
	b.registerKind(t)
	b.notifySends(t, p)
	b.notifySuppressions(t, p)

	// A user without scopes chooses what to receive, and sees nothing else.
	b.click(t, ".user summary", ".user button")
	b.do(t, clickOn(".user button"), visible("#username"))
	b.consoleLogin(t, "eve", "eve-password")
	lacks(t, b.shown(), "Notifications")
	b.click(t, ".user summary", ".user a")
	b.do(t, clickOn(".user a"), visible("input[name=none]"))
	b.awaitAll(t, "My Source", "The kind news", "The kind tips", "ingot notifications preferences")
	lacks(t, b.shown(), "fire-alarm")
	b.everySize(t, "console-preferences")
	b.do(t, clickOn("input[name=on][value='2.email']"), clickOn("input[name=quiet]"))
	b.press(t, "main form button", "Nothing was saved.")
	contains(t, b.shown(), "Quiet hours, zone")
	b.everywhere(t, "console-preferences-refused")
	b.do(t, typeInto("input[name=zone]", "Europe/Berlin"))
	b.press(t, "main form button", "Your preferences were saved.")
	var have struct {
		Clients map[string]map[string]struct{ Email bool }
	}
	p.call(t, http.MethodGet, p.base+"/user_preferences", p.userTokens(t, "eve", "eve-password").Access, nil).
		want(t, http.StatusOK).into(t, &have)
	if mine := have.Clients["my-sender"]; mine["news"].Email || !mine["tips"].Email {
		t.Errorf("the preferences are %+v", mine)
	}
	for _, page := range []string{"templates", "sends", "mailbox", "suppressions", "send"} {
		b.do(t, chromedp.Navigate(p.API+"/console/notifications/"+page), visible("[role=alert]"))
		b.awaitAll(t, "Forbidden")
	}
	quiet("status of 4") // forms with mistakes, and pages that eve may not open
}

// TestConsoleNotificationsFailures retries a message that a mail server refused once.
func TestConsoleNotificationsFailures(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	sink := mailtest.New(t, mailtest.Options{
		Fault: mailtest.Times(1, mailtest.At(mailtest.Dot, mailtest.Action{Reply: "554 5.6.0 not like this"}))})
	p := &mailFixture{Server: start(t, options{Args: []string{"--smtp-url", sink.URL("", "")}}), sink: sink}
	p.base, p.admin = p.Notifications, p.adminToken(t)
	p.newSender(t, "my-sender", sendingAuthorities...).want(t, http.StatusCreated)
	p.token = p.clientToken(t, "my-sender", "my-secret")
	p.ask(t, http.MethodPost, "/emails", object{"to": "late@example.org", "subject": "Refused once", "text": "t"}).
		want(t, http.StatusOK)

	b.do(t, chromedp.Navigate(p.API+"/console/notifications/sends"), visible("#username"))
	b.consoleLogin(t, "admin", p.secret(t, "admin-password"))
	b.awaitText(t, "Refused once")
	b.click(t, "tbody a", ".counts")
	b.awaitAll(t, "Not delivered", "not like this", "late@example.org", "Retry 1 failed")
	b.everySize(t, "console-failed")
	b.press(t, "form[action$='/retry'] button", "It is being sent again.")
	b.do(t, visible(".badge.delivered"))
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/mailbox"))
	b.awaitText(t, "There is no mailbox: mail is sent to a mail server.")
}

// fill sets a field as if it had been typed.
func (b *browser) fill(t testing.TB, what, text string) {
	t.Helper()
	value, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	selector, _ := json.Marshal(what)
	b.do(t, present(what))
	_, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool](`(() => {
		const field = document.querySelector(`+string(selector)+`);
		field.focus();
		field.value = `+string(value)+`;
		field.dispatchEvent(new Event("input", {bubbles: true}));
		return true;
	})()`))
	if err != nil {
		t.Fatalf("fill in %s: %v", what, err)
	}
}

// awaitAll waits until the page shows all texts.
func (b *browser) awaitAll(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		b.awaitText(t, text)
	}
}

// is waits until a script returns true: the page may still be loading.
func (b *browser) is(t testing.TB, what, script string) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script))
		return err == nil && ok
	})
}

func (b *browser) notifyKinds(t *testing.T, p *mailFixture) {
	t.Helper()
	b.awaitText(t, "Kinds of notifications")
	b.awaitAll(t, "My Source", "client my-sender", "The kind news", "critical", "Send me a test",
		"ingot notifications kinds")
	b.is(t, "the volume is drawn", `document.querySelectorAll("svg.spark rect").length > 0`)
	b.everySize(t, "console-kinds")
	b.press(t, "form[action$='/kinds/fire-alarm/test'] button", "A test is on its way to you.")
	b.registerKind(t)
}

// registerKind registers a kind of the console, on the page of kinds.
func (b *browser) registerKind(t *testing.T) {
	t.Helper()
	b.fill(t, "input[name=id]", "announcement")
	b.fill(t, "input[name=description]", "Announcements of the operators")
	b.press(t, "form[action$='/notifications/kinds'] button", "The kind was registered.")
	b.awaitAll(t, "client ingot-console", "Announcements of the operators")
}

func (b *browser) notifyTemplates(t *testing.T, p *mailFixture) {
	t.Helper()
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/templates/new"), visible("#template-editor"))
	b.awaitText(t, "This is the")
	b.fill(t, "input[name=name]", "Shop <b>")
	b.fill(t, "#part-html", "<h1>Shop</h1>\n<p>ä {{.Nope}}</p>")
	b.awaitText(t, "Line 2, column 8: unknown variable .Nope")
	b.is(t, "the field is marked", `document.getElementById("part-html").getAttribute("aria-invalid") === "true"`)
	// The link of an error moves the cursor there.
	b.do(t, clickOn("#problems-html a"))
	b.is(t, "the cursor is at the error",
		`(f => f === document.activeElement && f.value.slice(f.selectionStart).startsWith(".Nope"))(document.getElementById("part-html"))`)
	b.everySize(t, "console-template-error")
	// Without the script's help the server says the same.
	b.press(t, ".save button:not([name])", "The template was not saved: it has errors.")
	b.awaitAll(t, "Line 2, column 8: unknown variable .Nope")
	b.is(t, "what was written is still there", `document.querySelector("input[name=name]").value === "Shop <b>"`)

	b.fill(t, "#part-html", `<h1>The shop</h1><script>document.title = "it ran"</script>`+"\n<p></p>{{.HTML}}")
	b.awaitText(t, "The shop")
	b.do(t, absent("#problems-html li"))
	// The picker inserts at the cursor.
	b.do(t, clickOn(".variables summary"))
	if _, err := chromedp.Run(b.ctx,
		chromedp.Evaluate[bool](`(f => { f.focus(); const at = f.value.indexOf("</p>"); f.setSelectionRange(at, at); return true })(document.getElementById("part-html"))`)); err != nil {
		t.Fatal(err)
	}
	b.do(t, clickOn(".variables li:nth-child(19) button"))
	b.is(t, "the variable is inserted", `document.getElementById("part-html").value.includes("<p>{{.Space}}</p>")`)
	b.awaitText(t, "sample-space")
	b.do(t, clickOn(".variables summary"))
	b.everySize(t, "console-template")
	b.do(t, clickOn("#view-phone"), clickOn("#view-dark"), present(".frames[aria-busy=false]"))
	b.is(t, "the preview is as wide as a phone",
		`document.querySelector(".frames iframe").getBoundingClientRect().width <= 360`)
	b.everySize(t, "console-template-phone-dark")
	b.do(t, clickOn("#view-text"))
	b.awaitText(t, "This is the text of a sample message.")

	b.press(t, ".save button[name=test]", "The template was saved, and a test is on its way to you.")
	b.is(t, "it is the page of a template",
		`location.pathname.startsWith("/console/notifications/templates/") && document.title.startsWith("Shop <b>")`)
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/templates"), visible("table"))
	b.awaitAll(t, "Default template", "Shop <b>", "my-sender/news", "Ingot platform", "ingot notifications templates")
	b.everySize(t, "console-templates")

	// Without scripts, the button loads the preview.
	scripts := func(off bool) {
		t.Helper()
		if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: off}); err != nil {
			t.Fatal(err)
		}
	}
	scripts(true)
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/templates/default"), present("#preview-now"))
	lacks(t, b.shown(), "of a sample message.")
	b.press(t, "#preview-now", "of a sample message.")
	scripts(false)

	// The kind gets the template.
	b.do(t, chromedp.Navigate(p.API+"/console/notifications"), visible("table"))
	const form = `form[action$='/kinds/news/template']`
	if _, err := chromedp.Run(b.ctx,
		chromedp.Evaluate[bool](`(s => { s.selectedIndex = [...s.options].findIndex(o => o.textContent === "Shop <b>"); return s.selectedIndex > 0 })(document.querySelector("`+form+` select"))`)); err != nil {
		t.Fatal(err)
	}
	b.press(t, form+" button", "The template was assigned.")
	b.is(t, "it is assigned", `document.querySelector("`+form+` select").selectedOptions[0].textContent === "Shop <b>"`)
}

// notifyMailbox reads the test of the template, and a mail that tries to run scripts and to load
// something.
func (b *browser) notifyMailbox(t *testing.T, p *mailFixture) {
	t.Helper()
	var called atomic.Int64
	spy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	t.Cleanup(spy.Close)
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/mailbox"), visible("table"))
	b.awaitText(t, "For eve")
	b.awaitAll(t, "admin@localhost", "eve@example.org")
	b.everySize(t, "console-mailbox")
	// A mail appears without a reload.
	p.ask(t, http.MethodPost, "/emails", object{"to": "late@example.org", "subject": "Just now", "text": "t",
		"html": "<p>h</p>"}).want(t, http.StatusOK)
	b.awaitText(t, "late@example.org")
	b.do(t, typeInto("main input[name=q]", "FOR EVE\r"))
	b.awaitText(t, "1 mail")
	lacks(t, b.shown(), "Just now")

	// The service removes active content before it sends a mail; the frame must not depend on it.
	files, err := filepath.Glob(filepath.Join(p.Dir, "*", "mailbox", "*.mail"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the mailbox has no files (%v)", err)
	}
	var number string
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(raw), "\n")
		if !strings.Contains(head, "For eve") {
			continue
		}
		number = strings.TrimLeft(strings.TrimSuffix(filepath.Base(name), ".mail"), "0")
		mail := head + "\nSubject: hostile\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + hostile(spy.URL)
		if err := os.WriteFile(name, []byte(mail), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.click(t, "tbody a", "iframe")
	b.awaitText(t, "the formatted words")
	b.awaitAll(t, "quiet", "Status of the message")
	b.everySize(t, "console-mail")
	b.is(t, "the frame is a sandbox that allows only links",
		`document.querySelector("iframe").getAttribute("sandbox") === "allow-popups allow-popups-to-escape-sandbox"`)
	// Not even when its HTML is opened on its own.
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/mailbox/"+number+"/html"))
	b.awaitAll(t, "the formatted words", "quiet")
	lacks(t, b.shown(), "the script ran")
	if n := called.Load(); n > 0 {
		t.Errorf("a mail sent %d requests", n)
	}
	for view, text := range map[string]string{"headers": "hostile", "source": "Content-Type: text/html",
		"html&dark=1": "the formatted words"} {
		b.do(t, chromedp.Navigate(p.API+"/console/notifications/mailbox/"+number+"?view="+view), visible(".facts"))
		b.awaitText(t, text)
		if strings.HasPrefix(view, "html") {
			lacks(t, b.shown(), "the script ran")
		}
	}
	b.click(t, ".facts a", "dl")
	b.awaitText(t, "delivered")
	b.awaitAll(t, "Message to eve@example.org", "For eve", "ingot notifications timeline")
	b.everySize(t, "console-message")

	// The test of the template, with it.
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/mailbox?q=admin@localhost"), visible("tbody a"))
	b.click(t, "tbody a", "iframe")
	b.awaitText(t, "The shop")
}

func (b *browser) notifySends(t *testing.T, p *mailFixture) {
	t.Helper()
	form := func(to string) {
		t.Helper()
		b.do(t, chromedp.Navigate(p.API+"/console/notifications/send"), visible("form.stack"))
		b.do(t, clickOn("input[name=to][value="+to+"]"))
		b.fill(t, "input[name=subject]", "To "+to)
		b.fill(t, "textarea[name=text]", "It is <b>spring</b>.")
	}
	form("space")
	b.everySize(t, "console-send")
	b.press(t, "form.stack button", "1 recipient")
	b.awaitAll(t, "the space ", "It is <b>spring</b>.", "ingot notifications send announcement --space ")
	b.everySize(t, "console-review")
	b.press(t, "form[action$='/deliver'] button", "completed")
	b.awaitAll(t, "To space", "eve@example.org", "delivered")
	b.everySize(t, "console-sent")

	// A campaign of version 2 of the API.
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/campaigns"), visible(".tabs"))
	b.fill(t, "form[action$='/senders'] input[name=name]", "Newsroom")
	b.press(t, "form[action$='/senders'] button", "The senders and campaign types were changed.")
	b.fill(t, "form[action$='/types'] input[name=name]", "weekly")
	b.fill(t, "form[action$='/types'] input[name=description]", "The week")
	b.press(t, "form[action$='/types'] button", "The week")
	b.campaignTemplate(t, p)
	b.everySize(t, "console-campaigns")
	form("organization")
	b.is(t, "the campaign type is chosen", `(s => { s.value = [...s.options].find(o => o.textContent === "weekly").value; return s.value.startsWith("campaign:") })(document.querySelector("select[name=kind]"))`)
	b.press(t, "form.stack button", "Newsroom / weekly")
	b.press(t, "form[action$='/deliver'] button", "completed")
	b.awaitAll(t, "To organization", "eve@example.org")
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/mailbox?q=To%20organization"), visible("tbody a"))
	b.click(t, "tbody a", ".facts") // sent as text, so there is no formatted part
	b.awaitText(t, "The weekly mail")

	// What is wrong is said in the form, which keeps what was written.
	form("scope")
	b.fill(t, "input[name=scope]", "no.such.scope")
	b.do(t, clickOn("form.stack button"), visible("[role=alert]"))
	b.is(t, "what was written is still there", `document.querySelector("textarea").value === "It is <b>spring</b>."`)

	// Everyone has to be typed: the browser and the server both want it.
	form("everyone")
	b.press(t, "form.stack button", "2 recipients")
	b.awaitAll(t, "everyone", "to send it to everyone")
	b.everySize(t, "console-everyone")
	if _, err := chromedp.Run(b.ctx,
		chromedp.Evaluate[bool](`(f => { f.noValidate = true; return true })(document.querySelector("form.stack"))`)); err != nil {
		t.Fatal(err)
	}
	b.press(t, "form[action$='/deliver'] button", "Nothing was sent. Type the word everyone")
	b.fill(t, "input[name=confirm]", "everyone")
	b.press(t, "form[action$='/deliver'] button", "completed")
	b.awaitAll(t, "To everyone", "admin@localhost")

	b.do(t, chromedp.Navigate(p.API+"/console/notifications/sends"), visible("table"))
	b.awaitAll(t, "To everyone", "To space", "For eve", "my-sender / news", "ingot-console / announcement")
	lacks(t, b.shown(), "To scope")
	b.everySize(t, "console-sends")
	testkit.Eventually(t, "everyone has mail", func() bool {
		found := p.call(t, http.MethodGet, p.Admin+"/mailbox/messages?q=To+everyone", "", nil).want(t, http.StatusOK).String()
		return strings.Contains(found, `"total":2`)
	})
}

// campaignTemplate gives the campaign type its own template.
func (b *browser) campaignTemplate(t *testing.T, p *mailFixture) {
	t.Helper()
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/templates/new?for=campaigns"), visible("#template-editor"))
	b.fill(t, "input[name=name]", "Week <i>")
	b.fill(t, "#part-html", "<h2>The weekly {{.Nope}}</h2>{{.HTML}}")
	b.submit(t, ".save button", "The template was not saved: it has errors.")
	b.fill(t, "#part-html", "<h2>The weekly</h2>{{.HTML}}")
	b.submit(t, ".save button", "The template was saved.")
	b.is(t, "it can be changed",
		`document.title.startsWith("Week <i>") && document.getElementById("part-html").value.includes("The weekly</h2>")`)
	b.fill(t, "#part-text", "The weekly mail\n{{.Text}}")
	b.submit(t, ".save button", "The template was saved.")
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/campaigns"), visible("select[name=template]"))
	b.is(t, "the template is chosen",
		`(s => { s.selectedIndex = [...s.options].findIndex(o => o.textContent === "Week <i>"); return s.selectedIndex > 0 })(document.querySelector("select[name=template]"))`)
	b.press(t, "form[action$='/template'] button", "The senders and campaign types were changed.")
	b.is(t, "it is assigned",
		`document.querySelector("select[name=template]").selectedOptions[0].textContent === "Week <i>"`)
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/templates"), visible("table"))
	b.awaitAll(t, "Campaign templates", "Week <i>", "Newsroom / weekly")
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/campaigns"), visible("select[name=template]"))
}

func (b *browser) notifySuppressions(t *testing.T, p *mailFixture) {
	t.Helper()
	b.do(t, chromedp.Navigate(p.API+"/console/notifications/suppressions"), visible("input[name=email]"))
	b.fill(t, "input[type=email]", "gone@example.org")
	b.press(t, "form[action$='/add'] button", "Nothing is sent to this address any more.")
	b.awaitAll(t, "gone@example.org", "manual", "added by an administrator")
	b.everySize(t, "console-suppressions")
	b.press(t, "form[action$='/remove'] button", "Mail is sent to this address again.")
	b.awaitAll(t, "No address is suppressed.")
}
