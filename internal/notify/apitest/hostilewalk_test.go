package apitest_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/base/web/openapitest"
	"ingot/internal/notify"
	"ingot/internal/notify/httpext"
	"ingot/internal/notify/tracking"
)

// TestHostile gives everything that can be sent to the service everything that is hostile: every field and parameter
// of the API, over HTTP, with all channels behind it. Nothing fails, nothing is reached that is not public, and what
// is accepted arrives as text.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Domain.Findings = []notify.DomainFinding{}
	s.Mail = notify.MailState{Routes: []notify.MailRoute{}, Domains: []notify.MailDomain{}}
	h := &hostileAPI{site: s, accepted: map[string]int{}, seen: map[string]bool{}}
	token, _, err := s.Tokens.Make(notify.Owner{ClientID: "shop", UserID: theUser}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	h.inbox = token
	h.prepare()
	var before *openapitest.Document
	for version, text := range map[int][]byte{1: httpext.DescriptionV1()} {
		d, err := openapitest.Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.doc, h.version = d, version
		h.walk(before)
		h.walkFiles()
		h.walkLines()
		h.readAll()
		before = d
	}
	d, err := openapitest.Parse(httpext.DescriptionV2(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.doc, h.version, h.ids["template"] = d, 2, h.look
	h.walk(before)
	h.readAll()
	t.Logf("%d requests", h.asked)
	if calls := s.trap.calls(""); len(calls) > 0 {
		t.Errorf("internal services were called: %+v", calls)
	}
	if text := s.log.text(); text != "" {
		t.Errorf("errors were logged:\n%.3000s", text)
	}
}

// prepare creates what the paths name.
func (h *hostileAPI) prepare() {
	h.t.Helper()
	c := h.Client("shop")
	h.must(1, c, "PUT", "/notifications", `{"source_name":"Shop","notifications":{"news":{"description":"News"}}}`, nil)
	var template struct {
		ID string `json:"template-id"`
	}
	h.must(1, c, "POST", "/templates", `{"name":"n","html":"{{.HTML}}"}`, &template)
	var sender, kind, sent, hooked struct{ ID string }
	h.must(2, c, "POST", "/senders", `{"name":"s"}`, &sender)
	h.must(2, c, "POST", "/senders/"+sender.ID+"/campaign_types", `{"name":"t","description":"d"}`, &kind)
	h.must(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","recipients":[{"user":"u-1"}]}`, &sent)
	h.must(1, c, "POST", "/webhooks", `{"url":"https://example.com/hook"}`, &hooked)
	var look struct{ ID string }
	h.must(2, c, "POST", "/templates", `{"name":"x","text":"{{.Text}}"}`, &look)
	h.look = look.ID
	h.must(1, c, "PUT", "/providers/devices", `{"channel":"push","url":"https://example.com/{{token}}"}`, nil)
	h.must(1, c, "PUT", "/topics/releases", `{"description":"d"}`, nil)
	h.must(1, c, "PUT", "/partials/footer", `{"text":"t","html":"h"}`, nil)
	var messages struct{ Messages []struct{ ID string } }
	h.must(1, c, "GET", "/messages?send="+sent.ID, "", &messages)
	if err := h.Store.AddNotifications(h.t.Context(), "shop", []notify.Notification{{Number: 1 << 40,
		Owner: notify.Owner{ClientID: "shop", UserID: theUser}, KindID: "news", Title: "title", Text: "text"}}); err != nil {
		h.t.Fatal(err)
	}
	var inbox struct {
		Notifications []struct{ ID string }
	}
	h.must(1, h.inbox, "GET", "/inbox/notifications", "", &inbox)
	h.ids = map[string]string{"client": "shop", "kind": "news", "template": template.ID, "user": theUser,
		"users id": theUser, "spaces id": "s-1", "organizations id": "o-1", "uaa_scopes id": "sc",
		"type": kind.ID, "sender": sender.ID,
		"channel": "chat", "provider": "gateway", "topic": "releases", "name": "daily", "locale": "de", "partial": "footer",
		"notification": inbox.Notifications[0].ID, "message": messages.Messages[0].ID, "send": sent.ID, "webhook": hooked.ID,
		"version": "1", "email": "bob@example.com", "token": "x", "subscription": "x", "attachment": "x", "campaign": "x",
		"links mark":  h.Marker.Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "https://example.com/"}),
		"images mark": h.Marker.Seal(tracking.Mark{Number: 1, Type: notify.Opened}),
		"number":      "1", "id": "x", "space": "s-1", "org": "o-1", "subscriber": theUser, "erasure": "x"}
}

// walkFiles uploads files that are not what they seem, or become large.
func (h *hostileAPI) walkFiles() {
	var bomb, packed bytes.Buffer
	w := zip.NewWriter(&bomb)
	for i := range 5 {
		e, err := w.Create(fmt.Sprintf("../../%d<b>.txt", i))
		testkit.Must(h.t, err)
		_, err = e.Write(make([]byte, 10<<20))
		testkit.Must(h.t, err)
	}
	testkit.Must(h.t, w.Close())
	g := gzip.NewWriter(&packed)
	_, err := g.Write(make([]byte, 20<<20))
	testkit.Must(h.t, err)
	testkit.Must(h.t, g.Close())
	for name, content := range map[string]string{
		"a zip bomb": bomb.String(), "a gzip bomb": packed.String(), "a program": "MZ\x90\x00", "an ELF file": "\x7fELF\x02",
		"a script": "#!/bin/sh\nid\n", "a page": "<html><script>alert(1)</script>", "a picture with a script": `<?xml version="1.0"?>` +
			`<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg onload="alert(1)">&x;</svg>`,
		"a mail": "From: a@example.com\r\nBcc: b@example.com\r\n\r\nx", "a long one": strings.Repeat("x", 11<<20), "none": "",
	} {
		a := h.call(name, h.Client("shop"), "POST", "/attachments", strings.NewReader(content), "Content-Type",
			"application/octet-stream")
		if a.status < 300 && !strings.Contains(string(a.body), `"type":"text/plain"`) {
			h.t.Errorf("%s is accepted: %d %s", name, a.status, a.body)
		}
	}
}

// walkLines sends recipients that are hostile, one in each line.
func (h *hostileAPI) walkLines() {
	for _, name := range []string{"user", "email", "phone", "locale", "data", "unknown"} {
		for input, raw := range hostileValues {
			line := fmt.Sprintf("{\"kind_id\":\"news\",\"text\":\"t\"}\n{\"user\":\"u-1\",%q:%s}\n", name, h.fill(raw))
			h.call(fmt.Sprintf("in a line, %s is %s", name, input), h.Client("shop"), "POST", "/sends", strings.NewReader(line),
				"Content-Type", "application/x-ndjson")
		}
	}
}
