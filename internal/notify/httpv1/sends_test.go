package httpv1_test

import (
	"strings"
	"testing"

	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

func registered(t *testing.T) (*apitest.World, string) {
	t.Helper()
	w := apitest.New(t)
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", goodRegistration, 204, "")
	return w, c
}

type entry struct {
	Status         string `json:"status"`
	Recipient      string `json:"recipient"`
	NotificationID string `json:"notification_id"`
	RequestID      string `json:"vcap_request_id"`
}

func TestSendToEveryAudience(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	w.Directory.People(3)
	w.Directory.Members["space-1"] = []string{"user-00000", "user-00001"}
	w.Directory.Members["org-1"] = []string{"user-00000", "user-00001", "user-00002"}
	w.Directory.Members["org-1/OrgManager"] = []string{"user-00002"}
	w.Directory.Members["shop.admin"] = []string{"user-00001"}
	for _, c0 := range []struct{ path, body, want string }{
		{"/users/anybody", `{"kind_id":"news","text":"t"}`, "anybody"},
		{"/spaces/space-1", `{"kind_id":"news","html":"<p>h</p>"}`, "user-00000,user-00001"},
		{"/organizations/org-1", `{"kind_id":"news","text":"t","html":"h"}`, "user-00000,user-00001,user-00002"},
		{"/organizations/org-1", `{"kind_id":"news","text":"t","role":"OrgManager"}`, "user-00002"},
		{"/everyone", `{"kind_id":"fire","text":"t","unknown":{"x":1}}`, "user-00000,user-00001,user-00002"},
		{"/uaa_scopes/shop.admin", `{"kind_id":"news","text":"t"}`, "user-00001"},
		{"/emails", `{"to":"Some One <one@example.com>","text":"t"}`, "one@example.com"},
		{"/emails", `{"to":"one@example.com","text":"t","kind_id":"news","subject":"","reply_to":"me@example.com"}`,
			"one@example.com"},
	} {
		var list []entry
		a := w.Call(1, c, "POST", c0.path, c0.body, "X-Vcap-Request-Id", "req-1")
		if a.Status != 200 {
			t.Errorf("%s %s answers %d, want 200: %s", c0.path, c0.body, a.Status, a.Body)
			continue
		}
		a.Into(&list)
		var recipients []string
		for _, e := range list {
			recipients = append(recipients, e.Recipient)
			if e.Status != "queued" || e.RequestID != "req-1" {
				t.Errorf("%s: entry is %+v, want queued by req-1", c0.path, e)
			}
			w.Expect(1, c, "GET", "/messages/"+e.NotificationID, "", 200, "")
		}
		if got := strings.Join(recipients, ","); got != c0.want {
			t.Errorf("%s reaches %s, want %s", c0.path, got, c0.want)
		}
	}
	w.Directory.Members["empty"] = []string{}
	if a := w.Call(1, c, "POST", "/spaces/empty", `{"kind_id":"news","text":"t"}`); a.Status != 200 ||
		strings.TrimSpace(a.Body) != "[]" {
		t.Errorf("an empty space: %d %s", a.Status, a.Body)
	}
}

func TestSendIsRefused(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	for _, c0 := range []struct{ path, body, want string }{
		{"/users/u", ``, `422 "kind_id" is a required field,"text" or "html" fields must be supplied`},
		{"/users/u", `{"kind_id":"a b","text":"t"}`, `422 "kind_id" is improperly formatted`},
		{"/users/u", `{"kind_id":"news"}`, `422 "text" or "html" fields must be supplied`},
		{"/users/u", `{"kind_id":"news","text":"t","role":"King"}`,
			`422 "role" must be "OrgManager", "OrgAuditor", "BillingManager" or unset`},
		{"/users/u", `{"kind_id":"news","text":1}`, `400 Request body could not be parsed`},
		{"/users/u", `{`, `400 Request body could not be parsed`},
		{"/users/u", `{"kind_id":"unknown","text":"t"}`, `422 The kind "unknown" is not registered for the client "shop"`},
		{"/users/u", `{"kind_id":"news","text":"t","subject":"a\r\nBcc: x@example.com"}`,
			`422 "subject" must be a single line`},
		{"/users/u", `{"kind_id":"news","text":"t","reply_to":"a@b.c\r\nBcc: x@example.com"}`, `422 "reply_to"`},
		{"/users/u", `{"kind_id":"news","text":"t","reply_to":"nobody"}`, `422 "reply_to" is not an email address`},
		{"/emails", `{"text":"t"}`, `422 "to" is a required field`},
		{"/emails", `{"to":"nobody","text":"t"}`, `422 "to" is improperly formatted`},
		{"/emails", `{"to":"a@b.com, c@d.com","text":"t"}`, `422 "to" is improperly formatted`},
		{"/emails", `{"to":"a@b.com","text":"t","kind_id":"unknown"}`, `422 The kind "unknown" is not registered`},
		{"/spaces/none", `{"kind_id":"news","text":"t"}`, `404 CloudController Failure: Space "none" could not be found`},
		{"/organizations/none", `{"kind_id":"news","text":"t"}`,
			`404 CloudController Failure: Organization "none" could not be found`},
		{"/uaa_scopes/none", `{"kind_id":"news","text":"t"}`, `404 `},
		{"/uaa_scopes/openid", `{"kind_id":"news","text":"t"}`, `406 You cannot send a notification to a default scope`},
	} {
		if got := statusAnd(w.Call(1, c, "POST", c0.path, c0.body)); !strings.HasPrefix(got, strings.TrimSpace(c0.want)) {
			t.Errorf("%s %s: %s, want %s", c0.path, c0.body, got, c0.want)
		}
	}
	w.Directory.Broken = true
	if a := w.Call(1, c, "POST", "/spaces/s", `{"kind_id":"news","text":"t"}`); a.Status != 502 {
		t.Errorf("a broken platform: %d %s", a.Status, a.Body)
	}
	if n, err := w.Store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait after nothing but refusals, %v", n, err)
	}
}

func TestAnythingUnicodeCanBeSent(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	w.Expect(1, c, "POST", "/users/u", `{"kind_id":"news","text":"🎉 \u0000","subject":"🎉"}`, 422, "")
	w.Expect(1, c, "POST", "/users/u", `{"kind_id":"news","text":"🎉 ünï","subject":"𝒯𝒶𝒹𝒶 🎉","html":"<p>日本</p>"}`, 200, "")
}

func TestMessagesAreTheSenders(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	var list []entry
	w.Expect(1, c, "POST", "/users/u", `{"kind_id":"news","text":"t"}`, 200, "").Into(&list)
	id := list[0].NotificationID
	if a := w.Expect(1, c, "GET", "/messages/"+id, "", 200, ""); strings.TrimSpace(a.Body) != `{"status":"queued"}` {
		t.Errorf("message: %s", a.Body)
	}
	// v1 has no word for a message that waits for another attempt.
	claimed, err := w.Store.Claim(t.Context(), "test", 10, time.Minute)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	again := notify.Outcome{Number: claimed[0].Number, Status: notify.Retry, Reason: "450 busy", Attempted: true,
		At: time.Now(), Due: time.Now().Add(time.Hour)}
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{again}, nil); err != nil {
		t.Fatal(err)
	}
	if a := w.Expect(1, c, "GET", "/messages/"+id, "", 200, ""); strings.TrimSpace(a.Body) != `{"status":"queued"}` {
		t.Errorf("message that is tried again: %s", a.Body)
	}
	missing := `Message with ID "` + id + `" could not be found`
	w.Expect(1, w.Client("other"), "GET", "/messages/"+id, "", 404, missing)
	w.Expect(1, c, "GET", "/messages/nope", "", 404, `Message with ID "nope" could not be found`)
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	send := func(bearer, path, body string) apitest.Answer {
		return w.Call(1, bearer, "POST", path, body, "Idempotency-Key", "key-1", "X-Vcap-Request-Id", "r")
	}
	first := send(c, "/users/u", `{"kind_id":"news","text":"t"}`)
	again := send(c, "/users/u", `{"kind_id":"news","text":"t"}`)
	if first.Status != 200 || again.Status != 200 || first.Body != again.Body ||
		again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("first %d %s\nagain %d %s %v", first.Status, first.Body, again.Status, again.Body, again.Header)
	}
	for _, other := range [][2]string{{"/users/u", `{"kind_id":"news","text":"other"}`},
		{"/users/v", `{"kind_id":"news","text":"t"}`}} {
		if a := send(c, other[0], other[1]); a.Status != 409 {
			t.Errorf("another request with the key: %d %s", a.Status, a.Body)
		}
	}
	other := w.Client("other")
	w.Expect(1, other, "PUT", "/notifications", goodRegistration, 204, "")
	if a := send(other, "/users/u", `{"kind_id":"news","text":"t"}`); a.Status != 200 || a.Body == first.Body {
		t.Errorf("the key of another client: %d %s", a.Status, a.Body)
	}
	if n, _ := w.Store.Waiting(t.Context()); n != 2 {
		t.Errorf("%d messages wait, want 2", n)
	}
}

func TestAsyncSend(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	w.Directory.People(3)
	a := w.Call(1, c, "POST", "/everyone", `{"kind_id":"news","text":"t"}`, "Prefer", "wait=1, Respond-Async")
	var accepted struct{ ID string }
	a.Into(&accepted)
	if a.Status != 202 || a.Header.Get("Location") != "/sends/"+accepted.ID ||
		a.Header.Get("Preference-Applied") != "respond-async" {
		t.Errorf("answer is %d %v %s, want 202 with its location and the preference applied", a.Status, a.Header, a.Body)
	}
	w.Expect(1, c, "GET", "/sends/"+accepted.ID, "", 200, "")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := apitest.Limited(t, actions.Limits{Requests: 0.001, Burst: 2, Queue: 1})
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", goodRegistration, 204, "")
	w.Expect(1, c, "POST", "/users/u", `{"kind_id":"news","text":"t"}`, 200, "")
	full := w.Call(1, c, "POST", "/users/u", `{"kind_id":"news","text":"t"}`)
	if full.Status != 503 || full.Header.Get("Retry-After") == "" {
		t.Errorf("a full queue: %d %s %v", full.Status, full.Body, full.Header)
	}
	limited := w.Call(1, c, "POST", "/users/u", `{"kind_id":"news","text":"t"}`)
	if limited.Status != 429 || limited.Header.Get("Retry-After") == "" || limited.Header.Get("RateLimit-Limit") != "2" ||
		limited.Header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("too many: %d %s %v", limited.Status, limited.Body, limited.Header)
	}
}
