package http1

import (
	"net/http"

	"golang.org/x/net/http/httpguts"
)

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
	kindB3 // from here on trace headers, in the order of TraceHeader
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

// TraceHeader is a header with a trace.
type TraceHeader int

// The router writes those up to Tracestate itself.
const (
	B3 TraceHeader = iota
	B3Trace
	B3Span
	Traceparent
	Tracestate
	B3Parent
	B3Sampled
	B3Flags
	traceHeaders
)

var kinds = kindTable(map[string]kind{
	"host": kindHost, "connection": kindConnection, "content-length": kindLength, "x-forwarded-for": kindForwardedFor,
	"forwarded": kindForwarded, "x-forwarded-host": kindForwarded, "x-forwarded-port": kindForwarded,
	"x-forwarded-proto": kindForwardedProto, "x-vcap-request-id": kindRequestID, "x-request-id": kindOtherID,
	"x-request-start": kindRequestStart,
	"referer":         kindReferer, "user-agent": kindAgent, "cookie": kindCookie, "idempotency-key": kindKeyed,
	"x-idempotency-key": kindKeyed,

	"b3": kindB3, "x-b3-traceid": kindB3Trace, "x-b3-spanid": kindB3Span, "x-b3-parentspanid": kindB3Parent,
	"x-b3-sampled": kindB3Sampled,
	"x-b3-flags":   kindB3Flags, "traceparent": kindTraceparent, "tracestate": kindTracestate,

	"keep-alive": kindDrop, "x-cf-applicationid": kindDrop, "x-cf-instanceid": kindDrop, "x-cf-instanceindex": kindDrop,
	"x-forwarded-client-cert": kindClientCert,
	"x-cf-routererror":        kindDrop, "x-cf-forwarded-url": kindDrop, "x-cf-proxy-signature": kindDrop,
	"x-cf-proxy-metadata": kindDrop,

	"transfer-encoding": kindDecline, "upgrade": kindDecline, "expect": kindDecline, "te": kindDecline,
	"trailer":           kindDecline,
	"x-cf-app-instance": kindDecline, "x-cf-process-instance": kindDecline, "http2-settings": kindDecline,
	"proxy-connection": kindDecline, "proxy-authorization": kindDecline,
	"proxy-authenticate": kindDecline, "close": kindDecline, // Connection: close names the last one
})

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
	"connection": answerConnection, "content-length": answerLength, "transfer-encoding": answerEncoding,
	"trailer":    answerTrailer,
	"set-cookie": answerCookie, "strict-transport-security": answerHSTS,

	"keep-alive": answerDrop, "proxy-authenticate": answerDrop, "proxy-authorization": answerDrop,
	"proxy-connection": answerDrop, "te": answerDrop, "upgrade": answerDrop,
	"x-cf-routererror": answerDrop, "x-vcap-request-id": answerDrop,
})

// Trailers follow the rules of headers: one whose header the router sets, removes or reads is
// not passed on as a trailer, because apps and clients may merge trailers into the headers.
// Neither is one that RFC 9110 does not allow as a trailer.

// RequestTrailer reports whether a trailer of a request is passed on.
func RequestTrailer(name []byte) bool {
	return kinds.of(name) == kindOther && httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(string(name)))
}

// AnswerTrailer reports whether a trailer of a response is passed on.
func AnswerTrailer(name []byte) bool {
	return answerKinds.of(name) == answerOther && httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(string(name)))
}

// AnswerHeader reports whether a header of a response is passed on.
func AnswerHeader(name []byte) bool {
	switch answerKinds.of(name) {
	case answerOther, answerCookie, answerHSTS:
		return true
	}
	return false
}

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
			if EqualFold(name, e.name) {
				return e.kind
			}
		}
	}
	return k
}
