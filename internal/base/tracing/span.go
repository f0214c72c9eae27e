package tracing

import (
	"context"
	"time"
)

// Kind is the role of a span in a call.
type Kind int

// The values are those of OTLP.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
	Consumer Kind = 5
)

// Attr is an attribute of a span: a text or a number.
type Attr struct {
	key    string
	text   string
	number int64
	isText bool
}

// String returns an attribute with a text.
func String(key, value string) Attr { return Attr{key: key, text: value, isText: true} }

// Int returns an attribute with a number.
func Int(key string, value int) Attr { return Attr{key: key, number: int64(value)} }

// Finished is a span that has ended.
type Finished struct {
	SpanContext
	Parent   SpanID
	Part     string // of the server: router, api, staging and others
	Name     string
	Kind     Kind
	Start    time.Time
	Duration time.Duration
	Failed   bool
	Failure  string // why it failed
	Attrs    []Attr
}

// Span is a span that has not ended. It belongs to one goroutine.
type Span struct {
	tracer *Tracer
	data   Finished
	ended  bool
}

// Begin begins a span: a child of the span of ctx, or the root of a new trace, which is
// recorded if the sampling says so. The span is nil if it is not recorded.
func (t *Tracer) Begin(ctx context.Context, part, name string, kind Kind, attrs ...Attr) (context.Context, *Span) {
	return t.BeginAs(ctx, TraceID{}, part, name, kind, attrs...)
}

// BeginAs is like Begin; a new trace gets the given id unless that is zero.
func (t *Tracer) BeginAs(ctx context.Context, root TraceID, part, name string, kind Kind,
	attrs ...Attr) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	above := placeOf(ctx)
	next := SpanContext{Trace: above.Trace, Span: NewSpanID(), Sampled: above.Sampled}
	if !above.Valid() {
		if next.Trace = root; root == (TraceID{}) {
			next.Trace = newTraceID()
		}
		next.Sampled = t.Samples(next.Trace)
	}
	at := place{SpanContext: next}
	if next.Sampled {
		at.span = &Span{tracer: t, data: Finished{
			SpanContext: next, Parent: above.Span, Part: part, Name: name, Kind: kind, Start: time.Now(), Attrs: attrs,
		}}
	}
	return context.WithValue(ctx, contextKey{}, at), at.span
}

// Begin begins a child of the span of ctx. It is nil if that has none that is recorded.
func Begin(ctx context.Context, name string, kind Kind, attrs ...Attr) (context.Context, *Span) {
	above := Current(ctx)
	if above == nil {
		return ctx, nil
	}
	return above.tracer.Begin(ctx, above.data.Part, name, kind, attrs...)
}

// Set adds attributes.
func (s *Span) Set(attrs ...Attr) {
	if s != nil {
		s.data.Attrs = append(s.data.Attrs, attrs...)
	}
}

// FailWhen marks the span as failed for a reason, if failed is true. The reason must not
// contain secrets.
func (s *Span) FailWhen(failed bool, reason string) {
	if s != nil && failed {
		s.data.Failed, s.data.Failure = true, reason
	}
}

// End ends the span. Only the first call has an effect.
func (s *Span) End() {
	if s == nil || s.ended {
		return
	}
	s.ended = true
	s.data.Duration = time.Since(s.data.Start)
	s.tracer.Record(s.data)
}
