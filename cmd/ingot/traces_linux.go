package main

import "ingot/internal/system"

// traceOptions are the flags for traces. The variables of OpenTelemetry are used when those
// of Ingot are not set.
type traceOptions struct {
	OTLPEndpoint  string  `long:"otlp-endpoint" env:"INGOT_OTLP_ENDPOINT" other-env:"OTEL_EXPORTER_OTLP_ENDPOINT" value-name:"URL" description:"OpenTelemetry collector that gets traces by OTLP over HTTP, such as http://127.0.0.1:4318; also OTEL_EXPORTER_OTLP_ENDPOINT (default: no traces)"`
	OTLPHeaders   string  `long:"otlp-headers" env:"INGOT_OTLP_HEADERS" other-env:"OTEL_EXPORTER_OTLP_HEADERS" value-name:"LIST" description:"Headers for the collector, KEY=VALUE,KEY=VALUE with percent-encoded values; set them with the variable, because flags are visible in the process list; also OTEL_EXPORTER_OTLP_HEADERS"`
	TraceSampling float64 `long:"trace-sampling" env:"INGOT_TRACE_SAMPLING" other-env:"OTEL_TRACES_SAMPLER_ARG" value-name:"RATIO" description:"Share of new traces that are recorded, from 0 to 1; requests with a traceparent or B3 header are recorded as their client decided; also OTEL_TRACES_SAMPLER_ARG"`
}

func (o traceOptions) traces() system.TraceConfig {
	return system.TraceConfig{Endpoint: o.OTLPEndpoint, Headers: o.OTLPHeaders, Sampling: o.TraceSampling}
}
