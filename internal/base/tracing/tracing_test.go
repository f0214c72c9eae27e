package tracing_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/logging"
	"ingot/internal/base/testkit"
	"ingot/internal/base/tracing"
	"ingot/internal/base/tracing/tracingtest"
)

func start(t testing.TB, o tracing.Options) *tracing.Tracer {
	t.Helper()
	if o.Delay == 0 {
		o.Delay = time.Millisecond
	}
	tr, err := tracing.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Stop)
	return tr
}

// figures returns the metrics of a collector by name and labels.
func figures(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func TestSpans(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	tr := start(t, tracing.Options{Endpoint: c.URL, Sampling: 1, Headers: map[string]string{"X-Key": "k"}})
	ctx, root := tr.Begin(t.Context(), "api", "outer", tracing.Server, tracing.String("a", "b"))
	inner, child := tracing.Begin(ctx, "inner", tracing.Internal, tracing.Int("n", -3))
	h := http.Header{}
	tracing.Inject(inner, h)
	child.FailWhen(true, "it broke")
	child.FailWhen(false, "not this")
	child.End()
	child.End() // has no effect
	root.End()

	got := c.Find(t, "outer", func(s tracingtest.Span) bool { return s.Name == "outer" })
	below := c.Find(t, "inner", func(s tracingtest.Span) bool { return s.Name == "inner" })
	if got.Parent != "" || got.Part != "ingot/api" || got.Attrs["a"] != "b" || got.Failed {
		t.Errorf("got %+v", got)
	}
	if below.Parent != got.ID || below.Trace != got.Trace || below.Attrs["n"] != "-3" || !below.Failed ||
		below.Failure != "it broke" {
		t.Errorf("got %+v, want a child of %+v", below, got)
	}
	if want := "00-" + below.Trace + "-" + below.ID + "-01"; h.Get("Traceparent") != want {
		t.Errorf("traceparent %q, want %q", h.Get("Traceparent"), want)
	}
	if n := len(c.Spans()); n != 2 {
		t.Errorf("%d spans, want 2", n)
	}
	if c.Header("X-Key") != "k" {
		t.Error("the header is missing")
	}
}

func TestSampling(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	for ratio, want := range map[float64][2]int{0: {0, 0}, 0.25: {2000, 3000}, 1: {10000, 10000}} {
		tr, err := tracing.New(tracing.Options{Endpoint: c.URL, Sampling: ratio})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range 10000 {
			ctx, span := tr.Begin(t.Context(), "api", "x", tracing.Server)
			if span != nil {
				n++
			}
			// A child never differs from its root.
			if _, below := tr.Begin(ctx, "api", "y", tracing.Client); (below != nil) != (span != nil) {
				t.Fatal("a span and its child were sampled differently")
			}
			if tracing.Traceparent(ctx) == "" {
				t.Fatal("a trace that is not recorded must be known to children too")
			}
		}
		if n < want[0] || n > want[1] {
			t.Errorf("ratio %v: %d of 10000 recorded, want %v", ratio, n, want)
		}
		// The client's decision precedes the ratio.
		for flag, want := range map[string]bool{"00": false, "01": true} {
			ctx := tracing.Continue(t.Context(), "00-463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-"+flag)
			if _, span := tr.Begin(ctx, "api", "x", tracing.Server); (span != nil) != want {
				t.Errorf("ratio %v, flags %s: recorded %v", ratio, flag, span != nil)
			}
		}
	}
}

func TestOff(t *testing.T) {
	t.Parallel()
	var tr *tracing.Tracer
	ctx, span := tr.Begin(t.Context(), "api", "x", tracing.Server)
	span.Set(tracing.String("a", "b"))
	span.FailWhen(true, "x")
	span.End()
	if span != nil || ctx != t.Context() || tr.Samples(tracing.TraceID{}) {
		t.Error("a nil tracer must do nothing")
	}
	if ctx, span := tracing.Begin(ctx, "x", tracing.Internal); span != nil || tracing.Traceparent(ctx) != "" {
		t.Error("without a parent there is no span")
	}
}

// When the collector does not answer, spans are dropped and counted, and no caller waits.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	c.Answer(func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true })
	var log bytes.Buffer
	tr, err := tracing.New(tracing.Options{Endpoint: c.URL, Sampling: 1, Log: logging.New(&log, true, slog.LevelInfo)})
	if err != nil {
		t.Fatal(err)
	}
	const n = 6000
	for range n { // it does not run: nothing is taken from the queue
		_, span := tr.Begin(t.Context(), "api", "x", tracing.Server)
		span.End()
	}
	got := figures(t, tr)
	if got[`ingot_trace_spans_total{result="dropped"}`] != n-4096 || got["ingot_trace_queue_spans"] != 4096 {
		t.Errorf("got %v, want %d dropped", got, n-4096)
	}
}

// A collector that is away for a moment gets the spans later.
func TestRetry(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	calls := 0
	c.Answer(func(w http.ResponseWriter) bool {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	var log bytes.Buffer
	tr := start(t, tracing.Options{Endpoint: c.URL, Sampling: 1, Log: logging.New(&log, true, slog.LevelInfo)})
	_, span := tr.Begin(t.Context(), "api", "again", tracing.Server)
	span.End()
	c.Find(t, "again", func(s tracingtest.Span) bool { return s.Name == "again" })
	// Only a moment is left for an answer that comes after Stop.
	testkit.Eventually(t, "the answer of the collector",
		func() bool { return figures(t, tr)[`ingot_trace_spans_total{result="sent"}`] == 1 })
	tr.Stop()
	if text := log.String(); strings.Count(text, "WARN") != 1 || !strings.Contains(text, "503") ||
		!strings.Contains(text, "accepts spans again") {
		t.Errorf("the log has %q", text)
	}
}

// Spans that wait are sent when the server stops; those that the collector refuses are counted.
func TestStopSendsTheRest(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	tr := start(t, tracing.Options{Endpoint: c.URL, Sampling: 1, Delay: time.Hour})
	for i := range 700 {
		_, span := tr.Begin(t.Context(), "api", fmt.Sprint("x", i), tracing.Server)
		span.End()
	}
	tr.Stop()
	if n := len(c.Spans()); n != 700 {
		t.Errorf("%d spans, want 700", n)
	}
	c.Answer(func(w http.ResponseWriter) bool {
		_, _ = w.Write([]byte{0x0a, 0x02, 0x08, 0x01}) // partial success: 1 rejected
		return true
	})
	tr = start(t, tracing.Options{Endpoint: c.URL, Sampling: 1, Delay: time.Hour})
	for range 3 {
		_, span := tr.Begin(t.Context(), "api", "y", tracing.Server)
		span.End()
	}
	tr.Stop()
	if got := figures(t, tr); got[`ingot_trace_spans_total{result="sent"}`] != 2 ||
		got[`ingot_trace_spans_total{result="failed"}`] != 1 {
		t.Errorf("got %v, want 2 sent and 1 failed", got)
	}
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const id = "463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-"
	for header, want := range map[string]string{
		"00-" + id + "01": "00-" + id + "01", " 00-" + id + "00 ": "00-" + id + "00", "00-" + strings.ToUpper(id) +
			"01": "00-" + id + "01",
		"01-" + id + "03-more": "00-" + id + "01", "00-" + id + "01-more": "", "ff-" + id + "01": "", "00-" + id + "0x": "",
		"00-" + id: "",
		"":         "", "00-00000000000000000000000000000000-a2fb4a1d1a96d312-01": "",
		"00-463ac35c9f6413ad48485a3953bb6124-0000000000000000-01": "",
	} {
		got, ok := tracing.ParseTraceparent(header)
		if got.Traceparent() != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", header, got.Traceparent(), ok, want)
		}
	}
}

func TestEndpointAndHeaders(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://c:4318": "http://c:4318/v1/traces", "https://c/": "https://c/v1/traces",
		"http://c/otlp/":     "http://c/otlp/v1/traces",
		"http://c/v1/traces": "http://c/v1/traces", "c:4317": "", "ftp://c": "", "http://": "", "http://c?x=1": "", "": "",
	} {
		got, err := tracing.Endpoint(given)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", given, got, err, want)
		}
	}
	got, err := tracing.ParseHeaders("Authorization=Basic%20c2VjcmV0, x-org=1,")
	if err != nil || got["Authorization"] != "Basic c2VjcmV0" || got["x-org"] != "1" || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"secret", "a=%0asecret", "=secret", "a b=secret", "a=%zzsecret"} {
		if _, err := tracing.ParseHeaders(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	const parent = "00-463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-01"
	o := tracing.OriginOf(tracing.Continue(logging.WithRequestID(t.Context(), "r1"), parent))
	if want := (tracing.Origin{Request: "r1", Trace: parent}); o != want {
		t.Fatalf("got %+v, want %+v", o, want)
	}
	if again := tracing.OriginOf(o.In(context.Background())); again != o {
		t.Errorf("got %+v, want %+v", again, o)
	}
	if none := tracing.OriginOf(tracing.Origin{}.In(context.Background())); none != (tracing.Origin{}) {
		t.Errorf("got %+v", none)
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		t.Helper()
		tr, err := tracing.New(tracing.Options{Endpoint: c.URL, Sampling: 1})
		if err != nil {
			t.Fatal(err)
		}
		return tr
	})
}

func BenchmarkRecord(b *testing.B) {
	for name, sampling := range map[string]float64{"recorded": 1, "not sampled": 0} {
		b.Run(name, func(b *testing.B) {
			tr, err := tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1", Sampling: sampling})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, span := tr.Begin(b.Context(), "api", "x", tracing.Server, tracing.String("a", "b"))
				span.End()
			}
		})
	}
}
