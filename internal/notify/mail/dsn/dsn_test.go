package dsn

import (
	"context"
	"errors"
	"net"
	"net/smtp" //nolint:depguard // an independent client
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
)

// id is that of a message, and tag its tag, according to open.
const (
	id  = "3f2a77c0-0000-1111-2222-333344445555"
	tag = "t-" + id
)

// open stands for notify.Tags.
func open(text string) (string, bool) { return strings.CutPrefix(strings.ToLower(text), "t-") }

// report is as a common server writes it.
func report(replace ...string) string {
	text := `Return-Path: <>
Date: Sun, 15 Nov 2026 01:02:03 +0000 (UTC)
From: MAILER-DAEMON@mx.example (Mail Delivery System)
Subject: Undelivered Mail Returned to Sender
To: bounces@in.ingot.example
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status;
	boundary="B/mx.example"

This is a MIME-encapsulated message.

--B/mx.example
Content-Description: Notification
Content-Type: text/plain; charset=us-ascii

I'm sorry to have to inform you …

--B/mx.example
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example
X-Queue-ID: 1234
Arrival-Date: Sun, 15 Nov 2026 01:02:03 +0000 (UTC)

Final-Recipient: rfc822; ann@example.com
Original-Recipient: rfc822;Ann@example.com
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx2.example
Diagnostic-Code: smtp; 550 5.1.1 <ann@example.com>: user unknown
 in virtual mailbox table

--B/mx.example
Content-Description: Undelivered Message
Content-Type: message/rfc822

X-CF-Client-ID: c
Message-ID: <` + id + `@ingot.example>
X-Notification-Report: ` + tag + `
Subject: Hello

Hello

--B/mx.example--
`
	return strings.ReplaceAll(strings.NewReplacer(replace...).Replace(text), "\n", "\r\n")
}

func TestParse(t *testing.T) {
	t.Parallel()
	full := Bounce{Recipient: "Ann@example.com", Status: "5.1.1",
		Diagnostic: "550 5.1.1 <ann@example.com>: user unknown in virtual mailbox table", Permanent: true}
	with := func(change func(*Bounce)) []Bounce {
		b := full
		change(&b)
		return []Bounce{b}
	}
	for name, test := range map[string]struct {
		text string
		tag  string
		want []Bounce
	}{
		"hard":         {report(), tag, []Bounce{full}},
		"headers only": {report("message/rfc822", "text/rfc822-headers"), tag, []Bounce{full}},
		"no tag":       {report("X-Notification-Report:", "X-Other:"), "", []Bounce{full}},
		"soft": {report("Status: 5.1.1", "Status: 4.2.2"), tag,
			with(func(b *Bounce) { b.Status, b.Permanent = "4.2.2", false })},
		"delayed": {report("Action: failed", "Action: delayed"), tag,
			with(func(b *Bounce) { b.Permanent = false })},
		"no status": {report("Status: 5.1.1", "X: y"), tag,
			with(func(b *Bounce) { b.Status, b.Permanent = "", false })},
		"wrong status": {report("Status: 5.1.1", "Status: 5"), tag,
			with(func(b *Bounce) { b.Status, b.Permanent = "", false })},
		"status with text": {report("Status: 5.1.1", "Status: 5.1.1 (bad)"), tag, []Bounce{full}},
		"final recipient": {report("Original-Recipient", "X-Recipient"), tag,
			with(func(b *Bounce) { b.Recipient = "ann@example.com" })},
		"delivered":          {report("Action: failed", "Action: delivered"), tag, nil},
		"relayed":            {report("Action: failed", "Action: Relayed"), tag, nil},
		"unreadable address": {report("ann@example.com", "ann", "Ann@example.com", "Ann"), tag, nil},
	} {
		c, err := parse(strings.NewReader(test.text))
		got := c.bounces
		if err != nil || c.tag != test.tag || len(got) != len(test.want) || (len(got) == 1 && got[0] != test.want[0]) {
			t.Errorf("%s: tag %q, bounces %+v, %v, want tag %q and %+v", name, c.tag, got, err, test.tag, test.want)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "plain": "Subject: out of office\r\n\r\nI am away\r\n",
		"other report":   report("report-type=delivery-status", "report-type=feedback-report"),
		"no report part": report("message/delivery-status", "text/plain"), "no recipients": report("Action: failed", "",
			"Final-Recipient: rfc822; ann@example.com\nOriginal-Recipient: rfc822;Ann@example.com\nAction: failed\nStatus: "+
				"5.1.1\nRemote-MTA: dns; mx2.example\nDiagnostic-Code: smtp; 550 5.1.1 <ann@example.com>: user unknown\n in "+
				"virtual mailbox table\n", ""),
		"no boundary": report(`boundary="B/mx.example"`, "x=y"),
	} {
		if got, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: content is %+v, want an error", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(report())
	f.Add(complaint())
	f.Add(report("message/rfc822", "text/rfc822-headers", "\n\n", "\n"))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		bounces := c.bounces
		if p := c.complaint; p != nil && (len(bounces) > 0 || !plainID(p.Type) ||
			strings.ContainsAny(p.Reporter, "\r\n\x00")) {
			t.Fatalf("complaint is %+v with %d bounces", p, len(bounces))
		}
		for _, b := range bounces {
			if b.Permanent && !strings.HasPrefix(b.Status, "5.") || strings.ContainsAny(b.Diagnostic+b.Recipient, "\r\n\x00") {
				t.Fatalf("bounce is %+v, want a status of 5 if permanent and no line breaks", b)
			}
		}
	})
}

type told struct {
	mu         sync.Mutex
	all        []Bounce
	complaints []Complaint
	err        error
}

func (b *told) hear(_ context.Context, bounce Bounce) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, bounce)
	return true, b.err
}

func (b *told) complain(_ context.Context, c Complaint) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, c)
	return c.MessageID == id, b.err
}

func (b *told) take() []Bounce {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	return all
}

func listen(t *testing.T, hear *told, change func(*Options)) *Listener {
	t.Helper()
	o := Options{Addr: "127.0.0.1:0", Return: "bounces@in.ingot.example", Open: open, Bounce: hear.hear,
		Complaint: hear.complain}
	if change != nil {
		change(&o)
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return l
}

func TestListener(t *testing.T) {
	t.Parallel()
	hear := &told{}
	l := listen(t, hear, func(o *Options) { o.Bytes = 100_000 })
	for _, test := range []struct {
		name, to, text string
		want           string // the error; empty: taken
		id             string // of the one bounce; empty: none
	}{
		{"to the return path", "bounces+t-abc-1@in.ingot.example", report(), "", "abc-1"},
		{"any case", "Bounces+T-ABC-1@IN.ingot.example", report(), "", "abc-1"},
		{"to the plain address, with the message", "bounces@in.ingot.example", report(), "", ""},
		{"no report", "bounces@in.ingot.example", "Subject: hi\r\n\r\nhi\r\n", "550", ""},
		{"other address", "ann@in.ingot.example", report(), "550", ""},
		{"other domain", "bounces+t-abc-1@other.example", report(), "550", ""},
		{"other address with a tag", "ann+t-abc-1@in.ingot.example", report(), "550", ""},
		{"no tag", "bounces+" + id + "@in.ingot.example", report(), "550", ""},
		{"too long", "bounces@in.ingot.example", report("Hello\n", strings.Repeat(strings.Repeat("x", 500)+"\n", 300)), "552",
			""},
	} {
		err := smtp.SendMail(l.Addr(), nil, "mailer-daemon@mx.example", []string{test.to}, []byte(test.text))
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error is %v, want %q", test.name, err, test.want)
		}
		got := hear.take()
		if (test.id == "") != (len(got) == 0) || (len(got) == 1 && (got[0].MessageID != test.id || !got[0].Permanent)) ||
			len(got) > 1 {
			t.Errorf("%s: bounces are %+v, want a permanent one of %q or none without an id", test.name, got, test.id)
		}
	}
	hear.err = errors.New("the database is away")
	to := []string{"bounces+" + tag + "@in.ingot.example"}
	if err := smtp.SendMail(l.Addr(), nil, "", to, []byte(report())); err == nil ||
		!strings.Contains(err.Error(), "451") || strings.Contains(err.Error(), "database") {
		t.Errorf("error is %v, want 451 without the cause", err)
	}
}

// TestReturnWithPlus takes reports to a return address that has plus signs of its own.
func TestReturnWithPlus(t *testing.T) {
	t.Parallel()
	for _, local := range []string{"ops+bounces", "Ops+a+b", "+ops", "ops+"} {
		hear := &told{}
		l := listen(t, hear, func(o *Options) { o.Return = local + "@in.ingot.example" })
		for to, want := range map[string]string{
			local: "plain", local + "+" + tag: "tagged", strings.ToUpper(local + "+" + tag): "tagged",
			strings.ToLower(local): "plain", local + "+": "550", local + "+x+" + tag: "550", "ops": "550", "ops+" + tag: "550",
			local + tag: "550", "x" + local + "+" + tag: "550",
		} {
			if local == "ops+" && to == "ops+"+tag {
				continue // it is local+tag too
			}
			err := smtp.SendMail(l.Addr(), nil, "mailer-daemon@mx.example", []string{to + "@in.ingot.example"},
				[]byte(report()))
			got := hear.take()
			switch {
			case want == "550":
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, to %s: %v, want %s", local, to, err, want)
				}
			case err != nil || (len(got) == 1) != (want == "tagged"):
				t.Errorf("%s, to %s: %v, %+v, want %s", local, to, err, got, want)
			}
		}
	}
}

// More connections than slots wait; they are served when others leave.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	hear := &told{}
	l := listen(t, hear, func(o *Options) { o.Connections = 1; o.Timeout = 20 * time.Second })
	first, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		sent <- smtp.SendMail(l.Addr(), nil, "", []string{"bounces+" + tag + "@in.ingot.example"}, []byte(report()))
	}()
	first.Close()
	if err := <-sent; err != nil || len(hear.take()) != 1 {
		t.Error(err)
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		l, err := New(Options{Addr: "127.0.0.1:0", Return: "b@in.example", Open: open, Bounce: (&told{}).hear,
			Complaint: (&told{}).complain})
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
	for _, bad := range []Options{{}, {Return: "x"}, {Return: "a@b.example"}, {Return: "a@b.example", Open: open}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
