package mailbox

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
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
	c.part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, 0)
	return c
}

func (c *content) part(contentType, encoding string, body io.Reader, depth int) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") && depth < 4 {
		r := multipart.NewReader(body, params["boundary"])
		for range 20 {
			p, err := r.NextRawPart()
			if err != nil {
				return
			}
			c.part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p, depth+1)
		}
		return
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
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
