package health

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

var ready = prometheus.NewDesc("ingot_part_ready",
	"1 if a part of the server is ready, 0 otherwise; /readyz of the admin listener says why.", []string{"part"}, nil)

var _ prometheus.Collector = (*Readiness)(nil)

// Describe implements prometheus.Collector.
func (h *Readiness) Describe(to chan<- *prometheus.Desc) { to <- ready }

// Collect implements prometheus.Collector. A degraded part is not ready here: something
// does not work.
func (h *Readiness) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for _, p := range h.parts(ctx) {
		value := 0.0
		if p.State == stateReady {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, value, p.Name)
	}
}
