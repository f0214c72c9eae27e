package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestFigures draws numbers of deliveries, whatever the names of kinds, domains and templates are.
func TestFigures(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, false)
	var asked string
	points := func(n int) string {
		return fmt.Sprintf(`{"accepted":[1,%d],"delivered":[0,%d],"failed":[0,0],"undeliverable":[0,0],"unsubscribed":[0,0],
			"canceled":[0,0],"skipped":[0,0],"digested":[0,0],"throttled":[0,0],"retried":[1,0]}`, n, n)
	}
	const hostile = `\"><script>alert(1)</script>`
	w.Console.Options.Notifications = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		fmt.Fprintf(rw, `{"times":["2026-11-18T00:00:00Z","2026-11-19T00:00:00Z"],"total":%s,"rest":%s,"groups":[
			{"client_id":"%s","kind_id":"%s","channel":"email","domain":"%s","template_id":"%s","template_version":3,"figures":%s},
			{"client_id":"shop","kind_id":"","channel":"inbox","domain":"","template_id":"","figures":%s}]}`,
			points(70), points(7), hostile, hostile, hostile, hostile, points(60), points(3))
	})
	w.Session.Scopes = everyScope
	w.Login()
	for by, shows := range map[string][]string{
		"kind": {"shop / no kind"}, "channel": {"inbox"}, "domain": {"no address"},
		"template": {"version 3", "not rendered"}, "<i>": {"shop / no kind"},
	} {
		status, text := w.Get(Path + "/notifications/figures?in=48+hours&by=" + by + "&kind_id=%3Cb%3E")
		for _, want := range append(shows, "<svg", "others", `<td class="n" data-label="Delivered">70</td>`, "&lt;b&gt;",
			"as a table", "--hours 48") {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("by %s: %d, %q is not in the page", by, status, want)
			}
		}
		for _, not := range []string{"<script>alert", "<b>", "<i>"} {
			if strings.Contains(text, not) {
				t.Errorf("by %s: %q is in the page", by, not)
			}
		}
		if !strings.Contains(asked, "client_id=%2A") || !strings.Contains(asked, "kind_id=%3Cb%3E") ||
			!strings.Contains(asked, "period=hour") {
			t.Errorf("asked for %s", asked)
		}
	}
	// Without the scope of administrators only what the console sends is shown.
	w.Session.Scopes = []string{"notifications.write"}
	w.Login()
	status, _ := w.Get(Path + "/notifications/figures")
	if status != http.StatusOK || strings.Contains(asked, "client_id") {
		t.Errorf("%d, asked for %s", status, asked)
	}
}

// TestReactions shows opens and clicks only where something was counted, also if nothing was delivered meanwhile.
func TestReactions(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, false)
	opened := 0
	w.Console.Options.Notifications = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		points := fmt.Sprintf(`{"accepted":[3,0],"delivered":[3,0],"failed":[0,0],"undeliverable":[0,0],"unsubscribed":[0,0],
			"canceled":[0,0],"skipped":[0,0],"digested":[0,0],"throttled":[0,0],"retried":[0,0],
			"opened":[0,%d],"clicked":[0,0],"opens":[0,%d],"clicks":[0,0]}`, opened, 3*opened)
		fmt.Fprintf(rw, `{"times":["2026-11-18T00:00:00Z","2026-11-19T00:00:00Z"],"total":%s,"rest":%s,"groups":[
			{"client_id":"shop","kind_id":"news","figures":%s}]}`, points, points, points)
	})
	w.Session.Scopes = everyScope
	w.Login()
	for _, opened = range []int{0, 17} {
		status, text := w.Get(Path + "/notifications/figures")
		for _, part := range []string{`<td class="n" data-label="Opened">17</td>`, `<td class="n" data-label="Opens">51</td>`,
			">Clicked<", "of mail to recipients who allow it"} {
			if status != http.StatusOK || strings.Contains(text, part) != (opened > 0) {
				t.Errorf("%d opened: %d, %q is in the page: %t", opened, status, part, opened == 0)
			}
		}
	}
}
