package mail_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	stdmail "net/mail"
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/mailtest"
)

func attached(size int) *notify.Attached {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i * i)
	}
	return &notify.Attached{Bytes: int64(size), Files: []notify.AttachedFile{{
		Attachment: notify.Attachment{Name: "report.bin", Type: "application/octet-stream"}, Content: content}}}
}

// TestAttachmentArrives sends attachments, also to servers without extensions, and reads them with another parser.
func TestAttachmentArrives(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mailtest.Options{
		"pipelining": {Keep: 10}, "plain": {Keep: 10, Without: []string{"PIPELINING", "8BITMIME", "SIZE"}},
	} {
		sink := mailtest.New(t, options)
		c := channel(t, sink, "", "", nil)
		files := attached(300_000)
		all := messages("m", 3)
		for i := range all {
			all[i].Attached = files
		}
		for _, r := range deliver(t.Context(), c, all) {
			if r.Verdict != notify.Accepted {
				t.Fatalf("%s: %+v", name, r)
			}
		}
		for _, m := range sink.Messages() {
			if got := attachmentIn(t, m.Data); !bytes.Equal(got, files.Files[0].Content) {
				t.Errorf("%s: %s has an attachment of %d bytes", name, m.ID, len(got))
			}
		}
		if v := sink.Violations(); len(sink.Messages()) != 3 || len(v) > 0 {
			t.Errorf("%s: %d messages, %q", name, len(sink.Messages()), v)
		}
	}
}

func attachmentIn(t *testing.T, data string) []byte {
	t.Helper()
	m, err := stdmail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	r := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := r.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if p.FileName() != "report.bin" {
			continue
		}
		content, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, p))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
}

// TestAttachmentTooLong does not start to send what the server says it does not accept, and blames no address.
func TestAttachmentTooLong(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Size: 200_000})
	c := channel(t, sink, "", "", nil)
	all := messages("m", 2)
	all[0].Attached, all[1].Attached = attached(200_000), attached(100_000)
	got := deliver(t.Context(), c, all)
	if r := got[0]; r.Verdict != notify.Permanent || r.BadAddress ||
		!strings.Contains(r.Reason, "the mail server accepts 200000") {
		t.Errorf("%+v", got[0])
	}
	if got[1].Verdict != notify.Accepted || sink.Accepted() != 1 {
		t.Errorf("%+v, %d arrived", got[1], sink.Accepted())
	}
}
