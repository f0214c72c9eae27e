package e2e

import (
	"net/http"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestRecipientData finds, exports, shows and erases what the service stores about a recipient, as the documentation
// does.
func TestRecipientData(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	p.register(t, "news")
	p.ask(t, http.MethodPost, "/sends", object{"kind_id": "news", "subject": "New bells", "text": "Dear Dora",
		"recipients": []object{{"email": "dora@example.org", "data": object{"name": "Dora"}}, {"email": "eve@example.org"}}}).
		want(t, http.StatusAccepted)
	testkit.Eventually(t, "both mails are delivered", func() bool {
		return strings.Count(p.ask(t, http.MethodGet, "/messages?status=delivered", nil).String(), "@example.org") == 2
	})
	csv := string(p.ask(t, http.MethodGet, "/messages?channel=email", nil, header{"Accept", "text/csv"}).Body)
	contains(t, csv, "id,send_id,status,channel,", ",delivered,email,,dora@example.org,1,")

	c := ingotIn(t, t.TempDir(), "INGOT_NOTIFICATIONS_CLIENT=my-sender", "INGOT_NOTIFICATIONS_SECRET=my-secret",
		"INGOT_NOTIFICATIONS_URL="+p.base)
	c.ok(t, "login", "-a", p.API, "-u", "admin", "-p", p.secret(t, "admin-password"))
	contains(t, c.ok(t, "notifications", "messages", "--email", "dora@example.org"), "delivered", "dora@example.org")
	shown := c.ok(t, "notifications", "recipient-data", "--email", "dora@example.org", "--json")
	contains(t, shown, `"name": "Dora"`, "New bells")
	if strings.Contains(shown, "eve@") {
		t.Errorf("another recipient is shown: %s", shown)
	}
	contains(t, c.ok(t, "notifications", "erase-recipient", "--email", "Dora@example.org", "-f"),
		"messages: 1 (not out yet: 0)", "list entries: 1")

	for _, path := range []string{"/recipient_data?email=dora@example.org", "/messages"} {
		if body := p.ask(t, http.MethodGet, path, nil).String(); strings.Contains(body, "dora") {
			t.Errorf("%s after the erasure: %s", path, body)
		}
	}
	contains(t, p.ask(t, http.MethodGet, "/messages", nil).String(), "eve@example.org")
}
