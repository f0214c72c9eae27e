package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"ingot/internal/base/testkit"
)

// TestRecurringSends repeats a send with a real server until it ends, and changes one in the console.
func TestRecurringSends(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	p := newMailFixture(t, options{})
	p.register(t, "news")
	message := object{"kind_id": "news", "subject": "Every minute", "text": "t",
		"recipients": []object{{"email": "ann@example.org"}}}
	p.ask(t, http.MethodPut, "/recurring_sends/minute", object{"cron": "* * * * *", "count": 1, "send": message}).
		want(t, http.StatusCreated)
	weekly := object{"cron": "0 9 * * mon", "zone": "Europe/Berlin", "send": message}
	contains(t, p.ask(t, http.MethodPut, "/recurring_sends/weekly", weekly).want(t, http.StatusCreated).String(),
		"T09:00:00+0", `"status":"active"`)

	b.do(t, chromedp.Navigate(p.API+"/console/notifications/recurring"), visible("#username"))
	b.consoleLogin(t, "admin", p.secret(t, "admin-password"))
	b.awaitAll(t, "weekly", "0 9 * * mon", "Europe/Berlin", "my-sender / news")
	b.everySize(t, "console-recurring")
	row := "tr:has(input[name=name][value=weekly]) "
	b.press(t, row+"form[action$='/pause'] button", "The recurring send is paused.")
	contains(t, p.ask(t, http.MethodGet, "/recurring_sends/weekly", nil).want(t, http.StatusOK).String(), `"status":"paused"`)
	b.press(t, row+"form[action$='/resume'] button", "The recurring send is active again.")
	b.do(t, clickOn(row+"summary"))
	b.press(t, row+"form[action$='/delete'] button", "The recurring send was deleted.")
	p.ask(t, http.MethodGet, "/recurring_sends/weekly", nil).want(t, http.StatusNotFound)

	var last struct {
		Status string
		Runs   int
		Send   string `json:"last_send_id"`
	}
	testkit.Eventually(t, "the next full minute", func() bool {
		p.ask(t, http.MethodGet, "/recurring_sends/minute", nil).want(t, http.StatusOK).into(t, &last)
		return last.Status == "ended"
	})
	if last.Status != "ended" || last.Runs != 1 {
		t.Fatalf("it is %+v", last)
	}
	p.receive(t, "Every minute", "ann@example.org")
	testkit.Eventually(t, "the send is completed", func() bool {
		return strings.Contains(p.ask(t, http.MethodGet, "/sends/"+last.Send, nil).want(t, http.StatusOK).String(),
			`"status":"completed"`)
	})
}
