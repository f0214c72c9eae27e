package dsn

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
	"unicode/utf8"

	"ingot/internal/notify/mail/address"
)

// Bounce is the part of a report about one recipient.
type Bounce struct {
	// MessageID is the id of the message.
	MessageID string
	// Recipient is the recipient of the message according to the report.
	Recipient string
	// Status is RFC 3463's, "5.1.1".
	Status string
	// Diagnostic is the reporting server's text, in one line.
	Diagnostic string
	// Permanent reports a permanent failure, of class 5.
	Permanent bool
}

// Complaint is a report (RFC 5965) that a recipient does not want a message.
type Complaint struct {
	MessageID string // as in Bounce
	// Type is RFC 5965's Feedback-Type in lower case, such as "abuse"; others than complaints have such reports too.
	Type string
	// Reporter is the program that wrote the report, in one line.
	Reporter string
}

// content is what a mail reports: bounces or a complaint.
type content struct {
	// tag is in the header of the returned message, and path its envelope sender there. sender is the envelope sender
	// according to a complaint. Each is empty if the report does not contain it.
	tag, path, sender string

	bounces   []Bounce
	complaint *Complaint
}

// errNoReport means that the mail is not a report.
var errNoReport = errors.New("not a delivery report or complaint")

// Limits of a report.
const (
	maxParts      = 8
	maxRecipients = 100
	maxText       = 64 << 10 // of the parts that are read
)

// parse parses a report.
func parse(r io.Reader) (content, error) {
	m, err := mail.ReadMessage(bufio.NewReader(r))
	if err != nil {
		return content{}, errNoReport
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	about := strings.ToLower(params["report-type"])
	if err != nil || kind != "multipart/report" || params["boundary"] == "" ||
		about != "delivery-status" && about != "feedback-report" {
		return content{}, errNoReport
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	var c content
	found := false
	for range maxParts {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return content{}, fmt.Errorf("the report cannot be read: %w", err)
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		switch kind {
		case "message/delivery-status", "message/global-delivery-status":
			if about != "delivery-status" {
				continue
			}
			found = true
			if c.bounces, err = recipients(decoded(p)); err != nil {
				return content{}, err
			}
		case "message/feedback-report":
			if about != "feedback-report" || found {
				continue
			}
			found = true
			if err := c.feedback(decoded(p)); err != nil {
				return content{}, err
			}
		case "message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "message/global", "message/global-headers":
			c.returned(decoded(p))
		}
	}
	if !found {
		return content{}, errNoReport
	}
	return c, nil
}

// feedback parses the machine-readable part of a complaint.
func (c *content) feedback(r io.Reader) error {
	all := groups(r)
	if len(all) == 0 || len(all[0]["Feedback-Type"]) != 1 {
		return errors.New("the complaint has no type")
	}
	kind := oneLine(strings.ToLower(all[0].Get("Feedback-Type")))
	if !plainID(kind) {
		return errors.New("the type of the complaint cannot be read")
	}
	c.complaint = &Complaint{Type: kind, Reporter: oneLine(all[0].Get("User-Agent"))}
	c.sender = strings.Trim(strings.TrimSpace(all[0].Get("Original-Mail-From")), "<>")
	return nil
}

// decoded returns a reader for a part that may be encoded, up to a limit.
func decoded(p *multipart.Part) io.Reader {
	var r io.Reader = p
	switch strings.ToLower(strings.TrimSpace(p.Header.Get("Content-Transfer-Encoding"))) {
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	}
	return io.LimitReader(r, maxText)
}

// groups reads header blocks that are separated by empty lines.
func groups(r io.Reader) []textproto.MIMEHeader {
	text, _ := io.ReadAll(r) // may be truncated at the limit
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	var all []textproto.MIMEHeader
	for _, block := range bytes.Split(text, []byte("\n\n")) {
		block = bytes.Trim(block, "\n")
		if len(block) == 0 {
			continue
		}
		h, err := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(block), strings.NewReader("\n\n")))).
			ReadMIMEHeader()
		if err != nil && len(h) == 0 {
			continue
		}
		if all = append(all, h); len(all) > maxRecipients {
			break
		}
	}
	return all
}

// recipients parses the machine-readable part: a block about the message, then
// one for each recipient.
func recipients(r io.Reader) ([]Bounce, error) {
	all := groups(r)
	if len(all) < 2 {
		return nil, errors.New("the report names no recipient")
	}
	var bounces []Bounce
	for _, h := range all[1:] {
		action := strings.ToLower(strings.TrimSpace(h.Get("Action")))
		if action != "failed" && action != "delayed" {
			continue // delivered, relayed or expanded: not a failure
		}
		recipient := typed(h.Get("Original-Recipient"))
		if recipient == "" {
			recipient = typed(h.Get("Final-Recipient"))
		}
		recipient, err := address.Parse(recipient)
		if err != nil {
			continue
		}
		status := statusCode(h.Get("Status"))
		bounces = append(bounces, Bounce{
			Recipient: recipient, Status: status, Diagnostic: oneLine(typed(h.Get("Diagnostic-Code"))),
			Permanent: action == "failed" && strings.HasPrefix(status, "5."),
		})
	}
	return bounces, nil
}

// typed removes the type of "rfc822; a@b".
func typed(s string) string {
	if _, value, ok := strings.Cut(s, ";"); ok {
		s = value
	}
	return strings.Trim(strings.TrimSpace(s), "<>")
}

// statusCode parses "5.1.1 (text)"; "" means that there is no code.
func statusCode(s string) string {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return ""
	}
	code := fields[0]
	parts := strings.Split(code, ".")
	if len(parts) != 3 || (parts[0] != "2" && parts[0] != "4" && parts[0] != "5") {
		return ""
	}
	for _, p := range parts[1:] {
		if p == "" || len(p) > 3 || strings.Trim(p, "0123456789") != "" {
			return ""
		}
	}
	return code
}

func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}

// returned finds what identifies the returned message.
func (c *content) returned(r io.Reader) {
	h, _ := textproto.NewReader(bufio.NewReader(io.MultiReader(r, strings.NewReader("\r\n\r\n")))).ReadMIMEHeader()
	c.tag = strings.TrimSpace(h.Get(address.ReportHeader))
	c.path = strings.Trim(strings.TrimSpace(h.Get("Return-Path")), "<>")
}

func plainID(s string) bool {
	return s != "" && len(s) <= 200 && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
