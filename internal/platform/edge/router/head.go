package router

import "bytes"

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
		keep, ok := q.take(kinds.of(head[at:at+colon]), value, head[value.from:value.to], &seen)
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
	"proxy-authenticate": kindDecline, "close": kindDecline, // Connection: close names the last one
})

// headerTable has the headers with a rule, by the length of their names, which distinguishes
// most of them.
type headerTable[K any] [32][]headerEntry[K]

type headerEntry[K any] struct {
	name string
	kind K
}

func kindTable[K any](from map[string]K) (table headerTable[K]) {
	for name, k := range from {
		table[len(name)] = append(table[len(name)], headerEntry[K]{name, k})
	}
	return table
}

// of returns the rule of a header, the zero value if it has none.
func (t *headerTable[K]) of(name []byte) (k K) {
	if len(name) < len(t) {
		for _, e := range t[len(name)] {
			if equalFold(name, e.name) {
				return e.kind
			}
		}
	}
	return k
}
