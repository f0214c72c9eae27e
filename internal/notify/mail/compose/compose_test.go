package compose

import (
	"bytes"
	"errors"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
)

var now = time.Date(2026, 11, 15, 1, 2, 3, 456, time.UTC)

func composer(t testing.TB) *Composer {
	t.Helper()
	c, err := New(Identity{From: "Ingot <no-reply@ingot.example>"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func outgoing() *notify.Outgoing {
	return &notify.Outgoing{
		ID: "0a1b-2c", To: "ann@example.com", ClientID: "billing", Received: now.Add(-time.Second),
		Body: &notify.Body{Subject: "Hello", Text: "text", HTML: "<p>html</p>"},
	}
}

// names returns the header names in their order.
func names(header []byte) []string {
	var all []string
	for _, line := range strings.Split(strings.TrimSuffix(string(header), "\r\n"), "\r\n") {
		if !strings.HasPrefix(line, " ") {
			name, _, _ := strings.Cut(line, ":")
			all = append(all, name)
		}
	}
	return all
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	o := outgoing()
	o.ReplyTo = "Help <help@example.com>"
	o.Unsubscribe = "https://notify.example/unsubscribe/abc?x=1"
	m, err := composer(t).Message(o, now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"X-CF-Client-ID", "X-CF-Notification-ID", "X-CF-Notification-Timestamp", "X-CF-Notification-Request-Received",
		"Date", "Message-ID", "MIME-Version", "Content-Type", "From", "Reply-To", "To", "Subject", "Auto-Submitted",
		"List-Unsubscribe", "List-Unsubscribe-Post",
	}
	if got := names(m.Header); !slices.Equal(got, want) {
		t.Errorf("headers %q\nwant    %q", got, want)
	}
	parsed, parts := parse(t, m)
	for name, want := range map[string]string{
		"X-CF-Client-ID": "billing", "X-CF-Notification-ID": "0a1b-2c",
		"X-CF-Notification-Timestamp":        "2026-11-15T01:02:03.000000456Z",
		"X-CF-Notification-Request-Received": "2026-11-15T01:02:02.000000456Z", "Date": "Sun, 15 Nov 2026 01:02:03 +0000",
		"Message-ID": "<0a1b-2c@ingot.example>", "From": `"Ingot" <no-reply@ingot.example>`,
		"Reply-To": `"Help" <help@example.com>`,
		"To":       "ann@example.com", "Subject": "Hello", "Auto-Submitted": "auto-generated",
		"List-Unsubscribe":      "<https://notify.example/unsubscribe/abc?x=1>",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
	} {
		if got := parsed.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(parts) != 2 || parts["text/plain"] != "text" || parts["text/html"] != "<p>html</p>" {
		t.Errorf("parts %q", parts)
	}
	if plainAt, htmlAt := bytes.Index(m.Body, []byte("text/plain")),
		bytes.Index(m.Body, []byte("text/html")); plainAt > htmlAt {
		t.Error("the text part is not first")
	}
	if m.From != "no-reply@ingot.example" || m.To != "ann@example.com" || m.UTF8 {
		t.Errorf("envelope %q %q %t", m.From, m.To, m.UTF8)
	}
}

func TestMessageIDIsStable(t *testing.T) {
	t.Parallel()
	c := composer(t)
	first, _ := c.Message(outgoing(), now)
	o := outgoing()
	o.Attempt = 7
	second, _ := c.Message(o, now.Add(time.Hour))
	a, _ := parse(t, first)
	b, _ := parse(t, second)
	if a.Header.Get("Message-ID") != b.Header.Get("Message-ID") || a.Header.Get("Message-ID") != "<0a1b-2c@"+
		c.Domain()+">" {
		t.Error("the Message-ID differs between attempts")
	}
}

func TestReturnPath(t *testing.T) {
	t.Parallel()
	c, err := New(Identity{From: "a@ingot.example", Return: "bounces@in.ingot.example",
		Tag: func(id string) string { return "t-" + id }, Domain: "mail.ingot.example"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Message(outgoing(), now)
	if err != nil || m.From != "bounces+t-0a1b-2c@in.ingot.example" ||
		!bytes.Contains(m.Header, []byte("X-Notification-Report: t-0a1b-2c\r\n")) {
		t.Errorf("message is %v, %v, want from bounces+t-0a1b-2c@in.ingot.example", m, err)
	}
	if !bytes.Contains(m.Header, []byte("Message-ID: <0a1b-2c@mail.ingot.example>\r\n")) {
		t.Errorf("header is %s, want the message id of mail.ingot.example", m.Header)
	}
	for _, bad := range []Identity{
		{}, {From: "x"}, {From: "a@b.org\r\nBcc: x@y.org"}, {From: "jörg@b.org"}, {From: "a@b.org", Domain: "x>\r\n"},
		{From: "a@b.org", Return: "nobody"}, {From: "a@b.org", Return: strings.Repeat("b", 22) + "@b.org",
			Tag: strings.ToLower},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	for _, tag := range []string{"", "a@b", "a\r\nRCPT TO:<x@y.org>", strings.Repeat("t", 43)} {
		c, err := New(Identity{From: "a@ingot.example", Tag: func(string) string { return tag }})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := c.Message(outgoing(), now); err == nil {
			t.Errorf("the tag %q is taken: %s", tag, m.From)
		}
	}
}

// What an attacker would put into each field, and what must not come of it.
var injections = []string{
	"x\r\nBcc: evil@example.com", "x\nBcc: evil@example.com", "x\rBcc: evil@example.com", "x\r\n\r\nbody",
	"x\r\n.\r\nMAIL FROM:<>",
	"x\x00\r\nBcc: e@e.org", "\r\nBcc: e@e.org", "x\u2028Bcc: e@e.org", "x\u0085Bcc: e@e.org",
	"=?utf-8?q?x=0D=0ABcc:_e@e.org?=",
	"x\v\fBcc: e@e.org", "x\r\n Bcc: e@e.org", "x\r\n\tBcc: e@e.org", "\x7f\x1b[2J", "\xff\xfe\r\nBcc: e@e.org",
	strings.Repeat("y", 5000) + "\r\nBcc: e@e.org",
	"x>\r\nBcc: <e@e.org", `x" <e@e.org>, "y`, "a@b.org, e@e.org", "a@b.org>\r\nRCPT TO:<e@e.org",
}

func TestNoHeaderInjection(t *testing.T) {
	t.Parallel()
	c := composer(t)
	fields := map[string]func(*notify.Outgoing, string){
		"ID":          func(o *notify.Outgoing, s string) { o.ID = s },
		"To":          func(o *notify.Outgoing, s string) { o.To = s },
		"ReplyTo":     func(o *notify.Outgoing, s string) { o.ReplyTo = s },
		"ReplyToName": func(o *notify.Outgoing, s string) { o.ReplyTo = s + " <a@b.org>" },
		"ClientID":    func(o *notify.Outgoing, s string) { o.ClientID = s },
		"Subject":     func(o *notify.Outgoing, s string) { o.Body.Subject = s },
		"Unsubscribe": func(o *notify.Outgoing, s string) { o.Unsubscribe = "https://a.example/" + s },
		"Text":        func(o *notify.Outgoing, s string) { o.Body.Text = s },
		"HTML":        func(o *notify.Outgoing, s string) { o.Body.HTML = s },
	}
	composed := 0
	for field, set := range fields {
		for _, value := range injections {
			o := outgoing()
			set(o, value)
			m, err := c.Message(o, now)
			if err != nil {
				if strings.ContainsAny(err.Error(), "\r\n\x00") {
					t.Errorf("%s: the error holds control characters: %q", field, err)
				}
				continue // refused is as good
			}
			composed++
			checkForm(t, m)
			for _, name := range names(m.Header) {
				if name == "Bcc" || strings.HasPrefix(name, "MAIL") {
					t.Errorf("%s %q injects:\n%s", field, value, m.Header)
				}
			}
			parsed, _ := parse(t, m)
			if to, err := parsed.Header.AddressList("To"); err != nil || len(to) != 1 {
				t.Errorf("%s %q: To is %v, %v", field, value, to, err)
			}
		}
	}
	if composed < 60 {
		t.Errorf("only %d of the cases became messages: the table proves too little", composed)
	}
	for _, test := range []func(*notify.Outgoing){
		func(o *notify.Outgoing) { o.To = "nobody" },
		func(o *notify.Outgoing) { o.To = "a@b.org\r\n" },
	} {
		o := outgoing()
		test(o)
		var bad *BadAddressError
		if _, err := c.Message(o, now); !errors.As(err, &bad) {
			t.Errorf("message to %q: error is %v, want a %T", o.To, err, bad)
		}
	}
}

// checkForm sees that the text can go to a server as it is.
func checkForm(t *testing.T, m *Message) {
	t.Helper()
	text := string(m.Header) + string(m.Body)
	if !strings.HasSuffix(text, "\r\n") || strings.HasPrefix(text, ".") || strings.Contains(text, "\n.") {
		t.Errorf("the text needs escaping: %q", text)
	}
	if strings.Contains(string(m.Header), "\r\n\r\n") {
		t.Errorf("the header ends early: %q", m.Header)
	}
	for _, line := range strings.SplitAfter(text, "\r\n") {
		line = strings.TrimSuffix(line, "\r\n")
		if strings.ContainsAny(line, "\r\n\x00") {
			t.Errorf("a bare line end or NUL: %q", line)
		}
		if len(line) > 998 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	for i := range len(m.Body) {
		if m.Body[i] >= 0x80 {
			t.Fatalf("the body is not 7 bit: %q", m.Body)
		}
	}
}

// parse reads a message back with the standard library.
func parse(t *testing.T, m *Message) (*mail.Message, map[string]string) {
	t.Helper()
	msg, err := mail.ReadMessage(io.MultiReader(bytes.NewReader(m.Header), bytes.NewReader(m.Body)))
	if err != nil {
		t.Fatalf("%v in\n%s%s", err, m.Header, m.Body)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	if kind != "multipart/alternative" {
		text, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
		if err != nil {
			t.Fatal(err)
		}
		parts[kind] = string(text)
		return msg, parts
	}
	r := multipart.NewReader(msg.Body, params["boundary"])
	for {
		p, err := r.NextPart() // decodes quoted-printable
		if errors.Is(err, io.EOF) {
			return msg, parts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, m.Body)
		}
		text, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		parts[kind] = string(text)
	}
}

func normal(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	return strings.TrimRight(s, "\n")
}

func TestSingleParts(t *testing.T) {
	t.Parallel()
	for _, b := range []notify.Body{{Text: "only text.\n.\n..dots\n"}, {HTML: "<p>only ünïcode 🎉</p>"}, {}} {
		o := outgoing()
		o.Body = &b
		m, err := composer(t).Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		checkForm(t, m)
		_, parts := parse(t, m)
		if normal(parts["text/plain"]) != normal(b.Text) || normal(parts["text/html"]) != b.HTML || len(parts) != 1 {
			t.Errorf("parts are %q, want only the one of %+v", parts, b)
		}
	}
}

func TestUnicode(t *testing.T) {
	t.Parallel()
	o := outgoing()
	o.Body.Subject = strings.Repeat("Grüße 🎉 und mehr, ", 20)
	o.Body.Text = strings.Repeat("Zeile mit Umlauten äöü und Leerzeichen am Ende \n", 5)
	o.To = "ann@exämple.org"
	m, err := composer(t).Message(o, now)
	if err != nil {
		t.Fatal(err)
	}
	checkForm(t, m)
	parsed, parts := parse(t, m)
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil || subject != strings.TrimSpace(o.Body.Subject) {
		t.Errorf("the subject is %q, %v", subject, err)
	}
	if normal(parts["text/plain"]) != normal(o.Body.Text) {
		t.Errorf("the text is %q", parts["text/plain"])
	}
	if m.To != "ann@xn--exmple-cua.org" || m.UTF8 {
		t.Errorf("recipient is %q, UTF8 %t, want ann@xn--exmple-cua.org and false", m.To, m.UTF8)
	}
	o.To = "jörg@exämple.org"
	if m, err = composer(t).Message(o, now); err != nil || !m.UTF8 {
		t.Errorf("message is %+v, %v, want UTF8", m, err)
	}
}

func TestSharedBodyIsEncodedOnce(t *testing.T) {
	t.Parallel()
	c := composer(t)
	o := outgoing()
	a, _ := c.Message(o, now)
	b, _ := c.Message(o, now)
	if &a.Body[0] != &b.Body[0] {
		t.Error("a shared body was encoded twice")
	}
	for range 3 * cacheEntries {
		if _, err := c.Message(outgoing(), now); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.bodies.known) > cacheEntries || len(c.bodies.order) != len(c.bodies.known) {
		t.Errorf("the cache holds %d bodies", len(c.bodies.known))
	}
	for range 10 {
		big := outgoing()
		big.Body.Text = strings.Repeat("x", cacheBytes/8)
		if _, err := c.Message(big, now); err != nil {
			t.Fatal(err)
		}
	}
	if c.bodies.bytes > cacheBytes {
		t.Errorf("the cache holds %d bytes", c.bodies.bytes)
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range injections {
		f.Add(s, s, "a@b.org", s, s)
	}
	f.Add("Grüße", "a.\n.b\r\n", "Ann <jörg@exämple.org>", "", "client")
	c, err := New(Identity{From: "no-reply@ingot.example"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, subject, text, replyTo, html, client string) {
		o := outgoing()
		o.Body = &notify.Body{Subject: subject, Text: text, HTML: html}
		o.ReplyTo, o.ClientID = replyTo, client
		m, err := c.Message(o, now)
		if err != nil {
			return
		}
		checkForm(t, m)
		parsed, parts := parse(t, m)
		if got := names(m.Header); len(got) > 15 {
			t.Fatalf("headers %q", got)
		}
		got, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
		if err != nil || got != clean(subject) {
			t.Fatalf("subject %q became %q, %v", subject, got, err)
		}
		if utf8.ValidString(text) && (html == "" || text != "") && normal(parts["text/plain"]) != normal(text) {
			t.Fatalf("text %q became %q", text, parts["text/plain"])
		}
	})
}

func BenchmarkMessageSharedBody(b *testing.B) {
	c := composer(b)
	o := outgoing()
	o.Body = &notify.Body{Subject: "Your app crashed", Text: strings.Repeat("a line of text\n", 60),
		HTML: strings.Repeat("<p>a line of text</p>\n", 50)}
	o.Unsubscribe = "https://notify.example/unsubscribe/abcdefghijklmnopqrstuvwxyz"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Message(o, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}

// A link is judged by itself, whatever the one before it was.
func TestUnsubscribeHeaders(t *testing.T) {
	t.Parallel()
	c := composer(t)
	for range 2 {
		for link, want := range map[string]string{
			"https://n.example/unsubscribe/one": "one click", "https://n.example/unsubscribe/two": "one click",
			"http://n.example/unsubscribe/one": "link", "http://localhost/unsubscribe/one": "one click",
			"http://n.example": "link", "http://localhost": "one click",
			"https://n.example/unsubscribe/a,b": "error", "https://n.example/unsubscribe/a b": "error",
			"https://n.example/unsubscribe/a>": "error", "ftp://n.example/unsubscribe/one": "error",
			"/unsubscribe/one": "error", "https:///one": "error",
		} {
			o := outgoing()
			o.Unsubscribe = link
			got := "error"
			if m, err := c.Message(o, now); err == nil {
				got = "link"
				if slices.Contains(names(m.Header), "List-Unsubscribe-Post") {
					got = "one click"
				}
			}
			if got != want {
				t.Errorf("%s: %s, want %s", link, got, want)
			}
		}
	}
}

// Messages that share a body each have their own link in it.
func TestUnsubscribeLinks(t *testing.T) {
	t.Parallel()
	mark := notify.UnsubscribeMark
	for name, body := range map[string]*notify.Body{
		"both": {Text: "Hello.\n\n-- \nUnsubscribe: " + mark, HTML: `<p>Hello.</p><a href="` + mark +
			`">Unsubscribe</a>`},
		"text":       {Text: mark + "\n.and " + mark + " after"},
		"html":       {HTML: "<p>" + strings.Repeat("long ", 40) + mark + "</p>"},
		"at the end": {Text: "x " + mark},
		"long lines": {Text: strings.Repeat("ä", 100) + mark + strings.Repeat("=", 90) + "\n"},
	} {
		c := composer(t)
		for _, link := range []string{"https://n.example/unsubscribe/one", "https://n.example/unsubscribe/" +
			strings.Repeat("twö=", 50) + `?a="&b`} {
			o := outgoing()
			o.Body, o.Unsubscribe = body, strings.ReplaceAll(link, "ö", "o")
			m, err := c.Message(o, now)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(string(m.Body), "\r\n") {
				if len(line) > 76 || strings.HasPrefix(line, ".") {
					t.Errorf("%s: line %q", name, line)
				}
			}
			_, parts := parse(t, m)
			for kind, want := range map[string]string{
				"text/plain": strings.ReplaceAll(body.Text, mark, o.Unsubscribe),
				"text/html":  strings.ReplaceAll(body.HTML, mark, html.EscapeString(o.Unsubscribe)),
			} {
				if got := parts[kind]; strings.TrimSuffix(normal(got), "\n") != strings.TrimSuffix(want, "\n") {
					t.Errorf("%s: %s is\n%q, want\n%q", name, kind, got, want)
				}
			}
		}
	}
}
