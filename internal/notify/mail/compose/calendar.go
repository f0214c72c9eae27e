package compose

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/address"
)

// An invitation is the last alternative of a message, as iMIP (RFC 6047) has it: programs that know calendars show it
// with buttons for the answer, others show the text.

// calendarType is the header of the part. The method is one of two words.
func calendarType(e *notify.Invitation) string {
	return "Content-Type: text/calendar; charset=UTF-8; method=" + string(e.Method) +
		"\r\nContent-Transfer-Encoding: base64\r\n\r\n"
}

// calendar returns the part of an invitation to a recipient. to is the recipient's address.
func (c *Composer) calendar(o *notify.Outgoing, to string) []byte {
	text := c.iCalendar(o, to)
	part := append(make([]byte, 0, len(text)*3/2+200), calendarType(o.Event)...)
	const line = 57 // bytes, which are 76 characters
	for len(text) > 0 {
		n := min(line, len(text))
		part = base64.StdEncoding.AppendEncode(part, text[:n])
		part = append(part, '\r', '\n')
		text = text[n:]
	}
	return part
}

// iCalendar returns an invitation according to RFC 5545.
func (c *Composer) iCalendar(o *notify.Outgoing, to string) []byte {
	e := o.Event
	organizer, status := e.Organizer, "CONFIRMED"
	if organizer.Email == "" {
		organizer.Email = c.sender
	}
	if e.Method == notify.CancelEvent {
		status = "CANCELLED"
	}
	var t []byte
	for _, l := range []string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Ingot//Notifications//EN", "METHOD:" + string(e.Method),
		"BEGIN:VEVENT", "UID:" + e.ID(o.ClientID) + "@" + c.domain, "DTSTAMP:" + utcTime(o.Received),
		eventTime("DTSTART", e.Start, e.AllDay), eventTime("DTEND", e.End, e.AllDay),
		fmt.Sprintf("SEQUENCE:%d", e.Sequence), "STATUS:" + status, "SUMMARY:" + escapeText(e.Summary),
	} {
		t = appendContentLine(t, l)
	}
	for _, p := range []struct{ name, value string }{{"LOCATION", e.Location}, {"DESCRIPTION", e.Description}} {
		if p.value != "" {
			t = appendContentLine(t, p.name+":"+escapeText(p.value))
		}
	}
	t = appendContentLine(t, "ORGANIZER"+commonName(organizer.Name)+":"+mailto(organizer.Email))
	t = appendContentLine(t, "ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:"+mailto(to))
	t = appendContentLine(t, "END:VEVENT")
	return appendContentLine(t, "END:VCALENDAR")
}

func utcTime(t time.Time) string { return t.UTC().Format("20060102T150405Z") }

func eventTime(name string, t time.Time, day bool) string {
	if day {
		return name + ";VALUE=DATE:" + t.Format("20060102")
	}
	return name + ":" + utcTime(t)
}

// escapeText escapes a value of the type TEXT. Control characters were refused; those that are left anyway vanish, so
// that nothing but a line break of the format itself ends a line.
func escapeText(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n") {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\\' || r == ';' || r == ',':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\t':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// commonName returns the parameter CN, encoded according to RFC 6868.
func commonName(name string) string {
	if name = clean(name); name == "" {
		return ""
	}
	return `;CN="` + strings.NewReplacer("^", "^^", `"`, "^'").Replace(name) + `"`
}

// mailto returns the URI of an address.
func mailto(addr string) string {
	const hexDigits = "0123456789ABCDEF"
	if wire, _, err := address.Wire(addr); err == nil {
		addr = wire
	}
	var b strings.Builder
	b.WriteString("mailto:")
	for i := range len(addr) {
		c := addr[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("@.-_+~!$'*", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
	}
	return b.String()
}

// appendContentLine appends a line, folded so that each has 75 bytes at most and no character is split.
func appendContentLine(t []byte, line string) []byte {
	const length = 75
	for room := length; len(line) > room; room = length - 1 { // the space at the beginning counts
		n := room
		for !utf8.RuneStart(line[n]) {
			n--
		}
		t = append(t, line[:n]...)
		t = append(t, "\r\n "...)
		line = line[n:]
	}
	return append(append(t, line...), '\r', '\n')
}

// alternative adds a part to the text of a message, and returns the header for both.
func (e *encoded) alternative(text, part []byte) (contentType, all []byte) {
	contentType, boundary := e.contentType, e.boundary
	if boundary == "" {
		// "=_" is neither in base64 nor in quoted-printable text.
		boundary = "=_ingot_event"
		contentType = []byte("Content-Type: multipart/alternative;\r\n boundary=\"" + boundary + "\"\r\n")
		all = append(all, "\r\n--"+boundary+"\r\n"...)
		all = append(all, e.contentType...)
		all = append(all, text...)
	} else {
		all = append(all, text[:len(text)-len("--"+boundary+"--\r\n")]...)
	}
	all = append(all, "--"+boundary+"\r\n"...)
	all = append(all, part...)
	return contentType, append(all, "--"+boundary+"--\r\n"...)
}
