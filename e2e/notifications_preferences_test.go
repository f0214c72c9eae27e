package e2e

import (
	"net/http"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestChannelPreferences turns channels of a kind off and on as the documentation does: as the user, and as an
// administrator for an address.
func TestChannelPreferences(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	p.register(t, "news", "offers")
	p.ask(t, http.MethodPut, "/kinds/news/channels", object{"channels": []string{"email", "inbox"}}).want(t, http.StatusOK)
	c := ingotIn(t, t.TempDir(), "INGOT_NOTIFICATIONS_URL="+p.base)
	c.ok(t, "login", "-a", p.API, "-u", "admin", "-p", p.secret(t, "admin-password"))

	send := func(subject string, to object, counts string) {
		t.Helper()
		var made struct{ ID string }
		p.ask(t, http.MethodPost, "/sends", object{"kind_id": "news", "subject": subject, "text": "t",
			"audience": to["audience"], "recipients": to["recipients"]}).
			want(t, http.StatusAccepted).into(t, &made)
		testkit.Eventually(t, subject+" is "+counts, func() bool {
			return strings.Contains(p.ask(t, http.MethodGet, "/sends/"+made.ID, nil).String(), counts)
		})
	}
	everyone := object{"audience": object{"type": "everyone"}}
	send("both", everyone, `"delivered":2`)
	contains(t, c.ok(t, "notifications", "preferences"), "my-sender   news", "email, inbox")
	contains(t, c.ok(t, "notifications", "preferences", "--off", "my-sender/news/email"), "OK", "inbox", "email")
	send("inbox only", everyone, `"delivered":1,"failed":0,"undeliverable":0,"unsubscribed":0,"canceled":0,"skipped":1`)
	c.ok(t, "notifications", "preferences", "--off", "my-sender/news/inbox")
	send("neither", everyone, `"unsubscribed":2,"canceled":0,"skipped":0`)
	c.ok(t, "notifications", "preferences", "--on", "my-sender/news/email", "--on", "my-sender/news/inbox")
	send("both again", everyone, `"delivered":2`)
	refused, _ := c.run(t, "notifications", "preferences", "--off", "my-sender/offers/inbox")
	contains(t, refused, "clients.my-sender.kinds.offers.channels.inbox: this kind does not have this channel, but email")

	address := object{"recipients": []object{{"email": "dora@example.org"}}}
	p.newSender(t, "support", "notification_preferences.admin").want(t, http.StatusCreated)
	dora := []string{"notifications", "preferences", "--user", "mailto:Dora@example.org", "--client", "support",
		"--client-secret", "my-secret"}
	c.ok(t, append(dora, "--off", "my-sender/news/email")...)
	send("to dora", address, `"unsubscribed":1`)
	c.ok(t, append(dora, "--on", "my-sender/news/email")...)
	send("to dora again", address, `"delivered":1`)
}
