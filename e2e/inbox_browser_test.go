package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"ingot/internal/base/testkit"
)

// inboxPage is a page of an app that shows the inbox of its user. Scripts of notifications would leave a trace in the
// title.
const inboxPage = `<!DOCTYPE html><html lang="en"><head><title>My app</title><meta name="viewport" content="width=device-width">
<style>:root { color-scheme: light dark; } body { color: CanvasText; background: Canvas; }</style></head><body><main><h1>My app</h1><ingot-inbox url="%URL%"></ingot-inbox></main>
<script type="module">
import "/element.js";
document.querySelector("ingot-inbox").token = async () => (await fetch("/token")).text();
</script></body></html>`

// TestInboxElement shows notifications in a page of another origin, in a real browser, as they are sent. They are read
// and archived with the keyboard alone.
func TestInboxElement(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	p := newMailFixture(t, options{})
	p.register(t, "news")
	ann := p.createUser(t, p.admin, "ann", "p")
	p.ask(t, http.MethodPut, "/kinds/news/channels", object{"channels": []string{"inbox"}}).want(t, http.StatusOK)
	var token struct{ Token string }
	p.ask(t, http.MethodPost, "/inbox/tokens", object{"user_id": ann}).want(t, http.StatusCreated).into(t, &token)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(strings.ReplaceAll(inboxPage, "%URL%", p.Notifications)))
		case "/token":
			_, _ = w.Write([]byte(token.Token))
		default:
			content, err := os.ReadFile(filepath.Join("..", "clients", "inbox", filepath.Base(r.URL.Path)))
			if err != nil {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(content)
		}
	}))
	t.Cleanup(app.Close)
	inside := func(script string) string {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
			`(() => { const root = document.querySelector("ingot-inbox")?.shadowRoot; return root ? String(`+script+`) : ""; })()`))
		if err != nil {
			return err.Error()
		}
		return text
	}
	shows := func(what, script, want string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool { return strings.Contains(inside(script), want) })
	}
	const all, badge = `root.textContent`, `"[" + root.querySelector("header span")?.textContent + "]"`

	b.do(t, chromedp.Navigate(app.URL))
	shows("a page without permission says so", `root.querySelector(".state")?.textContent`, "fetch")
	p.ask(t, http.MethodPut, "/inbox/origins", object{"origins": []string{app.URL}}).want(t, http.StatusOK)
	b.do(t, chromedp.Navigate(app.URL))
	shows("the empty inbox", all, "No notifications.")

	send := func(subject, text string) {
		t.Helper()
		p.ask(t, http.MethodPost, "/users/"+ann, object{"kind_id": "news", "subject": subject, "text": text}).
			want(t, http.StatusOK)
		shows(subject+" arrives", all, subject)
	}
	send("First", "See https://example.com/a and javascript:document.title='ran'")
	send(`<img src=x onerror="document.title='ran'">`, `<script>document.title = "ran"</script>`)
	shows("both are unread", badge, "[2 unread]")
	shows("the newest is announced", `root.querySelector("[aria-live]").textContent`, "<img src=x")
	if got := inside(`[...root.querySelectorAll("a")].map(a => a.href).join()`); got != "https://example.com/a" {
		t.Errorf("the links are %q, want the one address", got)
	}
	if got := inside(`document.title + root.querySelectorAll("img").length`); got != "My app0" {
		t.Errorf("the title and the number of images are %q: a notification ran or became HTML", got)
	}
	b.everywhere(t, "inbox")

	// The keyboard: to the list, down to the second notification, to its buttons.
	focus := `(root.activeElement?.closest("li")?.querySelector("h3").textContent ?? root.activeElement?.tagName ?? "none") + "/" +
		(root.activeElement?.getAttribute("aria-label") ?? "")`
	tab := func(what, want string) {
		t.Helper()
		for range 10 {
			if strings.Contains(inside(focus), want) {
				return
			}
			b.do(t, chromedp.KeyEvent("\t"))
		}
		t.Fatalf("%s has no focus after ten tabs, but %s", what, inside(focus))
	}
	tab("the first notification", "onerror")
	b.do(t, chromedp.KeyEvent(kb.ArrowDown))
	shows("the arrow moves to the older one", focus, "First/")
	tab("its button", "Mark as read: First")
	b.do(t, chromedp.KeyEvent("\r"))
	shows("one is read", badge, "[1 unread]")
	shows("and the focus is still at it", focus, "First/")
	tab("its other button", "Archive: First")
	b.do(t, chromedp.KeyEvent("\r"))
	testkit.Eventually(t, "it is archived", func() bool { return !strings.Contains(inside(all), "First") })

	// What happens elsewhere is shown, too.
	p.call(t, http.MethodPost, p.base+"/inbox/read_all", token.Token, object{}).want(t, http.StatusOK)
	shows("none is unread", badge, "[]")
	send("After it", "x")
	shows("one is unread again", badge, "[1 unread]")

	// A list that was read before a notification came does not replace it.
	inside(`(() => {
		const element = root.host, list = element.client.list, load = element.load;
		window.loaded = 0;
		element.client.list = async function (...args) {
			element.client.list = list;
			const page = await list.apply(this, args);
			await new Promise((resolve) => { window.release = resolve; });
			return page;
		};
		element.load = async function (...args) {
			const page = await load.apply(this, args);
			window.loaded++;
			return page;
		};
	})()`)
	p.call(t, http.MethodPost, p.base+"/inbox/read_all", token.Token, object{}).want(t, http.StatusOK)
	shows("the list is read", `typeof window.release`, "function")
	send("While it loads", "x")
	inside(`window.release()`)
	shows("the list has been read", `window.loaded > 0`, "true")
	if got := inside(all); !strings.Contains(got, "While it loads") {
		t.Errorf("a list from before replaced the notification: %s", got)
	}
	shows("and it counts", badge, "[1 unread]")
}
