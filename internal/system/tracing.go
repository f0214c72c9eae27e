package system

import (
	"context"
	"fmt"
	"math"
	"os"

	"ingot/internal/base/tracing"
	"ingot/internal/base/version"
	"ingot/internal/server/health"
	"ingot/internal/server/roots"
)

// TraceConfig is the configuration of traces.
type TraceConfig struct {
	// Endpoint is the URL of an OpenTelemetry collector; empty means no traces.
	Endpoint string
	// Headers are sent to it, KEY=VALUE,KEY=VALUE; they may contain a secret.
	Headers string
	// Sampling is the share of new traces that are recorded, from 0 to 1.
	Sampling float64
}

// DefaultTraceSampling is the default of TraceConfig.Sampling.
const DefaultTraceSampling = 1

// checks never quote the headers, which may contain a secret.
func (c TraceConfig) checks() []check {
	checks := []check{{"trace-sampling", checkRatio(c.Sampling)}}
	if c.Endpoint != "" {
		_, err := tracing.Endpoint(c.Endpoint)
		checks = append(checks, check{"otlp-endpoint", err})
	}
	_, err := tracing.ParseHeaders(c.Headers)
	return append(checks, check{"otlp-headers", err})
}

func checkRatio(n float64) error {
	if n < 0 || n > 1 || math.IsNaN(n) {
		return fmt.Errorf("%v is not between 0 and 1", n)
	}
	return nil
}

// startTracing starts the tracer of a server, which is the last part to stop. It
// returns nil if traces are not enabled.
func (s *server) startTracing(ctx context.Context, c TraceConfig, trust func() (*roots.Roots, error), b *frontend,
	service string) (*tracing.Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil tracer records nothing
	}
	headers, err := tracing.ParseHeaders(c.Headers)
	if err != nil {
		return nil, err
	}
	trusted, err := trust()
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // for operators only
	t, err := tracing.New(tracing.Options{
		Endpoint: c.Endpoint, Headers: headers, TLS: trusted.TLS(), Sampling: c.Sampling, Log: b.front.Log,
		Resource: []tracing.Attr{
			tracing.String("service.name", service), tracing.String("service.version", version.Version),
			tracing.String("host.name", host), tracing.Int("process.pid", os.Getpid()),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	b.registry.MustRegister(health.Recovering{Collector: t})
	b.metrics.Tracer = t
	return t, s.steps.Run(ctx, t)
}
