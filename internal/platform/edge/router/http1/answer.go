package http1

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Answer is what the fast path needs to know about a response.
type Answer struct {
	Status  int
	Length  int64 // -1: unknown
	Chunked bool
	HSTS    bool            // it has a Strict-Transport-Security header
	Close   bool            // the backend closes the connection after the response
	Cookies []string        // Set-Cookie headers that concern sticky sessions
	old     bool            // it is of HTTP/1.0
	hops    map[string]bool // names in the Connection header, in lower case
	trailer []byte          // names in the Trailer header that are passed on
}

// ErrGarbage means that a response cannot be passed on.
var ErrGarbage = errors.New("the backend's response is not valid HTTP")

// Parse parses the head of a response and appends the part that is passed on to out,
// without the empty line at its end. Backends may end lines with a bare newline.
func (a *Answer) Parse(head, out []byte) ([]byte, error) {
	*a = Answer{Length: -1, Cookies: a.Cookies[:0], trailer: a.trailer[:0]}
	start := len(out)
	out, err := a.pass(head, out)
	if err == nil && len(a.hops) > 0 {
		// Rare: which headers are hop-by-hop is known only after all have been parsed.
		*a = Answer{Length: -1, Cookies: a.Cookies[:0], trailer: a.trailer[:0], hops: a.hops}
		out, err = a.pass(head, out[:start])
	}
	return out, err
}

func (a *Answer) pass(head, out []byte) ([]byte, error) {
	line, rest := nextLine(head)
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 &&
		line[12] != ' ' || !isText(line) {
		return out, ErrGarbage
	}
	var ok bool
	if a.Status, ok = decimal(line[9:12]); !ok || a.Status < 100 {
		return out, ErrGarbage
	}
	a.Close, a.old = line[7] != '1', line[7] == '0'
	bodiless := a.Status < 200 || a.Status == http.StatusNoContent
	out = append(out, "HTTP/1.1 "...)
	out = append(out, line[9:]...)
	out = append(out, "\r\n"...)
	kept, foldable := false, true
	for {
		line, rest = nextLine(rest)
		if len(line) == 0 {
			break
		}
		if !isText(line) {
			return out, ErrGarbage
		}
		if line[0] == ' ' || line[0] == '\t' {
			// An obsolete fold. It is passed on as one line, unless the header is one that
			// the router has read.
			if !foldable {
				return out, ErrGarbage
			}
			if kept {
				out = append(out[:len(out)-2], ' ')
				out = append(out, bytes.TrimSpace(line)...)
				out = append(out, "\r\n"...)
			}
			continue
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !IsToken(line[:colon]) {
			return out, ErrGarbage
		}
		k := answerKinds.of(line[:colon])
		var err error
		if kept, err = a.header(k, line[:colon], bytes.TrimSpace(line[colon+1:])); err != nil {
			return out, err
		}
		kept, foldable = kept && (k != answerEncoding || !bodiless), k == answerOther || k == answerDrop
		if kept {
			out = append(out, line...)
			out = append(out, "\r\n"...)
		}
	}
	switch {
	case a.Chunked:
		a.Close = a.Close || a.Length >= 0 // a response with both is not trusted with another request
		a.Length = -1
		if len(a.trailer) > 0 && !bodiless {
			out = append(append(append(out, "Trailer: "...), a.trailer...), "\r\n"...)
		}
	case a.Length >= 0 && !bodiless:
		out = AppendLength(out, a.Length)
	}
	return out, nil
}

// header reads a header, and reports whether it is passed on unchanged.
func (a *Answer) header(k answerKind, name, value []byte) (keep bool, err error) {
	switch k {
	case answerConnection:
		a.connection(value)
		return false, nil
	case answerDrop:
		return false, nil
	case answerTrailer:
		for part := range bytes.SplitSeq(value, []byte(",")) {
			if part = bytes.TrimSpace(part); IsToken(part) && !a.named(part) && AnswerTrailer(part) {
				if len(a.trailer) > 0 {
					a.trailer = append(a.trailer, ", "...)
				}
				a.trailer = append(a.trailer, part...)
			}
		}
		return false, nil
	case answerLength:
		n, ok := decimal64(value)
		if !ok || a.Length >= 0 && a.Length != n {
			return false, ErrGarbage
		}
		a.Length = n
		return false, nil
	case answerEncoding:
		if a.old {
			return false, nil // HTTP/1.0 has no encodings: like the server, ignore it
		}
		if a.Chunked || !EqualFold(value, "chunked") {
			return false, ErrGarbage
		}
		a.Chunked = true
		return true, nil // even if Connection names it: it describes the body that follows
	}
	if a.named(name) {
		return false, nil
	}
	switch k {
	case answerCookie:
		if len(value) > 0 && (value[0] == 'J' || value[0] == '_') { // of a session, or of an instance
			a.Cookies = append(a.Cookies, string(value))
		}
	case answerHSTS:
		a.HSTS = true
	}
	return true, nil
}

// connection reads a Connection header.
func (a *Answer) connection(value []byte) {
	for part := range bytes.SplitSeq(value, []byte(",")) {
		part = bytes.TrimSpace(part)
		a.Close = a.Close || EqualFold(part, "close")
		if len(part) == 0 || EqualFold(part, "keep-alive") {
			continue
		}
		if a.hops == nil {
			a.hops = map[string]bool{}
		}
		a.hops[strings.ToLower(string(part))] = true
	}
}

// named reports whether the Connection header names a header.
func (a *Answer) named(name []byte) bool {
	return len(a.hops) > 0 && a.hops[strings.ToLower(string(name))]
}

// nextLine cuts off the first line, without its end.
func nextLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, nil
	}
	line, rest = b[:i], b[i+1:]
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line, rest
}

// AnswerEnd returns the offset of the end of a response head, or -1.
func AnswerEnd(b []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
		switch {
		case at < len(b) && b[at] == '\n':
			return at + 1
		case at+1 < len(b) && b[at] == '\r' && b[at+1] == '\n':
			return at + 2
		}
	}
}

// AppendLength appends a Content-Length header.
func AppendLength(out []byte, n int64) []byte {
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, n, 10)
	return append(out, "\r\n"...)
}

// Cut returns the part of have that is passed on, how much of have it stands for, and whether
// the body ends there.
func (a *Answer) Cut(have []byte, left *int64, framing *Chunks) (part []byte, used int, done bool, err error) {
	switch {
	case a.Chunked:
		used, pass, err := framing.follow(have)
		part, done = have[:pass], framing.state == chunksDone
		if done && len(framing.trailers) > 0 {
			part, err = a.appendTrailers(part[:pass:pass], framing.trailers)
		}
		return part, used, done, err
	case a.Length < 0:
		*left -= int64(len(have)) // below -1: counts the bytes received
		return have, len(have), false, nil
	default:
		n := int(min(*left, int64(len(have))))
		*left -= int64(n)
		return have[:n], n, *left == 0, nil
	}
}

// appendTrailers appends those lines of a response's trailers that are passed on, and the
// empty line at their end.
func (a *Answer) appendTrailers(out, lines []byte) ([]byte, error) {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(lines, []byte("\r\n")), []byte("\r\n")) {
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !IsToken(line[:colon]) {
			return out, errChunks
		}
		if name := line[:colon]; AnswerTrailer(name) && !a.named(name) {
			out = append(append(out, line...), "\r\n"...)
		}
	}
	return append(out, "\r\n"...), nil
}
