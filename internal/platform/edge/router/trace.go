package router

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"ingot/internal/base/tracing"
	"ingot/internal/platform/edge/router/http1"
)

// trace holds the trace headers of a request: first as the client sent them, then, after
// begin, as the app and the access log get them. An empty string means absent.
//
// As with a gorouter that has both kinds of tracing enabled, a request without a trace
// starts one, whose id is that of the request; B3 headers of the client are passed on
// unchanged, so that the app continues the client's span; a traceparent is passed on with
// the router as its parent.
type trace struct {
	b3                   string // trace-span[-sampled[-parent]] in one header
	id, span, parentSpan string // the headers X-B3-Traceid, X-B3-Spanid, X-B3-Parentspanid
	sampled, flags       string // X-B3-Sampled, X-B3-Flags; only read
	parent, state        string // traceparent, tracestate

	caller   string // the span id of the client, "" if it began no trace
	w3c      bool   // the client sent a traceparent
	recorded bool   // the request becomes a span; see sample
}

const (
	headerB3          = "B3"
	headerB3Trace     = "X-B3-Traceid"
	headerB3Span      = "X-B3-Spanid"
	headerB3Parent    = "X-B3-Parentspanid"
	headerB3Sampled   = "X-B3-Sampled"
	headerB3Flags     = "X-B3-Flags"
	headerTraceparent = "Traceparent"
	headerTracestate  = "Tracestate"

	// traceVendor is the router's key in a tracestate.
	traceVendor = "gorouter"
	// maxTracestate is the longest tracestate that is passed on.
	maxTracestate = 2048
)

// traceOf reads the headers of a request.
func traceOf(h http.Header) trace {
	return trace{
		b3: h.Get(headerB3), id: h.Get(headerB3Trace), span: h.Get(headerB3Span), parentSpan: h.Get(headerB3Parent),
		sampled: h.Get(headerB3Sampled), flags: h.Get(headerB3Flags),
		parent: h.Get(headerTraceparent), state: strings.Join(h[headerTracestate], ","),
	}
}

// traceIn returns the trace headers of a request of the fast path.
func traceIn(q *http1.Request, text string) trace {
	of := func(h http1.TraceHeader) string { return q.Trace[h].Of(text) }
	return trace{
		b3: of(http1.B3), id: of(http1.B3Trace), span: of(http1.B3Span), parentSpan: of(http1.B3Parent),
		sampled: of(http1.B3Sampled), flags: of(http1.B3Flags),
		parent: of(http1.Traceparent), state: of(http1.Tracestate),
	}
}

// set sets the headers of an outgoing request.
func (t *trace) set(h http.Header) {
	values := []string{t.b3, t.id, t.span, t.parent, t.state}
	for i, name := range [...]string{headerB3, headerB3Trace, headerB3Span, headerTraceparent, headerTracestate} {
		if values[i] != "" {
			h[name] = values[i : i+1 : i+1]
		} else {
			delete(h, name)
		}
	}
}

// appendTo writes the headers that set sets.
func (t *trace) appendTo(out []byte) []byte {
	for _, one := range [...]struct{ name, value string }{
		{"B3: ", t.b3}, {"X-B3-Traceid: ", t.id}, {"X-B3-Spanid: ", t.span}, {"Traceparent: ", t.parent},
		{"Tracestate: ", t.state},
	} {
		if one.value != "" {
			out = appendHeader(out, one.name, one.value)
		}
	}
	return out
}

// begin sets the headers for the app, and returns the id of the request: the given one, or
// a new one.
func (t *trace) begin(requestID string) string {
	if requestID == "" {
		if t.b3 == "" && t.id == "" && t.span == "" && t.parent == "" {
			return t.fresh()
		}
		requestID = newRequestID()
	}
	id, span, given := t.fromB3()
	if id == "" {
		if id = traceOfID(requestID); id == "" {
			id = traceOfID(newRequestID())
		}
		span = id[16:]
		if !given {
			t.id, t.span, t.b3 = id, span, id+"-"+span
		}
	} else {
		t.caller = span
	}
	if next := nextParent(t.parent); next != "" {
		t.caller, t.w3c = strings.TrimSpace(t.parent)[36:52], true
		t.parent = next
	} else {
		t.parent, t.state = "00-"+padded(id, 32)+"-"+span+"-01", ""
	}
	t.state = nextState(t.state, t.parent[36:52])
	return requestID
}

// fresh starts a trace for a request without any: all ids are parts of one string.
func (t *trace) fresh() (requestID string) {
	const id, state, parent = 36, len(traceVendor) + 1 + 16, 55
	var b [id + state + parent]byte
	putRequestID(b[:id])
	copy(b[id:], traceVendor+"=")
	p := b[id+state:]
	copy(p, "00-")
	at := p[3:3]
	for _, c := range b[:id] {
		if c != '-' {
			at = append(at, c)
		}
	}
	p[35] = '-'
	copy(p[36:], p[3+16:3+32])
	copy(p[52:], "-01")
	copy(b[id+len(traceVendor)+1:], p[36:52])
	s := string(b[:])
	t.state, t.parent = s[id:id+state], s[id+state:]
	t.b3, t.id, t.span = t.parent[3:52], t.parent[3:35], t.parent[36:52]
	return s[:id]
}

// sample decides whether the request is recorded, after begin: as the client says, or by the
// ratio of t. The app learns the decision from the traceparent.
func (t *trace) sample(by *tracing.Tracer) {
	if by == nil {
		return
	}
	at, _ := tracing.ParseTraceparent(t.parent)
	if t.w3c {
		t.recorded = at.Sampled
		return
	}
	decision := t.decision()
	t.recorded = decision == "1" || decision == "d" || decision == "" && by.Samples(at.Trace)
	switch {
	case t.recorded && t.caller != "":
		// With B3 the app continues the client's span, with W3C that of the router.
		span := tracing.NewSpanID().String()
		t.parent, t.state = t.parent[:36]+span+"-01", nextState("", span)
	case !t.recorded:
		if t.caller == "" && t.b3 == t.parent[3:52] {
			t.b3 += "-0"
		}
		t.parent = t.parent[:53] + "00"
	}
}

// decision returns the client's sampling decision in its B3 headers, "" if it left that open.
func (t *trace) decision() string {
	if len(t.b3) == 1 {
		return t.b3
	}
	if _, _, ok := parseB3(t.b3); ok {
		if parts := strings.SplitN(t.b3, "-", 4); len(parts) > 2 {
			return parts[2]
		}
	}
	decision, _ := t.sampling()
	return decision
}

// fromB3 returns the trace and span in the B3 headers, if they are valid, and completes the
// single header from the others. If given is true the headers are passed on unchanged,
// whether they name a trace or not.
func (t *trace) fromB3() (id, span string, given bool) {
	if t.b3 != "" {
		if id, span, ok := parseB3(t.b3); ok {
			return strings.ToLower(id), strings.ToLower(span), true
		}
	}
	if t.id == "" || t.span == "" {
		return "", "", false
	}
	sampled, ok := t.sampling()
	if !ok || !isHex(t.id, 32) || !isHex(t.span, 16) || t.parentSpan != "" && !isHex(t.parentSpan, 16) {
		return "", "", true
	}
	id, span = strings.ToLower(padded(t.id, 16)), strings.ToLower(padded(t.span, 16))
	if len(id) > 16 {
		id = padded(id, 32)
	}
	t.b3 = id + "-" + span
	if sampled != "" {
		t.b3 += "-" + sampled
		if t.parentSpan != "" {
			t.b3 += "-" + strings.ToLower(padded(t.parentSpan, 16))
		}
	}
	return id, span, true
}

// sampling returns the sampling decision in the notation of the single header.
func (t *trace) sampling() (decision string, ok bool) {
	if t.flags == "1" {
		return "d", true
	}
	switch t.sampled {
	case "":
		return "", true
	case "1", "true":
		return "1", true
	case "0", "false":
		return "0", true
	}
	return "", false
}

// parseB3 parses the single header: trace, span, and optionally a decision and the parent
// span. A decision alone is valid, too, and names no trace.
func parseB3(s string) (id, span string, ok bool) {
	if len(s) == 1 {
		return "", "", s == "0" || s == "1" || s == "d"
	}
	id, rest, ok := strings.Cut(s, "-")
	span, more, decided := strings.Cut(rest, "-")
	if !ok || len(id) != 16 && len(id) != 32 || !isHex(id, 32) || len(span) != 16 || !isHex(span, 16) {
		return "", "", false
	}
	if decided {
		sampled, parent, has := strings.Cut(more, "-")
		if sampled != "0" && sampled != "1" && sampled != "d" || has && (len(parent) != 16 || !isHex(parent, 16)) {
			return "", "", false
		}
	}
	return id, span, true
}

// nextParent returns the traceparent that follows the client's, with a new span id of the
// router; "" if there was none, or not a valid one.
func nextParent(header string) string {
	s := strings.ToLower(strings.TrimSpace(header))
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || !isHex(s[:2], 2) || !isHex(s[3:35], 32) ||
		!isHex(s[36:52], 16) || !isHex(s[53:], 2) ||
		s[:2] == "ff" || strings.Trim(s[3:35], "0") == "" || strings.Trim(s[36:52], "0") == "" {
		return ""
	}
	var id [8]byte
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()) // as request ids
	return "00" + s[2:36] + hex.EncodeToString(id[:]) + s[52:]
}

// nextState puts the router's entry at the head of a tracestate and removes an older one.
func nextState(state, span string) string {
	next := traceVendor + "=" + span
	if len(state) > maxTracestate {
		return next
	}
	for entry := range strings.SplitSeq(state, ",") {
		entry = strings.TrimSpace(entry)
		if key, _, ok := strings.Cut(entry, "="); ok && key != traceVendor {
			next += "," + entry
		}
	}
	return next
}

// traceOfID returns the trace id for a request id; "" if that is not a guid.
func traceOfID(id string) string {
	if !isGUID(id) {
		return ""
	}
	return strings.ReplaceAll(id, "-", "")
}

// isHex reports whether s is a number of at most so many hexadecimal digits.
func isHex(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if c := s[i] | 0x20; (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// padded pads a number with zeros to that length.
func padded(s string, n int) string {
	if len(s) >= n {
		return s
	}
	return strings.Repeat("0", n-len(s)) + s
}
