package httpext_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

// contains sends a request whose response has a status and contains a text.
func contains(t *testing.T, w *apitest.World) func(version int, bearer, method, path, body string, status int,
	want string) apitest.Answer {
	return func(version int, bearer, method, path, body string, status int, want string) apitest.Answer {
		t.Helper()
		a := w.Call(version, bearer, method, path, body)
		if a.Status != status || !strings.Contains(strings.ReplaceAll(a.Body, `\"`, `"`), want) {
			t.Errorf("%s %s %.200s: %d %s, want %d %s", method, path, body, a.Status, a.Body, status, want)
		}
		return a
	}
}

// TestTopics declares topics, subscribes others and sends to them, as a client.
func TestTopics(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	expect := contains(t, w)
	a := expect(1, shop, "PUT", "/topics/releases", `{"description":"New releases"}`, 201, `"self_subscribe":true`)
	if b := expect(2, shop, "PUT", "/topics/releases", `{"description":"Releases"}`, 200, `"Releases"`); a.Body == b.Body {
		t.Errorf("nothing changed: %s", b.Body)
	}
	expect(1, shop, "PUT", "/topics/staff", `{"self_subscribe":false}`, 201, `"self_subscribe":false`)
	for path, body := range map[string]string{"/topics/a%20b": `{}`, "/topics/" + strings.Repeat("x", 101): `{}`,
		"/topics/x": `{"description":"a\nb"}`, "/topics/y": `{"description":"` + strings.Repeat("x", 501) + `"}`,
		"/topics/z": `{"open":true}`} {
		expect(1, shop, "PUT", path, body, 422, "")
	}
	expect(1, shop, "GET", "/topics?limit=1", "", 200, `"next":{"href":"/topics?after=releases`)
	expect(1, shop, "GET", "/topics?limit=1&after=releases", "", 200, `"staff"`)

	const releases = "/topics/releases/subscribers"
	expect(1, shop, "POST", releases, `{"subscribers":[{"user":"u-1"},{"email":"Dora@Example.org"},{"user":"u-1"}]}`, 200,
		`{"already":0,"left":0,"subscribed":2}`)
	expect(2, w.Client("shop", "notifications.write"), "POST", releases, `{"subscribers":[{"user":"u-1"},{"user":"u-2"}]}`,
		200, `{"already":1,"left":0,"subscribed":1}`)
	many := strings.TrimSuffix(strings.Repeat(`{"user":"u"},`, notify.MaxSubscribing+1), ",")
	for body, want := range map[string]string{
		`{}`: "must have 1 to 1000 entries, and has 0", `{"subscribers":[` + many + `]}`: "and has 1001",
		`{"subscribers":[{"user":"a"},{}]}`:                             `subscriber 2 needs either "user" or "email"`,
		`{"subscribers":[{"user":"a","email":"a@example.org"}]}`:        `needs either`,
		`{"subscribers":[{"email":"nobody"}]}`:                          "not a valid address",
		`{"subscribers":[{"user":"mailto:a@example.org"}]}`:             `use "email"`,
		`{"subscribers":[{"user":"a\u0000b"}]}`:                         "cannot be stored",
		`{"subscribers":[{"user":"a","since":"2026-01-01T00:00:00Z"}]}`: `has "since"`,
	} {
		expect(1, shop, "POST", releases, body, 422, want)
	}
	var page struct {
		Subscribers []struct{ User, Email string }
		Links       map[string]struct{ Href string } `json:"_links"`
	}
	var names []string
	for next := releases + "?limit=2"; next != ""; {
		page.Subscribers, page.Links = nil, nil
		expect(1, shop, "GET", next, "", 200, "").Into(&page)
		for _, s := range page.Subscribers {
			names = append(names, s.User+s.Email)
		}
		next = page.Links["next"].Href
	}
	slices.Sort(names)
	if got := fmt.Sprint(names); got != "[dora@example.org u-1 u-2]" {
		t.Errorf("subscribers are %s", got)
	}
	expect(1, shop, "DELETE", releases+"/u-2", "", 204, "")
	expect(1, shop, "DELETE", releases+"/u-2", "", 404, "is not subscribed")
	expect(1, shop, "DELETE", releases+"/mailto:DORA%40example.org", "", 204, "")
	expect(1, shop, "GET", "/topics/releases", "", 200, `"subscribers":1`)
	expect(1, shop, "GET", "/audience?type=topic&id=releases", "", 200, `"recipients":1`)

	// Sending to it, in both ways and as a recurring send.
	kicks := w.Kicks
	expect(1, shop, "POST", "/topics/releases/sends", `{"kind_id":"news","text":"t","delay":"1h"}`, 202, `"scheduled"`)
	expect(2, shop, "POST", "/topics/releases/sends", `{"kind_id":"news","text":"t"}`, 202, `"accepted"`)
	expect(1, shop, "POST", "/sends", `{"kind_id":"news","text":"t","audience":{"type":"topic","id":"releases"}}`, 202, "")
	expect(1, shop, "PUT", "/recurring_sends/r",
		`{"cron":"@daily","send":{"kind_id":"news","text":"t","audience":{"type":"topic","id":"releases"}}}`, 201, "")
	if w.Kicks != kicks+3 {
		t.Errorf("the delivery was woken %d times", w.Kicks-kicks)
	}
	for body, want := range map[string]string{
		`{"kind_id":"news","text":"t","recipients":[{"user":"u-1"}]}`:  "leave out",
		`{"kind_id":"news","text":"t","audience":{"type":"everyone"}}`: "leave out",
		`{"kind_id":"none","text":"t"}`:                                "is not registered",
		`{"kind_id":"news","text":"t","colour":"x"}`:                   "colour",
	} {
		expect(1, shop, "POST", "/topics/releases/sends", body, 422, want)
	}
	const gone = "could not be found: declare it with PUT /topics/TOPIC first"
	expect(1, shop, "POST", "/topics/gone/sends", `{"kind_id":"news","text":"t"}`, 404, gone)
	expect(1, shop, "PUT", "/recurring_sends/s",
		`{"cron":"@daily","send":{"kind_id":"news","text":"t","audience":{"type":"topic","id":"gone"}}}`, 404, gone)
	key := []string{"Idempotency-Key", "k"}
	first := w.Call(1, shop, "POST", "/topics/releases/sends", `{"kind_id":"news","text":"t"}`, key...)
	again := w.Call(1, shop, "POST", "/topics/releases/sends", `{"kind_id":"news","text":"t"}`, key...)
	if first.Status != 202 || again.Body != first.Body || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same key: %d %s, %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	if other := w.Call(1, shop, "POST", "/topics/staff/sends", `{"kind_id":"news","text":"t"}`, key...); other.Status != 409 {
		t.Errorf("the key for another topic: %d %s", other.Status, other.Body)
	}

	expect(1, shop, "DELETE", "/topics/releases", "", 204, "")
	expect(1, shop, "DELETE", "/topics/releases", "", 404, gone)
	expect(1, shop, "POST", releases, `{"subscribers":[{"user":"u-1"}]}`, 404, gone)
	expect(1, shop, "PUT", "/topics/releases", `{}`, 201, `"subscribers":0`)
}

// TestTopicsOfOthers sees that no client reads or changes what is another's, and which scopes do what.
func TestTopicsOfOthers(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	expect := contains(t, w)
	expect(1, shop, "PUT", "/topics/releases", `{}`, 201, "")
	expect(1, shop, "POST", "/topics/releases/subscribers", `{"subscribers":[{"user":"u-1"}]}`, 200, "")
	other := w.Client("bank", "notifications.write", "notifications.manage")
	expect(1, other, "PUT", "/notifications", `{"source_name":"Bank","notifications":{"news":{"description":"News"}}}`, 204, "")
	admin := w.Client("root", "notifications.admin")
	const who = `{"subscribers":[{"user":"u-1"}]}`
	for _, c := range []struct {
		bearer, method, path, body string
		status                     int
	}{
		{other, "GET", "/topics/releases", "", 404},
		{other, "GET", "/topics/releases/subscribers", "", 404},
		{other, "GET", "/topics/releases?client_id=shop", "", 403},
		{other, "GET", "/topics?client_id=shop", "", 403},
		{other, "DELETE", "/topics/releases?client_id=shop", "", 403},
		{other, "DELETE", "/topics/releases", "", 404},
		{other, "POST", "/topics/releases/subscribers", who, 404},
		{other, "DELETE", "/topics/releases/subscribers/u-1", "", 404},
		{other, "POST", "/topics/releases/sends", `{"kind_id":"news","text":"t"}`, 404},
		{other, "GET", "/audience?type=topic&id=releases", "", 404},
		{w.Client("shop", "notifications.write"), "PUT", "/topics/releases", `{}`, 403},
		{w.Client("shop", "notifications.write"), "DELETE", "/topics/releases", "", 403},
		{w.Client("shop", "notifications.manage"), "POST", "/topics/releases/sends", `{"kind_id":"news","text":"t"}`, 403},
		{w.Client("shop", "emails.write"), "POST", "/topics/releases/subscribers", who, 403},
		{w.User("u-1", "notification_preferences.write"), "GET", "/topics", "", 403},
		{admin, "PUT", "/topics/releases", `{}`, 403},
		{admin, "POST", "/topics/releases/subscribers", who, 403},
		{admin, "GET", "/topics?client_id=shop", "", 200},
		{admin, "GET", "/topics?client_id=*", "", 400},
		{admin, "GET", "/topics/releases/subscribers?client_id=shop", "", 200},
		{admin, "DELETE", "/topics/releases?client_id=shop", "", 204},
	} {
		if a := w.Call(1, c.bearer, c.method, c.path, c.body); a.Status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, a.Status, a.Body, c.status)
		}
	}
}

// TestTopicPreferences subscribes and leaves as a user, as an administrator, and by the page of a mail.
func TestTopicPreferences(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	expect := contains(t, w)
	expect(1, shop, "PUT", "/topics/releases", `{"description":"<i>Releases</i>"}`, 201, "")
	expect(1, shop, "PUT", "/topics/staff", `{"self_subscribe":false}`, 201, "")
	user := w.User("u-1", "notification_preferences.read", "notification_preferences.write")
	wish := func(topic, value string) string {
		return `{"clients":{"shop":{"topics":{"` + topic + `":{"subscribed":` + value + `}}}}}`
	}
	shown := func(topic string, subscribed bool) string {
		return fmt.Sprintf(`%q:{"description":"","source_description":"Shop","subscribed":%t}`, topic, subscribed)
	}
	for body, want := range map[string]string{
		wish("staff", "true"): "clients.shop.topics.staff: there is no such topic", wish("none", "false"): "no such topic",
		wish("releases", "null"):                                          "it must be true or false",
		`{"clients":{"":{"topics":{"x":{"subscribed":false}}}}}`:          "no such topic",
		`{"clients":{"shop":{"topics":{"a\u0000":{"subscribed":true}}}}}`: "",
	} {
		expect(1, user, "PATCH", "/preferences", body, 422, want)
	}
	if a := expect(1, user, "GET", "/preferences", "", 200, ""); !strings.Contains(a.Body, `"clients":{}`) {
		t.Errorf("topics of a client that sent nothing: %s", a.Body)
	}
	// By its name, also before the client sent anything.
	expect(1, user, "PATCH", "/preferences", wish("releases", "true"), 200, `"subscribed":true`)
	expect(1, shop, "POST", "/topics/staff/subscribers", `{"subscribers":[{"user":"u-1"},{"email":"dora@example.org"}]}`, 200, "")
	expect(1, user, "PATCH", "/preferences", wish("staff", "false"), 200, shown("staff", false))
	expect(1, shop, "POST", "/topics/staff/subscribers", `{"subscribers":[{"user":"u-1"}]}`, 200,
		`{"already":0,"left":1,"subscribed":0}`)
	expect(1, user, "PATCH", "/preferences", wish("staff", "true"), 200, shown("staff", true)) // their own choice
	expect(1, shop, "GET", "/topics/staff", "", 200, `"subscribers":2`)

	admin := w.Client("support", "notification_preferences.admin")
	const dora = "/preferences/mailto:dora@example.org"
	expect(2, admin, "GET", dora, "", 200, shown("staff", true))
	expect(2, admin, "PATCH", dora, wish("releases", "true"), 422, "no such topic") // an address does not subscribe itself
	expect(2, admin, "PATCH", dora, wish("staff", "false"), 200, shown("staff", false))

	link := "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1",
		Kind: notify.KindRef{ClientID: "shop", KindID: "news"}})
	form := func(values url.Values) apitest.Answer {
		values.Set("form", "3")
		return w.Call(1, "", "POST", link, values.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	}
	const release, staff = "topic/shop/releases", "topic/shop/staff"
	a := expect(1, "", "GET", link, "", 200, "&lt;i&gt;Releases&lt;/i&gt;")
	if !strings.Contains(a.Body, `name="in" value="`+staff+`" checked`) {
		t.Errorf("the page is %s", a.Body)
	}
	a = form(url.Values{"choice": {"save"}, "topic": {release, staff}, "inside": {release, staff}, "in": {staff}})
	if a.Status != 200 || !strings.Contains(a.Body, `name="in" value="`+staff+`" checked`) ||
		strings.Contains(a.Body, `name="in" value="`+release+`" checked`) {
		t.Errorf("leaving: %d %s", a.Status, a.Body)
	}
	// A topic that the page does not list, and one whose key is not a topic's.
	expect(1, w.Client("bank", "notifications.manage"), "PUT", "/topics/rates", `{}`, 201, "")
	for want, values := range map[int]url.Values{422: {"topic": {"topic/bank/rates"}, "in": {"topic/bank/rates"}},
		400: {"topic": {"kind/shop/news"}, "in": {"kind/shop/news"}}} {
		values.Set("choice", "save")
		if a := form(values); a.Status != want {
			t.Errorf("%v: %d", values, a.Status)
		}
	}
	expect(1, user, "GET", "/preferences", "", 200, shown("staff", true))
	expect(1, shop, "POST", "/topics/releases/subscribers", `{"subscribers":[{"user":"u-1"}]}`, 200, `"left":1`)

	// What is stored is shown, and erased.
	expect(1, shop, "GET", "/recipient_data?user_id=u-1", "", 200,
		`"topics":[{"client_id":"shop","topic":"releases","subscribed":false`)
	expect(1, shop, "POST", "/erasures", `{"user_id":"u-1"}`, 200, `"topics":1},"kept_as_hash":{"unsubscribed":1`)
	expect(1, shop, "GET", "/recipient_data?user_id=u-1", "", 200, `"kept":true`)
	expect(1, shop, "POST", "/topics/releases/subscribers", `{"subscribers":[{"user":"u-1"}]}`, 200, `"left":1`)
	expect(1, shop, "GET", "/topics/staff", "", 200, `"subscribers":0`)
}
