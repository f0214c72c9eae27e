package httpext_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

func world(t *testing.T) (*apitest.World, string) {
	t.Helper()
	w := apitest.New(t)
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications",
		`{"source_name":"Shop","notifications":{"news":{"description":"News of the shop"},"fire":{"description":"Fire","critical":true}}}`, 204, "")
	return w, c
}

// fail lets the only waiting message fail.
func fail(t *testing.T, w *apitest.World) int64 {
	t.Helper()
	claimed, err := w.Store.Claim(t.Context(), "test", 10, time.Minute)
	if err != nil || len(claimed) == 0 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	o := notify.Outcome{Number: claimed[0].Number, Status: notify.Failed, Reason: "550 no", Attempted: true,
		At: time.Now()}
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{o}, nil); err != nil {
		t.Fatal(err)
	}
	return o.Number
}

func TestMessagesAndReplay(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	id := w.IDs.Message(fail(t, w))
	other := w.Client("other", "notifications.write", "emails.write")

	var page struct {
		Messages []struct{ ID, Status, Reason, UserID string }
		Links    map[string]struct{ Href string } `json:"_links"`
	}
	w.Expect(1, c, "GET", "/messages?status=failed&user_id=u-1&limit=1", "", 200, "").Into(&page)
	if len(page.Messages) != 1 || page.Messages[0].ID != id || page.Messages[0].Reason != "550 no" ||
		page.Links["next"].Href == "" {
		t.Errorf("found: %+v", page)
	}
	w.Expect(1, c, "GET", page.Links["next"].Href, "", 200, "").Into(&page)
	if len(page.Messages) != 0 {
		t.Errorf("the next page: %+v", page)
	}
	if a := w.Expect(1, other, "GET", "/messages", "", 200, ""); !strings.Contains(a.Body, `"messages":[]`) {
		t.Errorf("another client sees %s", a.Body)
	}
	for _, bad := range []string{"status=dead", "limit=0", "limit=x", "parked=maybe", "since=yesterday", "after=x",
		"stauts=failed"} {
		w.Expect(1, c, "GET", "/messages?"+bad, "", 400, "")
	}
	w.Expect(1, c, "GET", "/messages?send=nope", "", 404, "")

	w.Expect(1, other, "POST", "/messages/"+id+"/replay", "", 404, "")
	kicks := w.Kicks
	w.Expect(1, c, "POST", "/messages/"+id+"/replay", "", 202, "")
	if w.Kicks != kicks+1 {
		t.Error("the delivery was not woken")
	}
	w.Expect(1, c, "POST", "/messages/"+id+"/replay", "", 409, "")
	if a := w.Expect(1, c, "GET", "/messages/"+id, "", 200, ""); !strings.Contains(a.Body, "queued") {
		t.Errorf("after the replay: %s", a.Body)
	}

	var sends struct{ Sends []struct{ ID, Status string } }
	w.Expect(2, c, "GET", "/sends", "", 200, "").Into(&sends)
	if len(sends.Sends) != 1 || sends.Sends[0].Status != "sending" {
		t.Errorf("sends: %+v", sends)
	}
	w.Expect(1, other, "GET", "/sends/"+sends.Sends[0].ID, "", 404, "")
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var made struct{ ID, Secret string }
	w.Expect(1, c, "POST", "/webhooks", `{"url":"https://example.com/hook"}`, 201, "").Into(&made)
	if len(made.Secret) < 16 {
		t.Errorf("no secret was made: %+v", made)
	}
	if a := w.Expect(1, c, "GET", "/webhooks", "", 200, ""); strings.Contains(a.Body, made.Secret) ||
		!strings.Contains(a.Body, made.ID) {
		t.Errorf("list: %s", a.Body)
	}
	for _, bad := range []string{`{}`, `{"url":"ftp://x"}`, `{"url":"https://u:p@x/"}`,
		`{"url":"https://x","events":["queued"]}`, `{"url":"https://x","secret":"short"}`, `{"url":"https://x","y":1}`} {
		w.Expect(1, c, "POST", "/webhooks", bad, 422, "")
	}
	w.Expect(1, w.Client("other"), "DELETE", "/webhooks/"+made.ID, "", 404, "")
	w.Expect(1, c, "DELETE", "/webhooks/"+made.ID, "", 204, "")
	w.Expect(1, c, "DELETE", "/webhooks/"+made.ID, "", 404, "")
}

func TestSuppressions(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Expect(1, c, "PUT", "/suppressions/Some.One@example.com", "", 204, "")
	w.Expect(1, c, "PUT", "/suppressions/nobody", "", 422, "")
	if a := w.Expect(1, c, "GET", "/suppressions", "", 200, ""); !strings.Contains(a.Body, `"some.one@example.com"`) {
		t.Errorf("list: %s", a.Body)
	}
	w.Expect(1, c, "DELETE", "/suppressions/some.one%40example.com", "", 204, "")
	w.Expect(1, c, "DELETE", "/suppressions/some.one@example.com", "", 404, "")
}

func TestPreview(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var shown struct{ Subject, Text, HTML string }
	w.Expect(1, c, "POST", "/templates/preview",
		`{"template":{"subject":"S: {{.Subject}}","html":"<p>{{.Text}}</p>{{.HTML}}"},"message":{"subject":"hi","text":"a<b","html":"<b>x</b><script>alert(1)</script>"}}`, 200, "").Into(&shown)
	if shown.Subject != "S: hi" || !strings.Contains(shown.HTML, "a&lt;b") || !strings.Contains(shown.HTML, "<b>x</b>") ||
		strings.Contains(shown.HTML, "script") {
		t.Errorf("preview: %+v", shown)
	}
	w.Expect(1, c, "POST", "/templates/preview", `{"template":{"html":"{{.Nope}}"}}`, 422, "")
}

func TestUnsubscribeFromTheMail(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	news := notify.KindRef{ClientID: "shop", KindID: "news"}
	link := "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1", Kind: news})
	off := func() bool {
		t.Helper()
		one, two := notify.Subscription{UserID: "u-1", KindRef: news}, notify.Subscription{UserID: "u-2", KindRef: news}
		found, err := w.Store.Unsubscribed(t.Context(), []notify.Subscription{one, two})
		if err != nil || found[two].Unwanted != 0 {
			t.Fatalf("unsubscribed are %v, %v, want not u-2", found, err)
		}
		return found[one].Unwanted == notify.UnwantedAll
	}
	form := func(values ...string) apitest.Answer {
		body := url.Values{}
		for i := 0; i+1 < len(values); i += 2 {
			body.Set(values[i], values[i+1])
		}
		return w.Call(1, "", "POST", link, body.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	}
	a := w.Expect(1, "", "GET", link, "", 200, "")
	if off() || !strings.Contains(a.Body, "News of the shop") || !strings.Contains(a.Header.Get("Content-Security-Policy"),
		"default-src 'none'") {
		t.Errorf("looking at the page changed something, or it shows too little: %s", a.Body)
	}
	// What a mail program sends for one click (RFC 8058).
	if a := form("List-Unsubscribe", "One-Click"); a.Status != 200 || !off() {
		t.Errorf("one click: %d %s", a.Status, a.Body)
	}
	if a := form("choice", "on"); a.Status != 200 || off() {
		t.Errorf("back again: %d", a.Status)
	}
	if a := form("choice", "none"); a.Status != 200 || !off() {
		t.Errorf("nothing at all: %d", a.Status)
	}
	if a := form("choice", "what"); a.Status != 400 {
		t.Errorf("a strange form: %d", a.Status)
	}
	// A person follows a bad link: the answer is a page.
	for _, method := range []string{"GET", "POST"} {
		a := w.Call(1, "", method, link[:len(link)-2], "")
		if a.Status != 404 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") ||
			!strings.Contains(a.Body, "This link is not valid") || strings.Contains(a.Body, "<form") {
			t.Errorf("%s of a bad link: %d %s %s", method, a.Status, a.Header.Get("Content-Type"), a.Body)
		}
	}
	// The switch of another kind: neither one that is critical, nor one that was never sent.
	for _, kind := range []string{"fire", "nothing", ""} {
		if a := form("choice", "off", "client", "shop", "kind", kind); a.Status != 422 {
			t.Errorf("switching off %q: %d %s", kind, a.Status, a.Body)
		}
	}

	link = "/unsubscribe/" + w.Unsubscriber.Make(actions.Grant{UserID: "u-1",
		Kind: notify.KindRef{ClientID: "shop", KindID: "fire"}})
	if a := form("List-Unsubscribe", "One-Click"); a.Status != 422 {
		t.Errorf("a critical kind: %d %s", a.Status, a.Body)
	}
}

func TestDescription(t *testing.T) {
	t.Parallel()
	w, _ := world(t)
	for version, want := range map[int]string{1: "Notifications, version 1", 2: "Notifications, version 2"} {
		if a := w.Expect(version, "", "GET", "/openapi.yaml", "", 200, ""); !strings.Contains(a.Body, want) {
			t.Errorf("version %d: %.100s", version, a.Body)
		}
	}
}
