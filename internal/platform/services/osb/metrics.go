package osb

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Metrics counts calls to brokers. A nil *Metrics counts nothing.
type Metrics struct{ calls *prometheus.HistogramVec }

// NewMetrics registers the metrics of calls to brokers.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ingot_broker_request_duration_seconds",
		Help: "Time of calls to service brokers, by operation and result: ok, refused (4xx), error (5xx or an invalid " +
			"response), unreachable, timeout, skipped (the broker failed several times and is not called for a moment).",
		Buckets: []float64{.01, .05, .25, 1, 5, 15, 60},
	}, []string{"operation", "result"})}
	r.MustRegister(m.calls)
	return m
}

func (m *Metrics) observe(k call, r *reply, err error, d time.Duration) {
	if m != nil {
		m.calls.WithLabelValues(k.operation(), resultOf(r, err)).Observe(d.Seconds())
	}
}

// operation returns the name of a call.
func (k call) operation() string {
	switch {
	case k.path == "catalog":
		return "catalog"
	case strings.HasSuffix(k.path, "/last_operation"):
		return "poll"
	case strings.Contains(k.path, "/service_bindings/"):
		return map[string]string{http.MethodPut: "bind", http.MethodDelete: "unbind", http.MethodGet: "fetch"}[k.method]
	}
	return map[string]string{http.MethodPut: "provision", http.MethodPatch: "update", http.MethodDelete: "deprovision",
		http.MethodGet: "fetch"}[k.method]
}

func resultOf(r *reply, err error) string {
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return "skipped"
	case errors.Is(err, errTooLarge):
		return "error"
	case isTimeout(err):
		return "timeout"
	case err != nil:
		return "unreachable"
	case r.status >= 500:
		return "error"
	case r.status >= 400:
		return "refused"
	}
	return "ok"
}
