package inbox

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ open prometheus.Gauge }

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{open: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ingot_notify_inbox_streams", Help: "Open streams of inbox events on this server.",
	})}
	if r != nil {
		r.MustRegister(m.open)
	}
	return m
}
