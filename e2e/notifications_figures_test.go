package e2e

import (
	"net/http"
	"testing"

	"ingot/internal/base/testkit"
)

// TestDeliveryFigures asks for numbers of deliveries as the documentation does, also after a kill.
func TestDeliveryFigures(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	p.register(t, "news")
	p.ask(t, http.MethodPost, "/sends", object{"kind_id": "news", "subject": "New bells", "text": "Dear all",
		"recipients": []object{{"email": "dora@example.org"}, {"email": "eve@example.org"}, {"email": "x@example.com"}}}).
		want(t, http.StatusAccepted)
	testkit.Eventually(t, "the mails are counted", func() bool {
		var f struct {
			Total struct{ Delivered []int }
		}
		p.ask(t, http.MethodGet, "/figures?by=channel&last=1", nil).want(t, http.StatusOK).into(t, &f)
		return f.Total.Delivered[0] == 3
	})
	p.Kill9(t)
	p.Restart(t)
	p.base = p.Notifications
	c := ingotIn(t, t.TempDir(), "INGOT_NOTIFICATIONS_CLIENT=my-sender", "INGOT_NOTIFICATIONS_SECRET=my-secret",
		"INGOT_NOTIFICATIONS_URL="+p.base)
	c.ok(t, "login", "-a", p.API, "-u", "admin", "-p", p.secret(t, "admin-password"))
	contains(t, columns(c.ok(t, "notifications", "figures", "--by", "domain", "--days", "7")),
		"example.org 2 2 0 0 0 0 0 0 0", "example.com 1 1", "total 3 3")
	contains(t, c.ok(t, "notifications", "figures", "--hours", "2", "--each", "--json"), `"period": "hour"`)
}
