package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/domsnapshot"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// browser is a tab of a real browser.
type browser struct{ ctx context.Context }

// openBrowser starts a browser with its own profile. If none is installed the
// test is skipped, unless INGOT_REQUIRE_BROWSER is 1.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	// The first draws pages in the same way, with a third of the processor time.
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		const why = "no browser is installed here (on Debian: apt-get install chromium-headless-shell)"
		if os.Getenv("INGOT_REQUIRE_BROWSER") == "1" {
			t.Fatal(why + ", and INGOT_REQUIRE_BROWSER is set")
		}
		t.Skip(why)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(self), chromedp.Env(browserVariable+"="+path), chromedp.UserDataDir(profileDir(t)),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Only this machine can be reached, whatever a page requests.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.*, EXCLUDE localhost"),
		// Frames stay in the page's process, so that their text can be read.
		chromedp.Flag("disable-features", "Translate,IsolateOrigins,IsolateSandboxedIframes,site-per-process"),
		chromedp.Flag("disable-site-isolation-trials", true),
		chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancelBrowser := chromedp.NewExecAllocator(t.Context(), o...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	// Each wait has its own timeout; this one ends a browser that hangs.
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	t.Cleanup(func() {
		cancel()
		cancelTab()
		cancelBrowser()
	})
	// The browser lives as long as the context of the first use.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &browser{ctx}
}

// profileDir returns a new folder for a profile. Other processes of the browser may write to
// it for a moment after the first one has ended, at which the cleanup of t.TempDir fails.
func profileDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testkit.Eventually(t, "the profile can be removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

func (b *browser) do(t testing.TB, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, step := range steps {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			t.Fatalf("step %d: %v\nthe page shows\n%s", i+1, err, b.shown())
		}
	}
}

// click clicks the element of a CSS selector, and waits until the element of
// another one is visible on the next page, and the browser has all of that page.
func (b *browser) click(t testing.TB, what, next string) {
	t.Helper()
	b.do(t, clickOn(what), visible(next))
	testkit.Eventually(t, "the page is complete", b.parsed)
}

// parsed reports whether the browser has all of the page.
func (b *browser) parsed() bool {
	ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.readyState !== "loading"`))
	return err == nil && ok // an error: it goes to another page
}

// complete reports whether the page is loaded with its styles.
func (b *browser) complete() bool {
	ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.readyState === "complete"`))
	return err == nil && ok
}

// shown returns all text of the page and its frames, when it is complete: its title and its
// first elements come before the rest.
func (b *browser) shown() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for !b.parsed() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err().Error()
		}
	}
	// A snapshot, because reading the document would make the browser forget
	// which nodes were found before.
	got, err := chromedp.Call(ctx, domsnapshot.CaptureSnapshot,
		domsnapshot.CaptureSnapshotParams{ComputedStyles: []string{}})
	if err != nil {
		return err.Error()
	}
	const textNode = 3 // one without text has the value -1
	var text strings.Builder
	for _, d := range got.Documents {
		name := func(i int64) string { return got.Strings[d.Nodes.NodeName[i]] }
		for i, kind := range d.Nodes.NodeType {
			if kind != textNode || d.Nodes.NodeValue[i] < 0 || name(d.Nodes.ParentIndex[i]) == "SCRIPT" ||
				name(d.Nodes.ParentIndex[i]) == "STYLE" {
				continue
			}
			if s := strings.TrimSpace(got.Strings[d.Nodes.NodeValue[i]]); s != "" {
				text.WriteString(s + "\n")
			}
		}
	}
	return text.String()
}

// fits checks that the page does not scroll horizontally on a screen this wide.
// With INGOT_SCREENSHOTS=DIR it saves a screenshot.
func (b *browser) fits(t testing.TB, name string, width int64, dark bool) {
	t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	b.do(t, chromedp.EmulateViewport(width, 800))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		t.Fatal(err)
	}
	// Without its style sheets, a dark page has white text on no colour at all.
	testkit.Eventually(t, name+" has its styles", func() bool {
		styled, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](fmt.Sprintf(
			`matchMedia("(prefers-color-scheme: %s)").matches && `+
				`[...document.querySelectorAll("link[rel=stylesheet]")].every(l => l.sheet)`, scheme)))
		return err == nil && styled
	})
	over, err := chromedp.Run(b.ctx,
		chromedp.Evaluate[float64](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
	if err != nil || over > 0 {
		t.Errorf("%s is %v points too wide for a screen of %d (%v)", name, over, width, err)
	}
	// The contrast of text to its background, by the formula of WCAG 2; AA requires 4.5.
	contrast, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](leastContrast))
	if err != nil || contrast < 4.5 {
		t.Errorf("%s, %s: the contrast of some text is %.2f (%v)", name, scheme, contrast, err)
	}
	if dir := os.Getenv("INGOT_SCREENSHOTS"); dir != "" {
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture,
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// leastContrast returns the lowest contrast of any text on the page.
const leastContrast = `(() => {
	const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
	const parse = s => s.match(/[\d.]+/g).map(Number);
	const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3) } return [255, 255, 255] };
	let least = 21;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walk.nextNode();) {
		if (!n.data.trim() || ['STYLE', 'SCRIPT'].includes(n.parentElement.tagName)) continue;
		const a = light(parse(getComputedStyle(n.parentElement).color).slice(0, 3)), b = light(ground(n.parentElement));
		least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
	}
	return least;
})()`

// TestBrowser opens the web pages in a real browser: the mailbox, and the page
// of the unsubscribe link.
func TestBrowser(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	p := &mailFixture{Server: start(t, options{})}
	p.base, p.admin = p.Notifications, p.adminToken(t)
	p.newSender(t, "my-sender", sendingAuthorities...).want(t, http.StatusCreated)
	p.token = p.clientToken(t, "my-sender", "my-secret")
	p.register(t, "news", "tips", "fire-alarm")
	ann := p.createUser(t, p.admin, "ann", "p")

	// A mail that tries to run a script, and one that tries to load a resource.
	var called atomic.Int64
	spy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, hostile("http://"+r.Host))
		case "/pixel":
			called.Add(1)
		}
	}))
	t.Cleanup(spy.Close)
	send := func(kind, subject, html string) {
		t.Helper()
		p.ask(t, http.MethodPost, "/users/"+ann, object{"kind_id": kind, "subject": subject, "text": "the plain words",
			"html": html}).want(t, http.StatusOK)
		testkit.Eventually(t, subject+" is caught", func() bool {
			return strings.Contains(p.call(t, http.MethodGet, p.Admin+"/mailbox/messages?to=ann@example.org", "", nil).
				want(t, http.StatusOK).String(), subject)
		})
	}
	send("news", "What is new", hostile(spy.URL))
	send("fire-alarm", "It burns", hostile(spy.URL))

	// One after another: there is one tab.
	b.mailbox(t, p, spy.URL, &called)
	send("news", "Without HTML", "") // the link of one with HTML is for its kind only
	b.preferences(t, p)
	b.login(t, p)
}

// login tests the pages of the authorization server on a phone.
func (b *browser) login(t *testing.T, p *mailFixture) {
	fits := func(name string) {
		t.Helper()
		for _, width := range []int64{320, 375} {
			b.fits(t, name, width, false)
			b.fits(t, name, width, true)
		}
		b.everywhere(t, name)
	}
	b.do(t, chromedp.Navigate(p.Auth+"/login?return_to=%2Fpasscode"))
	contains(t, b.shown(), "Log in")
	fits("login")
	// The card is narrower than the screen, and its fields are inside of it.
	b.do(t, chromedp.EmulateViewport(320, 568))
	inside, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`(() => {
		const card = document.querySelector('main').getBoundingClientRect();
		return card.left >= 0 && card.right <= 320 && [...document.querySelectorAll('input:not([type=hidden]), button')].every(e => {
			const r = e.getBoundingClientRect();
			return r.width > 150 && r.left >= card.left && r.right <= card.right;
		});
	})()`))
	if err != nil || !inside {
		t.Errorf("the login card does not fit a phone (%v)", err)
	}
	b.do(t, typeInto("#username", "ann"), typeInto("#password", "wrong"))
	b.click(t, "button", ".problem")
	fits("login-refused")
	b.do(t, typeInto("#password", "p"))
	b.click(t, "button", ".code")
	fits("passcode")
}

// hostile is HTML whose scripts leave a visible trace if they run.
func hostile(spy string) string {
	return `<p id="words">the formatted words</p><p id="target">quiet</p>` +
		`<script>document.getElementById("target").textContent = "the script ran"</script>` +
		`<img src="` + spy + `/pixel" onerror="document.getElementById('target').textContent = 'the script ran'">` +
		`<a href="javascript:document.body.append('the script ran')">link</a>`
}

func (b *browser) mailbox(t *testing.T, p *mailFixture, spy string, called *atomic.Int64) {
	// Without the protection the trace is visible.
	b.do(t, chromedp.Navigate(spy+"/page"))
	contains(t, b.shown(), "the formatted words", "the script ran")
	if called.Load() == 0 {
		t.Fatal("the browser does not load pictures at all")
	}
	called.Store(0)

	b.do(t, chromedp.Navigate(p.Admin+"/mailbox"), visible("ol li"))
	contains(t, b.shown(), "What is new", "It burns", "ann@example.org", "2 messages.")
	b.everywhere(t, "mailbox")
	// The newest is first; the other one is opened by its link.
	b.click(t, "ol li:last-child a", "iframe")
	b.awaitText(t, "the formatted words") // the frame is loaded after the page
	shown := b.shown()
	contains(t, shown, "What is new", "the formatted words", "the plain words", "Headers", "Message-ID",
		"List-Unsubscribe")
	if strings.Contains(shown, "the script ran") {
		t.Errorf("the script of a mail ran:\n%s", shown)
	}
	b.everywhere(t, "message")
	// Not even when its HTML is opened on its own.
	html, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("iframe").src`))
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, chromedp.Navigate(html))
	shown = b.shown()
	contains(t, shown, "the formatted words", "quiet")
	if n := called.Load(); n > 0 || strings.Contains(shown, "the script ran") {
		t.Errorf("a mail called %d times, and shows\n%s", n, shown)
	}
	// Search, and back to all.
	b.do(t, chromedp.Navigate(p.Admin+"/mailbox"), typeInto("input[name=to]", "nobody\r"), visible(".empty"))
	contains(t, b.shown(), "No message was sent to an address with “nobody”.", "Show all 2")
}

func (b *browser) preferences(t *testing.T, p *mailFixture) {
	// The link of the mail, from the page.
	b.do(t, chromedp.Navigate(p.Admin+"/mailbox"))
	b.click(t, "ol li:first-child a", ".message pre")
	link, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		`[...document.querySelectorAll("tr")].find(r => r.cells[0].textContent == "List-Unsubscribe").cells[1].textContent.trim().replace(/[<>]/g, "")`))
	if err != nil || !strings.HasPrefix(link, p.Notifications+"/unsubscribe/") {
		t.Fatalf("the link to unsubscribe is %q (%v)", link, err)
	}
	b.do(t, chromedp.Navigate(link))
	contains(t, b.shown(), "The kind news", "You receive these notifications by mail.", "The kind tips")
	if strings.Contains(b.shown(), "fire-alarm") {
		t.Error("what is critical looks as if it could be refused")
	}
	b.everywhere(t, "unsubscribe")
	const saved, off, on, none = `[role=status]`, `.buttons button[value=off]`, `.buttons button[value=on]`,
		`.buttons button[value=none]`
	b.click(t, off, on)
	contains(t, b.shown(), "Your choice has been saved.", "You no longer receive these notifications.")
	b.fits(t, "unsubscribed", 390, true)
	b.click(t, on, off)
	contains(t, b.shown(), "You receive these notifications by mail.")
	// All kinds have their channels, and there are quiet hours.
	tick := func(name, value string) {
		t.Helper()
		b.do(t, clickOn(`input[name=`+name+`][value="`+value+`"]`))
	}
	save := func(next string) {
		t.Helper()
		b.click(t, `button[value=save]`, next)
	}
	tick("off", "1")
	tick("quiet", "1")
	b.do(t, typeInto("input[name=zone]", "Mars/Olympus"))
	save("[role=alert]")
	contains(t, b.shown(), "Nothing was saved.", "Mars/Olympus", "You receive these notifications by mail.")
	b.everywhere(t, "preferences-refused")
	b.do(t, chromedp.Navigate(link), visible("input[name=zone]"), clickOn(`input[name=off][value="1"]`),
		clickOn(`input[name=quiet]`), typeInto("input[name=zone]", "Europe/Berlin"))
	save(saved)
	contains(t, b.shown(), "Your choice has been saved.", "unsubscribed", "Tick a channel to receive it again.",
		"You receive these notifications by mail.")
	b.do(t, visible(`input[name=quiet]:checked`), visible(`input[name=zone][value="Europe/Berlin"]`))
	b.everywhere(t, "preferences-saved")
	tick("on", "1.email")
	b.do(t, clickOn(`input[name=quiet]`))
	save(saved)
	b.do(t, visible(`input[name=off][value="1"]`), visible(`input[name=quiet]:not(:checked)`))
	b.click(t, none, on)
	contains(t, b.shown(), "You receive none of the notifications that can be unsubscribed from.")
	b.click(t, on, off)

	// A kind that has become critical cannot be switched off.
	all := object{"news": object{"description": "The kind news", "critical": true}}
	p.ask(t, http.MethodPut, "/notifications", object{"source_name": "My Source", "notifications": all}).
		want(t, http.StatusNoContent)
	b.do(t, chromedp.Navigate(link), absent(off))
	contains(t, b.shown(), "These notifications are critical", "cannot be unsubscribed from")

	// A damaged link shows an error.
	b.do(t, chromedp.Navigate(link[:len(link)-4]))
	contains(t, b.shown(), "This link is not valid")
}
