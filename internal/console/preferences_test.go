package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"ingot/internal/base/prefer"
	"ingot/internal/console/pagetest"
)

// TestManyPreferences shows more kinds than a page has, and comes back to the page that was saved or refused.
func TestManyPreferences(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	var kinds []string
	for i := range prefer.PerPage + 20 {
		kinds = append(kinds, fmt.Sprintf(`"k%03d":{"description":"Kind %03d","subscribed":true,"channels":{"email":true}}`, i, i))
	}
	api := &service{answers: map[string]string{
		"GET /preferences":   `{"clients":{"shop":{"kinds":{` + strings.Join(kinds, ",") + `}}}}`,
		"PATCH /preferences": "{}", "GET /push_subscriptions": "{}",
	}}
	api.serve(w)
	status, text := w.Get(Path + "/preferences")
	has(t, "the first page", status, http.StatusOK, text, "Kind 099", `href="/console/preferences?page=2"`,
		`action="/console/preferences"`, "Page 1 of 2", "ingot notifications preferences")
	status, text = w.Get(Path + "/preferences?page=2&find=kind")
	has(t, "the second page of a search", status, http.StatusOK, text, "Kind 119", `name="find" value="kind"`,
		`href="/console/preferences?find=kind"`)
	if strings.Contains(text, "Kind 099") {
		t.Error("the second page has what the first one has")
	}
	form := func(channel string) url.Values {
		return url.Values{"form": {"3"}, "find": {"kind"}, "page": {"2"}, "kind": {"kind/shop/k110"},
			"shown": {"0." + channel},
			"lit":   {"0." + channel}}
	}
	status, _, to := submit(t, w, "/preferences/save", form("email"))
	if status != http.StatusSeeOther || to != Path+"/preferences?find=kind&page=2&said=preferences" ||
		!api.was(`PATCH /preferences {"clients":{"shop":{"kinds":{"k110":{"channels":{"email":false}}}}}}`) {
		t.Errorf("saving: %d %s, asked %q", status, to, api.asked)
	}
	api.answers["PATCH /preferences"] = "422: not like <b>"
	status, text, _ = submit(t, w, "/preferences/save", form("email"))
	has(t, "a refused form", status, http.StatusUnprocessableEntity, text, "not like &lt;b&gt;", "Kind 119", "Page 2 of 2",
		`href="/console/preferences?find=kind"`)
}

// TestBrowsers shows the browsers and devices that get push notifications: to their user, who can remove them, and to
// administrators with the data of the recipient.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	const browsers = `{"push_subscriptions":[{"id":"b1","client_id":"shop","type":"browser","service":"push.example.com","label":"` + hostileJSON +
		`"},{"id":"b2","client_id":"bank","type":"device","service":"fcm"}]`
	api := &service{answers: map[string]string{
		"GET /preferences": "{}", "GET /push_subscriptions": browsers + "}", "DELETE /push_subscriptions/b1": "",
		"GET /recipient_data": browsers + `,"topics":[{"client_id":"shop","topic":"releases","subscribed":true},
			{"client_id":"shop","topic":"offers"}]}`,
	}}
	api.serve(w, "notifications.admin")
	status, text := w.Get(Path + "/preferences")
	has(t, "the preferences", status, http.StatusOK, text, "&#34;&gt;&lt;script&gt;", "push.example.com", "no name",
		"Your browsers and devices", `data-label="Type">browser<`, `data-label="Type">device<`, ">fcm<",
		"Remove the device without a name", `action="/console/preferences/browsers/b1/remove"`, "ingot notifications browsers")
	status, text = w.Get(Path + "/notifications/recipients?user=u")
	has(t, "a recipient", status, http.StatusOK, text, "&#34;&gt;&lt;script&gt;", "no name",
		"Browsers and devices", "browser of shop, push.example.com", "device of bank, fcm",
		"Subscribed to the topic shop/releases", "Left the topic shop/offers")
	status, _, to := submit(t, w, "/preferences/browsers/b1/remove", url.Values{})
	if status != http.StatusSeeOther || to != Path+"/preferences?said=browser-removed" {
		t.Errorf("removing: %d %s, asked %q", status, to, api.asked)
	}
	api.answers["GET /push_subscriptions"] = "{}"
	status, text = w.Get(Path + "/preferences")
	has(t, "none", status, http.StatusOK, text, "None of your browsers and devices gets push notifications")
}
