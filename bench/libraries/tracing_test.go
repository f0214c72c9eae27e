package libraries

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"ingot/internal/base/tracing"
)

// flushed is after how many spans they are sent: before either queue is full.
const flushed = 400

// BenchmarkSpan records spans like those of the API and sends them to a collector that discards
// them.
func BenchmarkSpan(b *testing.B) {
	for name, ratio := range map[string]float64{"recorded": 1, "not-sampled": 0} {
		b.Run("ours/"+name, func(b *testing.B) {
			url := collector(b)
			tracer := startTracer(b, url, ratio)
			b.ReportAllocs()
			for n := 1; b.Loop(); n++ {
				_, span := tracer.Begin(b.Context(), "api", "GET /v3/apps", tracing.Server,
					tracing.String("http.request.method", "GET"), tracing.String("url.path", "/v3/apps"),
					tracing.String("url.scheme", "https"), tracing.String("server.address", "api.example.org"),
					tracing.String("client.address", "10.0.0.1"), tracing.String("user_agent.original", "cf/8"),
					tracing.String("network.protocol.version", "1.1"), tracing.String("request", "x"))
				span.Set(tracing.Int("http.response.status_code", http.StatusOK))
				span.End()
				if n%flushed == 0 && ratio == 1 {
					tracer.Stop()
					b.StopTimer()
					tracer = startTracer(b, url, ratio)
					b.StartTimer()
				}
			}
			tracer.Stop()
		})
		b.Run("sdk/"+name, func(b *testing.B) {
			exporter, err := otlptracehttp.New(b.Context(), otlptracehttp.WithEndpointURL(collector(b)+"/v1/traces"))
			if err != nil {
				b.Fatal(err)
			}
			provider := sdktrace.NewTracerProvider(
				sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(time.Hour)),
				sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
			tracer := provider.Tracer("api")
			b.ReportAllocs()
			for n := 1; b.Loop(); n++ {
				kind := trace.WithSpanKind(trace.SpanKindServer)
				_, span := tracer.Start(b.Context(), "GET /v3/apps", kind, trace.WithAttributes(
					attribute.String("http.request.method", "GET"), attribute.String("url.path", "/v3/apps"),
					attribute.String("url.scheme", "https"), attribute.String("server.address", "api.example.org"),
					attribute.String("client.address", "10.0.0.1"), attribute.String("user_agent.original", "cf/8"),
					attribute.String("network.protocol.version", "1.1"), attribute.String("request", "x")))
				span.SetAttributes(attribute.Int("http.response.status_code", http.StatusOK))
				span.End()
				if n%flushed == 0 && ratio == 1 {
					_ = provider.ForceFlush(b.Context())
				}
			}
			_ = provider.Shutdown(context.Background())
		})
	}
}

// collector accepts spans and discards them.
func collector(b *testing.B) string {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	b.Cleanup(s.Close)
	return s.URL
}

func startTracer(b *testing.B, url string, ratio float64) *tracing.Tracer {
	b.Helper()
	t, err := tracing.New(tracing.Options{Endpoint: url, Sampling: ratio, Delay: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	if err := t.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	return t
}

// TestSamplingOfRequestIDs: a trace has the id of its request, a UUID, whose ninth byte begins with
// the bits 10. The SDK's sampler decides by this byte, so it records all of them or none.
func TestSamplingOfRequestIDs(t *testing.T) {
	t.Parallel()
	const n = 2000
	for _, ratio := range []float64{0.1, 0.5, 0.9} {
		ours, err := tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1", Sampling: ratio})
		if err != nil {
			t.Fatal(err)
		}
		sdk := sdktrace.TraceIDRatioBased(ratio)
		var byUs, bySDK float64
		for range n {
			id := uuid.New()
			if ours.Samples(tracing.TraceID(id)) {
				byUs++
			}
			p := sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: trace.TraceID(id)}
			if sdk.ShouldSample(p).Decision == sdktrace.RecordAndSample {
				bySDK++
			}
		}
		if share := byUs / n; share < ratio-0.05 || share > ratio+0.05 {
			t.Errorf("ours records %.2f of the traces, want %.2f", share, ratio)
		}
		if bySDK != 0 && bySDK != n {
			t.Errorf("the SDK records %.2f of the traces, want all or none", bySDK/n)
		}
	}
}
