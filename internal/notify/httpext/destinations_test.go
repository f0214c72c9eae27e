package httpext_test

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
)

// TestDestinations sets, shows and deletes destinations. Their addresses are never shown.
func TestDestinations(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		other := w.Client("other")
		for _, step := range []struct {
			method, path, body, bearer string
			status                     int
			want                       string
		}{
			{"GET", "", "", c, 200, `{"destinations":[]}`},
			{"PUT", "/chat", `{"url":"https://hooks.slack.com/services/s3cret"}`, c, 200, `"url":"https://hooks.slack.com/…"`},
			{"PUT", "/chat", `{"url":"https://hooks.slack.com/services/s3cret"}`, c, 200, `"format":"slack"`},
			{"PUT", "/chat", `{"url":"https://discord.com/api/s3cret","format":"discord"}`, c, 200, `"format":"discord"`},
			{"PUT", "/webhook", `{"url":"https://app.example.com/s3cret?x=1"}`, c, 200, `"secret":"`},
			{"PUT", "/webhook", `{"url":"https://app.example.com/s3cret","secret":"0123456789abcdef"}`, c, 200, `"channel":"webhook"`},
			{"GET", "", "", c, 200, `"channel":"chat"`},
			{"GET", "", "", w.Client("shop", "notifications.write"), 200, `"channel":"webhook"`},
			{"GET", "", "", other, 200, `{"destinations":[]}`},
			{"DELETE", "/chat", "", other, 404, "could not be found"},
			{"GET", "", "", w.Client("shop", "emails.write"), 403, ""},
			{"PUT", "/chat", `{"url":"https://example.com"}`, w.Client("shop", "emails.write"), 403, ""},
			{"DELETE", "/chat", "", w.Client("shop", "emails.write"), 403, ""},
			{"DELETE", "/chat", "", c, 204, ""},
			{"DELETE", "/chat", "", c, 404, "could not be found"},
			{"DELETE", "/email", "", c, 404, "has no destination"},
			{"PUT", "/email", `{"url":"https://example.com"}`, c, 404, "has no destination"},
			{"PUT", "/..%2Fx", `{"url":"https://example.com"}`, c, 404, ""},

			{"PUT", "/chat", `{"url":"file:///etc/passwd"}`, c, 422, "https://"},
			{"PUT", "/chat", `{"url":"https://u:p@example.com"}`, c, 422, "user name"},
			{"PUT", "/chat", `{"url":"//example.com"}`, c, 422, "https://"},
			{"PUT", "/chat", `{"url":"https://example.com/` + strings.Repeat("x", 2000) + `"}`, c, 422, "2000"},
			{"PUT", "/chat", `{"url":"https://exa\u0000mple.com/"}`, c, 422, ""},
			{"PUT", "/chat", `{"url":"https://example.com\r\nX: y"}`, c, 422, ""},
			{"PUT", "/chat", `{}`, c, 422, "https://"},
			{"PUT", "/chat", `{"url":7}`, c, 422, "url"},
			{"PUT", "/chat", `{"url":"https://example.com","format":"irc"}`, c, 422, "slack, teams, discord"},
			{"PUT", "/chat", `{"url":"https://example.com","secret":"0123456789abcdef"}`, c, 422, "not signed"},
			{"PUT", "/webhook", `{"url":"https://example.com","format":"slack"}`, c, 422, "for chats"},
			{"PUT", "/webhook", `{"url":"https://example.com","secret":"short"}`, c, 422, "16 to 200"},
			{"PUT", "/webhook", `{"url":"https://example.com","secret":"` + strings.Repeat("x", 201) + `"}`, c, 422, "16 to 200"},
			{"PUT", "/webhook", `{`, c, 400, ""},
		} {
			a := w.Expect(version, step.bearer, step.method, "/destinations"+step.path, step.body, step.status, "")
			if !strings.Contains(a.Body, step.want) || strings.Contains(a.Body, "s3cret") ||
				strings.Contains(a.Body, "0123456789abcdef") {
				t.Errorf("%s %s %.100s: %s, want %s", step.method, step.path, step.body, a.Body, step.want)
			}
		}
		if d, err := w.Store.Destination(t.Context(), "shop", notify.Hook); err != nil || d.Secret != "0123456789abcdef" ||
			d.URL != "https://app.example.com/s3cret" {
			t.Errorf("%+v is stored, %v", d, err)
		}
	}
}

// TestDestinationChannels sends to two users by a kind that has all channels: each gets a message on each, the chat
// one. A channel without a destination cannot be chosen.
func TestDestinationChannels(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Directory.Users["u-1"], w.Directory.Users["u-2"] = "u1@example.com", "u2@example.com"
	w.Directory.Members["s-1"] = []string{"u-1", "u-2"}
	set := func(status int, channels string) {
		t.Helper()
		if a := w.Expect(1, c, "PUT", "/kinds/news/channels", `{"channels":[`+channels+`]}`, status, ""); status == 422 &&
			!strings.Contains(a.Body, "PUT /destinations/") {
			t.Errorf("without a destination: %s", a.Body)
		}
	}
	set(422, `"chat"`)
	set(422, `"email","webhook"`)
	w.Expect(1, c, "PUT", "/destinations/chat", `{"url":"https://hooks.example.com/x"}`, 200, "")
	set(422, `"chat","webhook"`)
	w.Expect(1, c, "PUT", "/destinations/webhook", `{"url":"https://app.example.com/x"}`, 200, "")
	for _, tc := range []struct {
		channels, path string
		entries        int // of the answer of version 1
		want           map[notify.ChannelID]int
	}{
		{`"chat","webhook","email","inbox"`, "/spaces/s-1", 2,
			map[notify.ChannelID]int{notify.Email: 2, notify.Inbox: 2, notify.Hook: 2, notify.Chat: 1}},
		{`"chat"`, "/spaces/s-1", 1, map[notify.ChannelID]int{notify.Chat: 1}},
		{`"chat","webhook"`, "/users/u-1", 1, map[notify.ChannelID]int{notify.Hook: 1, notify.Chat: 1}},
		{`"chat","inbox"`, "/users/u-1", 1, map[notify.ChannelID]int{notify.Inbox: 1, notify.Chat: 1}},
	} {
		set(200, tc.channels)
		var answer []struct{ Recipient, Status string }
		w.Expect(1, c, "POST", tc.path, `{"kind_id":"news","text":"t"}`, 200, "").Into(&answer)
		if len(answer) != tc.entries || answer[0].Recipient == "" {
			t.Errorf("%s: %+v, want %d entries", tc.channels, answer, tc.entries)
		}
		for id := range notify.ChannelID(notify.ChannelCount) {
			claimed, err := w.Store.Claim(t.Context(), "w", 100, time.Hour, id)
			if err != nil || len(claimed) != tc.want[id] {
				t.Errorf("%s: %d messages on %s, want %d, error %v", tc.channels, len(claimed), id, tc.want[id], err)
			}
		}
	}
	if a := w.Expect(1, c, "GET", "/messages?limit=100", "", 200, ""); strings.Count(a.Body, `"channel":"chat"`) != 4 {
		t.Errorf("messages are %s", a.Body)
	}
}
