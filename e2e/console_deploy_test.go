package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// attach sets the file of an input, as if the user had chosen it: a zip of files, names and contents.
func (b *browser) attach(t *testing.T, input string, files ...string) {
	t.Helper()
	var entries []entry
	for i := 0; i < len(files); i += 2 {
		entries = append(entries, entry{files[i], 0o644, files[i+1]})
	}
	content := zipWith(t, entries...)
	script := fmt.Sprintf(`(() => {
		const bytes = Uint8Array.from(atob(%q), c => c.charCodeAt(0)), chosen = new DataTransfer();
		chosen.items.add(new File([bytes], "site.zip"));
		const input = document.querySelector(%q);
		input.files = chosen.files;
		input.dispatchEvent(new Event("change"));
		return input.files.length === 1;
	})()`, base64.StdEncoding.EncodeToString(content), input)
	if done, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script)); err != nil || !done {
		t.Fatalf("a file for %s: %v", input, err)
	}
}

// TestConsoleDeploy goes from an empty space to an app that answers, without a terminal: a zip, a version that does not
// build, one that does, back to the first, and the sample.
func TestConsoleDeploy(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	quiet := b.listen(t)
	b.do(t, chromedp.Navigate(s.API+"/console/apps"), visible("#username"))
	b.consoleLogin(t, "admin", s.secret(t, "admin-password"))
	b.awaitText(t, "Deploy your first app")
	b.everySize(t, "console-apps-empty")
	b.click(t, ".card a.button", "input[name=zip]")
	b.everySize(t, "console-new-app")

	// Without files the form says what is missing, and keeps what was typed. Enter sends it.
	b.do(t, typeInto("input[name=memory]", "64"), typeInto("input[name=name]", "site\r"))
	b.awaitText(t, "Choose a zip file or a folder.")
	b.is(t, "the name is kept", `document.querySelector("input[name=name]").value === "site"`)
	b.attach(t, "input[name=zip]", "site/index.html", "the first version", "site/Staticfile", "")
	b.do(t, typeInto("input[name=name]", "\r"))
	b.awaitText(t, "deployed and running")
	contains(t, b.shown(), "site.apps.localhost", "Staticfile Buildpack")
	b.everySize(t, "console-deploying")
	shows := func(text string) {
		t.Helper()
		testkit.Eventually(t, "the app answers "+text, func() bool {
			return strings.Contains(s.get(t, "site", "/").String(), text)
		})
	}
	shows("the first version")
	app := guid(t, home, "site")

	// The name is taken now.
	b.do(t, chromedp.Navigate(s.API+"/console/apps/new"), visible("input[name=zip]"))
	b.attach(t, "input[name=zip]", "index.html", "another")
	b.do(t, typeInto("input[name=name]", "site\r"))
	b.awaitText(t, "has an app named site already")

	// A version that cannot be built replaces nothing.
	next := func(text string, files ...string) {
		t.Helper()
		b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/deployments"), visible("a.button"))
		b.click(t, "a.button", "input[name=zip]")
		b.attach(t, "input[name=zip]", files...)
		b.press(t, "form[action$='/deploy'] button", text)
	}
	next("The deployment failed", "readme.txt", "nothing to run")
	contains(t, b.shown(), "build failed", "the build failed:")
	b.everySize(t, "console-deploying-failed")
	shows("the first version")
	b.do(t, chromedp.Navigate(s.API+"/console/apps"), visible("table"))
	b.awaitText(t, "build failed")

	// The next one does, and is rolled back.
	next("deployed and running", "index.html", "the second version")
	shows("the second version")
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/deployments"), visible("a.button[href*='/revisions/']"))
	b.click(t, "a.button[href*='/revisions/']", "form[action*='/revisions/'] button")
	contains(t, b.shown(), "What a rollback would change", "Droplet", "cf rollback site --version 1")
	b.everywhere(t, "console-rollback")
	b.press(t, "form[action*='/revisions/'] button", "The revision is being deployed.")
	shows("the first version")

	// Restage, and the sample.
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible("form[action$='/restage'] button"))
	b.press(t, "form[action$='/restage'] button", "deployed and running")
	shows("the second version") // the newest package
	b.do(t, chromedp.Navigate(s.API+"/console/apps/new"), visible("input[name=zip]"))
	b.press(t, "form[action$='/sample'] button", "deployed and running")
	contains(t, b.shown(), "hello-ingot")
	contains(t, columns(cfOK(t, home, "apps")), "hello-ingot started web:1/1")

	// Variables as text.
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/environment"), visible("main a.button"))
	b.click(t, "main a.button", "textarea[name=text]")
	b.fill(t, "textarea[name=text]", "A=b\nwrong")
	b.press(t, "form[action$='/text'] button", "Line 2 has no")
	b.everySize(t, "console-environment-text")
	b.fill(t, "textarea[name=text]", "A=b=c\nB=")
	b.press(t, "form[action$='/text'] button", "Saved. It takes effect after a restart of the app.")
	contains(t, cfOK(t, home, "env", "site"), "A: b=c")
	quiet("422")
	s.get(t, "site", "/").want(t, http.StatusOK)
}
