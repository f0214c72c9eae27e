package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"strings"
	"sync"
	"unicode/utf8"

	"ingot/internal/notify"
)

// encoded is the part that messages with the same notify.Body share.
type encoded struct {
	contentType []byte // Content-Type and Content-Transfer-Encoding
	subject     []byte
	text        []byte // the empty line and all that follows
	boundary    string // of its two parts; empty if there is one
	links       []gap  // positions of the recipient's unsubscribe link, in order
}

// gap is a position in text at the start of a line.
type gap struct {
	at   int
	html bool
}

func (e *encoded) size() int { return len(e.contentType) + len(e.subject) + len(e.text) }

// with returns the text with the recipient's link inserted. Without links it is
// the shared text.
func (e *encoded) with(link string) []byte {
	if len(e.links) == 0 {
		return e.text
	}
	out := make([]byte, 0, len(e.text)+len(e.links)*(len(link)+32))
	last := 0
	for _, g := range e.links {
		out = append(out, e.text[last:g.at]...)
		last = g.at
		shown := link
		if g.html {
			shown = html.EscapeString(link)
		}
		out = appendQuotedText(out, shown)
		out = append(out, "=\r\n"...)
	}
	return append(out, e.text[last:]...)
}

// quote appends a part and records the positions of links in it.
func (e *encoded) quote(s string, html bool) {
	for {
		before, after, found := strings.Cut(s, notify.UnsubscribeMark)
		if !found {
			e.text = appendQuoted(e.text, s)
			return
		}
		e.text = appendQuotedText(e.text, before)
		e.text = append(e.text, "=\r\n"...) // a soft line break
		e.links = append(e.links, gap{len(e.text), html})
		s = after
		if s == "" {
			e.text = append(e.text, "\r\n"...)
			return
		}
	}
}

func encode(b *notify.Body) *encoded {
	e := &encoded{subject: appendText(nil, "Subject", b.Subject)}
	const (
		plainType = "Content-Type: text/plain; charset=UTF-8\r\n"
		htmlType  = "Content-Type: text/html; charset=UTF-8\r\n"
		transfer  = "Content-Transfer-Encoding: quoted-printable\r\n"
	)
	switch {
	case b.Text != "" && b.HTML != "":
		// "=_" is never in quoted-printable text, so no part can hold the boundary.
		sum := sha256.Sum256([]byte(b.Text + "\x00" + b.HTML))
		boundary := "=_ingot_" + hex.EncodeToString(sum[:12])
		e.boundary = boundary
		e.contentType = []byte("Content-Type: multipart/alternative;\r\n boundary=\"" + boundary + "\"\r\n")
		e.text = make([]byte, 0, (len(b.Text)+len(b.HTML))*5/4+512)
		e.text = append(e.text, "\r\n--"+boundary+"\r\n"+plainType+transfer+"\r\n"...)
		e.quote(b.Text, false)
		e.text = append(e.text, "--"+boundary+"\r\n"+htmlType+transfer+"\r\n"...)
		e.quote(b.HTML, true)
		e.text = append(e.text, "--"+boundary+"--\r\n"...)
	case b.HTML != "":
		e.contentType = []byte(htmlType + transfer)
		e.text = []byte("\r\n")
		e.quote(b.HTML, true)
	default:
		e.contentType = []byte(plainType + transfer)
		e.text = []byte("\r\n")
		e.quote(b.Text, false)
	}
	return e
}

// appendQuoted is like appendQuotedText, with a line end after the last line.
func appendQuoted(t []byte, s string) []byte {
	before := len(t)
	t = appendQuotedText(t, s)
	if len(t) > before && t[len(t)-1] != '\n' {
		t = append(t, '\r', '\n')
	}
	return t
}

// appendQuotedText appends s as quoted-printable UTF-8, beginning at the start
// of a line. Line ends of any kind become CR LF, and a dot at the start of a
// line is encoded, so that SMTP has nothing to escape. Control characters other
// than tabs are encoded, invalid bytes replaced.
func appendQuotedText(t []byte, s string) []byte {
	const hexDigits = "0123456789ABCDEF"
	column := 0
	put := func(c byte) {
		if column >= 72 {
			t = append(t, '=', '\r', '\n')
			column = 0
		}
		t = append(t, '=', hexDigits[c>>4], hexDigits[c&15])
		column += 3
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\r' || c == '\n':
			if c == '\r' && i+1 < len(s) && s[i+1] == '\n' {
				i++
			}
			t = append(t, '\r', '\n')
			column = 0
		case c == ' ' || c == '\t':
			// Trailing white space would be lost in transit.
			if i+1 == len(s) || s[i+1] == '\r' || s[i+1] == '\n' {
				put(c)
				break
			}
			fallthrough
		case c > ' ' && c < 0x7f && c != '=':
			if column >= 75 {
				t = append(t, '=', '\r', '\n')
				column = 0
			}
			if c == '.' && column == 0 {
				put(c)
				break
			}
			t = append(t, c)
			column++
		case c < utf8.RuneSelf:
			put(c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			var char [utf8.UTFMax]byte
			for _, octet := range char[:utf8.EncodeRune(char[:], r)] {
				put(octet)
			}
			i += n
			continue
		}
		i++
	}
	return t
}

// Limits of the cache: concurrent sends, and their bytes.
const (
	cacheEntries = 64
	cacheBytes   = 16 << 20
)

// cache caches encoded bodies by the pointer of their source. The oldest are
// evicted first. The zero value is ready to use.
type cache struct {
	mu    sync.Mutex
	known map[*notify.Body]*encoded
	order []*notify.Body
	bytes int
}

func (c *cache) get(b *notify.Body) *encoded {
	c.mu.Lock()
	e := c.known[b]
	c.mu.Unlock()
	if e != nil {
		return e
	}
	// Two goroutines may encode the same body; that is cheaper than waiting.
	e = encode(b)
	if e.size() > cacheBytes/4 {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.known[b]; other != nil {
		return other
	}
	if c.known == nil {
		c.known = make(map[*notify.Body]*encoded, cacheEntries)
	}
	c.known[b] = e
	c.order = append(c.order, b)
	c.bytes += e.size()
	for len(c.order) > cacheEntries || c.bytes > cacheBytes {
		oldest := c.order[0]
		c.order = append(c.order[:0], c.order[1:]...)
		c.bytes -= c.known[oldest].size()
		delete(c.known, oldest)
	}
	return e
}
