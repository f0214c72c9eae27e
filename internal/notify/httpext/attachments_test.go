package httpext_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

const png = "\x89PNG\r\n\x1a\nlogo"

func encoded(content string) string { return base64.StdEncoding.EncodeToString([]byte(content)) }

func TestAttachments(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var file struct {
		ID, Type string
		Bytes    int64
	}
	upload := func(content string, status int) {
		t.Helper()
		a := w.Call(1, c, "POST", "/attachments", content, "Content-Type", "application/octet-stream")
		if a.Status != status {
			t.Fatalf("%d %s, want %d", a.Status, a.Body, status)
		}
		a.Into(&file)
	}
	upload("%PDF-1.7 invoice", 201)
	upload("%PDF-1.7 invoice", 200)
	if file.Type != "application/pdf" || file.Bytes != 16 || len(file.ID) != 64 {
		t.Errorf("the file is %+v", file)
	}
	w.Expect(1, c, "GET", "/attachments/"+file.ID, "", 200, "")
	w.Expect(2, c, "GET", "/attachments/"+file.ID, "", 200, "")
	var sent struct{ ID string }
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","html":"<img src=\"cid:logo\">","recipients":[{"user":"u-1"},
		{"email":"bob@example.com"}],"attachments":[{"id":"`+file.ID+`","name":"../Rechnung\u202efdp.pdf"},
		{"content":"`+encoded(png)+`","name":"l.png","inline":"logo","type":"image/png"}]}`, 202, "").Into(&sent)
	var shown struct {
		Attachments []struct {
			ID, Name, Type, Inline string
			Bytes                  int64
		}
	}
	w.Expect(1, c, "GET", "/sends/"+sent.ID, "", 200, "").Into(&shown)
	if len(shown.Attachments) != 2 || shown.Attachments[0].Name != "Rechnungfdp.pdf" ||
		shown.Attachments[0].Type != "application/pdf" || shown.Attachments[1].Inline != "logo" ||
		shown.Attachments[1].Bytes != int64(len(png)) {
		t.Errorf("attachments are %+v", shown.Attachments)
	}
	claimed, err := w.Store.Claim(t.Context(), "test", 10, time.Minute)
	if err != nil || len(claimed) != 2 || len(claimed[0].Send.Attachments) != 2 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	if got, err := w.Store.FileContent(t.Context(), "shop", claimed[0].Send.Attachments[1].ID); string(got) != png {
		t.Errorf("the content is %q, %v", got, err)
	}
	// The send has them now.
	w.Expect(1, c, "DELETE", "/attachments/"+file.ID, "", 409,
		"A send has this file: it is deleted some time after the last of them")
	upload("a,b\n", 201)
	w.Expect(1, c, "DELETE", "/attachments/"+file.ID, "", 204, "")
	w.Expect(1, c, "GET", "/attachments/"+file.ID, "", 404, "")
	w.Expect(1, c, "DELETE", "/attachments/none", "", 404, `File with ID "none" could not be found`)
	// In lines, too.
	a := w.Call(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","attachments":[{"content":"`+encoded("a,b\n")+
		`","name":"list.csv"}]}`+"\n"+`{"user":"u-1"}`+"\n", "Content-Type", "application/x-ndjson")
	if a.Status != 202 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Files are a client's, and only clients that send have any.
func TestAttachmentsOfOthers(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	var file struct{ ID string }
	w.Call(1, c, "POST", "/attachments", "mine").Into(&file)
	other := w.Client("other")
	w.Expect(1, other, "PUT", "/notifications", `{"source_name":"O","notifications":{"news":{"description":"News"}}}`, 204, "")
	w.Expect(1, other, "GET", "/attachments/"+file.ID, "", 404, "")
	w.Expect(1, other, "DELETE", "/attachments/"+file.ID, "", 404, "")
	w.Expect(1, other, "POST", "/sends", `{"kind_id":"news","recipients":[{"user":"u"}],"attachments":[{"id":"`+file.ID+`"}]}`,
		422, `attachment 1: there is no file with the id "`+file.ID+`": upload it with POST /attachments`)
	for _, token := range []string{w.Client("shop", "notifications.manage"), w.Client("shop", "emails.write"), ""} {
		for _, method := range []string{"GET", "DELETE"} {
			if a := w.Call(1, token, method, "/attachments/"+file.ID, ""); a.Status != 401 && a.Status != 403 {
				t.Errorf("%s: %d %s", method, a.Status, a.Body)
			}
		}
		if a := w.Call(1, token, "POST", "/attachments", "x"); a.Status != 401 && a.Status != 403 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
}

// What cannot be attached is refused with its reason, and nothing is stored.
func TestAttachmentsRefused(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	text := encoded("a,b\n")
	many := strings.TrimSuffix(strings.Repeat(`{"content":"`+text+`"},`, notify.MaxAttachments+1), ",")
	for list, want := range map[string]string{
		`{}`:                                 "attachment 1: give either \"content\" (base64) or \"id\"",
		`{"content":"%%%"}`:                  `attachment 1: "content" is not base64`,
		`{"content":"x","id":"y"}`:           "attachment 1: give either \"content\" (base64) or \"id\"",
		`{"content":"` + text + `","url":1}`: "Unknown field(s): 'url'",
		`{"content":"` + text + `","name":"a.exe"}`:                                                       "attachment 1: its name says that it is a program",
		`{"content":"` + encoded("PK\x03\x04zip") + `"}`:                                                  "attachment 1: it is an archive",
		`{"content":"` + encoded(png) + `","type":"application/pdf"}`:                                     "attachment 1: its type is application/pdf, but its content is image/png",
		`{"content":"` + text + `","name":"a.png"}`:                                                       "attachment 1: its name ends with .png, but its content is text/plain",
		`{"content":"` + text + `","inline":"a"}`:                                                         "attachment 1: only PNG, JPEG, GIF and WebP images can be inline",
		`{"content":"` + encoded(png) + `","inline":"a b"}`:                                               `attachment 1: "inline" is the name after "cid:" in the HTML: at most 64 of a-z, A-Z, 0-9, ".", "-" and "_"`,
		`{"content":"` + encoded(png) + `","inline":"a"},{"content":"` + encoded(png) + `","inline":"a"}`: `attachment 2: another one is "a" too`,
		many: `"attachments" has 21 entries, at most 20 are allowed`,
	} {
		w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","recipients":[{"user":"u"}],"attachments":[`+list+`]}`,
			422, want)
	}
	for content, want := range map[string]string{
		"":             "the file cannot be attached: it is empty",
		"MZ\x00\x01":   "the file cannot be attached: it is a program",
		"<svg></svg>":  "the file cannot be attached: it is a page that a browser may run",
		"#!/bin/sh\n:": "the file cannot be attached: it is a script",
	} {
		w.Expect(1, c, "POST", "/attachments", content, 422, want)
	}
	w.Expect(1, c, "POST", "/attachments", strings.Repeat("x", notify.MaxAttachmentBytes+1), 413, "")
	if n, err := w.Store.Waiting(t.Context()); err != nil || n != 0 {
		t.Errorf("%d messages wait (%v)", n, err)
	}
	stored, err := w.Store.Stored(t.Context(), "shop")
	if err != nil || stored.Sends != 0 {
		t.Errorf("%+v is stored (%v)", stored, err)
	}
}

// Together they have a limit, too, and the client's bound counts them.
func TestAttachmentsBounds(t *testing.T) {
	t.Parallel()
	w := apitest.Bounded(t, actions.Limits{}, notify.Bounds{Sends: 20 << 20})
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", `{"source_name":"S","notifications":{"news":{"description":"News"}}}`, 204, "")
	var ids []map[string]string
	for _, text := range []string{"x", "y"} {
		var file struct{ ID string }
		w.Expect(1, c, "POST", "/attachments", strings.Repeat(text, 9<<20), 201, "").Into(&file)
		ids = append(ids, map[string]string{"id": file.ID, "name": text + ".txt"})
	}
	list, _ := json.Marshal(ids)
	w.Expect(1, c, "POST", "/sends", `{"kind_id":"news","text":"t","recipients":[{"user":"u"}],"attachments":`+string(list)+`}`,
		422, "the attachments have 18874368 bytes together, at most 15728640 are allowed")
	if a := w.Call(1, c, "POST", "/attachments", strings.Repeat("z", 9<<20)); a.Status != 507 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
