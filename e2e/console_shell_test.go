package e2e

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"ingot/internal/base/testkit"
)

// TestConsoleShell uses a shell in a real browser: commands, the size, the exit, the audit
// events, and which users get none.
func TestConsoleShell(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	token := s.adminToken(t)
	cfOK(t, home, pushProbe(t, "shop")...)
	app := guid(t, home, "shop")
	s.createUser(t, token, "eve", "eve-password")
	cfOK(t, home, "set-space-role", "eve", "demo", "dev", "SpaceAuditor")
	quiet := b.listen(t)

	b.do(t, chromedp.Navigate(s.API+"/console"), visible("#username"))
	b.consoleLogin(t, "admin", s.secret(t, "admin-password"))
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible(".instance a[href*='/shell']"))
	b.click(t, ".instance a[href*='/shell']", "#shell canvas")
	b.awaitText(t, "connected")
	contains(t, b.shown(), "Shell in shop", "cf ssh shop --process web -i 0")
	// What a screen reader reads is the text of the page.
	b.do(t, clickOn("#shell-reader"))
	enter := func(line string) {
		t.Helper()
		b.do(t, clickOn("#shell .xterm-screen"), chromedp.KeyEvent(line+"\r"))
	}
	enter("echo $((6*7))-$VCAP_APP_PORT-answer")
	b.awaitText(t, "42-")
	b.awaitText(t, "-answer")

	// The terminal of the instance has the size of that on the page.
	columns := func(width int64, mark string) int {
		t.Helper()
		b.do(t, chromedp.EmulateViewport(width, 800))
		number := regexp.MustCompile(mark + "=([0-9]+) ([0-9]+)=")
		n := 0
		testkit.Eventually(t, "the terminal has another size", func() bool {
			enter(`clear; echo "` + mark + `=$(stty size)="`)
			found := number.FindStringSubmatch(b.shown())
			if found == nil {
				return false
			}
			n, _ = strconv.Atoi(found[2])
			return (n > 60) == (width > 600)
		})
		return n
	}
	if wide, narrow := columns(1440, "wide"), columns(360, "narrow"); narrow >= wide {
		t.Errorf("%d columns on a phone, %d on a large screen", narrow, wide)
	}
	enter("clear; ls -la --color=always")
	b.do(t, clickOn("#shell-reader"))
	b.everySize(t, "console-shell")
	// The browser of the test sends keys twice, as presses and as characters, which only this
	// mode tells apart.
	b.do(t, clickOn("#shell-reader"))

	enter("exit 3")
	b.awaitText(t, "The shell exited with status 3.")
	testkit.Eventually(t, "cf events has the login", func() bool {
		return strings.Contains(cfOK(t, home, "events", "shop"), "audit.app.ssh-authorized")
	})

	// Logging out, perhaps on another page, ends a shell.
	b.do(t, clickOn("#shell-again"))
	b.awaitText(t, "connected")
	b.foreignOrigin(t, s, app)
	const logOut = `fetch("/console/logout", {method: "POST", redirect: "manual", body: new URLSearchParams({csrf: document.querySelector("[name=csrf]").value})}); true`
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](logOut)); err != nil {
		t.Fatal(err)
	}
	b.awaitText(t, "You have been logged out.")

	// An auditor has no shell, whatever the page shows.
	b.do(t, chromedp.Navigate(s.API+"/logout.do"))
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible("#username"))
	b.consoleLogin(t, "eve", "eve-password")
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app), visible(".instance"))
	lacks(t, b.shown(), "Shell")
	const socket = `new Promise(done => {
		const socket = new WebSocket(location.href.replace(/^http/, "ws") + "/shell/socket?process=web&instance=0", ["ingot-shell", document.querySelector("[name=csrf]").value]);
		socket.onclose = e => done(e.code + " " + e.reason);
	}).then(text => { document.title = text; }); true`
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](socket)); err != nil {
		t.Fatal(err)
	}
	b.awaitText(t, "4403 Permission denied: a shell needs the role of a space developer.")
	contains(t, cfOK(t, home, "events", "shop"), "audit.app.ssh-unauthorized")
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/shell"), visible("[role=alert]"))
	contains(t, b.shown(), "A shell needs the role of a space developer.")
	// A setting that forbids shells is explained.
	cfOK(t, home, "disable-ssh", "shop")
	cfOK(t, home, "set-space-role", "eve", "demo", "dev", "SpaceDeveloper")
	b.do(t, chromedp.Navigate(s.API+"/console/apps/"+app+"/shell"), visible(".card"))
	contains(t, b.shown(), "No shell", "ssh is disabled", "cf ssh-enabled shop")
	quiet("403")
}

// foreignOrigin opens the shell's WebSocket with the cookies of the browser, as another site
// would.
func (b *browser) foreignOrigin(t testing.TB, s *site, app string) {
	t.Helper()
	cookies, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{s.API + "/console"}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range cookies.Cookies {
		all = append(all, c.Name+"="+c.Value)
	}
	csrf, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("[name=csrf]").value`))
	if err != nil {
		t.Fatal(err)
	}
	here, err := url.Parse(s.API)
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]int{"https://evil.example": http.StatusForbidden,
		"http://app." + here.Host: http.StatusForbidden, s.API: http.StatusSwitchingProtocols} {
		c, resp, err := websocket.Dial(b.ctx, s.API+"/console/apps/"+app+"/shell/socket?process=web&instance=0",
			&websocket.DialOptions{
				HTTPHeader:   http.Header{"Origin": {origin}, "Cookie": {strings.Join(all, "; ")}},
				Subprotocols: []string{"ingot-shell", csrf},
			})
		if err == nil {
			_ = c.CloseNow()
		}
		if resp == nil || resp.StatusCode != want {
			t.Errorf("from %s: %v, want %d", origin, err, want)
		}
	}
}

// console opens the shell of the console in an instance, as its page does.
func (d *sshFixture) console(t *testing.T) {
	client := d.consoleClient(t, "admin", d.secret(t, "admin-password"))
	page, err := client.Get(d.API + "/console/apps/" + d.app + "/shell?process=web&instance=1")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	csrf := regexp.MustCompile(`data-csrf="([^"]+)"`).FindSubmatch(text)
	if csrf == nil {
		t.Fatalf("the page has no terminal: %s", text)
	}
	shell, _, err := websocket.Dial(t.Context(), d.API+"/console/apps/"+d.app+
		"/shell/socket?process=web&instance=1&columns=80&rows=24", &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: http.Header{"Origin": {d.API}},
		Subprotocols: []string{"ingot-shell", string(csrf[1])},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shell.CloseNow() }()
	if err := shell.Write(t.Context(), websocket.MessageBinary,
		[]byte("echo in $((40+2)) of $CF_INSTANCE_INDEX; exit 7\n")); err != nil {
		t.Fatal(err)
	}
	all := ""
	for !strings.Contains(all, `"exit":7`) {
		_, b, err := shell.Read(t.Context())
		if err != nil {
			t.Fatalf("%v after %q", err, all)
		}
		all += string(b)
	}
	contains(t, all, "in 42 of 1")
}
