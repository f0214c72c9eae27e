package web

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/logging"
	"ingot/internal/base/tracing"
)

// Metrics counts requests by route, and records them as spans. A nil *Metrics counts
// nothing.
type Metrics struct {
	requests *prometheus.HistogramVec
	// Tracer records the spans; nil records none. It must be set before the first
	// request.
	Tracer *tracing.Tracer
}

// NewMetrics registers the request metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "ingot_http_request_duration_seconds",
		Help:    "Time to answer API requests, by API, route and status.",
		Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10},
	}, []string{"api", "method", "route", "status"})}
	r.MustRegister(m.requests)
	return m
}

func (m *Metrics) observe(api, method, route string, status int, d time.Duration) {
	if m == nil {
		return
	}
	status = cmp.Or(status, 200)
	m.requests.WithLabelValues(api, method, route, strconv.Itoa(status)).Observe(d.Seconds())
}

// untraced are the APIs that only probes and the operator call.
var untraced = map[string]bool{"health": true, "admin": true}

// trace begins the span of a request: a child of the client's, or the root of a trace with
// the request's id, as in the router. It is nil if the request is not recorded.
func (m *Metrics) trace(r *http.Request, api, pattern string) (*http.Request, *tracing.Span) {
	if m == nil || m.Tracer == nil || untraced[api] {
		return r, nil
	}
	ctx := tracing.Continue(r.Context(), r.Header.Get("Traceparent"))
	id := logging.RequestID(ctx)
	ctx, span := m.Tracer.BeginAs(ctx, tracing.ParseTraceID(id), api, r.Method+" "+pattern, tracing.Server,
		tracing.String("http.request.method", r.Method), tracing.String("http.route", pattern),
		tracing.String("server.address", r.Host), tracing.String("vcap.request_id", id))
	return r.WithContext(ctx), span
}

func endTrace(span *tracing.Span, status int) {
	if span == nil {
		return
	}
	status = cmp.Or(status, http.StatusOK)
	span.Set(tracing.Int("http.response.status_code", status))
	span.FailWhen(status >= 500, http.StatusText(status))
	span.End()
}
