package httpext_test

import (
	"encoding/csv"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
)

type personData struct {
	Suppressions, Unsubscribed, Lists, Scheduled, Inbox []map[string]any
	Messages                                            []struct {
		Email, Subject string
		ClientID       string `json:"client_id"`
		Content        *struct {
			Text string
			Data map[string]any
		}
	}
}

// look reads what is stored about a person.
func look(t *testing.T, w *apitest.World, bearer, query string) (d personData) {
	t.Helper()
	w.Expect(1, bearer, "GET", "/recipient_data?"+query, "", 200, "").Into(&d)
	return d
}

// TestErase shows what two clients know about a recipient, and erases it for one, then for both.
func TestErase(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	admin := w.User("boss", "notifications.admin")
	w.Directory.Users["u-1"] = "u1@example.com"
	bank := w.Client("bank")
	w.Expect(1, bank, "PUT", "/notifications",
		`{"source_name":"Bank","notifications":{"news":{"description":"News"}}}`, 204, "")
	for _, c := range []string{shop, bank} {
		w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","subject":"For you","text":"a secret"}`, 200, "")
		w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","subject":"Both","text":"t","recipients":[{"user":"u-1",
			"data":{"n":1}},{"email":"ann@example.com"}]}`, 202, "")
		w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","subject":"Later","text":"t","delay":"2h",
			"audience":{"type":"user","id":"u-1"}}`, 202, "")
	}
	err := w.Store.ChangePreferences(t.Context(), "u-1", notify.PreferenceChange{
		Kinds: map[notify.KindRef]bool{{ClientID: "shop", KindID: "news"}: false}})
	if err != nil {
		t.Fatal(err)
	}
	w.Expect(1, admin, "PUT", "/suppressions/u1@example.com", "", 204, "")
	finishAll(t, w)

	d := look(t, w, shop, "user_id=u-1")
	if len(d.Messages) != 2 || len(d.Unsubscribed) != 1 || len(d.Lists) != 1 || len(d.Scheduled) != 1 ||
		len(d.Suppressions) != 0 || d.Messages[0].Subject != "Both" || d.Messages[0].Content != nil ||
		d.Messages[1].Content == nil || d.Messages[1].Content.Text != "a secret" {
		t.Errorf("the shop is shown %+v", d)
	}
	if d := look(t, w, admin, "client_id=*&user_id=u-1&email=U1@example.com"); len(d.Messages) != 4 ||
		len(d.Suppressions) != 1 {
		t.Errorf("an administrator is shown %+v", d)
	}

	var e struct {
		ID, Status string
		ClientID   string `json:"client_id"`
		Erased     map[string]int
		Kept       map[string]int `json:"kept_as_hash"`
	}
	w.Expect(1, shop, "POST", "/erasures", `{"user_id":"u-1"}`, 200, "").Into(&e)
	if e.Status != "finished" || e.ClientID != "shop" || e.Erased["messages"] != 2 || e.Erased["list_entries"] != 1 ||
		e.Erased["canceled"] != 1 || e.Kept["unsubscribed"] != 1 {
		t.Errorf("erased: %+v", e)
	}
	w.Expect(1, shop, "GET", "/erasures/"+e.ID, "", 200, "")
	w.Expect(1, w.Client("bank", "notifications.manage"), "GET", "/erasures/"+e.ID, "", 404, "")
	w.Expect(1, admin, "GET", "/erasures/"+e.ID, "", 200, "")
	if a := w.Expect(1, shop, "GET", "/messages?limit=100", "", 200, ""); strings.Contains(a.Body, "u-1") ||
		strings.Contains(a.Body, "u1@") || !strings.Contains(a.Body, "ann@example.com") {
		t.Errorf("messages after an erasure: %s", a.Body)
	}
	if a := w.Expect(1, shop, "GET", "/sends", "", 200, ""); strings.Contains(a.Body, "u-1") ||
		strings.Contains(a.Body, "For you") {
		t.Errorf("sends after an erasure: %s", a.Body)
	}
	if d := look(t, w, bank, "user_id=u-1"); len(d.Messages) != 2 || len(d.Scheduled) != 1 {
		t.Errorf("another client has lost something: %+v", d)
	}
	e.ClientID = ""
	w.Expect(2, admin, "POST", "/erasures", `{"client_id":"*","user_id":"u-1","email":"u1@example.com"}`, 200, "").Into(&e)
	if e.ClientID != "" || e.Erased["messages"] != 2 || e.Kept["suppressions"] != 1 {
		t.Errorf("erased of all: %+v", e)
	}
	if a := w.Expect(1, admin, "GET", "/suppressions", "", 200, ""); strings.Contains(a.Body, "u1@") {
		t.Errorf("suppressions after an erasure: %s", a.Body)
	}
	w.Expect(1, admin, "DELETE", "/suppressions/u1@example.com", "", 204, "")
	w.Expect(1, admin, "DELETE", "/suppressions/u1@example.com", "", 404, "")
}

// finishAll delivers what waits.
func finishAll(t *testing.T, w *apitest.World) {
	t.Helper()
	claimed, err := w.Store.Claim(t.Context(), "w", 100, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []notify.Outcome
	for _, c := range claimed {
		o := notify.Outcome{Number: c.Number, Status: notify.Delivered, At: time.Now()}
		if c.Email == "" {
			o.Email = "u1@example.com"
		}
		outcomes = append(outcomes, o)
	}
	if _, err := w.Store.Finish(t.Context(), outcomes, nil); err != nil {
		t.Fatal(err)
	}
}

// TestPeopleRefused sees that clients neither read nor erase what is not theirs, and that wrong requests say why.
func TestPeopleRefused(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	manager, long := w.Client("shop", "notifications.manage"), strings.Repeat("x", 255)
	for _, tc := range []struct {
		method, path, body, bearer string
		status                     int
		want                       string
	}{
		{"GET", "/recipient_data?user_id=u", "", "", 401, ""},
		{"GET", "/recipient_data?user_id=u", "", w.Client("shop", "notifications.write"), 403, ""},
		{"POST", "/erasures", `{"user_id":"u"}`, w.Client("shop", "notifications.write"), 403, ""},
		{"GET", "/erasures/x", "", w.Client("shop", "notifications.write"), 403, ""},
		{"GET", "/erasures/x", "", c, 404, ""},
		{"GET", "/recipient_data?user_id=u&client_id=*", "", manager, 403, "notifications.admin"},
		{"GET", "/recipient_data?user_id=u&client_id=bank", "", manager, 403, "notifications.admin"},
		{"POST", "/erasures", `{"user_id":"u","client_id":"bank"}`, manager, 403, "notifications.admin"},
		{"GET", "/recipient_data", "", c, 422, "are required"},
		{"GET", "/recipient_data?usr_id=u", "", c, 400, "usr_id"},
		{"GET", "/recipient_data?email=dora", "", c, 422, "must be an address"},
		{"GET", "/recipient_data?user_id=" + long, "", c, 422, "too long"},
		{"GET", "/recipient_data?user_id=%00", "", c, 200, `"messages":[]`},
		{"GET", "/recipient_data?user_id=%ff", "", c, 200, `"messages":[]`},
		{"POST", "/erasures", `{"user_id":"a\u0000b"}`, c, 422, "NUL"},
		{"POST", "/erasures", `{}`, c, 422, "are required"},
		{"POST", "/erasures", `{"email":"@` + long + `"}`, c, 422, "must be an address"},
		{"POST", "/erasures", `{"user":"u"}`, c, 422, ""},
		{"POST", "/erasures", `[`, c, 400, ""},
		{"POST", "/erasures", `{"user_id":"` + strings.Repeat("x", 1<<17) + `"}`, c, 413, ""},
		{"POST", "/erasures", `{"user_id":"%_'\"); --"}`, c, 200, `"messages":0`},
		{"POST", "/erasures", `{"email":"%@%"}`, c, 200, `"messages":0`},
		{"GET", "/recipient_data?email=" + url.QueryEscape(`"><script>@x`), "", c, 200, `"messages":[]`},
		{"GET", "/messages?channel=fax", "", c, 400, "channel must be one of"},
	} {
		for version := 1; version <= 2; version++ {
			a := w.Expect(version, tc.bearer, tc.method, tc.path, tc.body, tc.status, "")
			if !strings.Contains(a.Body, tc.want) {
				t.Errorf("%s %s %.80s: %.300s, want %s", tc.method, tc.path, tc.body, a.Body, tc.want)
			}
		}
	}
}

// TestExport reads all messages of a filter, and those of one channel. What begins like a formula is text.
func TestExport(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	people := w.Directory.People(1200)
	var all []notify.Recipient
	for _, id := range people {
		all = append(all, notify.Recipient{UserID: id}, notify.Recipient{UserID: id, Channel: notify.Inbox})
	}
	if _, _, err := w.Store.Accept(t.Context(), notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: "news",
		Received: time.Now(), Expanded: true}, Recipients: all}); err != nil {
		t.Fatal(err)
	}
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","recipients":[{"email":"=cmd@example.com"}]}`, 202, "")

	for path, want := range map[string]int{"": 2401, "?channel=inbox": 1200, "?channel=email": 1201, "?limit=700": 700,
		"?email=%3Dcmd@example.com": 1, "?user_id=" + people[7]: 2, "?status=failed": 0, "?channel=chat": 0} {
		a := w.Call(1, c, "GET", "/messages"+path, "", "Accept", "application/x-ndjson")
		lines := strings.Split(strings.TrimSuffix(a.Body, "\n"), "\n")
		if a.Body == "" {
			lines = nil
		}
		seen := map[string]bool{}
		for _, line := range lines {
			var m struct{ ID string }
			if err := json.Unmarshal([]byte(line), &m); err != nil || strings.Contains(line, "_links") {
				t.Fatalf("%v in %s", err, line)
			}
			seen[m.ID] = true
		}
		if a.Status != 200 || len(lines) != want || len(seen) != want {
			t.Errorf("%s: status %d, %d lines, %d different, want %d", path, a.Status, len(lines), len(seen), want)
		}
		a = w.Call(1, c, "GET", "/messages"+path, "", "Accept", "text/csv")
		rows, err := csv.NewReader(strings.NewReader(a.Body)).ReadAll()
		if err != nil || len(rows) != want+1 || rows[0][0] != "id" || len(rows[0]) != 9 {
			t.Errorf("%s: %d rows, error %v", path, len(rows), err)
		}
		if path == "?email=%3Dcmd@example.com" && rows[1][5] != "'=cmd@example.com" {
			t.Errorf("a formula: %q", rows[1])
		}
	}
	if a := w.Call(1, c, "GET", "/messages?client_id=*", "", "Accept", "text/csv"); a.Status != 200 {
		t.Errorf("an administrator: %d", a.Status)
	}
	other := w.Client("other", "notifications.write")
	if a := w.Call(1, other, "GET", "/messages?client_id=*", "", "Accept", "text/csv"); a.Status != 403 {
		t.Errorf("another client: %d", a.Status)
	}
	w.Expect(1, c, "GET", "/messages?channel=inbox&limit=3", "", 200, "")
}
