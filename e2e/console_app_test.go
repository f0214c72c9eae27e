package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// shopConsole is a console in which an administrator is logged in, and an app.
type shopConsole struct {
	*browser
	site      *site
	home, app string
}

func openShop(t *testing.T) *shopConsole {
	t.Helper()
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "shop")...)
	c := &shopConsole{openBrowser(t), s, home, guid(t, home, "shop")}
	c.do(t, chromedp.Navigate(s.API+"/console"), visible("#username"))
	c.consoleLogin(t, "admin", s.secret(t, "admin-password"))
	return c
}

// open opens a page, and waits for an element.
func (c *shopConsole) open(t *testing.T, path, shown string) {
	t.Helper()
	c.do(t, chromedp.Navigate(c.site.API+"/console"+path), visible(shown))
}

// TestConsoleApps uses actions in the list of apps, the environment banner, builds and
// deployments.
func TestConsoleApps(t *testing.T) {
	t.Parallel()
	b := openShop(t)
	app, home := b.app, b.home
	open := func(path, shown string) { t.Helper(); b.open(t, path, shown) }
	quiet := b.listen(t)

	// The list.
	open("/apps", "table [popovertarget]")
	b.do(t, clickOn("table [popovertarget]"))
	contains(t, b.shown(), "cf restart shop", "cf stop shop")
	b.press(t, "form[action$='/stop'] button", "The app was stopped.")
	b.awaitText(t, "cf start shop")
	b.do(t, clickOn("table [popovertarget]"))
	b.press(t, "form[action$='/start'] button", "The app is starting.")
	b.awaitText(t, "1/1")

	// A changed environment is pointed out until the app is restarted.
	open("/apps/"+app+"/environment", "table")
	lacks(t, b.shown(), "The environment was changed")
	b.do(t, typeInto("input[name=name][placeholder]", "GREETING"))
	b.press(t, "form[action$='/environment/set'] button", "The environment was changed")
	b.everySize(t, "console-environment-changed")
	open("/apps/"+app, ".instance")
	contains(t, b.shown(), "The environment was changed")
	b.press(t, ".card.wait button", "The app is restarting.")
	testkit.Eventually(t, "the banner is gone",
		func() bool { return !strings.Contains(b.shown(), "The environment was changed") })

	// Deployments and builds, live.
	open("/apps/"+app+"/deployments", ".timeline")
	contains(t, b.shown(), "Timeline", "Build", "staged", "Revisions", "Droplets", "current")
	cfOK(t, home, "restart", "shop", "--strategy", "rolling", "--no-wait")
	b.awaitText(t, "Deployment")
	b.awaitText(t, "deployed")
	b.everySize(t, "console-timeline")
	b.do(t, clickOn(".timeline a"))
	b.awaitText(t, "Build of shop")
	b.do(t, visible("pre.log"))
	b.everySize(t, "console-build")
	b.settings(t, app, home)
	quiet("404", "422")
}

// settings renames an app and deletes it.
func (b *shopConsole) settings(t *testing.T, app, home string) {
	t.Helper()
	b.open(t, "/apps/"+app+"/settings", "input[name=confirm]")
	b.do(t, emptied("input[name=name]"), typeInto("input[name=name]", "store"))
	b.press(t, "form[action$='/rename'] button", "The app was renamed.")
	contains(t, cfOK(t, home, "apps"), "store")
	b.do(t, typeInto("input[name=confirm]", "shop"))
	b.press(t, "button.danger", "Type the name store to confirm.")
	b.everySize(t, "console-app-settings")
	b.do(t, emptied("input[name=confirm]"), typeInto("input[name=confirm]", "store"))
	b.press(t, "button.danger", "The app is being deleted.")
	b.awaitText(t, "Deploy your first app")
	testkit.Eventually(t, "app and route are gone", func() bool {
		return !strings.Contains(cfOK(t, home, "apps"), "store") && !strings.Contains(cfOK(t, home, "routes"), "shop")
	})
}

// TestConsoleFigures uses links to lines of the log, requests, charts, and the page of the
// system.
func TestConsoleFigures(t *testing.T) {
	t.Parallel()
	b := openShop(t)
	s, app := b.site, b.app
	open := func(path, shown string) { t.Helper(); b.open(t, path, shown) }
	quiet := b.listen(t)
	open("/apps", "table") // begins to measure

	// A link to a line leads to it, also after many others were written.
	s.get(t, "shop", "/a-page-like-no-other").want(t, http.StatusOK)
	open("/apps/"+app+"/logs", "#log .line")
	b.awaitText(t, "a-page-like-no-other")
	const link = `(() => { for (const l of document.querySelectorAll("#log .line")) if (l.textContent.includes("a-page-like-no-other")) return l.querySelector("a").getAttribute("href"); return "" })()`
	to, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](link))
	if err != nil || !strings.Contains(to, "?at=") {
		t.Fatalf("the link of a line is %q, %v", to, err)
	}
	b.do(t, chromedp.Navigate(s.API+to), visible("#log .line:target"))
	contains(t, b.shown(), "The lines around", "Show the newest lines")
	const target = `document.querySelector("#log .line:target").textContent.includes("a-page-like-no-other")`
	if is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](target)); err != nil || !is {
		t.Errorf("the link leads to another line (%v)", err)
	}
	b.everySize(t, "console-line")

	open("/apps/"+app+"/routes", "table")
	contains(t, b.shown(), "Requests", "p95", "The running instances have answered")
	b.everySize(t, "console-requests")

	// The list has charts once the app was measured twice.
	open("/apps", "table")
	b.do(t, visible(".spark"))
	b.everySize(t, "console-charts")

	open("/system", "table")
	contains(t, b.shown(), "process", "not isolated", "mail", "builds", "tasks", "There is no backup yet.",
		"cf curl /v3/ingot/system")
	b.everySize(t, "console-system")
	quiet("404")
}
