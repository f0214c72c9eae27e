package tracing

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// TraceID and SpanID identify a trace and a span in it. Zero means none.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// SpanContext is what a traceparent header says: a trace, the current span in it, and
// whether its spans are recorded.
type SpanContext struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
}

// Valid reports whether the context names a span.
func (c SpanContext) Valid() bool { return c.Trace != TraceID{} && c.Span != SpanID{} }

// Traceparent returns the context as a W3C traceparent header, "" if it is not valid.
func (c SpanContext) Traceparent() string {
	if !c.Valid() {
		return ""
	}
	b := make([]byte, 0, traceparentLength)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, c.Span[:])
	if c.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

const traceparentLength = 55

// ParseTraceparent parses a W3C traceparent header. It accepts later versions of the
// format as far as version 00 goes.
func ParseTraceparent(s string) (c SpanContext, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) < traceparentLength || s[2] != '-' || s[35] != '-' || s[52] != '-' || strings.EqualFold(s[:2], "ff") ||
		s[:2] == "00" && len(s) != traceparentLength || len(s) > traceparentLength && s[traceparentLength] != '-' {
		return c, false
	}
	var version, flags [1]byte
	if !unhex(version[:], s[:2]) || !unhex(c.Trace[:], s[3:35]) || !unhex(c.Span[:], s[36:52]) ||
		!unhex(flags[:], s[53:55]) || !c.Valid() {
		return SpanContext{}, false
	}
	c.Sampled = flags[0]&1 == 1
	return c, true
}

// ParseSpanID parses 16 hexadecimal digits; anything else is the zero id.
func ParseSpanID(s string) (id SpanID) {
	if len(s) != 2*len(id) || !unhex(id[:], s) {
		return SpanID{}
	}
	return id
}

// ParseTraceID returns the trace id in a guid, with or without hyphens; anything else is
// the zero id.
func ParseTraceID(s string) (id TraceID) {
	if len(s) == 36 {
		s = strings.ReplaceAll(s, "-", "")
	}
	if len(s) != 2*len(id) || !unhex(id[:], s) {
		return TraceID{}
	}
	return id
}

func unhex(to []byte, s string) bool {
	for i := range to {
		high, low := nibble(s[2*i]), nibble(s[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}

// NewSpanID returns a random id.
func NewSpanID() (id SpanID) {
	for id == (SpanID{}) {
		put(id[:], rand.Uint64())
	}
	return id
}

// String returns 16 hexadecimal digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

func newTraceID() (id TraceID) {
	put(id[:8], rand.Uint64())
	put(id[8:], rand.Uint64()|1)
	return id
}

func put(b []byte, n uint64) {
	for i := range 8 {
		b[i] = byte(n >> (56 - 8*i))
	}
}

type contextKey struct{}

// place is the position of a context.Context in a trace.
type place struct {
	SpanContext
	span *Span // nil if the span is another process's, or not recorded
}

func placeOf(ctx context.Context) place {
	p, _ := ctx.Value(contextKey{}).(place)
	return p
}

// Continue returns a context for work that continues the span of a traceparent; ctx
// itself if that is not valid.
func Continue(ctx context.Context, traceparent string) context.Context {
	c, ok := ParseTraceparent(traceparent)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, place{SpanContext: c})
}

// Traceparent returns the span of ctx for work that continues it later or elsewhere, ""
// if there is none.
func Traceparent(ctx context.Context) string { return placeOf(ctx).Traceparent() }

// Inject sets the traceparent of an outgoing request.
func Inject(ctx context.Context, h http.Header) {
	if text := Traceparent(ctx); text != "" {
		h.Set("Traceparent", text)
	}
}

// Current returns the span of ctx; nil if it has none that is recorded here.
func Current(ctx context.Context) *Span { return placeOf(ctx).span }
