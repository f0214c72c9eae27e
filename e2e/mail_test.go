package e2e

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify/mail/mailtest"
)

// mailFixture is a server that sends mail to a sink, with an OAuth client that
// sends notifications.
type mailFixture struct {
	*Server
	sink  *mailtest.Sink
	admin string
	// base is the URL of the notification service, token the client's token.
	base, token string
}

// sendingAuthorities are all authorities of a sender.
var sendingAuthorities = []string{
	"notifications.write", "notifications.manage", "notification_templates.write", "notification_templates.read",
	"critical_notifications.write", "emails.write", "notification_preferences.admin",
}

func newMailFixture(t *testing.T, o options) *mailFixture {
	t.Helper()
	sink := mailtest.New(t, mailtest.Options{Keep: 100_000})
	return newMailFixtureOf(t, sink, sink.URL("", ""), o)
}

// newMailFixtureOf sends by the mail server with the URL, which relays to the sink.
func newMailFixtureOf(t *testing.T, sink *mailtest.Sink, smtpURL string, o options) *mailFixture {
	t.Helper()
	o.Args = append(o.Args, "--smtp-url", smtpURL)
	s := start(t, o)
	p := &mailFixture{Server: s, sink: sink, admin: s.adminToken(t), base: s.Notifications}
	p.newSender(t, "my-sender", sendingAuthorities...).want(t, http.StatusCreated)
	p.token = p.clientToken(t, "my-sender", "my-secret")
	return p
}

// newSender creates a client as the documentation tells senders to.
func (p *mailFixture) newSender(t testing.TB, id string, authorities ...string) *reply {
	t.Helper()
	return p.call(t, http.MethodPost, "/oauth/clients", p.admin, map[string]any{
		"client_id": id, "client_secret": "my-secret", "authorized_grant_types": "client_credentials",
		"authorities": authorities,
	})
}

// ask sends a request to the notification service.
func (p *mailFixture) ask(t testing.TB, method, path string, body any, headers ...header) *reply {
	t.Helper()
	return p.call(t, method, p.base+path, p.token, body, headers...)
}

// object is a JSON object to send.
type object = map[string]any

// register registers kinds; those whose name begins with "fire" are critical.
func (p *mailFixture) register(t testing.TB, kinds ...string) {
	t.Helper()
	all := object{}
	for _, k := range kinds {
		all[k] = object{"description": "The kind " + k, "critical": strings.HasPrefix(k, "fire")}
	}
	p.ask(t, http.MethodPut, "/notifications", object{"source_name": "My Source", "notifications": all}).
		want(t, http.StatusNoContent)
}

// message is a received message.
type message struct {
	To, Subject, Text, HTML string
	Header                  mail.Header
}

func readMessage(t testing.TB, m mailtest.Message) message {
	t.Helper()
	read, err := mail.ReadMessage(strings.NewReader(m.Data))
	if err != nil {
		t.Fatalf("message cannot be read: %v\n%s", err, m.Data)
	}
	l := message{To: m.To, Header: read.Header}
	if l.Subject, err = new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	l.part(t, read.Header.Get("Content-Type"), read.Header.Get("Content-Transfer-Encoding"), read.Body)
	return l
}

func (l *message) part(t testing.TB, kind, encoding string, body io.Reader) {
	t.Helper()
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		t.Fatalf("bad media type: %v: %s", err, kind)
	}
	if strings.HasPrefix(media, "multipart/") {
		for parts := multipart.NewReader(body, params["boundary"]); ; {
			p, err := parts.NextRawPart()
			if err != nil {
				return
			}
			l.part(t, p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p)
		}
	}
	if strings.EqualFold(encoding, "quoted-printable") {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if media == "text/html" {
		l.HTML = string(text)
	} else {
		l.Text = string(text)
	}
}

// messages returns the received messages whose subject contains the words.
func (p *mailFixture) messages(t testing.TB, words string) []message {
	t.Helper()
	var found []message
	for _, m := range p.sink.Messages() {
		if l := readMessage(t, m); strings.Contains(l.Subject, words) {
			found = append(found, l)
		}
	}
	return found
}

// receive waits until exactly these recipients have a message whose subject
// contains the words.
func (p *mailFixture) receive(t testing.TB, words string, to ...string) []message {
	t.Helper()
	over := time.After(patience)
	for {
		changed := p.sink.Changed()
		found := p.messages(t, words)
		var got []string
		for _, l := range found {
			got = append(got, l.To)
		}
		if sameWords(got, to) {
			return found
		}
		if len(got) > len(to) {
			t.Fatalf("%q went to %v, want %v", words, got, to)
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("%q went to %v, want %v\n%s", words, got, to, p.Stderr)
		}
	}
}

// oneClick unsubscribes as a mail program does, with the headers of a message.

func (p *mailFixture) oneClick(t testing.TB, l message) {
	t.Helper()
	if got := l.Header.Get("List-Unsubscribe-Post"); got != "List-Unsubscribe=One-Click" {
		t.Fatalf("List-Unsubscribe-Post is %q", got)
	}
	address := strings.Trim(l.Header.Get("List-Unsubscribe"), "<>")
	p.call(t, http.MethodPost, address, "", url.Values{"List-Unsubscribe": {"One-Click"}}).want(t, http.StatusOK)
}
