package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// TestConsole uses the console in a real browser: the pages of an administrator and of an
// auditor, a crash that appears without a reload, and the live log.
func TestConsole(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	const hostile = `<img src=x onerror="document.title='it ran'">`
	token := s.adminToken(t)
	space := s.list(t, token, "/v3/spaces?names=dev")[0]["guid"].(string)
	in := object{"space": object{"data": object{"guid": space}}}
	s.call(t, http.MethodPost, s.API+"/v3/apps", token, object{"name": hostile, "relationships": in}).
		want(t, http.StatusCreated)
	cfOK(t, home, pushProbe(t, "shop")...)
	app := guid(t, home, "shop")
	s.createUser(t, token, "eve", "eve-password")
	cfOK(t, home, "set-space-role", "eve", "demo", "dev", "SpaceAuditor")
	s.createUser(t, token, "nobody", "nobody-password")
	quiet := b.listen(t)

	// A browser that opens the server's address is led to the login, and from there home.
	b.do(t, chromedp.Navigate(s.API+"/"), visible("#username"))
	b.consoleLogin(t, "admin", s.secret(t, "admin-password"))
	b.awaitText(t, "1 running")
	contains(t, b.shown(), "Home", "demo", "dev", "2 apps", "1 stopped")
	b.everySize(t, "console-home")
	b.do(t, chromedp.Navigate(s.API+"/console/apps"), visible("table"))
	contains(t, b.shown(), "shop", "1/1", "shop.apps.localhost", hostile, "cf apps")
	b.everySize(t, "console-apps")
	b.do(t, typeInto("#find", "SHO\r"))
	b.awaitText(t, "Search · Ingot")
	contains(t, b.shown(), "shop")
	lacks(t, b.shown(), hostile)

	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible(".instance"))
	contains(t, b.shown(), "shop.apps.localhost", "cf restart shop", "cf stop shop", "cf scale shop -i 1",
		"cf restart-app-instance shop 0 --process web", "1/1 running")
	b.everySize(t, "console-app")

	// The page says why an instance crashed, without a reload.
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.notReloaded = true`)); err != nil {
		t.Fatal(err)
	}
	s.breaks(t, "shop", "/exit?code=3")
	b.awaitText(t, "Exited with status 3")
	contains(t, b.shown(), "Instance 0 crashed", "Exit status 3", "cf logs shop --recent")
	if same, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.notReloaded === true`)); err != nil || !same {
		t.Errorf("the page was reloaded (%v)", err)
	}
	b.everySize(t, "console-crash")
	s.reaches(t, "shop", "/", http.StatusOK)

	// The live log.
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/logs"), visible("#log .line"))
	contains(t, b.shown(), "Exit status 3", "APP/PROC/WEB/0", "cf logs shop")
	b.awaitText(t, "live")
	s.get(t, "shop", "/a-page-like-no-other").want(t, http.StatusOK)
	b.awaitText(t, "a-page-like-no-other")
	b.everySize(t, "console-logs")

	// Actions.
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible("form[action$='/stop'] button"))
	b.press(t, "form[action$='/stop'] button", "The app was stopped.")
	b.awaitText(t, "cf start shop")
	contains(t, columns(cfOK(t, home, "app", "shop")), "requested state: stopped")
	b.press(t, "form[action$='/start'] button", "The app is starting.")
	b.awaitText(t, "1/1 running")

	b.tabs(t, s, home, app)

	// An auditor sees the same without actions, a user without a role nothing.
	b.click(t, ".user summary", ".user button")
	b.do(t, clickOn(".user button"), visible("#username"))
	b.consoleLogin(t, "eve", "eve-password")
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible(".instance"))
	contains(t, b.shown(), "1/1 running", "Logs")
	lacks(t, b.shown(), "Restart", "Stop", "Scale", "cf restart")
	b.click(t, ".user summary", ".user button")
	b.do(t, clickOn(".user button"), visible("#username"))
	b.consoleLogin(t, "nobody", "nobody-password")
	contains(t, b.shown(), "You have no role in an organization yet")
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible("[role=alert]"))
	contains(t, b.shown(), "Not Found", "This app does not exist, or you have no role in its space.")
	quiet("404")
}

// tabs uses the other pages of an app.
func (b *browser) tabs(t *testing.T, s *site, home, app string) {
	t.Helper()
	open := func(name string) {
		t.Helper()
		b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/"+name), visible(".tabs a[aria-current]"))
	}
	open("environment")
	b.do(t, typeInto("input[name=name][placeholder]", "GREETING"), typeInto("tr:last-child input[name=value]", "lost"))
	b.do(t, typeInto("tbody tr:nth-last-child(3) input[name=value]", "<b>hello</b>"))
	b.press(t, "main form button", "Saved. It takes effect after a restart of the app.")
	contains(t, cfOK(t, home, "env", "shop"), "GREETING: <b>hello</b>")
	lacks(t, b.shown(), "<b>hello</b>")
	b.everySize(t, "console-environment")

	open("routes")
	b.do(t, typeInto("input[name=host]", "other-shop"))
	b.press(t, "form[action$='/routes/map'] button", "The route was mapped.")
	contains(t, b.shown(), "other-shop.apps.localhost", "port 8080")
	s.reaches(t, "other-shop", "/", http.StatusOK)
	b.everySize(t, "console-routes")
	b.press(t, "tbody tr:last-child form button", "The route was unmapped.")

	open("tasks")
	b.do(t, typeInto("input[name=command]", "echo from a task"), typeInto("input[name=name]", "greet"))
	b.press(t, "form[action$='/tasks/run'] button", "The task was started.")
	b.awaitAll(t, "succeeded", "from a task", "took") // without a reload
	b.everySize(t, "console-task")
	testkit.Eventually(t, "the task has succeeded", func() bool {
		open("tasks")
		return strings.Contains(b.shown(), "succeeded")
	})
	b.everySize(t, "console-tasks")
	b.click(t, "tbody a", "pre.log")
	b.awaitText(t, "from a task")

	open("deployments")
	contains(t, b.shown(), "Revisions", "Initial revision", "running", "Build", "staged", "Droplets")
	b.everySize(t, "console-deployments")
	open("events")
	contains(t, b.shown(), "audit.app.process.crash", "audit.app.start", "admin", "cf events shop")
	b.everySize(t, "console-events")
}

func lacks(t testing.TB, text string, none ...string) {
	t.Helper()
	for _, one := range none {
		if strings.Contains(text, one) {
			t.Errorf("%q is in\n%s", one, text)
		}
	}
}

// consoleLogin fills in the login page and waits for the console.
func (b *browser) consoleLogin(t testing.TB, user, password string) {
	t.Helper()
	b.do(t, typeInto("#username", user), typeInto("#password", password))
	b.click(t, "button", ".user")
}

// everySize checks a page on a phone and on a large screen, light and dark.
func (b *browser) everySize(t testing.TB, name string) {
	t.Helper()
	for _, width := range []int64{360, 1440} {
		b.fits(t, name, width, false)
		b.fits(t, name, width, true)
	}
}

// press clicks a button, and waits until the next page shows a text.
func (b *browser) press(t testing.TB, what, text string) {
	t.Helper()
	if strings.Contains(b.shown(), text) {
		t.Fatalf("the page shows %q before the click on %s, so it cannot be seen when the click has worked", text, what)
	}
	b.do(t, clickOn(what))
	b.awaitText(t, text)
}

// awaitText waits until the page shows a text.
func (b *browser) awaitText(t testing.TB, text string) {
	t.Helper()
	last, done := "", false
	defer func() {
		if !done {
			t.Logf("the page shows\n%s", last)
		}
	}()
	testkit.Eventually(t, "the page shows: "+text, func() bool {
		last = b.shown()
		done = strings.Contains(last, text)
		return done
	})
}

// listen collects the errors of the browser's console, which also has requests that the
// content security policy refused and those to names that do not exist here: all but this
// machine. The function it returns reports those
// without one of some texts.
func (b *browser) listen(t *testing.T) func(but ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	messages := chromedp.Console(ctx)
	var wrong []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
				wrong = append(wrong, m.String()+" "+m.URL)
			}
		}
	}()
	return func(but ...string) {
		t.Helper()
		cancel()
		<-done
		// The terminal says when drawing takes long, as on a busy machine.
		but = append(but, "task queue exceeded allotted deadline")
		for _, text := range wrong {
			if slices.ContainsFunc(but, func(one string) bool { return strings.Contains(text, one) }) {
				continue
			}
			t.Error("in the browser's console: " + text)
		}
	}
}
