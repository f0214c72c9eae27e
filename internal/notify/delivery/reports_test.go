package delivery

import (
	"bytes"
	"context"
	netsmtp "net/smtp" //nolint:depguard // an independent client
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/dsn"
	"ingot/internal/notify/mail/mailtest"
)

// bounceOf is a report that a message to an address failed.
func bounceOf(recipient, header string) string {
	return "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n" +
		"Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; " + recipient +
		"\nAction: failed\nStatus: 5.1.1\n\n--b\nContent-Type: text/rfc822-headers\n\n" + header + "\n\n--b--\n"
}

// complaintAbout is a report that hides the recipient.
func complaintAbout(header string) string {
	return "Content-Type: multipart/report; report-type=feedback-report; boundary=b\n\n--b\n" +
		"Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: Loop/1\n" +
		"Original-Rcpt-To: <redacted@example.com>\n\n--b\nContent-Type: text/rfc822-headers\n\n" + header + "\n\n--b--\n"
}

// TestReports sends mail, and reports about it to the listener: forged ones, by someone who knows the ids and the
// addresses of all messages, change nothing; a bounce and a complaint by servers that got the mail do.
func TestReports(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			tags, err := notify.NewTags(bytes.Repeat([]byte{1}, 32))
			testkit.Must(t, err)
			others, err := notify.NewTags(bytes.Repeat([]byte{2}, 32))
			testkit.Must(t, err)
			sink := mailtest.New(t, mailtest.Options{Keep: 10})
			w := newWorld(t, setup{db: dbtest.New(t, dialect), channel: newMailFrom(t, mail.Identity{From: "a@example.com",
				Return: "b@in.example", Tag: tags.Tag}, sink.URL("", ""), time.Minute, time.Minute)})
			w.start()
			listener, err := dsn.New(dsn.Options{
				Addr: "127.0.0.1:0", Return: "b@in.example", Open: tags.ID,
				Bounce: func(ctx context.Context, b dsn.Bounce) (bool, error) {
					return w.service.Bounced(ctx, actions.Bounce(b))
				},
				Complaint: func(ctx context.Context, c dsn.Complaint) (bool, error) {
					return w.service.Complained(ctx, actions.Complaint(c))
				},
			})
			testkit.Must(t, err)
			testkit.Must(t, listener.Start(t.Context()))
			t.Cleanup(listener.Stop)
			report := func(to, text string) error {
				return netsmtp.SendMail(listener.Addr(), nil, "mx@example.com", []string{to},
					[]byte(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")))
			}

			if c := w.finish(w.send()); c.Delivered != 1 {
				t.Fatalf("counts are %+v", c)
			}
			sent := sink.Messages()[0]
			header, _, _ := strings.Cut(sent.Data, "\r\n\r\n")
			if want := "b+" + tags.Tag(sent.ID) + "@in.example"; sent.From != want {
				t.Fatalf("the return path is %q, want %q", sent.From, want)
			}
			// What everyone sees who may list messages: the header without the tag.
			known := strings.ReplaceAll(header, tags.Tag(sent.ID), "")
			ann := "user0@example.com"
			for name, forged := range map[string]struct{ to, text, want string }{
				"a bounce to the plain address": {"b@in.example", bounceOf(ann, known), ""},
				"its whole header":              {"b@in.example", bounceOf(ann, header), ""},
				"by the id":                     {"b+" + sent.ID + "@in.example", bounceOf(ann, known), "550"},
				"with another key":              {"b+" + others.Tag(sent.ID) + "@in.example", bounceOf(ann, known), "550"},
				"an altered tag":                {"b+" + tags.Tag(sent.ID)[:41] + "0@in.example", bounceOf(ann, known), "550"},
				"at another address":            {"c+" + tags.Tag(sent.ID) + "@in.example", bounceOf(ann, known), "550"},
				"at another domain":             {"b+" + tags.Tag(sent.ID) + "@example.com", bounceOf(ann, known), "550"},
				"of another recipient":          {sent.From, bounceOf("user1@example.com", header), ""},
				"of a message that was not sent": {"b+" + tags.Tag(w.ids.Message(1<<40)) + "@in.example",
					bounceOf(ann, known), ""},
				"a complaint with the id only": {"b@in.example", complaintAbout(known), ""},
				"a complaint with another tag": {"b@in.example",
					complaintAbout(strings.ReplaceAll(header, tags.Tag(sent.ID), others.Tag(sent.ID))), ""},
			} {
				if err := report(forged.to, forged.text); (err == nil) != (forged.want == "") ||
					err != nil && !strings.Contains(err.Error(), forged.want) {
					t.Errorf("%s: %v, want %q", name, err, forged.want)
				}
				if all, err := w.store.Suppressions(t.Context(), "", 10); err != nil || len(all) > 0 {
					t.Fatalf("%s: suppressed %+v, %v, want none", name, all, err)
				}
			}
			for _, real := range []struct{ to, text, source, reason string }{
				{"b@in.example", complaintAbout(header), "complaint", "abuse Loop/1"},
				{sent.From, bounceOf("User0@example.com", known), "bounce", "5.1.1"},
			} {
				testkit.Must(t, report(real.to, real.text))
				all, err := w.store.Suppressions(t.Context(), "", 10)
				if err != nil || len(all) != 1 || all[0].Email != ann || all[0].Source != real.source ||
					all[0].Reason != real.reason {
					t.Errorf("suppressed %+v, %v, want by a %s", all, err, real.source)
				}
				again := w.send()
				w.finish(again)
				if m := w.message(again, 0); m.Status != notify.Undeliverable || sink.Accepted() != 1 {
					t.Errorf("the next message is %s, %d were sent", m.Status, sink.Accepted())
				}
				testkit.Must(t, w.store.Unsuppress(t.Context(), ann))
			}
		})
	}
}

// TestConversation: mail with a key refers to the same message for the same recipient of the same client only.
func TestConversation(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Keep: 20})
	w := newWorld(t, setup{db: dbtest.New(t, dbtest.Dialects[0]), channel: newMail(t, sink.URL("", ""), time.Minute,
		time.Minute)})
	w.start()
	for _, key := range []string{"order-1", "order-1", "order-2", ""} {
		w.finish(w.send(func(r *actions.Request) { r.Content.Thread = key }))
	}
	w.finish(w.send(func(r *actions.Request) {
		start := time.Now().Add(time.Hour)
		r.Content.Event = &notify.Invitation{Method: notify.CancelEvent, UID: "1", Summary: "Review", Start: start,
			End: start.Add(time.Hour)}
	}))
	if last := sink.Messages()[4]; !strings.Contains(last.Data,
		"Content-Type: text/calendar; charset=UTF-8; method=CANCEL\r\n") {
		t.Errorf("the invitation is %s", last.Data)
	}
	var roots []string
	for _, m := range sink.Messages()[:4] {
		_, after, found := strings.Cut(m.Data, "\r\nReferences: ")
		root, rest, _ := strings.Cut(after, "\r\n")
		if found && !strings.HasPrefix(rest, "In-Reply-To: "+root+"\r\n") || strings.Contains(m.Data, "order-") {
			t.Errorf("the header is %s", m.Data)
		}
		roots = append(roots, root)
	}
	if len(roots) != 4 || roots[0] != roots[1] || roots[0] == roots[2] || roots[3] != "" || roots[2] == "" {
		t.Errorf("conversations are %q", roots)
	}
}
