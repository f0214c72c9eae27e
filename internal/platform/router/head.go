package router

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// span is a part of a head, given by its offsets.
type span struct{ from, to int }

func (s span) of(text string) string { return text[s.from:s.to] }
func (s span) empty() bool           { return s.from == s.to }

// plainRequest is what the fast path needs to know about a request. Offsets are relative to
// its head.
type plainRequest struct {
	method, target                 span
	host, referer, agent           span
	id, otherID                    span
	forwardedProto                 span
	forwardedFor, cookies, headers []span // headers are whole lines that are passed on unchanged
	length                         int    // of the body
	started, keyed, close          bool
	trusted                        bool             // the X-Forwarded-* headers and the id are believed
	clientCert                     bool             // it has an X-Forwarded-Client-Cert header
	traced                         bool             // at least one of trace is set
	trace                          [traceSpans]span // indexed by header kind
}

// traceIn returns the trace headers of the request.
func (q *plainRequest) traceIn(text string) trace {
	of := func(k kind) string { return q.trace[k-kindB3].of(text) }
	return trace{
		b3: of(kindB3), id: of(kindB3Trace), span: of(kindB3Span), parentSpan: of(kindB3Parent), sampled: of(kindB3Sampled), flags: of(kindB3Flags),
		parent: of(kindTraceparent), state: of(kindTracestate),
	}
}

func (q *plainRequest) reset() {
	*q = plainRequest{forwardedFor: q.forwardedFor[:0], cookies: q.cookies[:0], headers: q.headers[:0]}
}

var headEnd = []byte("\r\n\r\n")

// maxPlainHeaders is the largest number of header lines that the fast path accepts.
const maxPlainHeaders = 128

// parsePlain parses a head, including the empty line at its end. It returns false for
// everything that is ambiguous or needs more than passing on; the HTTP server handles that.
func (q *plainRequest) parsePlain(head []byte, trusted bool) bool {
	q.reset()
	q.trusted = trusted
	end := bytes.IndexByte(head, '\r')
	if end < 0 || head[end+1] != '\n' || !q.parseLine(head[:end]) {
		return false
	}
	var seen seenOnce
	count := 0
	for at := end + 2; ; {
		if head[at] == '\r' {
			// The caller found the end; it must be this one.
			return at == len(head)-2 && seen.hosts == 1 && !q.host.empty()
		}
		stop := bytes.IndexByte(head[at:], '\r')
		if stop < 0 || head[at+stop+1] != '\n' {
			return false
		}
		stop += at
		colon := bytes.IndexByte(head[at:stop], ':')
		if count++; colon <= 0 || count > maxPlainHeaders || !isToken(head[at:at+colon]) || !isText(head[at+colon:stop]) {
			return false
		}
		value := trimmed(head, at+colon+1, stop)
		keep, ok := q.take(kindOf(head[at:at+colon]), value, head[value.from:value.to], &seen)
		if !ok {
			return false
		}
		if keep {
			q.headers = append(q.headers, span{at, stop + 2})
		}
		at = stop + 2
	}
}

// parseLine reads the request line.
func (q *plainRequest) parseLine(line []byte) bool {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 || !isToken(line[:space]) || string(line[:space]) == "CONNECT" {
		return false
	}
	q.method = span{0, space}
	const version = " HTTP/1.1"
	if !bytes.HasSuffix(line, []byte(version)) || len(line)-len(version) <= space {
		return false
	}
	q.target = span{space + 1, len(line) - len(version)}
	target := line[q.target.from:q.target.to]
	return len(target) > 0 && target[0] == '/' && isPlainTarget(target)
}

// seenOnce counts headers that a request may have only once.
type seenOnce struct{ hosts, lengths int }

// take records a header. It reports whether the header is passed on unchanged, and whether
// the request is still plain.
func (q *plainRequest) take(k kind, value span, text []byte, seen *seenOnce) (keep, ok bool) {
	switch k {
	case kindOther:
		return true, true
	case kindHost:
		seen.hosts++
		q.host = value
		return true, isHost(text)
	case kindConnection:
		q.close = q.close || equalFold(text, "close")
		return false, equalFold(text, "close") || equalFold(text, "keep-alive")
	case kindLength:
		if seen.lengths++; seen.lengths > 1 {
			return false, false
		}
		q.length, ok = decimal(text)
		return false, ok
	case kindForwarded:
		return q.trusted, true
	case kindForwardedFor:
		if !q.trusted {
			return false, true
		}
		q.forwardedFor = append(q.forwardedFor, value)
		return false, true
	case kindForwardedProto:
		if !q.trusted {
			return false, true
		}
		first := q.forwardedProto.empty()
		q.forwardedProto = value
		return false, first
	case kindRequestID:
		if q.trusted {
			q.id = value
		}
		return false, true
	case kindOtherID:
		if q.trusted {
			q.otherID = value
		}
	case kindRequestStart:
		q.started = q.started || !value.empty()
		return !value.empty(), true
	case kindReferer:
		q.referer = value
	case kindAgent:
		q.agent = value
	case kindCookie:
		q.cookies = append(q.cookies, value)
	case kindKeyed:
		q.keyed = q.keyed || !value.empty()
	case kindB3, kindB3Trace, kindB3Span, kindTraceparent, kindTracestate, kindB3Parent, kindB3Sampled, kindB3Flags:
		first := q.trace[k-kindB3].empty()
		q.traced, q.trace[k-kindB3] = true, value
		return k >= kindB3Parent, first
	case kindClientCert:
		q.clientCert = true
		return false, true
	case kindDrop:
		return false, true
	case kindDecline:
		return false, false
	}
	return true, true
}

// kind says how the router treats a request header.
type kind int

const (
	kindOther kind = iota
	kindHost
	kindConnection
	kindLength
	kindForwarded
	kindForwardedFor
	kindForwardedProto
	kindRequestID
	kindOtherID // X-Request-Id, which other proxies use
	kindRequestStart
	kindReferer
	kindAgent
	kindCookie
	kindKeyed
	kindB3 // from here on trace headers; the router writes the first ones itself
	kindB3Trace
	kindB3Span
	kindTraceparent
	kindTracestate
	kindB3Parent
	kindB3Sampled
	kindB3Flags
	kindClientCert
	kindDrop    // not passed on
	kindDecline // not for the fast path
)

// traceSpans is the number of kinds of trace headers.
const traceSpans = kindB3Flags - kindB3 + 1

var kinds = kindTable(map[string]kind{
	"host": kindHost, "connection": kindConnection, "content-length": kindLength, "x-forwarded-for": kindForwardedFor,
	"forwarded": kindForwarded, "x-forwarded-host": kindForwarded, "x-forwarded-port": kindForwarded,
	"x-forwarded-proto": kindForwardedProto, "x-vcap-request-id": kindRequestID, "x-request-id": kindOtherID, "x-request-start": kindRequestStart,
	"referer": kindReferer, "user-agent": kindAgent, "cookie": kindCookie, "idempotency-key": kindKeyed, "x-idempotency-key": kindKeyed,

	"b3": kindB3, "x-b3-traceid": kindB3Trace, "x-b3-spanid": kindB3Span, "x-b3-parentspanid": kindB3Parent, "x-b3-sampled": kindB3Sampled,
	"x-b3-flags": kindB3Flags, "traceparent": kindTraceparent, "tracestate": kindTracestate,

	"keep-alive": kindDrop, "x-cf-applicationid": kindDrop, "x-cf-instanceid": kindDrop, "x-cf-instanceindex": kindDrop,
	"x-forwarded-client-cert": kindClientCert,
	"x-cf-routererror":        kindDrop, "x-cf-forwarded-url": kindDrop, "x-cf-proxy-signature": kindDrop, "x-cf-proxy-metadata": kindDrop,

	"transfer-encoding": kindDecline, "upgrade": kindDecline, "expect": kindDecline, "te": kindDecline, "trailer": kindDecline,
	"x-cf-app-instance": kindDecline, "x-cf-process-instance": kindDecline, "http2-settings": kindDecline, "proxy-connection": kindDecline, "proxy-authorization": kindDecline,
	"proxy-authenticate": kindDecline,
})

type kindEntry struct {
	name string
	kind kind
}

// kindTable groups the names by length, which distinguishes most of them.
func kindTable(from map[string]kind) (table [32][]kindEntry) {
	for name, k := range from {
		table[len(name)] = append(table[len(name)], kindEntry{name, k})
	}
	return table
}

func kindOf(name []byte) kind {
	if len(name) < len(kinds) {
		for _, e := range kinds[len(name)] {
			if equalFold(name, e.name) {
				return e.kind
			}
		}
	}
	return kindOther
}

// plainAnswer is what the fast path needs to know about a response.
type plainAnswer struct {
	status  int
	length  int64 // -1: unknown
	chunked bool
	hsts    bool     // it has a Strict-Transport-Security header
	close   bool     // the backend closes the connection after the response
	cookies []string // Set-Cookie headers that concern sticky sessions
	hops    []string // names in the Connection header, in lower case
}

var errGarbage = errors.New("the backend's response is not valid HTTP")

// parse parses the head of a response and appends the part that is passed on to out,
// without the empty line at its end. Backends may end lines with a bare newline.
func (a *plainAnswer) parse(head, out []byte) ([]byte, error) {
	*a = plainAnswer{length: -1, cookies: a.cookies[:0]}
	start := len(out)
	out, err := a.pass(head, out)
	if err == nil && len(a.hops) > 0 {
		// Rare: which headers are hop-by-hop is known only after all have been parsed.
		*a = plainAnswer{length: -1, cookies: a.cookies[:0], hops: a.hops}
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
	out = append(out, "HTTP/1.1 "...)
	out = append(out, line[9:]...)
	out = append(out, "\r\n"...)
	kept := false
	for {
		line, rest = nextLine(rest)
		if len(line) == 0 {
			break
		}
		if !isText(line) {
			return out, errGarbage
		}
		if line[0] == ' ' || line[0] == '\t' {
			// An obsolete fold. It is passed on as one line.
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
		var err error
		if kept, err = a.header(line[:colon], bytes.TrimSpace(line[colon+1:])); err != nil {
			return out, err
		}
		if kept {
			out = append(out, line...)
			out = append(out, "\r\n"...)
		}
	}
	if a.chunked {
		a.close = a.close || a.length >= 0 // a response with both is not trusted with another request
		a.length = -1
	} else if a.length >= 0 {
		out = appendLength(out, a.length)
	}
	return out, nil
}

func (a *plainAnswer) header(name, value []byte) (keep bool, err error) {
	switch len(name) {
	case 7:
		return !equalFold(name, "upgrade"), nil
	case 10:
		switch {
		case equalFold(name, "connection"):
			for part := range bytes.SplitSeq(value, []byte(",")) {
				switch part = bytes.TrimSpace(part); {
				case equalFold(part, "close"):
					a.close = true
				case len(part) > 0 && !equalFold(part, "keep-alive"):
					a.hops = append(a.hops, strings.ToLower(string(part)))
				}
			}
			return false, nil
		case equalFold(name, "keep-alive"):
			return false, nil
		case equalFold(name, "set-cookie"):
			if v := string(value[:min(len(value), len(instanceCookie)+1)]); len(v) > 0 && (v[0] == 'J' || v[0] == '_') {
				a.cookies = append(a.cookies, string(value))
			}
		}
	case 14:
		if equalFold(name, "content-length") {
			n, ok := decimal64(value)
			if !ok || a.length >= 0 && a.length != n {
				return false, errGarbage
			}
			a.length = n
			return false, nil
		}
	case 16:
		if equalFold(name, "x-cf-routererror") || equalFold(name, "proxy-connection") {
			return false, nil
		}
	case 17:
		if equalFold(name, "transfer-encoding") {
			if a.chunked || !equalFold(value, "chunked") {
				return false, errGarbage
			}
			a.chunked = true
		}
		return !equalFold(name, "x-vcap-request-id"), nil
	case 25:
		a.hsts = a.hsts || equalFold(name, "strict-transport-security")
	}
	return !slices.ContainsFunc(a.hops, func(hop string) bool { return equalFold(name, hop) }), nil
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
