package mailbox

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
)

// maxPart limits how much of a part is shown.
const maxPart = 4 << 20

// Header is one header of a message, decoded.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// content is a parsed message.
type content struct {
	headers    []Header // in their original order
	text, html string
	hasHTML    bool
	hasText    bool
	files      []File
}

// File is an attachment of a message.
type File struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// parse parses a message as far as possible.
func parse(source []byte) content {
	var c content
	head, _, _ := bytes.Cut(source, []byte("\r\n\r\n"))
	decoder := new(mime.WordDecoder)
	for _, line := range strings.Split(string(head), "\r\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			if n := len(c.headers); n > 0 {
				c.headers[n-1].Value += line
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		c.headers = append(c.headers, Header{Name: name, Value: strings.TrimSpace(value)})
	}
	for i, h := range c.headers {
		if decoded, err := decoder.DecodeHeader(h.Value); err == nil {
			c.headers[i].Value = decoded
		}
	}
	m, err := mail.ReadMessage(bytes.NewReader(source))
	if err != nil {
		c.text, c.hasText = string(source), true
		return c
	}
	c.part(textproto.MIMEHeader(m.Header), m.Body, 0)
	return c
}

// maxParts is how many parts of a multipart message are looked at: the texts and the attachments.
const maxParts = 40

func (c *content) part(header textproto.MIMEHeader, body io.Reader, depth int) {
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") && depth < 4 {
		r := multipart.NewReader(body, params["boundary"])
		for range maxParts {
			p, err := r.NextRawPart()
			if err != nil {
				return
			}
			c.part(p.Header, p, depth+1)
		}
		return
	}
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	if disposition, params, err := mime.ParseMediaType(header.Get("Content-Disposition")); err == nil &&
		(disposition == "attachment" || params["filename"] != "") {
		size, _ := io.Copy(io.Discard, body) //nolint:errcheck // one that cannot be decoded is shown as long as it can be
		c.files = append(c.files, File{Name: strings.ToValidUTF8(params["filename"], "\ufffd"), Type: kind, Size: size})
		return
	}
	// A part that cannot be decoded completely is shown as far as possible.
	text, _ := io.ReadAll(io.LimitReader(body, maxPart)) // a large part is shown to the limit
	switch {
	case kind == "text/html" && !c.hasHTML:
		c.html, c.hasHTML = strings.ToValidUTF8(string(text), "\ufffd"), true
	case kind == "text/plain" && !c.hasText:
		c.text, c.hasText = strings.ToValidUTF8(string(text), "\ufffd"), true
	}
}
