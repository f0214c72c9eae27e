package compose

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
)

func invitation() *notify.Invitation {
	return &notify.Invitation{Method: notify.RequestEvent, UID: "review-17", Start: now.Add(time.Hour),
		End: now.Add(2 * time.Hour), Summary: "Review"}
}

// properties reads a calendar as RFC 5545 says: lines end with CR LF, have 75 bytes at most, and are unfolded. It
// returns the values by what is before the colon, unescaped.
func properties(t *testing.T, text []byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		content, ok := strings.CutSuffix(line, "\r\n")
		if !ok || len(content) > 75 || strings.ContainsAny(content, "\r\n\x00") || !utf8.ValidString(content) {
			t.Errorf("the line %q is not valid", line)
		}
	}
	unfolded := strings.ReplaceAll(string(text), "\r\n ", "")
	lines := strings.Split(strings.TrimSuffix(unfolded, "\r\n"), "\r\n")
	if lines[0] != "BEGIN:VCALENDAR" || lines[len(lines)-1] != "END:VCALENDAR" {
		t.Errorf("the calendar is %q", unfolded)
	}
	for _, l := range lines {
		name, value := "", ""
		quoted := false
		for i := range len(l) {
			if quoted = quoted != (l[i] == '"'); l[i] == ':' && !quoted {
				name, value = l[:i], l[i+1:]
				break
			}
		}
		if _, twice := all[name]; name == "" || twice && name != "BEGIN" && name != "END" {
			t.Errorf("the line %q is not a property, or there are two", l)
		}
		all[name] = strings.NewReplacer(`\\`, `\`, `\;`, ";", `\,`, ",", `\n`, "\n").Replace(value)
	}
	return all
}

// calendarOf returns the only calendar in a message, and the types of the leaves.
func calendarOf(t *testing.T, m *Message) (text []byte, leaves []string) {
	t.Helper()
	read, err := mail.ReadMessage(bytes.NewReader(bytes.Join(m.Parts(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(kind string, r io.Reader)
	walk = func(kind string, r io.Reader) {
		media, params, err := mime.ParseMediaType(kind)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(media, "multipart/") {
			leaves = append(leaves, media)
			if media == "text/calendar" {
				leaves[len(leaves)-1] += " " + params["method"]
				if text, err = io.ReadAll(base64.NewDecoder(base64.StdEncoding, r)); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		parts := multipart.NewReader(r, params["boundary"])
		for {
			p, err := parts.NextRawPart()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			walk(p.Header.Get("Content-Type"), p)
		}
	}
	walk(read.Header.Get("Content-Type"), read.Body)
	return text, leaves
}

// TestInvitation: the invitation is the last alternative, whatever else a message has.
func TestInvitation(t *testing.T) {
	t.Parallel()
	c, err := New(Identity{From: "Ingot <a@ingot.example>", Domain: "mail.ingot.example"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		body     notify.Body
		attached bool
		want     string
	}{
		{notify.Body{Text: "t"}, false, "text/plain, text/calendar REQUEST"},
		{notify.Body{HTML: "<p>h"}, false, "text/html, text/calendar REQUEST"},
		{notify.Body{Text: "t", HTML: "<p>h"}, false, "text/plain, text/html, text/calendar REQUEST"},
		{notify.Body{Text: "t", HTML: "<p>h"}, true, "text/plain, text/html, text/calendar REQUEST, application/pdf"},
		{notify.Body{Text: "t"}, true, "text/plain, text/calendar REQUEST, application/pdf"},
	} {
		o := outgoing()
		o.Body, o.Event, o.ClientID = &test.body, invitation(), "shop"
		if test.attached {
			o.Attached = &notify.Attached{Files: []notify.AttachedFile{{Attachment: notify.Attachment{Name: "a.pdf",
				Type: "application/pdf", ID: "1"}, Content: []byte("%PDF")}}}
		}
		m, err := c.Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		text, leaves := calendarOf(t, m)
		if got := strings.Join(leaves, ", "); got != test.want {
			t.Errorf("the parts are %q, want %q", got, test.want)
		}
		all := properties(t, text)
		attendee := "ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT=NEEDS-ACTION;RSVP=TRUE"
		for name, want := range map[string]string{"METHOD": "REQUEST", "STATUS": "CONFIRMED", "SUMMARY": "Review",
			"DTSTART": utcTime(now.Add(time.Hour)), "DTEND": utcTime(now.Add(2 * time.Hour)), "SEQUENCE": "0",
			"ORGANIZER": "mailto:a@ingot.example", attendee: "mailto:" + o.To, "DTSTAMP": utcTime(o.Received),
			"UID": o.Event.ID("shop") + "@mail.ingot.example"} {
			if all[name] != want {
				t.Errorf("%s is %q, want %q", name, all[name], want)
			}
		}
		plain := outgoing() // the shared body is not changed
		plain.Body = o.Body
		if m, err := c.Message(plain, now); err != nil || bytes.Contains(bytes.Join(m.Parts(), nil), []byte("calendar")) {
			t.Errorf("another message with the body is %s, %v", bytes.Join(m.Parts(), nil), err)
		}
	}
	o := outgoing()
	o.Event = invitation()
	o.Event.Method, o.Event.AllDay, o.Event.Sequence = notify.CancelEvent, true, 3
	o.Event.Start = time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC)
	o.Event.End = o.Event.Start.AddDate(0, 0, 3)
	o.Event.Organizer = notify.Organizer{Name: `Ann "the ^ boss"; x:y`, Email: "ann+b%c@bücher.example"}
	m, err := c.Message(o, now)
	if err != nil {
		t.Fatal(err)
	}
	text, leaves := calendarOf(t, m)
	all := properties(t, text)
	if leaves[len(leaves)-1] != "text/calendar CANCEL" || all["STATUS"] != "CANCELLED" || all["SEQUENCE"] != "3" ||
		all["DTSTART;VALUE=DATE"] != "20261224" || all["DTEND;VALUE=DATE"] != "20261227" ||
		all[`ORGANIZER;CN="Ann ^'the ^^ boss^'; x:y"`] != "mailto:ann+b%25c@xn--bcher-kva.example" {
		t.Errorf("got %v in %q", all, leaves)
	}
}

// TestInvitationInjection: whatever a field contains, the calendar has the same properties, and says the same.
func TestInvitationInjection(t *testing.T) {
	t.Parallel()
	c, err := New(Identity{From: "a@ingot.example"})
	if err != nil {
		t.Fatal(err)
	}
	o := outgoing()
	o.Event = invitation()
	texts := append([]string{"a;b,c\\d", `\n`, "x\r\nATTACH:file:///etc/passwd", "x\nEND:VEVENT\nBEGIN:VEVENT", `"; X=":y`,
		strings.Repeat("ü", 4000), strings.Repeat("🎉x", 300), "\u0085\u2028", "x\r\n y", "x\r\n\ty"}, injections...)
	for _, text := range texts {
		e := invitation()
		e.UID, e.Summary, e.Location, e.Description = text, text, text, text
		e.Organizer = notify.Organizer{Name: text, Email: "b@example.com"}
		o.Event = e
		m, err := c.Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		calendar, _ := calendarOf(t, m)
		all := properties(t, calendar)
		if len(all) != 16 || bytes.Count(calendar, []byte("\r\nBEGIN:VEVENT\r\n")) != 1 {
			t.Errorf("%.99q: %d properties: %.999q", text, len(all), calendar)
		}
		if utf8.ValidString(text) && !strings.ContainsFunc(strings.ReplaceAll(text, "\r\n", "\n"), func(r rune) bool {
			return r < ' ' && r != '\n' || r == 0x7f
		}) && all["DESCRIPTION"] != strings.ReplaceAll(text, "\r\n", "\n") {
			t.Errorf("%.99q became %.99q", text, all["DESCRIPTION"])
		}
	}
}
