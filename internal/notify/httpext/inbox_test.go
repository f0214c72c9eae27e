package httpext_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
	"ingot/internal/notify/inbox"
)

// inboxToken returns a token as a client would issue it.
func inboxToken(t *testing.T, w *apitest.World, client, user string) string {
	t.Helper()
	raw, _, err := w.Tokens.Make(notify.Owner{ClientID: client, UserID: user}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// put stores a notification, as a delivery does, and returns its id.
func put(t *testing.T, w *apitest.World, client, user string, number int64, title string) string {
	t.Helper()
	of := notify.Owner{ClientID: client, UserID: user}
	if err := w.Store.AddNotifications(t.Context(), client, []notify.Notification{{Number: number, Owner: of,
		KindID: "news", Title: title, Text: "text of " + title}}); err != nil {
		t.Fatal(err)
	}
	w.Hub.Changed(of)
	return w.IDs.Message(number)
}

type inboxPage struct {
	Notifications []struct {
		ID, Title, Text string
	}
	Next        string
	UnreadCount int    `json:"unread_count"`
	LastEventID string `json:"last_event_id"`
}

func titles(p inboxPage) string {
	var all []string
	for _, n := range p.Notifications {
		all = append(all, n.Title)
	}
	return strings.Join(all, " ")
}

// TestChannels sets the channels of kinds and campaign types, which the other APIs do not show.
func TestChannels(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var sender, kind struct{ ID string }
	w.Expect(2, c, "POST", "/senders", `{"name":"s"}`, 201, "").Into(&sender)
	w.Expect(2, c, "POST", "/senders/"+sender.ID+"/campaign_types", `{"name":"t","description":"d"}`, 201, "").Into(&kind)
	other := w.Client("other")
	for _, path := range []string{"/kinds/news/channels", "/campaign_types/" + kind.ID + "/channels"} {
		for version := range 2 {
			version++
			for _, step := range []struct {
				method, body, bearer string
				status               int
				want                 string
			}{
				{"PUT", `{"channels":["email"]}`, c, 200, `{"channels":["email"]}`},
				{"GET", "", c, 200, `{"channels":["email"]}`},
				{"PUT", `{"channels":["inbox","email"]}`, c, 200, `{"channels":["email","inbox"]}`},
				{"GET", "", c, 200, `{"channels":["email","inbox"]}`},
				{"PUT", `{"channels":["inbox"]}`, c, 200, `{"channels":["inbox"]}`},
				{"PUT", `{"channels":["fax"]}`, c, 422, "fax"},
				{"PUT", `{"channels":["inbox","inbox"]}`, c, 422, "more than once"},
				{"PUT", `{"channels":[]}`, c, 422, "at least one"},
				{"PUT", `{`, c, 400, ""},
				{"GET", "", c, 200, `{"channels":["inbox"]}`},
				{"GET", "", other, 404, ""},
				{"PUT", `{"channels":["email"]}`, other, 404, ""},
				{"GET", "", w.Client("shop", "emails.write"), 403, ""},
			} {
				a := w.Expect(version, step.bearer, step.method, path, step.body, step.status, "")
				if !strings.Contains(a.Body, step.want) {
					t.Errorf("%s %s %s: %s, want %s", step.method, path, step.body, a.Body, step.want)
				}
			}
		}
	}
	// Registering again keeps them, and no other API shows them.
	w.Expect(1, c, "PUT", "/notifications", `{"source_name":"S","notifications":{"news":{"description":"d"}}}`, 204, "")
	if a := w.Expect(1, c, "GET", "/kinds/news/channels", "", 200, ""); !strings.Contains(a.Body, "inbox") {
		t.Errorf("after registering again: %s", a.Body)
	}
	for path, version := range map[string]int{"/notifications": 1, "/campaign_types/" + kind.ID: 2} {
		if a := w.Expect(version, c, "GET", path, "", 200, ""); strings.Contains(a.Body, "channels") {
			t.Errorf("%s shows channels: %s", path, a.Body)
		}
	}
}

// TestChannelMessages sends to users and addresses by a kind with two channels.
func TestChannelMessages(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Directory.Users["u-1"], w.Directory.Users["u-2"] = "u1@example.com", "u2@example.com"
	w.Directory.Members["s-1"] = []string{"u-1", "u-2"}
	w.Expect(1, c, "PUT", "/kinds/news/channels", `{"channels":["email","inbox"]}`, 200, "")
	var answer []struct{ Recipient string }
	w.Expect(1, c, "POST", "/spaces/s-1", `{"kind_id":"news","text":"t"}`, 200, "").Into(&answer)
	if len(answer) != 2 {
		t.Errorf("one entry for each recipient is the answer of this API, got %+v", answer)
	}
	w.Expect(1, c, "POST", "/emails", `{"to":"a@example.com","kind_id":"news","text":"t"}`, 200, "")
	count := func(of notify.ChannelID) int {
		claimed, err := w.Store.Claim(t.Context(), "w", 100, time.Minute, of)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range claimed {
			if m.Channel != of {
				t.Errorf("%+v was claimed of the channel %s", m.Message, of)
			}
		}
		return len(claimed)
	}
	if mail, stored := count(notify.Email), count(notify.Inbox); mail != 3 || stored != 2 {
		t.Errorf("%d messages by mail and %d to inboxes, want 3 and 2", mail, stored)
	}
}

// TestInbox reads and changes an inbox with a token.
func TestInbox(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var made struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	w.Expect(1, c, "POST", "/inbox/tokens", `{"user_id":"u-1","expires_in":600}`, 201, "").Into(&made)
	if left := time.Until(made.ExpiresAt); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("the token is valid for %s", left)
	}
	u := made.Token
	var ids []string
	for i := range 5 {
		ids = append(ids, put(t, w, "shop", "u-1", int64(100+i), fmt.Sprint("n", i)))
	}
	put(t, w, "shop", "u-2", 200, "of another user")
	put(t, w, "other", "u-1", 201, "of another client")
	list := func(query string) (p inboxPage) {
		w.Expect(1, u, "GET", "/inbox/notifications"+query, "", 200, "").Into(&p)
		return p
	}
	all := list("")
	if titles(all) != "n4 n3 n2 n1 n0" || all.UnreadCount != 5 || all.Next != "" ||
		all.Notifications[0].Text != "text of n4" {
		t.Errorf("%+v", all)
	}
	first := list("?limit=2")
	if second := list("?limit=2&after=" + first.Next); titles(first) != "n4 n3" || titles(second) != "n2 n1" {
		t.Errorf("pages are %s and %s", titles(first), titles(second))
	}
	w.Expect(2, u, "PATCH", "/inbox/notifications/"+ids[4], `{"read":true}`, 200, "")
	w.Expect(1, u, "PATCH", "/inbox/notifications/"+ids[3], `{"archived":true}`, 200, "")
	w.Expect(1, u, "DELETE", "/inbox/notifications/"+ids[2], "", 204, "")
	for query, want := range map[string]string{"": "n4 n1 n0", "?unread=true": "n1 n0", "?archived=true": "n3"} {
		if got := titles(list(query)); got != want {
			t.Errorf("%q has %s, want %s", query, got, want)
		}
	}
	if a := w.Expect(1, u, "POST", "/inbox/read_all", "", 200, ""); !strings.Contains(a.Body, `"read":2`) {
		t.Errorf("read all: %s", a.Body)
	}
	if a := w.Expect(1, u, "GET", "/inbox/unread_count", "", 200, ""); !strings.Contains(a.Body, `"unread_count":0`) {
		t.Errorf("after reading all: %s", a.Body)
	}
	w.Expect(1, u, "PATCH", "/inbox/notifications/"+ids[4], `{"read":false,"archived":false}`, 200, "")
	for _, bad := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/inbox/notifications?limit=0", "", 422}, {"GET", "/inbox/notifications?limit=201", "", 422},
		{"GET", "/inbox/notifications?after=x", "", 422}, {"GET", "/inbox/notifications?unread=1", "", 422},
		{"GET", "/inbox/notifications?colour=1", "", 400},
		{"PATCH", "/inbox/notifications/" + ids[4], `{}`, 422}, {"PATCH", "/inbox/notifications/" + ids[4], `{`, 400},
		{"PATCH", "/inbox/notifications/" + ids[2], `{"read":true}`, 404},
		{"PATCH", "/inbox/notifications/x", `{"read":true}`, 404}, {"DELETE", "/inbox/notifications/x", "", 404},
		{"DELETE", "/inbox/notifications/" + ids[2], "", 404},
	} {
		w.Expect(1, u, bad.method, bad.path, bad.body, bad.status, "")
	}
	for _, bad := range []string{`{}`, `{"user_id":""}`, `{"user_id":"u","expires_in":0}`,
		`{"user_id":"u","expires_in":-1}`, `{"user_id":"u","expires_in":86401}`, `{"user_id":"` + strings.Repeat("u", 1001) + `"}`} {
		w.Expect(1, c, "POST", "/inbox/tokens", bad, 422, "")
	}
}

// TestInboxTokens sees that a token opens one inbox for a time, and nothing else.
func TestInboxTokens(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	mine := put(t, w, "shop", "u-1", 100, "mine")
	foreign := put(t, w, "other", "u-1", 101, "of another client")
	theirs := put(t, w, "shop", "u-2", 102, "of another user")
	u := inboxToken(t, w, "shop", "u-1")
	for _, id := range []string{foreign, theirs} {
		w.Expect(1, u, "PATCH", "/inbox/notifications/"+id, `{"read":true}`, 404, "")
		w.Expect(1, u, "DELETE", "/inbox/notifications/"+id, "", 404, "")
	}
	w.Expect(1, u, "PATCH", "/inbox/notifications/"+mine, `{"read":true}`, 200, "")

	key := []byte(strings.Repeat("k", 32))
	make := func(key []byte, now time.Time) string {
		tokens, err := inbox.NewTokens(key, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		raw, _, err := tokens.Make(notify.Owner{ClientID: "shop", UserID: "u-1"}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	own, err := w.Store.IDKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(u, ".")
	for name, token := range map[string]string{
		"none": "", "of a client": c, "of a user": w.User("u-1", "notifications.write"),
		"of another server": make(key, time.Now()),
		"expired":           make(own, time.Now().Add(-time.Hour)),
		"no signature":      head + "." + strings.Split(rest, ".")[0] + ".",
		"unsigned":          "eyJhbGciOiJub25lIn0." + strings.Split(rest, ".")[0] + ".", "nonsense": "x",
		"long": strings.Repeat("x", 20_000),
	} {
		for _, route := range [][2]string{{"GET", "/inbox/notifications"}, {"GET", "/inbox/unread_count"},
			{"GET", "/inbox/events"},
			{"POST", "/inbox/read_all"}, {"PATCH", "/inbox/notifications/" + mine}, {"DELETE", "/inbox/notifications/" + mine}} {
			if a := w.Call(1, token, route[0], route[1], `{"read":true}`); a.Status != 401 {
				t.Errorf("%s %s with a token that is %s: %d %s", route[0], route[1], name, a.Status, a.Body)
			}
		}
	}
	// It opens nothing else.
	for _, path := range []string{"/sends", "/messages", "/kinds/news/channels", "/inbox/origins", "/usage"} {
		w.Expect(1, u, "GET", path, "", 401, "")
	}
	w.Expect(1, u, "POST", "/inbox/tokens", `{"user_id":"u-2"}`, 401, "")
}

// TestInboxOrigins sees which pages may read inboxes.
func TestInboxOrigins(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	u, other := inboxToken(t, w, "shop", "u-1"), inboxToken(t, w, "other", "u-1")
	w.Expect(1, c, "PUT", "/inbox/origins", `{"origins":["https://app.example.com","http://localhost:3000"]}`, 200, "")
	if a := w.Expect(2, c, "GET", "/inbox/origins", "", 200, ""); !strings.Contains(a.Body, "https://app.example.com") {
		t.Errorf("origins are %s", a.Body)
	}
	for _, tc := range []struct {
		token, origin string
		status        int
		allowed       string
	}{
		{u, "", 200, ""},
		{u, "https://app.example.com", 200, "https://app.example.com"},
		{u, "http://localhost:3000", 200, "http://localhost:3000"},
		{u, "http://example.com", 200, ""}, // of this server: httptest requests have this host
		{u, "https://evil.example.net", 403, ""},
		{u, "https://app.example.com.evil.net", 403, ""},
		{u, "null", 403, ""},
		{other, "https://app.example.com", 403, ""},
		{"x", "https://app.example.com", 401, ""},
	} {
		a := w.Call(1, tc.token, "GET", "/inbox/unread_count", "", "Origin", tc.origin)
		if got := a.Header.Get("Access-Control-Allow-Origin"); a.Status != tc.status || got != tc.allowed ||
			tc.status == 200 && a.Header.Get("Vary") != "Origin" {
			t.Errorf("origin %q: %d, allowed %q; want %d %q", tc.origin, a.Status, got, tc.status, tc.allowed)
		}
	}
	for _, path := range []string{"/inbox/notifications", "/inbox/notifications/x", "/inbox/unread_count",
		"/inbox/read_all", "/inbox/events"} {
		a := w.Call(1, "", "OPTIONS", path, "", "Origin", "https://app.example.com")
		if a.Status != 204 || !strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "Authorization") ||
			a.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("OPTIONS %s: %d %v", path, a.Status, a.Header)
		}
	}
	for _, bad := range []string{"https://app.example.com/", "app.example.com", "*", "https://*.example.com/x",
		"ftp://example.com",
		"https://", "null", "https://u@example.com", "https://APP.example.com", "https://" + strings.Repeat("x", 300)} {
		w.Expect(1, c, "PUT", "/inbox/origins", `{"origins":["`+bad+`"]}`, 422, "")
	}
	w.Expect(1, c, "PUT", "/inbox/origins", `{"origins":[`+strings.TrimSuffix(strings.Repeat(`"https://a.example.com",`, 51), ",")+`]}`,
		422, "")
}

// TestInboxEvents follows an inbox over HTTP/1.1 and HTTP/2, and continues after a break.
func TestInboxEvents(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			w, _ := world(t)
			u := inboxToken(t, w, "shop", "u-1")
			server := httptest.NewUnstartedServer(w.Handler(1))
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			t.Cleanup(server.Close)
			connect := func(last string) *bufio.Scanner {
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/inbox/events", nil)
				r.Header.Set("Authorization", "Bearer "+u)
				if last != "" {
					r.Header.Set("Last-Event-ID", last)
				}
				a, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { a.Body.Close() })
				if a.StatusCode != http.StatusOK || a.Proto != protocol ||
					!strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
					t.Fatalf("%s %s %v", a.Status, a.Proto, a.Header)
				}
				return bufio.NewScanner(a.Body)
			}
			want := func(s *bufio.Scanner, name, id, part string) {
				t.Helper()
				var lines []string
				for s.Scan() && s.Text() != "" {
					lines = append(lines, s.Text())
				}
				text := strings.Join(lines, "\n")
				if !strings.HasPrefix(text, "event: "+name+"\nid: "+id+"\ndata: {") || !strings.Contains(text, part) {
					t.Fatalf("event is %q, want %s with id %s and %s", text, name, id, part)
				}
			}
			s := connect("")
			want(s, "ready", "0", `"unread_count":0`)
			id := put(t, w, "shop", "u-1", 100, "first")
			want(s, "notification", "1", `"title":"first"`)
			put(t, w, "shop", "u-2", 101, "of another")
			put(t, w, "other", "u-1", 102, "of another")
			w.Expect(1, u, "PATCH", "/inbox/notifications/"+id, `{"read":true}`, 200, "")
			want(s, "notification", "2", `"unread_count":0`)
			put(t, w, "shop", "u-1", 103, "second")
			want(s, "notification", "3", `"title":"second"`)

			again := connect("1")
			want(again, "notification", "2", `"title":"first"`)
			want(again, "notification", "3", `"title":"second"`)
			want(again, "ready", "3", `"unread_count":1`)
			w.Expect(1, u, "POST", "/inbox/read_all", "", 200, "")
			want(s, "reset", "4", `"unread_count":0`)
			want(again, "reset", "4", `"unread_count":0`)
			want(connect("3"), "reset", "4", "") // what was missed cannot be told one by one
			want(connect("99"), "reset", "4", "")
			want(connect("4"), "ready", "4", "")
			for i := range 60 {
				put(t, w, "shop", "u-1", int64(1000+i), "many")
			}
			want(connect("4"), "reset", "64", `"unread_count":60`)
		})
	}
}
