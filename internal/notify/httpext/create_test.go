package httpext_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

func TestCreateSend(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var made struct {
		ID, Status             string
		Recipients, Duplicates int
	}
	a := w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","data":{"shop":"ours"},"locale":"de","recipients":[
		{"user":"u-1","data":{"name":"Ann"}},{"email":"bob@example.com","locale":"fr"},{"user":"u-1"}]}`, 202, "")
	a.Into(&made)
	if made.Recipients != 2 || made.Duplicates != 1 || made.Status != "accepted" ||
		a.Header.Get("Location") != "/sends/"+made.ID {
		t.Errorf("%+v, %s", made, a.Header)
	}
	claimed, err := w.Store.Claim(t.Context(), "test", 10, time.Minute)
	if err != nil || len(claimed) != 2 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	if s := claimed[0].Send; string(s.Data) != `{"shop":"ours"}` || s.Locale != "de" || s.List() == "" {
		t.Errorf("the send is %+v", s)
	}
	members, err := w.Store.ListedMembers(t.Context(), claimed[0].Send.List(), 0)
	if err != nil || len(members) != 2 || string(members[0].Data) != `{"name":"Ann"}` || members[1].Locale != "fr" {
		t.Errorf("members %+v, %v", members, err)
	}
	w.Expect(1, c, "GET", "/sends/"+made.ID, "", 200, "")

	// An audience of the platform, with data for all.
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","data":{"a":1},"audience":{"type":"user","id":"u-2"}}`, 202, "")
	// A conversation.
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","thread":"order-1","recipients":[{"user":"u-1"}]}`, 202,
		"").Into(&made)
	if a := w.Expect(1, c, "GET", "/sends/"+made.ID, "", 200, ""); !strings.Contains(a.Body, `"thread":"order-1"`) {
		t.Errorf("the send is %s", a.Body)
	}
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","thread":"a\nb","recipients":[{"user":"u-1"}]}`, 422,
		`"thread" must be text without control characters`)
	// The same on version 2.
	w.Expect(2, c, "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u-1"}]}`, 202, "")
}

// Recipients are read line by line.
func TestCreateSendLines(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var body strings.Builder
	body.WriteString(`{"kind_id":"news","text":"t"}` + "\n")
	for i := range 2000 {
		fmt.Fprintf(&body, `{"email":"a%d@example.com","data":{"n":%d}}`+"\n\n", i, i)
	}
	lines := func(text string, headers ...string) (status int, answer string) {
		t.Helper()
		a := w.Call(1, c, "POST", "/sends", text, append(headers, "Content-Type", "application/x-ndjson")...)
		return a.Status, a.Body
	}
	status, first := lines(body.String(), "Idempotency-Key", "one")
	if status != 202 || !strings.Contains(first, `"recipients":2000`) {
		t.Fatalf("%d %s", status, first)
	}
	// Repeated, it is the same send; a changed list is another request.
	status, again := lines(body.String(), "Idempotency-Key", "one")
	if status != 202 || again[:40] != first[:40] {
		t.Errorf("%d %s, want %s", status, again, first)
	}
	if status, answer := lines(body.String()+`{"user":"u-1"}`, "Idempotency-Key", "one"); status != 409 {
		t.Errorf("a changed list: %d %s", status, answer)
	}
	for text, want := range map[string]string{
		"":                                      "the body is empty",
		`{"kind_id":"news"}`:                    `"recipients\" is empty`,
		`{"kind_id":"news"}` + "\n{\"user\":7}": "Line 2: user must be",
		`{"kind_id":"news"}` + "\n{\"user\":\"u\"}\n{":           "Line 3: Request invalid due to parse error",
		`{"kind_id":"news"}` + "\n{\"usr\":\"u\"}":               "Line 2: Unknown field(s): 'usr'",
		`{"kind_id":"news","audience":{}}`:                       "each further line is a recipient",
		`{"kind_id":"news"}` + "\n" + strings.Repeat("x", 5<<20): "Line 2 is longer than",
		`{"kind_id":"gone"}` + "\n{\"user\":\"u\"}":              "is not registered",
	} {
		status, answer := lines(text)
		if status < 400 || status >= 500 || !strings.Contains(answer, strings.ReplaceAll(want, `"recip`, `\"recip`)) {
			t.Errorf("%.60q: %d %.300s, want %s", text, status, answer, want)
		}
	}
	if n, err := w.Store.Waiting(t.Context()); err != nil || n != 2000 && n != 1024 {
		t.Errorf("%d messages wait (%v)", n, err)
	}
}

func TestCreateSendRefused(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	for body, want := range map[string]string{
		`{"kind_id":"news"}`:                 `"recipients" or "audience" is required`,
		`{"kind_id":"news","recipients":[]}`: `"recipients" is empty: name at least one user or email`,
		`{"recipients":[{"user":"u"}]}`:      `"kind_id" is a required field`,
		`{"kind_id":"news","recipients":[{"user":"u"}],"audience":{"type":"everyone"}}`:   `give either "recipients" or "audience", not both`,
		`{"kind_id":"news","recipients":[{"user":"u","email":"a@example.com"}]}`:          `recipient 1 needs either "user" or "email", or only "phone"; nothing was sent`,
		`{"kind_id":"news","audience":{"type":"list","id":"x"}}`:                          `"audience.type" must be "user", "space", "organization", "everyone", "scope" or "topic"; addresses are "recipients"`,
		`{"kind_id":"news","audience":{"type":"space"}}`:                                  `"audience.id" is required for this type`,
		`{"kind_id":"news","audience":{"type":"user","id":"u"},"data":[]}`:                `"data" must be an object`,
		`{"kind_id":"news","audience":{"type":"user","id":"u"},"locale":"klingon speak"}`: `"locale" is not a language tag such as de or pt-BR`,
		`{"kind_id":"news","audience":{"type":"user","id":"u"},"color":"red"}`:            `Unknown field(s): 'color'`,
	} {
		w.Expect(1, c, "POST", "/sends", body, 422, want)
	}
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","template_id":"none","recipients":[{"user":"u"}]}`, 404,
		`Template with ID "none" could not be found`)
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"`+strings.Repeat("x", 5<<20)+`"}`, 413, "")
	w.Expect(1, w.Client("other", "notifications.write"), "POST", "/sends",
		`{"kind_id":"news","recipients":[{"user":"u"}]}`, 422, "")
	w.Expect(1, w.Client("shop", "notifications.write"), "POST", "/sends",
		`{"kind_id":"fire","recipients":[{"user":"u"}]}`, 422, "Insufficient privileges to send notification fire")
	w.Expect(1, w.Client("shop", "emails.write"), "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u"}]}`, 403, "")
	if n, err := w.Store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait (%v)", n, err)
	}
}

func TestPreviewWithData(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	a := w.Expect(1, c, "POST", "/templates/preview", `{"template":{"subject":"{{.Data.name}}","text":"{{number 2 .Data.total}}",
		"html":"<b>{{.Data.name}}</b>"},"data":{"name":"<Ann>","total":1234.5},"locale":"de"}`, 200, "")
	for _, want := range []string{`"subject":"\u003cAnn\u003e"`, `"text":"1.234,50"`, `&lt;Ann&gt;`} {
		if !strings.Contains(a.Body, want) && !strings.Contains(a.Body, strings.NewReplacer("&", `\u0026`).Replace(want)) {
			t.Errorf("%s has no %s", a.Body, want)
		}
	}
	w.Expect(1, c, "POST", "/templates/preview", `{"template":{"text":"x"},"data":"x"}`, 422, `"data" must be an object`)
}

// The data of a send must match the schema of its kind.
func TestSchemas(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	const path = "/kinds/news/schema"
	w.Expect(1, c, "GET", path, "", 404, `Schema of notification with ID "news" could not be found`)
	w.Expect(1, c, "PUT", path, `{"type":"object","required":["name","total"],"properties":{"name":{"type":"string"},
		"total":{"type":"number","minimum":0},"items":{"type":"array","items":{"$ref":"#/$defs/item"}}},
		"$defs":{"item":{"type":"object","required":["title"]}}}`, 204, "")
	if a := w.Expect(1, c, "GET", path, "", 200, ""); !strings.Contains(a.Body, `"minimum":0`) {
		t.Error(a.Body)
	}
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","data":{"total":5},"recipients":[{"user":"u-1","data":{"name":"Ann"}},
		{"user":"u-2","data":{"name":"Bob","total":0.5}}]}`, 202, "")
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","data":{"total":5,"name":"all"},"audience":{"type":"user","id":"u-1"}}`,
		202, "")
	for body, want := range map[string]string{
		`{"kind_id":"news","data":{"total":5},"recipients":[{"user":"u-1","data":{"name":"Ann"}},{"user":"u-2"}]}`: `recipient 2: "data" is not as the schema of kind "news" wants: at /: missing property 'name'; nothing was sent`,
		`{"kind_id":"news","data":{"total":5},"recipients":[{"user":"u-1","data":{"name":"Ann","total":-1}}]}`:     `recipient 1: "data" is not as the schema of kind "news" wants: at /total: minimum: got -1, want 0; nothing was sent`,
		`{"kind_id":"news","audience":{"type":"user","id":"u"},"data":{"name":"x","total":1,"items":[{}]}}`:        `"data" is not as the schema of kind "news" wants: at /items/0: missing property 'title'; nothing was sent`,
		`{"kind_id":"news","audience":{"type":"user","id":"u"}}`:                                                   `"data" is not as the schema of kind "news" wants: at /: missing properties 'name', 'total'; nothing was sent`,
	} {
		w.Expect(1, c, "POST", "/sends", body, 422, want)
	}
	// Version 1 has no data.
	w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	w.Expect(1, c, "DELETE", path, "", 204, "")
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u-1"}]}`, 202, "")

	for body, want := range map[string]string{
		`[]`: "the schema must be an object", `{"type":"x"}`: "The schema is not valid",
		`{"$ref":"http://169.254.169.254/latest"}`: "external references are not allowed",
		`{"$ref":"#"}`:    "must be of the form #/$defs/NAME",
		`{"pattern":"("}`: "The schema is not valid",
	} {
		if a := w.Expect(1, c, "PUT", path, body, 422, ""); !strings.Contains(a.Message(), want) {
			t.Errorf("%s: %s, want %s", body, a.Body, want)
		}
	}
	w.Expect(1, c, "PUT", "/kinds/none/schema", `{}`, 404, `Notification with ID "none" could not be found`)
	w.Expect(1, w.Client("other"), "GET", path, "", 404, "")
	w.Expect(1, w.Client("shop", "notifications.write"), "PUT", path, `{}`, 403, "")
}

// A send with a time waits for it.
func TestCreateSendLater(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	at := time.Now().Add(time.Hour).In(time.FixedZone("", 3600)).Truncate(time.Second)
	var made struct{ ID, Status string }
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u-1"},{"email":"a@example.com"}],"send_at":"`+
		at.Format(time.RFC3339)+`"}`, 202, "").Into(&made)
	var shown struct {
		Status string
		SendAt time.Time `json:"send_at"`
		Counts struct{ Total int }
	}
	w.Expect(1, c, "GET", "/sends/"+made.ID, "", 200, "").Into(&shown)
	if made.Status != "scheduled" || shown.Status != "scheduled" || !shown.SendAt.Equal(at) || shown.Counts.Total != 0 {
		t.Errorf("%+v, shown as %+v", made, shown)
	}
	w.Expect(2, c, "POST", "/sends", `{"kind_id":"news","audience":{"type":"user","id":"u-1"},"delay":"36h","ttl":"1h"}`, 202, "").
		Into(&made)
	if a := w.Expect(1, c, "GET", "/sends/"+made.ID, "", 200, ""); !strings.Contains(a.Body, `"expires_at":"`) {
		t.Error(a.Body)
	}
	if made.Status != "scheduled" {
		t.Error(made)
	}
	if n, err := w.Store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait, %v", n, err)
	}
	if a := w.Expect(1, c, "GET", "/sends", "", 200, ""); strings.Count(a.Body, `"scheduled"`) != 2 {
		t.Error(a.Body)
	}
	// A time that has passed is no schedule.
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u-1"}],"send_at":"2020-01-01T00:00:00Z"}`, 202, "").
		Into(&made)
	if n, err := w.Store.Waiting(t.Context()); err != nil || n != 1 || made.Status != "accepted" {
		t.Errorf("%d messages wait, %v, %+v", n, err, made)
	}
	const one = `{"kind_id":"news","recipients":[{"user":"u-1"}],`
	for times, want := range map[string]string{
		`"send_at":"2026-12-24T18:00:00"`:                   `"send_at" must be a time with a zone, such as 2026-12-24T18:00:00+01:00`,
		`"send_at":"tomorrow"`:                              `"send_at" must be a time with a zone, such as 2026-12-24T18:00:00+01:00`,
		`"delay":"soon"`:                                    `"delay" must be a duration such as 90s, 15m or 36h`,
		`"delay":"-1h"`:                                     `"delay" must be a duration such as 90s, 15m or 36h`,
		`"delay":"1h","send_at":"2026-12-24T18:00:00Z"`:     `give either "send_at" or "delay", not both`,
		`"expires_at":"2020-01-01T00:00:00Z"`:               `"expires_at" is 2020-01-01T00:00:00Z, which is not after the message is due: nothing was sent`,
		`"expires_at":"9000-01-01T00:00:00Z"`:               `"expires_at" is 9000-01-01T00:00:00Z, more than 366 days after the message is due: nothing was sent`,
		`"expires_at":"then"`:                               `"expires_at" must be a time with a zone, such as 2026-12-24T18:00:00+01:00`,
		`"ttl":"0s"`:                                        ``,
		`"ttl":"1h","expires_at":"2026-12-24T18:00:00Z"`:    `give either "expires_at" or "ttl", not both`,
		`"send_at":"9000-01-01T00:00:00Z"`:                  `"send_at" is 9000-01-01T00:00:00Z, more than 366 days from now: nothing was sent`,
		`"send_at":"2026-12-24T18:00:00+01:00","at":"then"`: `Unknown field(s): 'at'`,
	} {
		w.Expect(1, c, "POST", "/sends", one+times+"}", 422, want)
	}
}

// A client has a bound on what it schedules, and others have theirs.
func TestScheduleLimit(t *testing.T) {
	t.Parallel()
	w := apitest.Limited(t, actions.Limits{Scheduled: 3})
	for _, id := range []string{"shop", "other"} {
		w.Expect(1, w.Client(id), "PUT", "/notifications", `{"source_name":"x","notifications":{"news":{"description":"n"}}}`, 204, "")
	}
	body := func(n int) string {
		return `{"kind_id":"news","delay":"1h","recipients":[` +
			strings.TrimSuffix(strings.Repeat(`{"user":"USER"},`, n), ",") + `]}`
	}
	send := func(client string, status, n int) string {
		t.Helper()
		text := body(n)
		for i := range n {
			text = strings.Replace(text, "USER", fmt.Sprint("u-", i), 1)
		}
		return w.Expect(1, w.Client(client), "POST", "/sends", text, status, "").Body
	}
	send("shop", 202, 2)
	if a := send("shop", 429, 2); !strings.Contains(a, "may have 3 messages scheduled") {
		t.Error(a)
	}
	send("shop", 202, 1)
	send("other", 202, 3)
}

// A send is canceled by its client or an administrator, and by no other client.
func TestCancelSend(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	type body struct {
		ID, Status string
		Canceled   string `json:"canceled_at"`
		Counts     struct{ Total, Queued, Canceled int }
	}
	create := func(more string) (made body) {
		t.Helper()
		w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u-1"},{"email":"a@example.com"}]`+more+`}`, 202, "").
			Into(&made)
		return made
	}
	for _, more := range []string{"", `,"delay":"1h"`} {
		made := create(more)
		path := "/sends/" + made.ID
		w.Expect(1, w.Client("other", "notifications.write"), "DELETE", path, "", 404, "")
		w.Expect(1, w.Client("shop", "notifications.manage"), "DELETE", path, "", 403, "")
		for range 2 {
			var got body
			w.Expect(1, c, "DELETE", path, "", 200, "").Into(&got)
			if got.Status != "canceled" || got.Canceled == "" || got.Counts.Canceled != 2 || got.Counts.Total != 2 {
				t.Errorf("canceled %+v", got)
			}
		}
		w.Expect(1, c, "GET", path, "", 200, "")
	}
	claimed, err := w.Store.Claim(t.Context(), "w", 10, time.Minute)
	if err != nil || len(claimed) != 0 {
		t.Errorf("claimed %v, %v", claimed, err)
	}
	a := w.Expect(1, c, "GET", "/messages?status=canceled", "", 200, "")
	var found struct{ Messages []struct{ ID string } }
	if a.Into(&found); len(found.Messages) != 2 {
		t.Fatal(a.Body)
	}
	// Version 1 has no such word.
	if a := w.Expect(1, c, "GET", "/messages/"+found.Messages[0].ID, "", 200, ""); !strings.Contains(a.Body, `"undeliverable"`) {
		t.Error(a.Body)
	}
	made := create("")
	w.Expect(2, w.Client("operator", "notifications.admin"), "DELETE", "/sends/"+made.ID, "", 200, "")
	w.Expect(1, c, "DELETE", "/sends/none", "", 404, "")
	w.Expect(1, c, "POST", "/webhooks", `{"url":"https://example.org","events":["canceled"]}`, 422, "")
}
