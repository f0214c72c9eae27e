package httpext_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/prefer"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// TestChannelPreferences changes what a user wants, as the user and as an administrator, and sees what version 1 shows.
func TestChannelPreferences(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Expect(1, shop, "PUT", "/kinds/news/channels", `{"channels":["email","inbox"]}`, 200, "")
	var sender, kind struct{ ID string }
	w.Expect(2, shop, "POST", "/senders", `{"name":"Sender"}`, 201, "").Into(&sender)
	w.Expect(2, shop, "POST", "/senders/"+sender.ID+"/campaign_types", `{"name":"t","description":"Offers"}`, 201,
		"").Into(&kind)
	user := w.User("u-1", "notification_preferences.read", "notification_preferences.write")
	admin := w.Client("support", "notification_preferences.admin")
	show := func() string {
		t.Helper()
		a := w.Expect(1, user, "GET", "/preferences", "", 200, "")
		if b := w.Expect(2, admin, "GET", "/preferences/u-1", "", 200, ""); b.Body != a.Body {
			t.Errorf("the user sees %s, the administrator %s", a.Body, b.Body)
		}
		return strings.TrimSpace(a.Body)
	}
	if got := show(); got != `{"user_id":"u-1","global_unsubscribe":false,"clients":{}}` {
		t.Errorf("nothing was ever sent: %s", got)
	}
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"fire","text":"t"}`, 200, "")
	finishAll(t, w)

	const kindBody = `{"description":"%s","source_description":"%s","subscribed":%t,"channels":{%s}}`
	want := func(global, subscribed bool, channels, ofType string) string {
		return fmt.Sprintf(`{"user_id":"u-1","global_unsubscribe":%t,"clients":{"shop":{"kinds":{"news":%s},"campaign_types":{%q:%s}}}}`,
			global, fmt.Sprintf(kindBody, "News of the shop", "Shop", subscribed, channels), kind.ID,
			fmt.Sprintf(kindBody, "Offers", "Sender", true, ofType))
	}
	old := func(email bool) string {
		return fmt.Sprintf(`"news":{"email":%t,"kind_description":"News of the shop","source_description":"Shop"}`, email)
	}
	const both = `"email":true,"inbox":true`
	if got := show(); got != want(false, true, both, `"email":true`) {
		t.Errorf("after a receipt: %s", got)
	}
	news := func(change string) string { return `{"clients":{"shop":{"kinds":{"news":` + change + `}}}}` }
	for _, step := range []struct{ path, body, want, old string }{
		{"/preferences", news(`{"channels":{"inbox":false}}`), want(false, true, `"email":true,"inbox":false`, `"email":true`),
			old(true)},
		{"/user_preferences", `{"clients":{"shop":{"news":{"email":true}}}}`,
			want(false, true, `"email":true,"inbox":false`, `"email":true`), old(true)},
		{"/user_preferences", `{"clients":{"shop":{"news":{"email":false}}}}`,
			want(false, true, `"email":false,"inbox":false`, `"email":true`), old(false)},
		{"/preferences/u-1", news(`{"channels":{"inbox":true}}`), want(false, true, `"email":false,"inbox":true`, `"email":true`),
			old(false)},
		{"/preferences", news(`{"subscribed":false}`), want(false, false, `"email":false,"inbox":false`, `"email":true`),
			old(false)},
		{"/user_preferences/u-1", `{"clients":{"shop":{"news":{"email":true}}}}`, want(false, true, both, `"email":true`),
			old(true)},
		{"/preferences", `{"global_unsubscribe":true,"clients":{"shop":{"campaign_types":{"` + kind.ID +
			`":{"channels":{"email":false}}}}}}`, want(true, true, both, `"email":false`), old(true)},
		{"/preferences", `{"clients":null}`, want(true, true, both, `"email":false`), old(true)},
		{"/preferences/u-1", `{"global_unsubscribe":false}`, want(false, true, both, `"email":false`), old(true)},
	} {
		bearer, status := user, 200
		if strings.HasSuffix(step.path, "u-1") {
			bearer = admin
		}
		if strings.HasPrefix(step.path, "/user_") {
			status = 204
		}
		a := w.Expect(1, bearer, "PATCH", step.path, step.body, status, "")
		if status == 200 && strings.TrimSpace(a.Body) != step.want {
			t.Errorf("PATCH %s %s: %s", step.path, step.body, a.Body)
		}
		if got := show(); got != step.want {
			t.Errorf("after %s %s: %s\nwant %s", step.path, step.body, got, step.want)
		}
		if a := w.Expect(1, user, "GET", "/user_preferences", "", 200, ""); !strings.Contains(a.Body, step.old) {
			t.Errorf("after %s %s version 1 shows %s, want %s", step.path, step.body, a.Body, step.old)
		}
	}
}

// TestRefusedPreferences sends changes that are refused: nothing is changed, and the answer says where each mistake is.
func TestRefusedPreferences(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Expect(1, w.Client("bank"), "PUT", "/notifications",
		`{"source_name":"Bank","notifications":{"news":{"description":"News"}}}`, 204, "")
	var sender, kind struct{ ID string }
	w.Expect(2, shop, "POST", "/senders", `{"name":"Sender"}`, 201, "").Into(&sender)
	w.Expect(2, shop, "POST", "/senders/"+sender.ID+"/campaign_types", `{"name":"t","description":"Offers"}`, 201,
		"").Into(&kind)
	user := w.User("u-1", "notification_preferences.read", "notification_preferences.write")
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{}`, i)
	}
	for body, want := range map[string]string{
		`{"clients":{"shop":{"kinds":{"new":{"channels":{"email":false}}}}}}`:  "clients.shop.kinds.new: there is no such kind",
		`{"clients":{"":{"kinds":{"":{"subscribed":false}}}}}`:                 "clients..kinds.: there is no such kind",
		`{"clients":{"":{"kinds":{"` + kind.ID + `":{"subscribed":false}}}}}`:  "clients..kinds." + kind.ID + ": there is no such kind",
		`{"clients":{"shop":{"kinds":{"fire":{"subscribed":false}}}}}`:         "clients.shop.kinds.fire: the kind is critical, so every user receives it on all channels",
		`{"clients":{"shop":{"kinds":{"news":{"channels":{"inbox":false}}}}}}`: "clients.shop.kinds.news.channels.inbox: this kind does not have this channel, but email",
		`{"clients":{"shop":{"kinds":{"news":{"channels":{"fax":true}}}}}}`:    "clients.shop.kinds.news.channels.fax: this kind does not have this channel, but email",
		`{"clients":{"shop":{"kinds":{"news":{"channels":{"chat":true}}}}}}`:   "clients.shop.kinds.news.channels.chat: a chat is a room that others read: it cannot be turned off by one of them",
		`{"clients":{"shop":{"kinds":{"news":{"channels":{"email":null}}}}}}`:  "clients.shop.kinds.news.channels.email: it must be true or false",
		`{"clients":{"bank":{"campaign_types":{"` + kind.ID + `":{}}}}}`:       "clients.bank.campaign_types." + kind.ID + ": there is no such kind",
		`{"global_unsubscribe":true,"clients":{"bank":{"kinds":{"news":{"subscribed":false},"a":{}}},"shop":{"kinds":{"b":{}}}}}`: "clients.bank.kinds.a: there is no such kind, " +
			"clients.shop.kinds.b: there is no such kind",
		`{"clients":{"shop":{"kinds":{` + strings.Join(many, ",") + `}}}}`: "clients: 1001 kinds are too many for a request, at most 1000",
	} {
		w.Expect(1, user, "PATCH", "/preferences", body, 422, want)
	}
	for _, body := range []string{``, `{`, `{"global_unsubscribe":"no"}`, `[]`, `{"clients":{"shop":{"kinds":{"news":[]}}}}`} {
		if a := w.Call(1, user, "PATCH", "/preferences", body); a.Status != 400 && a.Status != 422 {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	of := notify.Subscription{UserID: "u-1", KindRef: notify.KindRef{ClientID: "bank", KindID: "news"}}
	found, err := w.Store.Unsubscribed(t.Context(), []notify.Subscription{of})
	if err != nil || len(found) != 0 {
		t.Errorf("a refused change changed %v, %v", found, err)
	}
	client := w.Client("c", "notification_preferences.read", "notification_preferences.write", "notifications.admin")
	const missing = "The token belongs to no user: log in as a user, or name one with /preferences/USER"
	w.Expect(1, client, "GET", "/preferences", "", 422, missing)
	w.Expect(1, client, "PATCH", "/preferences", `{}`, 422, missing)
	for _, bearer := range []string{client, user} {
		w.Expect(1, bearer, "GET", "/preferences/u-2", "", 403, "")
		w.Expect(1, bearer, "PATCH", "/preferences/u-2", `{}`, 403, "")
	}
	w.Expect(1, w.User("u-1", "notification_preferences.read"), "PATCH", "/preferences", `{}`, 403, "")
	w.Expect(1, w.User("u-1", "notification_preferences.write"), "GET", "/preferences", "", 403, "")
	w.Expect(1, "", "GET", "/preferences", "", 401, "")
}

// TestPreferencesOfAddresses changes what an address without a user receives, and shows and erases it.
func TestPreferencesOfAddresses(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	admin := w.Client("support", "notification_preferences.admin")
	w.Expect(1, shop, "PUT", "/kinds/news/channels", `{"channels":["email","inbox"]}`, 200, "")
	w.Expect(1, admin, "PATCH", "/preferences/mailto:Ann@example.com",
		`{"clients":{"shop":{"kinds":{"news":{"channels":{"email":false}}}}}}`, 200, "")
	w.Expect(1, admin, "PATCH", "/preferences/mailto:ann@example.com",
		`{"clients":{"shop":{"kinds":{"news":{"channels":{"inbox":false}}}}}}`, 422,
		"clients.shop.kinds.news.channels.inbox: this kind does not have this channel, but email")
	off := func() string {
		t.Helper()
		return fmt.Sprint(look(t, w, shop, "email=ann@example.com").Unsubscribed)
	}
	if got := off(); got != "[map[channels:[email] client_id:shop everything:false kept:false kind_id:news]]" {
		t.Errorf("it is shown as %s", got)
	}
	w.Expect(1, shop, "POST", "/erasures", `{"email":"ann@example.com"}`, 200, "")
	if got := off(); got != "[map[channels:[email] client_id:shop everything:false kept:true kind_id:news]]" {
		t.Errorf("after erasing it is shown as %s", got)
	}
}

// TestPreferencesPage chooses kinds by channel and quiet hours with the link of a mail.
func TestPreferencesPage(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Expect(1, shop, "PUT", "/kinds/news/channels", `{"channels":["email","inbox"]}`, 200, "")
	w.Expect(1, w.Client("bank"), "PUT", "/notifications", `{"source_name":"Bank","notifications":{"rates":{"description":"Rates"}}}`,
		204, "")
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"fire","text":"t"}`, 200, "")
	finishAll(t, w)
	link := "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1",
		Kind: notify.KindRef{ClientID: "shop", KindID: "news"}})
	user := w.User("u-1", "notification_preferences.read")
	is := func(when, want string) {
		t.Helper()
		if a := w.Expect(1, user, "GET", "/preferences", "", 200, ""); !strings.Contains(a.Body, want) {
			t.Errorf("%s: %s, want %s", when, a.Body, want)
		}
	}
	const kind = "kind/shop/news"
	save := func(status int, want string, values ...string) string {
		t.Helper()
		form := url.Values{"choice": {"save"}, "form": {"3"}, "shown": {"0.email", "0.inbox"}}
		for i := 0; i+1 < len(values); i += 2 {
			form.Add(values[i], values[i+1])
		}
		a := w.Call(2, "", "POST", link, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if a.Status != status || !strings.Contains(a.Body, want) {
			t.Errorf("%v: %d %s, want %s", values, a.Status, a.Body, want)
		}
		return a.Body
	}
	const both, quiet = `"subscribed":true,"channels":{"email":true,"inbox":true}`, `"quiet_hours":{"from":"22:00","to":"07:00","zone":"UTC"}`
	for range 2 { // as a mail scanner does
		a := w.Expect(1, "", "GET", link+"?choice=save&kind=kind/shop/news&off=0", "", 200, "")
		if !strings.Contains(a.Body, `value="kind/shop/news"`) || !strings.Contains(a.Body, `name="quiet"`) {
			t.Error(a.Body)
		}
	}
	is("looked at", both)
	save(200, "Your choice has been saved.", "kind", kind, "lit", "0.email", "lit", "0.inbox", "on", "0.inbox",
		"quiet", "1", "from", "22:00", "to", "07:00", "zone", "UTC")
	is("a channel", `"subscribed":true,"channels":{"email":false,"inbox":true}`)
	is("quiet hours", quiet)
	save(200, "unsubscribed", "kind", kind, "off", "0", "quiet", "1", "from", "22:00", "to", "07:00", "zone", "UTC")
	is("left", `"subscribed":false`)
	save(200, "unsubscribed", "kind", kind, "was", "0", "had", "1")
	is("still left", `"global_unsubscribe":false,"clients":{"shop":{"kinds":{"news":{"description":"News of the shop","source_description":"Shop","subscribed":false`)
	save(200, "Your choice", "kind", kind, "was", "0", "on", "0.email", "on", "0.inbox", "none", "1")
	is("again", both)
	is("nothing at all", `"global_unsubscribe":true`)
	save(200, "Your choice", "wasnone", "1")
	is("some again", `"global_unsubscribe":false`)

	page := save(422, `role="alert"`, "kind", kind, "on", "0.email", "lit", "0.email", "lit", "0.inbox", "none", "1", "quiet", "1", "from", "soon", "to", "07:00", "zone",
		"<script>Mars</script>")
	if strings.Contains(page, "<script>Mars") || !strings.Contains(page, "&lt;script&gt;Mars") ||
		!strings.Contains(page, `value="0.inbox">`) || strings.Contains(page, "Your choice has been saved") {
		t.Errorf("what was entered is shown as %s", page)
	}
	// What the user has never received, what is critical, and what is on no channel.
	for _, other := range []string{"kind/bank/rates", "kind/shop/fire", "kind/shop/nothing", "kind/nobody/news",
		"type/shop/news"} {
		save(422, `role="alert"`, "kind", other, "off", "0", "none", "1")
	}
	save(422, "does not have this channel", "kind", kind, "shown", "0.sms", "on", "0.sms", "none", "1")
	save(400, "cannot be read", "kind", "news", "off", "0", "none", "1")
	is("refused", both)
	is("refused", `"global_unsubscribe":false`)

	link = "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "mailto:dora@example.com",
		Kind: notify.KindRef{ClientID: "shop", KindID: "news"}})
	save(200, "Your choice", "quiet", "1", "from", "22:00", "to", "07:00", "zone", "UTC")
	admin := w.Client("support", "notification_preferences.admin")
	if a := w.Expect(1, admin, "GET", "/preferences/mailto:dora@example.com", "", 200,
		""); !strings.Contains(a.Body, quiet) {
		t.Errorf("an address: %s", a.Body)
	}
}

var pageInput = regexp.MustCompile(`<input (?:type="(hidden|checkbox|time)" )?name="([a-z]+)" value="([^"]*)"( checked)?`)

// pageFields returns what a browser sends of the form of a page that its user does not change.
func pageFields(page string) url.Values {
	form := url.Values{}
	for _, m := range pageInput.FindAllStringSubmatch(page, -1) {
		if m[1] != "checkbox" || m[4] != "" {
			form.Add(m[2], html.UnescapeString(m[3]))
		}
	}
	form.Set("choice", "save")
	return form
}

// TestStalePage saves a page after something else was changed: what the user did not change on the page stays as it is
// now.
func TestStalePage(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Expect(1, shop, "PUT", "/kinds/news/channels", `{"channels":["email","inbox"]}`, 200, "")
	w.Expect(1, shop, "PUT", "/notifications",
		`{"source_name":"Shop","notifications":{"news":{"description":"News"},"offers":{"description":"Offers"}}}`, 204, "")
	var sender, kind struct{ ID string }
	w.Expect(2, shop, "POST", "/senders", `{"name":"Sender"}`, 201, "").Into(&sender)
	w.Expect(2, shop, "POST", "/senders/"+sender.ID+"/campaign_types", `{"name":"t","description":"Campaign"}`, 201,
		"").Into(&kind)
	admin := w.Client("support", "notification_preferences.admin")
	const quiet = `"quiet_hours":{"from":"21:00","to":"06:00","zone":"UTC","days":["mon","sat"],"channels":["email","sms"]}`
	for i, tc := range []struct {
		name, before, meanwhile string
		edit                    map[string][]string // replaces fields
		want, not               string
	}{
		{"a kind", `{}`, `{"clients":{"shop":{"kinds":{"offers":{"subscribed":false}}}}}`,
			map[string][]string{"quiet": {"1"}, "from": {"22:00"}, "to": {"07:00"}, "zone": {"UTC"}},
			`"offers":{"description":"Offers","source_description":"Shop","subscribed":false|"quiet_hours":{"from":"22:00"`, ""},
		{"a campaign type", `{}`, `{"clients":{"shop":{"campaign_types":{"` + kind.ID + `":{"subscribed":false}}}}}`,
			map[string][]string{"quiet": {"1"}, "zone": {"UTC"}},
			`"description":"Campaign","source_description":"Sender","subscribed":false|"quiet_hours"`, ""},
		{"a channel", `{}`, `{"clients":{"shop":{"kinds":{"news":{"channels":{"inbox":false}}}}}}`,
			map[string][]string{"off": {"1"}}, // offers
			`"channels":{"email":true,"inbox":false}|"offers":{"description":"Offers","source_description":"Shop","subscribed":false`,
			""},
		{"another channel of the same kind", `{}`, `{"clients":{"shop":{"kinds":{"news":{"channels":{"inbox":false}}}}}}`,
			map[string][]string{"on": {"0.inbox", "1.email", "2.email"}}, `"channels":{"email":false,"inbox":false}`, ""},
		{"nothing any more", `{}`, `{"global_unsubscribe":true}`, map[string][]string{"quiet": {"1"}, "zone": {"UTC"}},
			`"global_unsubscribe":true|"quiet_hours"`, ""},
		{"something again", `{"global_unsubscribe":true}`, `{"global_unsubscribe":false}`,
			map[string][]string{"off": {"1"}}, `"global_unsubscribe":false|"subscribed":false`, ""},
		{"quiet hours", `{` + quiet + `}`, `{"quiet_hours":null}`, map[string][]string{"none": {"1"}},
			`"global_unsubscribe":true`, "quiet_hours"},
		{"other quiet hours", `{"quiet_hours":{"from":"22:00","to":"07:00","zone":"UTC"}}`, `{` + quiet + `}`,
			map[string][]string{"none": {"1"}}, `"global_unsubscribe":true|` + quiet, ""},
		{"new quiet hours", `{}`, `{` + quiet + `}`, map[string][]string{"none": {"1"}}, `"global_unsubscribe":true|` + quiet,
			""},
		{"nothing is changed", `{` + quiet + `}`, `{"global_unsubscribe":true,"quiet_hours":null}`, nil,
			`"global_unsubscribe":true`, "quiet_hours"},
	} {
		user := fmt.Sprint("u-", i)
		w.Directory.Users[user] = user + "@example.com"
		w.Expect(1, shop, "POST", "/users/"+user, `{"kind_id":"news","text":"t"}`, 200, "")
		finishAll(t, w)
		w.Expect(1, admin, "PATCH", "/preferences/"+user, tc.before, 200, "")
		link := "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: user,
			Kind: notify.KindRef{ClientID: "shop", KindID: "news"}})
		form := pageFields(w.Expect(1, "", "GET", link, "", 200, "").Body)
		w.Expect(1, admin, "PATCH", "/preferences/"+user, tc.meanwhile, 200, "")
		for name, values := range tc.edit {
			form[name] = values
		}
		a := w.Call(2, "", "POST", link, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if a.Status != 200 || !strings.Contains(a.Body, "Your choice has been saved.") {
			t.Errorf("%s: %d %s", tc.name, a.Status, a.Body)
		}
		now := w.Expect(1, admin, "GET", "/preferences/"+user, "", 200, "").Body
		for want := range strings.SplitSeq(tc.want, "|") {
			if !strings.Contains(now, want) {
				t.Errorf("%s: %s is not in %s", tc.name, want, now)
			}
		}
		if tc.not != "" && strings.Contains(now, tc.not) {
			t.Errorf("%s: %s is in %s", tc.name, tc.not, now)
		}
	}
}

// TestPagesOfTheLink finds and changes kinds that the first page does not show, and changes nothing of other pages.
func TestPagesOfTheLink(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Directory.Users["u-1"] = "u1@example.com"
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	finishAll(t, w)
	var kinds []string
	for i := range prefer.PerPage + 50 {
		kinds = append(kinds, fmt.Sprintf(`"more-%03d":{"description":"More %03d"}`, i, i))
	}
	kinds = append(kinds, `"news":{"description":"News of the shop"}`)
	w.Expect(1, shop, "PUT", "/notifications", `{"source_name":"Shop","notifications":{`+strings.Join(kinds, ",")+`}}`, 204, "")
	link := "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1",
		Kind: notify.KindRef{ClientID: "shop", KindID: "news"}})
	left := func() []string {
		t.Helper()
		var answer struct {
			Clients map[string]struct {
				Kinds map[string]struct{ Subscribed bool }
			}
		}
		a := w.Expect(1, w.User("u-1", "notification_preferences.read"), "GET", "/preferences", "", 200, "")
		if err := json.Unmarshal([]byte(a.Body), &answer); err != nil {
			t.Fatal(err)
		}
		var left []string
		for id, k := range answer.Clients["shop"].Kinds {
			if !k.Subscribed {
				left = append(left, id)
			}
		}
		slices.Sort(left)
		return left
	}
	for _, step := range []struct{ query, title, want string }{
		{"?page=2", "More 120", "more-120"}, {"?find=mORE+14", "More 149", "more-120 more-149"},
		{"", "More 007", "more-007 more-120 more-149"},
	} {
		page := w.Expect(1, "", "GET", link+step.query, "", 200, "").Body
		number := regexp.MustCompile(`(?s)<legend>` + step.title + `.*?name="off" value="(\d+)"`).FindStringSubmatch(page)
		if number == nil {
			t.Fatalf("%s does not show %s: %s", step.query, step.title, page)
		}
		form := pageFields(page)
		form.Add("off", number[1])
		a := w.Call(1, "", "POST", link, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if a.Status != 200 || !strings.Contains(a.Body, "<legend>"+step.title+" <span") {
			t.Errorf("%s: %d, the page after saving is another one: %s", step.query, a.Status, a.Body)
		}
		if got := strings.Join(left(), " "); got != step.want {
			t.Errorf("%s: left are %s, want %s", step.query, got, step.want)
		}
	}
	// What the page shows again when it was refused is the same part.
	form := pageFields(w.Expect(1, "", "GET", link+"?page=2", "", 200, "").Body)
	form.Set("quiet", "1")
	form.Set("zone", "Mars")
	a := w.Call(1, "", "POST", link, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if a.Status != 422 || !strings.Contains(a.Body, "More 120") || strings.Contains(a.Body, "More 007") {
		t.Errorf("refused: %d %s", a.Status, a.Body)
	}
}

// TestLinkOfOneKind: the link in a call of a webhook, which the client reads, shows and changes nothing but its kind.
func TestLinkOfOneKind(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	bank := w.Client("bank")
	w.Expect(1, bank, "PUT", "/notifications",
		`{"source_name":"Bank","notifications":{"rates":{"description":"Rates"}}}`, 204, "")
	w.Expect(1, bank, "POST", "/users/u-1", `{"kind_id":"rates","text":"t"}`, 200, "")
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	finishAll(t, w)
	user := w.User("u-1", "notification_preferences.read")
	link := func(only bool) string {
		return "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1",
			Kind: notify.KindRef{ClientID: "shop", KindID: "news"}, OnlyKind: only})
	}
	post := func(path string, form url.Values) int {
		return w.Call(2, "", "POST", path, form.Encode(), "Content-Type", "application/x-www-form-urlencoded").Status
	}
	preferences := func() string { return w.Expect(1, user, "GET", "/preferences", "", 200, "").Body }
	if a := w.Expect(1, "", "GET", link(false), "", 200, ""); !strings.Contains(a.Body, "Rates") {
		t.Fatalf("the link of a mail does not show all kinds: %s", a.Body)
	}
	page := w.Expect(1, "", "GET", link(true), "", 200, "").Body
	for _, secret := range []string{"Rates", "Bank", "Quiet", `value="none"`, `value="save"`} {
		if strings.Contains(page, secret) {
			t.Errorf("the page has %q: %s", secret, page)
		}
	}
	before := preferences()
	for _, form := range []url.Values{
		{"choice": {"none"}},
		{"choice": {"save"}, "kind": {"kind/bank/rates"}, "off": {"0"}},
		{"choice": {"save"}, "kind": {"kind/shop/news"}, "off": {"0"}},
		{"choice": {"save"}, "quiet": {"1"}, "from": {"00:00"}, "to": {"23:00"}, "zone": {"UTC"}},
	} {
		if got := post(link(true), form); got != http.StatusForbidden {
			t.Errorf("%v: %d, want 403", form, got)
		}
	}
	if after := preferences(); after != before {
		t.Errorf("preferences are %s, and were %s", after, before)
	}
	if got := post(link(true), url.Values{"choice": {"off"}}); got != http.StatusOK ||
		!strings.Contains(preferences(), `"source_description":"Shop","subscribed":false`) {
		t.Errorf("unsubscribing from the kind: %d, %s", got, preferences())
	}
	// What the user decided about everything is not taken back by it.
	post(link(false), url.Values{"choice": {"none"}})
	if got := post(link(true), url.Values{"choice": {"on"}}); got != http.StatusOK ||
		!strings.Contains(preferences(), `"global_unsubscribe":true`) {
		t.Errorf("subscribing to the kind: %d, %s", got, preferences())
	}
}

// TestDigestPreferences chooses how a kind is collected, with the API, the page, and as an administrator for an
// address.
func TestDigestPreferences(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	finishAll(t, w)
	user := w.User("u-1", "notification_preferences.read", "notification_preferences.write")
	admin := w.Client("support", "notification_preferences.admin")
	choose := func(name string) string { return `{"clients":{"shop":{"kinds":{"news":{"digest":"` + name + `"}}}}}` }
	const path = "clients.shop.kinds.news.digest: this kind "
	w.Expect(1, user, "PATCH", "/preferences", choose("daily"), 422,
		path+"does not let users choose how notifications are collected")
	if a := w.Expect(1, user, "GET", "/preferences", "", 200, ""); strings.Contains(a.Body, "digest") {
		t.Errorf("a kind without a choice is shown as %s", a.Body)
	}
	w.Expect(1, shop, "PUT", "/kinds/news/digest", `{"choice":["daily","weekly"]}`, 200, "")
	shows := func(digest, choices string) {
		t.Helper()
		want := fmt.Sprintf(`"digest":%q,"digest_choices":[%s]`, digest, choices)
		if a := w.Expect(1, user, "GET", "/preferences", "", 200, ""); !strings.Contains(a.Body, want) {
			t.Errorf("preferences are %s, want %s", a.Body, want)
		}
	}
	const choices = `"default","daily","weekly"`
	shows("default", choices)
	w.Expect(1, user, "PATCH", "/preferences", choose("hourly"), 422,
		path+"lets users choose one of default, daily, weekly")
	w.Expect(2, user, "PATCH", "/preferences", choose("daily"), 200, "")
	shows("daily", choices)
	w.Expect(2, admin, "PATCH", "/preferences/mailto:ann@example.com", choose("weekly"), 200, "")
	const want = "[map[channels:[] client_id:shop digest:daily everything:false kept:false kind_id:news]]"
	if got := fmt.Sprint(look(t, w, shop, "user_id=u-1").Unsubscribed); got != want {
		t.Errorf("the person's data has %s", got)
	}

	link := "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1",
		Kind: notify.KindRef{ClientID: "shop", KindID: "news"}})
	save := func(had, digest string) {
		t.Helper()
		form := url.Values{"choice": {"save"}, "form": {"3"}, "kind": {"kind/shop/news"}, "shown": {"0.email"},
			"lit": {"0.email"}, "on": {"0.email"}, "digested.0": {had}, "digest.0": {digest}}
		a := w.Call(1, "", "POST", link, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if a.Status != 200 {
			t.Errorf("saving answers %d %s", a.Status, a.Body)
		}
	}
	save("default", "default") // it was changed elsewhere since the page was opened
	shows("daily", choices)
	save("daily", "weekly")
	shows("weekly", choices)
	if a := w.Call(1, "", "GET", link, ""); !strings.Contains(a.Body, `<option value="weekly" selected>`) {
		t.Errorf("the page shows %s", a.Body)
	}

	// What is no longer offered has no effect.
	w.Expect(1, shop, "PUT", "/kinds/news/digest", `{"choice":["daily"]}`, 200, "")
	shows("default", `"default","daily"`)
}
