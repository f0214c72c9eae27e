// Package tracing records spans and sends them to an OpenTelemetry collector, by
// OTLP over HTTP (decision 0036).
//
//	ctx, span := tracer.Begin(ctx, "staging", "build", tracing.Internal)
//	defer span.End()
//
// A nil *Tracer and a nil *Span do nothing, so callers need not know whether
// traces are enabled. A span that has ended waits in a bounded queue; one that
// finds it full is dropped and counted, and no caller ever waits.
//
// It must not import a service: callers choose names and attributes. Attributes
// must not contain secrets.
//
// Imports: base/background, base/logging,
// github.com/prometheus/client_golang/prometheus,
// google.golang.org/protobuf/encoding/protowire.
package tracing
