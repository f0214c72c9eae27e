package http1

import "bytes"

// Span is a part of a head, given by its offsets.
type Span struct{ From, To int }

// Of returns the part of a copy of the head.
func (s Span) Of(text string) string { return text[s.From:s.To] }

func (s Span) empty() bool { return s.From == s.To }

// Request is what the fast path needs to know about a request. Offsets are relative to its head.
type Request struct {
	Method, Target                 Span
	Host, Referer, Agent           Span
	ID, OtherID                    Span // X-Vcap-Request-Id and X-Request-Id, of a trusted client
	ForwardedProto                 Span
	ForwardedFor, Cookies, Headers []Span             // Headers are whole lines that are passed on unchanged
	Length                         int                // of the body
	Started                        bool               // it has an X-Request-Start header
	Keyed                          bool               // it has an idempotency key
	Close                          bool               // the client wants the connection to be closed
	ClientCert                     bool               // it has an X-Forwarded-Client-Cert header
	Traced                         bool               // at least one of Trace is set
	Trace                          [traceHeaders]Span // indexed by TraceHeader

	trusted bool // the X-Forwarded-* headers and the id are believed
}

func (q *Request) reset() {
	*q = Request{ForwardedFor: q.ForwardedFor[:0], Cookies: q.Cookies[:0], Headers: q.Headers[:0]}
}

// HeadEnd ends a head.
var HeadEnd = []byte("\r\n\r\n")

// maxPlainHeaders is the largest number of header lines that the fast path accepts.
const maxPlainHeaders = 128

// Parse parses a head, including the empty line at its end. It returns false for
// everything that is ambiguous or needs more than passing on; the HTTP server handles that.
func (q *Request) Parse(head []byte, trusted bool) bool {
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
			return at == len(head)-2 && seen.hosts == 1 && !q.Host.empty()
		}
		stop := bytes.IndexByte(head[at:], '\r')
		if stop < 0 || head[at+stop+1] != '\n' {
			return false
		}
		stop += at
		colon := bytes.IndexByte(head[at:stop], ':')
		if count++; colon <= 0 || count > maxPlainHeaders || !IsToken(head[at:at+colon]) || !isText(head[at+colon:stop]) {
			return false
		}
		value := trimmed(head, at+colon+1, stop)
		keep, ok := q.take(kinds.of(head[at:at+colon]), value, head[value.From:value.To], &seen)
		if !ok {
			return false
		}
		if keep {
			q.Headers = append(q.Headers, Span{at, stop + 2})
		}
		at = stop + 2
	}
}

// parseLine reads the request line.
func (q *Request) parseLine(line []byte) bool {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 || !IsToken(line[:space]) || string(line[:space]) == "CONNECT" {
		return false
	}
	q.Method = Span{0, space}
	const version = " HTTP/1.1"
	if !bytes.HasSuffix(line, []byte(version)) || len(line)-len(version) <= space {
		return false
	}
	q.Target = Span{space + 1, len(line) - len(version)}
	target := line[q.Target.From:q.Target.To]
	return len(target) > 0 && target[0] == '/' && isPlainTarget(target)
}

// seenOnce counts headers that a request may have only once.
type seenOnce struct{ hosts, lengths int }

// take records a header. It reports whether the header is passed on unchanged, and whether
// the request is still plain.
func (q *Request) take(k kind, value Span, text []byte, seen *seenOnce) (keep, ok bool) {
	switch k {
	case kindOther:
		return true, true
	case kindHost:
		seen.hosts++
		q.Host = value
		return true, isHost(text)
	case kindConnection:
		q.Close = q.Close || EqualFold(text, "close")
		return false, EqualFold(text, "close") || EqualFold(text, "keep-alive")
	case kindLength:
		if seen.lengths++; seen.lengths > 1 {
			return false, false
		}
		q.Length, ok = decimal(text)
		return false, ok
	case kindForwarded:
		return q.trusted, true
	case kindForwardedFor:
		if !q.trusted {
			return false, true
		}
		q.ForwardedFor = append(q.ForwardedFor, value)
		return false, true
	case kindForwardedProto:
		if !q.trusted {
			return false, true
		}
		first := q.ForwardedProto.empty()
		q.ForwardedProto = value
		return false, first
	case kindRequestID:
		if q.trusted {
			q.ID = value
		}
		return false, true
	case kindOtherID:
		if q.trusted {
			q.OtherID = value
		}
	case kindRequestStart:
		q.Started = q.Started || !value.empty()
		return !value.empty(), true
	case kindReferer:
		q.Referer = value
	case kindAgent:
		q.Agent = value
	case kindCookie:
		q.Cookies = append(q.Cookies, value)
	case kindKeyed:
		q.Keyed = q.Keyed || !value.empty()
	case kindB3, kindB3Trace, kindB3Span, kindTraceparent, kindTracestate, kindB3Parent, kindB3Sampled, kindB3Flags:
		first := q.Trace[k-kindB3].empty()
		q.Traced, q.Trace[k-kindB3] = true, value
		return k >= kindB3Parent, first
	case kindClientCert:
		q.ClientCert = true
		return false, true
	case kindDrop:
		return false, true
	case kindDecline:
		return false, false
	}
	return true, true
}

// MayBecomePlain reports whether b can be the start of a request for Parse. Anything
// else is handed over at once, because the client may wait for a response before
// it sends more.
func MayBecomePlain(b []byte) bool {
	for i, c := range b[:min(len(b), 24)] {
		if c == ' ' {
			return i > 0 && (i+1 >= len(b) || b[i+1] == '/')
		}
		if classes[c]&classToken == 0 {
			return false
		}
	}
	return len(b) < 24
}
