package tracing

import (
	"context"

	"ingot/internal/base/logging"
)

// Origin is the request that caused work which continues after its response: its id, for the
// log, and its span.
type Origin struct {
	Request string `json:"request,omitempty"`
	Trace   string `json:"trace,omitempty"` // a traceparent
}

// OriginOf returns the request of ctx.
func OriginOf(ctx context.Context) Origin {
	return Origin{Request: logging.RequestID(ctx), Trace: Traceparent(ctx)}
}

// In returns ctx with the request as the cause of the work.
func (o Origin) In(ctx context.Context) context.Context {
	return Continue(logging.WithRequestID(ctx, o.Request), o.Trace)
}
