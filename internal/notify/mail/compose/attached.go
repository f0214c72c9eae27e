package compose

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"ingot/internal/notify"
)

// files are encoded attachments. A message is, from the outside in:
//
//	multipart/mixed             if there are attachments that are not inline, or no HTML that would show the others
//	    multipart/related       if the HTML shows images
//	        the texts
//	        images
//	    attachments
type files struct {
	// contentType is in the header of the message, open before the header of the texts, tail after the texts.
	contentType, open, tail []byte
}

// fileForm is what encoded attachments depend on: the parts that a message has.
type fileForm struct{ text, html, event bool }

func encodeFiles(a *notify.Attached, form fileForm) *files {
	var inline, rest []notify.AttachedFile
	sum := sha256.New()
	for _, f := range a.Files {
		_, _ = sum.Write([]byte(f.ID + "\x00" + f.Name + "\x00"))
		if f.Inline != "" && form.html {
			inline = append(inline, f)
		} else {
			rest = append(rest, f)
		}
	}
	// "=_" is neither in base64 nor in quoted-printable text.
	id := hex.EncodeToString(sum.Sum(nil)[:12])
	mixed, related := "=_mixed_"+id, "=_related_"+id
	root := "multipart/alternative"
	if !form.text && !form.event {
		root = "text/html"
	}
	mixedType := "Content-Type: multipart/mixed;\r\n boundary=\"" + mixed + "\"\r\n"
	relatedType := "Content-Type: multipart/related; type=\"" + root + "\";\r\n boundary=\"" + related + "\"\r\n"

	e := &files{tail: make([]byte, 0, encodedSize(a))}
	switch {
	case len(inline) == 0:
		e.contentType, e.open = []byte(mixedType), []byte("\r\n--"+mixed+"\r\n")
	case len(rest) == 0:
		e.contentType, e.open = []byte(relatedType), []byte("\r\n--"+related+"\r\n")
	default:
		e.contentType = []byte(mixedType)
		e.open = []byte("\r\n--" + mixed + "\r\n" + relatedType + "\r\n--" + related + "\r\n")
	}
	for _, f := range inline {
		e.add(related, f)
	}
	if len(inline) > 0 {
		e.tail = append(e.tail, "\r\n--"+related+"--\r\n"...)
	}
	for _, f := range rest {
		e.add(mixed, f)
	}
	if len(rest) > 0 {
		e.tail = append(e.tail, "\r\n--"+mixed+"--\r\n"...)
	}
	return e
}

// encodedSize is at least the size of encoded attachments.
func encodedSize(a *notify.Attached) int {
	n := 256
	for _, f := range a.Files {
		n += base64.StdEncoding.EncodedLen(len(f.Content))*78/76 + 4*len(f.Name) + len(f.Type) + 1024
	}
	return n
}

// add appends a part.
func (e *files) add(boundary string, f notify.AttachedFile) {
	t := e.tail
	t = append(t, "\r\n--"+boundary+"\r\nContent-Type: "+mediaType(f.Type)+
		"\r\nContent-Transfer-Encoding: base64\r\n"...)
	disposition := "attachment"
	if f.Inline != "" {
		disposition = "inline"
		if plainID(f.Inline) || plainDotted(f.Inline) {
			t = append(t, "Content-ID: <"+f.Inline+">\r\n"...)
		}
	}
	t = append(t, "Content-Disposition: "+disposition...)
	t = appendFileName(t, f.Name)
	t = append(t, "\r\n\r\n"...)
	const line = 57 // bytes, which are 76 characters
	for content := f.Content; len(content) > 0; {
		n := min(line, len(content))
		t = base64.StdEncoding.AppendEncode(t, content[:n])
		t = append(t, '\r', '\n')
		content = content[n:]
	}
	e.tail = t
}

// plainDotted is plainID for names with dots.
func plainDotted(id string) bool {
	for i := range len(id) {
		if id[i] != '.' && !plainID(id[i:i+1]) {
			return false
		}
	}
	return id != "" && len(id) <= 200
}

// mediaType returns a type that can be in a header. Others were not checked where they were accepted.
func mediaType(s string) string {
	slash := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '/':
			slash++
		case c < '0' && c != '+' && c != '-' && c != '.', c > 'z', c > '9' && c < 'A', c > 'Z' && c < 'a' && c != '_':
			slash = 2
		}
	}
	top, _, _ := strings.Cut(s, "/")
	if slash != 1 || top == "multipart" || top == "message" || s[0] == '/' || s[len(s)-1] == '/' || len(s) > 100 {
		return "application/octet-stream"
	}
	if len(s) > 5 && s[:5] == "text/" {
		return s + "; charset=UTF-8"
	}
	return s
}

// appendFileName appends the parameter filename, according to RFC 2231 if it is not plain ASCII or long.
func appendFileName(t []byte, name string) []byte {
	const room = 60
	simple := len(name) <= room
	for i := range len(name) {
		c := name[i]
		simple = simple && c >= ' ' && c < 0x7f && c != '"' && c != '\\'
	}
	if simple {
		return append(t, ";\r\n filename=\""+name+"\""...)
	}
	const hexDigits = "0123456789ABCDEF"
	part, used := 0, 0
	begin := func() {
		t = append(t, ";\r\n filename*"...)
		t = append(t, byte('0'+part/10), byte('0'+part%10))
		if part < 10 {
			t = append(t[:len(t)-2], t[len(t)-1])
		}
		t = append(t, "*="...)
		if part == 0 {
			t = append(t, "utf-8''"...)
		}
		part, used = part+1, 0
	}
	begin()
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		var char [utf8.UTFMax]byte
		octets := char[:utf8.EncodeRune(char[:], r)]
		if used+3*len(octets) > room {
			begin()
		}
		for _, c := range octets {
			if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '.' || c == '-' || c == '_' {
				t = append(t, c)
				used++
				continue
			}
			t = append(t, '%', hexDigits[c>>4], hexDigits[c&15])
			used += 3
		}
		i += n
	}
	return t
}

// filesOf returns the encoded attachments of a message.
func filesOf(a *notify.Attached, o *notify.Outgoing) *files {
	form := fileForm{o.Body.Text != "", o.Body.HTML != "", o.Event != nil}
	return a.Form(form, func() any { return encodeFiles(a, form) }).(*files)
}
