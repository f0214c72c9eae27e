package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// TestConsoleEdit changes an app without a terminal: its manifest, sidecars and size, a domain and a route in it, and a
// service whose credentials are copied.
func TestConsoleEdit(t *testing.T) {
	t.Parallel()
	b := openShop(t)
	quiet := b.listen(t)
	b.editManifest(t)
	b.editSidecars(t)
	b.scaleOnce(t)
	b.domainAndRoute(t)
	b.bindAndCopy(t)
	quiet("422")
}

// field returns the value of a field of the page.
func (b *browser) field(t *testing.T, css string) string {
	t.Helper()
	selector, err := json.Marshal(css)
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, present(css))
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector(`+string(selector)+`).value`))
	if err != nil {
		t.Fatalf("the value of %s: %v", css, err)
	}
	return text
}

func (b *shopConsole) editManifest(t *testing.T) {
	const text, review = "textarea[name=text]:not([hidden])", "form[action$='/manifest/review'] button"
	b.open(t, "/apps/"+b.app+"/manifest", text)
	before := b.field(t, text)
	contains(t, before, "name: shop", "type: web")

	// Nothing is applied while the text is wrong, and what was typed stays.
	b.fill(t, text, strings.Replace(before, "  processes:", "  proceses: []\n  processes:", 1)+"  : [\n")
	b.press(t, review, "This is not valid YAML")
	contains(t, b.shown(), "Line ")
	contains(t, b.field(t, text), "proceses: []")
	b.everywhere(t, "console-manifest-refused")
	b.fill(t, text, strings.Replace(before, "health-check-type: port", "health-check-type: magic\n    healthcheck: 1", 1))
	b.press(t, review, `Health check type must be`)
	contains(t, b.shown(), "column 5", "(warning)")

	// The difference, and applying it.
	b.fill(t, text, strings.Replace(before, "  lifecycle:", "  env:\n    GREETING: a-secret-word\n  lifecycle:", 1))
	b.press(t, review, "What would change")
	contains(t, b.shown(), "env › GREETING", "after a restart", "(hidden)", "cf apply-manifest")
	lacks(t, cfOK(t, b.home, "env", "shop"), "a-secret-word")
	b.everywhere(t, "console-manifest-changes")
	b.press(t, "form[action$='/manifest/apply'] button", "The manifest was applied.")
	contains(t, cfOK(t, b.home, "env", "shop"), "a-secret-word")
	contains(t, b.shown(), "Restart the app so that they get them")
	b.everywhere(t, "console-manifest-applied")
	b.press(t, ".card.wait button", "The app is restarting.")
	b.open(t, "/apps/"+b.app+"/manifest", text)
	b.press(t, review, "Nothing: the app already is as the manifest says.")
}

func (b *shopConsole) editSidecars(t *testing.T) {
	const last = "section:last-of-type > form "
	b.open(t, "/apps/"+b.app+"/sidecars", last)
	contains(t, b.shown(), "The app has no sidecars.")
	b.fill(t, last+"input[name=name]", "sleeper")
	b.fill(t, last+"input[name=command]", "sleep 1000")
	b.fill(t, last+"input[name=memory_in_mb]", "16")
	b.fill(t, last+"textarea", "{\n  \"optional\": yes}")
	b.press(t, last+"button", "See line 2, column 15.")
	b.everywhere(t, "console-sidecars-refused")
	if got := b.field(t, last+"input[name=name]"); got != "sleeper" {
		t.Errorf("the name is %q after a problem", got)
	}
	b.fill(t, last+"textarea", `{"optional": true}`)
	b.press(t, last+"button", "The sidecar was saved.")
	contains(t, b.shown(), "Remove sleeper", "cf restart shop")
	contains(t, b.field(t, "section textarea"), "optional")
	b.everywhere(t, "console-sidecars")
	b.open(t, "/apps/"+b.app+"/sidecars", last) // without what the first save said
	b.fill(t, "section input[name=command]", "sleep 2000")
	b.press(t, "form[action$='/sidecars/save'] button", "The sidecar was saved.")
	contains(t, cfOK(t, b.home, "curl", "/v3/apps/"+b.app+"/sidecars"), "sleep 2000")
	b.press(t, "form[action$='/delete'] button", "The sidecar was removed.")
	contains(t, b.shown(), "The app has no sidecars.")
}

// scaleOnce changes count, memory and disk with one button.
func (b *shopConsole) scaleOnce(t *testing.T) {
	b.open(t, "/apps/"+b.app, "#disk-web")
	b.fill(t, "#instances-web", "2")
	b.fill(t, "#memory-web", "96")
	b.fill(t, "#disk-web", "512")
	contains(t, columns(cfOK(t, b.home, "app", "shop")), "1/1") // nothing was saved by itself
	b.press(t, "form[action$='/scale'] button", "The app is restarting with its new memory and disk.")
	b.awaitText(t, "2/2 running")
	b.awaitText(t, "96 MB each")
	b.fill(t, "#instances-web", "1")
	b.press(t, "form[action$='/scale'] button", "The process was scaled. No instance restarts for it.")
	b.awaitText(t, "1/1 running")
}

// domainAndRoute creates a domain, maps a route in it, and deletes it.
func (b *shopConsole) domainAndRoute(t *testing.T) {
	b.open(t, "/domains", "input[name=name]")
	b.do(t, typeInto("input[name=name]", "apps.localhost\r"))
	b.awaitText(t, "already in use")
	b.fill(t, "input[name=name]", "shops.example.com")
	b.press(t, "form[action$='/domains/create'] button", "The domain was created.")
	contains(t, cfOK(t, b.home, "domains"), "shops.example.com")
	b.everywhere(t, "console-domains")
	domain := b.site.list(t, b.site.adminToken(t), "/v3/domains?names=shops.example.com")[0]["guid"].(string)
	b.open(t, "/apps/"+b.app+"/routes", "select[name=domain]")
	b.is(t, "the domain is chosen", `(e => (e.value = "`+domain+`", e.value === "`+domain+`"))(document.querySelector("select[name=domain]"))`)
	b.fill(t, "input[name=host]", "first")
	b.fill(t, "input[name=path]", "/in")
	b.fill(t, "input[name=port]", "9090")
	b.is(t, "the protocol is chosen",
		`(e => (e.value = "http2", e.value === "http2"))(document.querySelector("select[name=protocol]"))`)
	b.press(t, "form[action$='/routes/map'] button", "The route was mapped.")
	contains(t, b.shown(), "first.shops.example.com/in", "port 9090 http2")
	b.open(t, "/domains", "table")
	form := "form[action$='/" + domain + "/delete'] "
	b.click(t, "details:has("+form+") summary", form+"input[name=confirm]")
	b.do(t, typeInto(form+"input[name=confirm]", "shops.example.com"))
	b.press(t, form+"button", "The domain was deleted.")
	lacks(t, cfOK(t, b.home, "domains"), "shops.example.com")
}

// bindAndCopy binds a service, restarts the app for it, and shows its credentials.
func (b *shopConsole) bindAndCopy(t *testing.T) {
	cfOK(t, b.home, "create-user-provided-service", "prices", "-p", `{"uri":"https://the-secret.example.com"}`)
	b.open(t, "/apps/"+b.app+"/services", "form[action$='/services/bind'] button")
	b.press(t, "form[action$='/services/bind'] button", "Bound. Restart the app to use it.")
	b.everywhere(t, "console-bound")
	b.press(t, ".card.wait button", "The app is restarting.")
	service := b.site.list(t, b.site.adminToken(t), "/v3/service_instances?names=prices")[0]["guid"].(string)
	b.open(t, "/services/"+service, "table form[action$='/show'] button")
	lacks(t, b.shown(), "the-secret")
	b.press(t, "table form[action$='/show'] button",
		"Anyone with these credentials can use the service as the app shop does")
	contains(t, b.shown(), "https://the-secret.example.com", "Copy", "cf env shop")
	b.everywhere(t, "console-credentials")
	b.open(t, "/audit?type=audit.service_binding.show", "main")
	contains(t, b.shown(), "audit.service_binding.show")
}

// TestConsoleDrop deploys a folder that is dropped on the form, as from a file manager.
func TestConsoleDrop(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := startApps(t, options{Engine: "process"})
	s.admin(t)
	folder := filepath.Join(t.TempDir(), "site")
	for name, text := range map[string]string{"index.html": "from a folder", "Staticfile": "", "sub/page.html": "deeper",
		".git/config": "not deployed"} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	quiet := b.listen(t)
	b.do(t, chromedp.Navigate(s.API+"/console/apps/new"), visible("#username"))
	b.consoleLogin(t, "admin", s.secret(t, "admin-password"))
	b.do(t, chromedp.Navigate(s.API+"/console/apps/new"), visible("[data-drop].ready"))
	at, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](`(() => {
		const e = document.querySelector("[data-drop]");
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return [r.left + r.width / 2, r.top + r.height / 2];
	})()`))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter,
		input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		if _, err := chromedp.Call(b.ctx, input.DispatchDragEvent, input.DispatchDragEventParams{
			Type: step, X: at[0], Y: at[1],
			Data: &input.DragData{Items: []*input.DragDataItem{}, Files: []string{folder}, DragOperationsMask: 1}}); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	b.awaitText(t, "3 files will be deployed.")
	b.do(t, typeInto("input[name=memory]", "64"), typeInto("input[name=name]", "dropped\r"))
	b.awaitText(t, "deployed and running")
	for path, want := range map[string]string{"/": "from a folder", "/sub/page.html": "deeper"} {
		testkit.Eventually(t, path+" has what was dropped", func() bool {
			r := s.get(t, "dropped", path)
			return r.Status == http.StatusOK && strings.Contains(r.String(), want)
		})
	}
	s.get(t, "dropped", "/.git/config").want(t, http.StatusNotFound)
	quiet()
}
