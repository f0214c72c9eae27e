package httpext_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

const (
	pushP256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	pushAuth   = "BTBZMqHH6r4Tts7J_aSIgg"
)

// subscription is what a browser sends; more is put in front.
func subscription(endpoint, more string) string {
	return fmt.Sprintf(`{%s"endpoint":%q,"expirationTime":null,"keys":{"p256dh":%q,"auth":%q}}`, more, endpoint, pushP256dh,
		pushAuth+"==")
}

type pushList struct {
	PushSubscriptions []struct {
		ID, Service, Label string
		ClientID           string `json:"client_id"`
	} `json:"push_subscriptions"`
}

func services(l pushList) string {
	var all []string
	for _, s := range l.PushSubscriptions {
		all = append(all, s.ClientID+"@"+s.Service)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestPush subscribes browsers with an inbox token and with the user's own.
func TestPush(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	for version := 1; version <= 2; version++ {
		a := w.Expect(version, "", "GET", "/push_key", "", 200, "")
		if a.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(a.Body, "the-public-key") {
			t.Errorf("the key: %v %s", a.Header, a.Body)
		}
		user := fmt.Sprint("u-", version)
		page, own := inboxToken(t, w, "shop", user), w.User(user, "notification_preferences.read",
			"notification_preferences.write")
		other := inboxToken(t, w, "shop", "other")
		list := func(bearer, path string) (l pushList) {
			t.Helper()
			w.Expect(version, bearer, "GET", path, "", 200, "").Into(&l)
			return l
		}
		endpoint := fmt.Sprint("https://push.example.com/", user)
		a = w.Expect(version, page, "POST", "/inbox/push_subscriptions", subscription(endpoint, `"label":"Laptop",`), 201, "")
		if strings.Contains(a.Body, user) || strings.Contains(a.Body, pushAuth) {
			t.Errorf("the answer has a secret: %s", a.Body)
		}
		w.Expect(version, page, "POST", "/inbox/push_subscriptions", subscription(endpoint, ""), 201, "")
		w.Expect(version, own, "POST", "/push_subscriptions", subscription(endpoint+"/2", `"client_id":"shop",`), 201, "")
		w.Expect(version, own, "POST", "/push_subscriptions", subscription(endpoint, `"client_id":"nobody",`), 422,
			`"client_id" must be a client that sends notifications; there is no "nobody"`)
		w.Expect(version, page, "POST", "/inbox/push_subscriptions", subscription(endpoint, `"client_id":"shop2",`), 422, "")
		const both = "shop@push.example.com shop@push.example.com"
		for _, path := range []string{"/inbox/push_subscriptions", "/push_subscriptions"} {
			bearer := page
			if path == "/push_subscriptions" {
				bearer = own
			}
			if got := services(list(bearer, path)); got != both {
				t.Errorf("%s: %s, want %s", path, got, both)
			}
		}
		if got := services(list(other, "/inbox/push_subscriptions")); got != "" {
			t.Errorf("another user sees %s", got)
		}
		shown := w.Expect(version, c, "GET", "/recipient_data?user_id="+user, "", 200, "").Body
		if strings.Count(shown, `"service":"push.example.com"`) != 2 || strings.Contains(shown, endpoint) {
			t.Errorf("the recipient's data is %s", shown)
		}

		all := list(page, "/inbox/push_subscriptions").PushSubscriptions
		w.Expect(version, other, "DELETE", "/inbox/push_subscriptions/"+all[0].ID, "", 404, "")
		w.Expect(version, w.User("other", "notification_preferences.write"), "DELETE", "/push_subscriptions/"+all[0].ID, "",
			404, "")
		w.Expect(version, page, "DELETE", "/inbox/push_subscriptions/"+all[0].ID, "", 204, "")
		w.Expect(version, own, "DELETE", "/push_subscriptions/"+all[1].ID, "", 204, "")
		w.Expect(version, own, "DELETE", "/push_subscriptions/"+all[1].ID, "", 404, "")
		w.Expect(version, page, "POST", "/inbox/push_subscriptions", subscription(endpoint, ""), 201, "")
		if e := w.Expect(version, c, "POST", "/erasures", `{"user_id":"`+user+`"}`, 200, "").Body; !strings.Contains(e,
			`"push_subscriptions":1`) {
			t.Errorf("the erasure is %s", e)
		}
	}
}

// TestPushAccess sees who may not subscribe.
func TestPushAccess(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	for _, tc := range []struct {
		bearer, path string
		status       int
	}{
		{"", "/inbox/push_subscriptions", 401}, {c, "/inbox/push_subscriptions", 401},
		{"", "/push_subscriptions", 401}, {inboxToken(t, w, "shop", "u"), "/push_subscriptions", 401},
		{w.User("u", "notifications.write"), "/push_subscriptions", 403},
		{w.Client("shop", "notification_preferences.read", "notification_preferences.write"), "/push_subscriptions", 422},
	} {
		for _, method := range []string{"GET", "POST"} {
			w.Expect(1, tc.bearer, method, tc.path, subscription("https://push.example.com/x", ""), tc.status, "")
		}
		w.Call(1, tc.bearer, "DELETE", tc.path+"/x", "")
	}
	page := inboxToken(t, w, "shop", "u")
	a := w.Call(1, page, "POST", "/inbox/push_subscriptions", subscription("https://push.example.com/x", ""), "Origin",
		"https://evil.example")
	if a.Status != 403 {
		t.Errorf("a page of another origin: %d", a.Status)
	}
	a = w.Call(1, "", "OPTIONS", "/inbox/push_subscriptions/x", "", "Origin", "https://app.example.com")
	if a.Status != http.StatusNoContent || a.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("preflight: %d %v", a.Status, a.Header)
	}
}

// TestPushRefused sees what is no subscription.
func TestPushRefused(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	page := inboxToken(t, w, "shop", "u")
	good := subscription("https://push.example.com/x", "")
	for _, endpoint := range []string{"", "x", "http://push.example.com/x", "https://", "file:///etc/passwd",
		"https://user:pw@push.example.com", "https://push.example.com/" + strings.Repeat("x", 2000)} {
		a := w.Expect(1, page, "POST", "/inbox/push_subscriptions", subscription(endpoint, ""), 422, "")
		if !strings.Contains(a.Message(), `"endpoint"`) {
			t.Errorf("%.50s: %s", endpoint, a.Message())
		}
	}
	for from, to := range map[string]string{
		pushP256dh:      pushP256dh[:20],
		pushP256dh[:8]:  "BCVxsr8A",
		pushAuth:        "AAAA",
		pushAuth[:4]:    "+/+/",
		`"expirationT`:  `"label":"` + strings.Repeat("x", 101) + `","expirationT`,
		`"expirationTi`: `"label":"a\nb","expirationTi`,
	} {
		w.Expect(1, page, "POST", "/inbox/push_subscriptions", strings.Replace(good, from, to, 1), 422, "")
	}
	w.Expect(1, inboxToken(t, w, "shop", "a\x01b"), "POST", "/inbox/push_subscriptions", good, 422, "")
}

// TestPushIsBounded subscribes until the client has too much stored.
func TestPushIsBounded(t *testing.T) {
	t.Parallel()
	w := apitest.Bounded(t, actions.Limits{}, notify.Bounds{Sends: 5 * notify.PushSubscriptionBytes})
	for i := range 6 {
		status := 201
		if i == 5 {
			status = 507
		}
		w.Expect(1, inboxToken(t, w, "shop", fmt.Sprint("u", i)), "POST", "/inbox/push_subscriptions",
			subscription(fmt.Sprint("https://push.example.com/", i), ""), status, "")
	}
}

// TestPushDevices registers devices, for which a provider has to deliver.
func TestPushDevices(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		page, own := inboxToken(t, w, "shop", "ann"), w.User("ann", "notification_preferences.read",
			"notification_preferences.write")
		const path, token = "/inbox/push_subscriptions", "dEv1ce:APA91b-_secret"
		device := func(service, token, more string) string {
			return fmt.Sprintf(`{"service":%q,"token":%q,"label":"Pixel"%s}`, service, token, more)
		}
		w.Expect(version, page, "POST", path, device("fcm", token, ""), 422, "")
		const definition = `{"channel":"push","url":"https://93.184.215.14/send","json":{"to":"{{token}}","text":"{{text}}"},
			"gone":[{"status":[404,410]}],"secrets":{}%s}`
		a := w.Expect(version, c, "PUT", "/providers/fcm", fmt.Sprintf(definition, ""), 200, "")
		if !strings.Contains(a.Body, `"channel":"push"`) || !strings.Contains(a.Body, `"gone":[{"status":[404,410]}]`) {
			t.Errorf("the provider is %s", a.Body)
		}
		w.Expect(version, c, "PUT", "/providers/relay", fmt.Sprintf(definition, `,"service":"relays","max_text":500`), 200, "")
		w.Expect(version, c, "PUT", "/providers/relay", `{"channel":"inbox","url":"https://93.184.215.14/"}`, 422, "")
		w.Expect(version, c, "PUT", "/providers/relay", `{"channel":"push","url":"https://93.184.215.14/"}`, 422, "")
		w.Expect(version, c, "PUT", "/providers/relay", fmt.Sprintf(definition, `,"max_segments":2`), 422, "")

		a = w.Expect(version, page, "POST", path, device("fcm", token, ""), 201, "")
		for _, want := range []string{`"type":"device"`, `"service":"fcm"`, `"label":"Pixel"`, `"client_id":"shop"`} {
			if !strings.Contains(a.Body, want) || strings.Contains(a.Body, token) {
				t.Errorf("the answer is %s, want %s and no token", a.Body, want)
			}
		}
		w.Expect(version, page, "POST", path, device("fcm", token, ""), 201, "") // again
		w.Expect(version, own, "POST", "/push_subscriptions", device("relays", "tok-2", `,"client_id":"shop"`), 201, "")
		w.Expect(version, page, "POST", path, subscription("https://push.example.com/x", ""), 201, "")
		var l pushList
		w.Expect(version, page, "GET", path, "", 200, "").Into(&l)
		if got := services(l); got != "shop@fcm shop@push.example.com shop@relays" {
			t.Errorf("registered are %s", got)
		}
		shown := w.Expect(version, c, "GET", "/recipient_data?user_id=ann", "", 200, "").Body
		if strings.Contains(shown, token) || !strings.Contains(shown, `"service":"fcm"`) {
			t.Errorf("the recipient's data is %s", shown)
		}
		// It belongs to who registered it last.
		other := inboxToken(t, w, "shop", "bob")
		w.Expect(version, other, "POST", path, device("fcm", token, ""), 201, "")
		w.Expect(version, page, "GET", path, "", 200, "").Into(&l)
		if got := services(l); got != "shop@push.example.com shop@relays" {
			t.Errorf("then %s", got)
		}
		for _, body := range []string{
			device("relay", token, ""), device("nope", token, ""), device("", token, ""), device("F C M", token, ""),
			device("fcm", "", ""), device("fcm", "abc", ""), device("fcm", "a\nb\nc", ""),
			device("fcm", "a\r\nX-Injected: 1", ""), device("fcm", "a b c", ""), device("fcm", "a\x00bcd", ""),
			device("fcm", "tökens", ""), device("fcm", "ab\u2028cd", ""),
			device("fcm", strings.Repeat("x", 2001), ""), device("fcm", strings.Repeat("x", 1<<20), ""),
			`{"service":"fcm","token":7}`, `{"service":"fcm","token":"token","extra":1}`,
			subscription("https://push.example.com/x", `"service":"fcm","token":"token",`),
			`{"service":"fcm","token":"token","label":"` + strings.Repeat("x", 101) + `"}`,
		} {
			if a := w.Call(version, page, "POST", path, body); a.Status != 422 && a.Status != 413 && a.Status != 400 {
				t.Errorf("%.100s: %d %s", body, a.Status, a.Body)
			}
		}
		if e := w.Expect(version, c, "POST", "/erasures", `{"user_id":"bob"}`, 200, "").Body; !strings.Contains(e,
			`"push_subscriptions":1`) {
			t.Errorf("the erasure is %s", e)
		}
	}
}
