package web

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts requests by route. A nil *Metrics counts nothing.
type Metrics struct {
	requests *prometheus.HistogramVec
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
	if status == 0 {
		status = 200
	}
	m.requests.WithLabelValues(api, method, route, strconv.Itoa(status)).Observe(d.Seconds())
}
