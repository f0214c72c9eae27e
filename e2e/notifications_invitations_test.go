package e2e

import (
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"ingot/internal/notify/mail/mailtest"
)

// TestConversationsAndInvitations sends mail as the documentation does, through a real mail server, and reads it as
// mail programs do.
func TestConversationsAndInvitations(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Keep: 100})
	relay := mailtest.Postfix(t, sink.Addr(), sink.Addr())
	p := newMailFixtureOf(t, sink, "smtp://"+relay, options{Args: []string{"--mail-from", "Shop <shop@ingot.example>"}})
	p.register(t, "order", "review", "fire")
	c := ingotIn(t, t.TempDir(), "INGOT_NOTIFICATIONS_URL="+p.base)
	c.ok(t, "api", p.API) // a client needs no login
	client := []string{"--client", "my-sender", "--client-secret", "my-secret"}
	received := 0
	send := func(kind, email, subject string, args ...string) *mail.Message {
		t.Helper()
		c.ok(t, append(append([]string{"notifications", "send", kind, "--email", email, "--subject", subject,
			"--text", "Thursday at six"}, args...), client...)...)
		received++
		if !sink.Wait(received, patience) {
			t.Fatalf("%d of %d mails arrived\n%s", sink.Accepted(), received, p.Stderr)
		}
		all := sink.Messages()
		m, err := mail.ReadMessage(strings.NewReader(all[len(all)-1].Data))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}

	first := send("order", "ann@example.org", "Order 4711", "--thread", "order-4711").Header
	second := send("order", "ann@example.org", "Order 4711", "--thread", "order-4711").Header
	root := first.Get("References")
	if root == "" || strings.Contains(root, "4711") || first.Get("In-Reply-To") != root ||
		second.Get("References") != root || first.Get("Message-Id") == second.Get("Message-Id") {
		t.Errorf("the mails are no conversation: %v, %v", first, second)
	}
	for what, m := range map[string]*mail.Message{
		"another key":       send("order", "ann@example.org", "Order 4712", "--thread", "order-4712"),
		"another recipient": send("order", "bob@example.org", "Order 4711", "--thread", "order-4711"),
		"no key":            send("order", "ann@example.org", "Order 4711"),
	} {
		if m.Header.Get("References") == root {
			t.Errorf("with %s it is the same conversation", what)
		}
	}
	if got := first.Get("List-Id"); got != "<order.my-sender.localhost>" {
		t.Errorf("the list is %s", got)
	}
	if critical := send("fire", "ann@example.org", "Fire").Header; critical.Get("List-Id") != "" {
		t.Errorf("what cannot be unsubscribed from is the list %s", critical.Get("List-Id"))
	}

	const event = `{"uid": "review-17", "start": "2026-12-24T18:00", "zone": "Europe/Berlin", "duration": "45m", ` +
		`"location": "Room 5"`
	for _, change := range []struct {
		method, more string
		want         []string
	}{
		{"REQUEST", "}", []string{"METHOD:REQUEST", "DTSTART:20261224T170000Z", "DTEND:20261224T174500Z", "LOCATION:Room 5",
			"SUMMARY:Review of the order", "ORGANIZER:mailto:shop@ingot.example", "SEQUENCE:0"}},
		{"CANCEL", `, "sequence": 1, "method": "CANCEL"}`, []string{"METHOD:CANCEL", "STATUS:CANCELLED", "SEQUENCE:1"}},
	} {
		m := send("review", "ann@example.org", "Review of the order", "--event", event+change.more)
		method, calendar := invitation(t, m)
		contains(t, calendar, append(change.want, "mailto:ann@example.org")...)
		if method != change.method {
			t.Errorf("the part's method is %s, want %s", method, change.method)
		}
		if !strings.Contains(calendar, "\r\nUID:") || strings.Contains(calendar, "UID:review-17") {
			t.Errorf("the event's id is not the client's own:\n%s", calendar)
		}
	}

	wrong, code := c.run(t, append([]string{"notifications", "send", "review", "--email", "ann@example.org", "--text", "t",
		"--event", `{"uid": "review-17", "start": "2026-03-29T02:30", "zone": "Europe/Berlin", "duration": "45m"}`},
		client...)...)
	contains(t, wrong, "clocks skip it")
	if code == 0 {
		t.Error("a time that does not exist was accepted")
	}
}

// invitation returns the calendar in a message, which is the last of its alternatives.
func invitation(t *testing.T, m *mail.Message) (method, calendar string) {
	t.Helper()
	media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || media != "multipart/alternative" {
		t.Fatalf("the message is %s, %v", media, err)
	}
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err != nil {
			return method, calendar
		}
		method, calendar = "", ""
		kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		if kind != "text/calendar" {
			continue
		}
		text, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, part))
		if err != nil {
			t.Fatal(err)
		}
		method, calendar = params["method"], string(text)
	}
}
