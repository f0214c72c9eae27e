package router

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
)

// plainAnswer is what the fast path needs to know about a response.
type plainAnswer struct {
	status  int
	length  int64 // -1: unknown
	chunked bool
	hsts    bool            // it has a Strict-Transport-Security header
	close   bool            // the backend closes the connection after the response
	cookies []string        // Set-Cookie headers that concern sticky sessions
	hops    map[string]bool // names in the Connection header, in lower case
	trailer []byte          // names in the Trailer header that are passed on
}

// answerKind says how the router treats a header of a response.
type answerKind int

const (
	answerOther answerKind = iota
	answerConnection
	answerLength
	answerEncoding
	answerTrailer
	answerCookie
	answerHSTS
	answerDrop // not passed on
)

var answerKinds = kindTable(map[string]answerKind{
	"connection": answerConnection, "content-length": answerLength, "transfer-encoding": answerEncoding, "trailer": answerTrailer,
	"set-cookie": answerCookie, "strict-transport-security": answerHSTS,

	"keep-alive": answerDrop, "proxy-authenticate": answerDrop, "proxy-authorization": answerDrop, "proxy-connection": answerDrop, "te": answerDrop, "upgrade": answerDrop,
	"x-cf-routererror": answerDrop, "x-vcap-request-id": answerDrop,
})

var errGarbage = errors.New("the backend's response is not valid HTTP")

// parse parses the head of a response and appends the part that is passed on to out,
// without the empty line at its end. Backends may end lines with a bare newline.
func (a *plainAnswer) parse(head, out []byte) ([]byte, error) {
	*a = plainAnswer{length: -1, cookies: a.cookies[:0], trailer: a.trailer[:0]}
	start := len(out)
	out, err := a.pass(head, out)
	if err == nil && len(a.hops) > 0 {
		// Rare: which headers are hop-by-hop is known only after all have been parsed.
		*a = plainAnswer{length: -1, cookies: a.cookies[:0], trailer: a.trailer[:0], hops: a.hops}
		out, err = a.pass(head, out[:start])
	}
	return out, err
}

func (a *plainAnswer) pass(head, out []byte) ([]byte, error) {
	line, rest := nextLine(head)
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' || !isText(line) {
		return out, errGarbage
	}
	var ok bool
	if a.status, ok = decimal(line[9:12]); !ok || a.status < 100 {
		return out, errGarbage
	}
	a.close = line[7] != '1'
	bodiless := a.status < 200 || a.status == http.StatusNoContent
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
			return out, errGarbage
		}
		if line[0] == ' ' || line[0] == '\t' {
			// An obsolete fold. It is passed on as one line, unless the header is one that
			// the router has read.
			if !foldable {
				return out, errGarbage
			}
			if kept {
				out = append(out[:len(out)-2], ' ')
				out = append(out, bytes.TrimSpace(line)...)
				out = append(out, "\r\n"...)
			}
			continue
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !isToken(line[:colon]) {
			return out, errGarbage
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
	case a.chunked:
		a.close = a.close || a.length >= 0 // a response with both is not trusted with another request
		a.length = -1
		if len(a.trailer) > 0 && !bodiless {
			out = append(append(append(out, "Trailer: "...), a.trailer...), "\r\n"...)
		}
	case a.length >= 0 && !bodiless:
		out = appendLength(out, a.length)
	}
	return out, nil
}

// header reads a header, and reports whether it is passed on unchanged.
func (a *plainAnswer) header(k answerKind, name, value []byte) (keep bool, err error) {
	switch k {
	case answerConnection:
		a.connection(value)
		return false, nil
	case answerDrop:
		return false, nil
	case answerTrailer:
		for part := range bytes.SplitSeq(value, []byte(",")) {
			if part = bytes.TrimSpace(part); isToken(part) && !a.named(part) && answerTrailers(part) {
				if len(a.trailer) > 0 {
					a.trailer = append(a.trailer, ", "...)
				}
				a.trailer = append(a.trailer, part...)
			}
		}
		return false, nil
	case answerLength:
		n, ok := decimal64(value)
		if !ok || a.length >= 0 && a.length != n {
			return false, errGarbage
		}
		a.length = n
		return false, nil
	case answerEncoding:
		if a.chunked || !equalFold(value, "chunked") {
			return false, errGarbage
		}
		a.chunked = true
		return true, nil // even if Connection names it: it describes the body that follows
	}
	if a.named(name) {
		return false, nil
	}
	switch k {
	case answerCookie:
		if v := string(value[:min(len(value), len(instanceCookie)+1)]); len(v) > 0 && (v[0] == 'J' || v[0] == '_') {
			a.cookies = append(a.cookies, string(value))
		}
	case answerHSTS:
		a.hsts = true
	}
	return true, nil
}

// connection reads a Connection header.
func (a *plainAnswer) connection(value []byte) {
	for part := range bytes.SplitSeq(value, []byte(",")) {
		part = bytes.TrimSpace(part)
		a.close = a.close || equalFold(part, "close")
		if len(part) == 0 || equalFold(part, "keep-alive") {
			continue
		}
		if a.hops == nil {
			a.hops = map[string]bool{}
		}
		a.hops[strings.ToLower(string(part))] = true
	}
}

// named reports whether the Connection header names a header.
func (a *plainAnswer) named(name []byte) bool {
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

// answerEnd returns the offset of the end of a response head, or -1.
func answerEnd(b []byte) int {
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

func appendLength(out []byte, n int64) []byte {
	out = append(out, "Content-Length: "...)
	out = appendDecimal(out, n)
	return append(out, "\r\n"...)
}
