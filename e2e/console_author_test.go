package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// forProviders are the options of servers with providers of text messages, whose address is looked up when they are
// declared: it is one that no message reaches.
var forProviders = []string{"--allow-networks", "192.0.2.0/24"}

// TestConsoleNotificationsKeyboard declares a provider, writes a partial and a template that uses it, goes back to the
// first version of the template, and keeps a topic, with a keyboard and a screen reader on a phone.
func TestConsoleNotificationsKeyboard(t *testing.T) {
	t.Parallel()
	s := start(t, options{Args: forProviders})
	l := newListener(openBrowser(t))
	l.do(t, chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.API+"/console/notifications/providers"))
	l.sees(t, "heading", "Log in")
	l.write(t, "User", "admin")
	l.write(t, "Password", s.secret(t, "admin-password"))
	l.do(t, chromedp.KeyEvent("\r"))
	w := &author{s, l}
	w.provider(t)
	w.partial(t)
	w.versions(t)
	w.topic(t)
}

// author is what an author of notifications does.
type author struct {
	*Server
	*listener
}

// looks checks the page on all sizes, and goes back to the phone.
func (w *author) looks(t *testing.T, name string) {
	t.Helper()
	w.everywhere(t, name)
	w.do(t, chromedp.EmulateViewport(390, 844))
}

// provider declares one, at first without the value of its secret.
func (w *author) provider(t *testing.T) {
	w.sees(t, "heading", "Providers of text messages and push")
	w.activate(t, "link", "Declare one")
	w.sees(t, "heading", "New provider")
	w.write(t, "Name", "gateway")
	w.write(t, "Definition", `{"url": "https://192.0.2.1/{{secret \"token\"}}", "form": {"to": "{{phone}}"}}`)
	w.activate(t, "button", "Save")
	w.hears(t, `the secret "token" is used, but has no value`)
	w.looks(t, "console-provider-refused")
	w.write(t, "Value of token", "very-secret")
	w.activate(t, "button", "Save")
	w.hears(t, "The provider was saved.")
	w.sees(t, "textbox", "Value of token")
	lacks(t, w.shown(), "very-secret")
	w.activate(t, "link", "Providers")
	w.sees(t, "link", "gateway")
	w.awaits(t, "the provider's turn", func(n spoken) bool { return n.Name == "first for 100 %" })
	w.looks(t, "console-providers")
}

func (w *author) partial(t *testing.T) {
	w.activate(t, "link", "Partials")
	w.activate(t, "link", "Create one")
	w.sees(t, "heading", "New partial")
	w.write(t, "Name", "footer")
	w.write(t, "Text", "Your shop")
	w.write(t, "Language", "de")
	w.write(t, "Text", "Dein Laden")
	w.activate(t, "button", "Save")
	w.hears(t, "The partial was saved.")
	w.sees(t, "heading", "Partial footer")
	w.looks(t, "console-partial")
}

// versions writes a template twice, and goes back to what it was at first.
func (w *author) versions(t *testing.T) {
	w.activate(t, "link", "Templates")
	w.activate(t, "link", "New template")
	w.write(t, "Name", "Sale")
	w.write(t, "Text", `{{template "footer" .}} at first`)
	w.activate(t, "button", "Save")
	w.hears(t, "The template was saved.")
	w.sees(t, "heading", "Sale")
	w.write(t, "Text", `{{template "footer" .}} a mistake`)
	w.activate(t, "button", "Save")
	w.hears(t, "The template was saved.")
	w.activate(t, "link", "Versions of this template")
	w.sees(t, "heading", "From version 1 to 2")
	w.looks(t, "console-versions")
	w.activate(t, "link", "Roll back to 1")
	w.sees(t, "heading", "What a rollback would change")
	w.sees(t, "StaticText", `+{{template "footer" .}} at first`)
	w.looks(t, "console-version")
	w.activate(t, "button", "Roll back to 1")
	w.hears(t, "The template was rolled back.")
	w.sees(t, "heading", "From version 2 to 3")

	// A partial in use is not deleted, and says who uses it.
	w.activate(t, "link", "Partials")
	w.activate(t, "link", "footer")
	w.sees(t, "link", "Sale")
	w.activate(t, "DisclosureTriangle", "Delete this partial")
	w.activate(t, "button", "Delete")
	w.hears(t, `The partial "footer" is in use by the template "Sale"`)
}

func (w *author) topic(t *testing.T) {
	w.activate(t, "link", "Topics")
	w.sees(t, "heading", "Topics")
	w.write(t, "Name", "releases")
	w.write(t, "Description", "New releases")
	w.activate(t, "button", "Declare")
	w.hears(t, "The topic was saved.")
	w.sees(t, "heading", "Topic releases")
	w.write(t, "or address", "dora@example.org")
	w.activate(t, "button", "Subscribe")
	w.hears(t, "Subscribed.")
	w.sees(t, "link", "dora@example.org")
	w.looks(t, "console-topic")
	w.activate(t, "button", "Remove dora@example.org")
	w.hears(t, "They were removed")
	w.activate(t, "DisclosureTriangle", "Delete this topic")
	w.write(t, "Type releases to confirm", "releases")
	w.activate(t, "button", "Delete")
	w.hears(t, "The topic was deleted.")
}
