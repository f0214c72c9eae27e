package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// TestQuietHours sets quiet hours and limits as the documentation does.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	p.register(t, "news", "offers")
	p.ask(t, http.MethodPut, "/kinds/news/channels", object{"channels": []string{"email", "inbox"}}).want(t, http.StatusOK)
	c := ingotIn(t, t.TempDir(), "INGOT_NOTIFICATIONS_URL="+p.base)
	c.ok(t, "login", "-a", p.API, "-u", "admin", "-p", p.secret(t, "admin-password"))

	send := func(kind string, body object, counts string) string {
		t.Helper()
		var made struct{ ID string }
		body["kind_id"], body["subject"], body["text"] = kind, "Hello", "t"
		p.ask(t, http.MethodPost, "/sends", body).want(t, http.StatusAccepted).into(t, &made)
		testkit.Eventually(t, "counts are "+counts, func() bool {
			return strings.Contains(p.ask(t, http.MethodGet, "/sends/"+made.ID, nil).String(), counts)
		})
		return made.ID
	}
	admin := func() object { return object{"audience": object{"type": "everyone"}} }
	now := time.Now().UTC()
	days := strings.ToLower(now.Format("Mon") + "," + now.Add(24*time.Hour).Format("Mon"))
	contains(t, c.ok(t, "notifications", "preferences", "--quiet-hours", "00:00-00:00", "--zone", "UTC", "--quiet-days",
		days),
		"Quiet hours: 00:00 to 00:00 (UTC) on ")
	id := send("news", admin(), `"retry":1,"delivered":1`)
	contains(t, p.ask(t, http.MethodGet, "/messages?send="+id, nil).String(),
		"waits for the end of the recipient's quiet hours at ")
	c.ok(t, "notifications", "preferences", "--quiet-hours", "off")
	send("news", admin(), `"retry":0,"delivered":2`)
	refused, _ := c.run(t, "notifications", "preferences", "--quiet-hours", "22:00-07:00", "--zone", "Mars/Olympus")
	contains(t, refused, `quiet_hours.zone: "Mars/Olympus" is not a time zone`)

	client := []string{"--client", "my-sender", "--client-secret", "my-secret"}
	contains(t, c.ok(t, append([]string{"notifications", "throttle", "offers", "--limit", "1", "--window", "1h"},
		client...)...), "at most 1 in 1h, others dropped")
	dora := func() object { return object{"recipients": []object{{"email": "dora@example.org"}}} }
	send("offers", dora(), `"delivered":1`)
	send("offers", dora(), `"throttled":1`)
	c.ok(t, append([]string{"notifications", "throttle", "offers", "--delete"}, client...)...)
	send("offers", dora(), `"delivered":1`)
}
