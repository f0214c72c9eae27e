package httpext_test

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

// TestQuietHours sets and deletes quiet hours, as the user, as an administrator, and of an address. Each of these
// answers is compared with the description.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	user := w.User("u-1", "notification_preferences.read", "notification_preferences.write")
	admin := w.Client("support", "notification_preferences.admin")
	expect := func(bearer, method, path, body string, status int, want string) {
		t.Helper()
		if a := w.Expect(1, bearer, method, path, body, status, ""); !strings.Contains(a.Body, want) {
			t.Errorf("%s %s %s: %s, want %s", method, path, body, a.Body, want)
		}
	}
	shown := func(want string) {
		t.Helper()
		body := `{"user_id":"u-1","global_unsubscribe":false,` + want + `"clients":{}}`
		for _, a := range []string{w.Expect(1, user, "GET", "/preferences", "", 200, "").Body,
			w.Expect(2, admin, "GET", "/preferences/u-1", "", 200, "").Body} {
			if strings.TrimSpace(a) != body {
				t.Errorf("%s, want %s", a, body)
			}
		}
	}
	const night = `"quiet_hours":{"from":"22:00","to":"07:00","zone":"Europe/Berlin"},`
	const work = `"quiet_hours":{"from":"09:00","to":"17:00","zone":"UTC","days":["mon","fri"],"channels":["email","sms"]},`
	expect(user, "PATCH", "/preferences", `{"quiet_hours":null}`, 200, `"clients":{}`)
	shown("")
	expect(user, "PATCH", "/preferences", "{"+strings.TrimSuffix(night, ",")+"}", 200, night)
	shown(night)
	expect(user, "PATCH", "/preferences", `{"global_unsubscribe":false}`, 200, night)
	expect(admin, "PATCH", "/preferences/u-1",
		`{"quiet_hours":{"from":"09:00","to":"17:00","zone":"UTC","days":["FRI","mon"],"channels":["sms","email"]}}`, 200, work)
	shown(work)
	for body, want := range map[string]string{
		`{"from":"9:00","to":"17:00","zone":"UTC"}`:                      "quiet_hours.from: it must be a time of day",
		`{"from":"09:00","to":"25:00","zone":"UTC"}`:                     "quiet_hours.to: it must be a time of day",
		`{"from":"09:00","to":"17:00"}`:                                  "quiet_hours.zone:",
		`{"from":"09:00","to":"17:00","zone":"Mars/Olympus"}`:            "quiet_hours.zone:",
		`{"from":"09:00","to":"09:00","zone":"UTC"}`:                     "quiet_hours.to: the quiet hours would never end",
		`{"from":"09:00","to":"17:00","zone":"UTC","days":["x"]}`:        "quiet_hours.days:",
		`{"from":"09:00","to":"17:00","zone":"UTC","channels":["chat"]}`: "quiet_hours.channels: a chat is a room",
		`{"from":"09:00","to":"17:00","zone":"UTC","colour":"x"}`:        "colour",
		`[]`: "", `"22:00"`: "", `{"from":9}`: "", `true`: "",
	} {
		expect(user, "PATCH", "/preferences", `{"global_unsubscribe":true,"quiet_hours":`+body+`}`, 422, want)
	}
	shown(work)
	w.Expect(1, w.User("u-1", "notification_preferences.read"), "PATCH", "/preferences", `{"quiet_hours":null}`, 403, "")
	expect(user, "PATCH", "/preferences/u-2", `{"quiet_hours":null}`, 403, "")
	expect(user, "PATCH", "/preferences", `{"quiet_hours":null}`, 200, "")
	shown("")

	expect(admin, "PATCH", "/preferences/mailto:Ann@example.com", "{"+strings.TrimSuffix(night, ",")+"}", 200, night)
	boss := w.User("boss", "notifications.admin")
	expect(boss, "GET", "/recipient_data?email=ann@example.com&client_id=*", "", 200,
		`"quiet_hours":[{"from":"22:00","to":"07:00","zone":"Europe/Berlin"}]`)
	expect(boss, "POST", "/erasures", `{"email":"ann@example.com","client_id":"*"}`, 200, "")
	a := w.Expect(2, admin, "GET", "/preferences/mailto:ann@example.com", "", 200, "")
	if strings.Contains(a.Body, "quiet") {
		t.Errorf("after erasing: %s", a.Body)
	}
}

// TestQuietLimit refuses what may wait for the end of quiet hours, of a client of which enough does.
func TestQuietLimit(t *testing.T) {
	t.Parallel()
	w := apitest.Limited(t, actions.Limits{Delayed: 1})
	for _, id := range []string{"shop", "other"} {
		w.Expect(1, w.Client(id), "PUT", "/notifications", `{"source_name":"x","notifications":{"news":{"description":"n"},`+
			`"alarm":{"description":"a","critical":true}}}`, 204, "")
	}
	send := func(client, kind string, status int) apitest.Answer {
		t.Helper()
		return w.Expect(1, w.Client(client), "POST", "/users/u-1", `{"kind_id":"`+kind+`","text":"t"}`, status, "")
	}
	send("shop", "news", 200)
	claimed, err := w.Store.Claim(t.Context(), "w", 10, time.Minute)
	testkit.Must(t, err)
	outcomes := make([]notify.Outcome, 0, len(claimed))
	for _, c := range claimed {
		outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Retry, Quiet: true,
			Due: time.Now().Add(time.Hour), At: time.Now()})
	}
	_, err = w.Store.Finish(t.Context(), outcomes, nil)
	testkit.Must(t, err)
	a := send("shop", "news", 429)
	if !strings.Contains(a.Body, "may have 1 messages that wait for the end of quiet hours") ||
		a.Header.Get("Retry-After") == "" {
		t.Errorf("%s with %v", a.Body, a.Header)
	}
	send("shop", "alarm", 200)
	send("other", "news", 200)
}
