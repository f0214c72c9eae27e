package mail_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/dsn"
	"ingot/internal/notify/mail/mailtest"
)

// The way of real mail: Ingot's client, an independent mail server, and for
// an address that does not exist its report back to our listener.
func TestPostfix(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{
		Keep: 1000, Fault: mailtest.Recipient("nobody@example.com", mailtest.Action{Reply: "550 5.1.1 no such user"}),
	})
	key := bytes.Repeat([]byte{1}, 32)
	tags, err := notify.NewTags(key)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := notify.NewIDs(key)
	if err != nil {
		t.Fatal(err)
	}
	bounced := make(chan dsn.Bounce, 100)
	reports, err := dsn.New(dsn.Options{
		Addr: "127.0.0.1:0", Return: "bounces@in.ingot.example", Open: tags.ID,
		Bounce: func(_ context.Context, b dsn.Bounce) (bool, error) {
			bounced <- b
			return true, nil
		},
		Complaint: func(context.Context, dsn.Complaint) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := reports.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reports.Stop)
	addr := mailtest.Postfix(t, sink.Addr(), reports.Addr())

	c, err := mail.NewChannel(mail.Options{
		URL: "smtp://" + addr + "?connections=4",
		Identity: mail.Identity{
			From: "Ingot <no-reply@ingot.example>", Return: "bounces@in.ingot.example", Tag: tags.Tag,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)

	all := messages("postfix", 100)
	for i := range all {
		all[i].ID = ids.Message(int64(i))
	}
	all[7].To = "nobody@example.com"
	all[8].To = "jörg@example.com"
	all[9].Body = &notify.Body{Subject: "Grüße 🎉", Text: ".\n..\nFrom here\n" + strings.Repeat("ü", 2000) + "\n.\n",
		HTML: "<p>.</p>"}
	all[10].Unsubscribe = "https://notify.example/unsubscribe/1"
	for i, r := range deliver(t.Context(), c, all) {
		if r.Verdict != notify.Accepted {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	if !sink.Wait(len(all)-1, 3*time.Minute) {
		t.Fatalf("%d of %d messages came through", sink.Accepted(), len(all)-1)
	}
	select {
	case b := <-bounced:
		if b.MessageID != all[7].ID || b.Recipient != "nobody@example.com" || b.Status != "5.1.1" || !b.Permanent ||
			!strings.Contains(b.Diagnostic, "no such user") {
			t.Errorf("bounce is %+v, want a permanent 5.1.1 of %s", b, all[7].ID)
		}
	case <-time.After(3 * time.Minute):
		t.Error("no report came back")
	}
	for id, n := range sink.Received() {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	for _, m := range sink.Messages() {
		if !strings.Contains(m.Data, "with ESMTPS") && !strings.Contains(m.Data, "with UTF8SMTPS") {
			t.Errorf("it was not encrypted:\n%s", m.Data)
		}
		if m.ID == all[9].ID && (!strings.Contains(m.Data, "\r\n=2E\r\n=2E.\r\nFrom here") ||
			!strings.Contains(m.Data, "Subject: =?utf-8?b?")) {
			t.Errorf("it was changed:\n%s", m.Data)
		}
		if m.ID == all[10].ID && !strings.Contains(m.Data, "\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n") {
			t.Errorf("it was changed:\n%s", m.Data)
		}
		if want := "bounces+" + tags.Tag(m.ID) + "@in.ingot.example"; m.From != want {
			t.Errorf("the sender is %q, want %q", m.From, want)
		}
	}
}
