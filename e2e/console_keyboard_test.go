package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// TestConsoleKeyboard goes from an empty server to an app with a database, and through a deployment that fails and one
// that is rolled back, with a keyboard and a screen reader: on a large screen and on a phone.
func TestConsoleKeyboard(t *testing.T) {
	t.Parallel()
	for _, width := range []int64{1440, 390} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			s := startApps(t, options{Engine: "process", Bare: true})
			t.Cleanup(func() { s.emptySpace(t) })
			l := newListener(openBrowser(t))
			l.do(t, chromedp.EmulateViewport(width, 844))
			w := &walk{s, l, width < 600}
			w.begin(t)
			w.database(t)
			w.failure(t)
			w.rollBack(t)
		})
	}
}

// walk is what a newcomer does on a server.
type walk struct {
	*site
	*listener
	phone bool
}

// open goes to a section of the navigation.
func (w *walk) open(t *testing.T, section string) {
	t.Helper()
	if w.phone {
		w.activate(t, "DisclosureTriangle", "Menu")
	}
	w.activate(t, "link", section)
	w.sees(t, "heading", section)
}

// answers waits until the app answers with a text.
func (w *walk) answers(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, "the app answers "+text, func() bool {
		return strings.Contains(w.get(t, "shop", "/").String(), text)
	})
}

// begin logs in, creates an organization and a space, and deploys an app.
func (w *walk) begin(t *testing.T) {
	w.do(t, chromedp.Navigate(w.API+"/"))
	w.sees(t, "heading", "Log in")
	w.write(t, "User", "admin")
	w.write(t, "Password", w.secret(t, "admin-password"))
	w.do(t, chromedp.KeyEvent("\r"))

	w.sees(t, "heading", "Create an organization and a space")
	w.write(t, "Organization", "acme")
	w.write(t, "Space", "dev")
	w.activate(t, "button", "Create both")
	w.hears(t, "The organization and the space were created.")

	w.write(t, "Name", "shop")
	w.choose(t, "Zip file", "site/index.html", "the first version", "site/Staticfile", "")
	w.activate(t, "button", "Create and deploy")
	w.hears(t, "The app is deployed and running.")
	w.sees(t, "link", "shop.apps.localhost")
	w.answers(t, "the first version")
}

// database creates a database, binds it to the app and restarts the app.
func (w *walk) database(t *testing.T) {
	w.open(t, "Services")
	w.activate(t, "link", "Marketplace")
	w.sees(t, "heading", "Marketplace")
	w.activate(t, "link", "Create PostgreSQL")
	w.write(t, "Name", "db")
	w.activate(t, "button", "Create")
	w.sees(t, "heading", "db")
	w.sees(t, "StaticText", "create succeeded")
	w.goTo(t, "combobox", "App")
	w.activate(t, "button", "Bind")
	w.hears(t, "Bound. Restart the app to use it.")
	w.activate(t, "link", "shop")
	w.sees(t, "heading", "shop")
	w.activate(t, "button", "Restart")
	w.hears(t, "The app is restarting.")
	w.sees(t, "StaticText", "1/1 running")
	// What others change is said, too.
	token := w.adminToken(t)
	app := w.list(t, token, "/v3/apps?names=shop")[0]["guid"].(string)
	w.call(t, http.MethodPost, w.API+"/v3/apps/"+app+"/processes/web/actions/scale", token, object{"instances": 2}).
		want(t, http.StatusAccepted)
	w.hears(t, "2/2 running")
	w.activate(t, "link", "Environment")
	w.activate(t, "DisclosureTriangle", "Show credentials")
	w.awaits(t, "the credentials of the database",
		func(n spoken) bool { return strings.Contains(n.Name, "postgresql://") })
	w.answers(t, "the first version")
}

// failure deploys a version that cannot be built, and finds out why.
func (w *walk) failure(t *testing.T) {
	w.deploy(t, "readme.txt", "nothing to run")
	w.hears(t, "The app was not deployed.")
	w.sees(t, "heading", "The deployment failed")
	w.open(t, "Apps")
	w.activate(t, "link", "build failed")
	w.sees(t, "heading", "The last build failed")
	w.sees(t, "StaticText", "buildpack")
	w.activate(t, "link", "Log of the build")
	w.sees(t, "heading", "Build of shop")
	w.answers(t, "the first version")
}

// deploy deploys files as the next version of the app.
func (w *walk) deploy(t *testing.T, files ...string) {
	t.Helper()
	w.open(t, "Apps")
	w.activate(t, "link", "shop")
	w.activate(t, "link", "Deployments")
	w.activate(t, "link", "Deploy a new version")
	w.choose(t, "Zip file", files...)
	w.activate(t, "button", "Deploy the files")
}

// rollBack deploys a version with a mistake, and goes back to the one before.
func (w *walk) rollBack(t *testing.T) {
	w.deploy(t, "index.html", "a mistake", "Staticfile", "")
	w.hears(t, "The app is deployed and running.")
	w.answers(t, "a mistake")
	w.activate(t, "link", "Deployments")
	w.activate(t, "link", "Roll back to 1…")
	w.sees(t, "heading", "What a rollback would change")
	w.activate(t, "button", "Roll back to 1")
	w.hears(t, "The revision is being deployed.")
	w.answers(t, "the first version")
	w.get(t, "shop", "/").want(t, http.StatusOK)
	w.open(t, "Apps")
	w.sees(t, "StaticText", "2/2")
}
