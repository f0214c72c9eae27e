package drain

import "github.com/prometheus/client_golang/prometheus"

// The metrics have the app and the drain's id but not its address, which only the
// owner of the app may see.
var (
	sentLines = prometheus.NewDesc("ingot_log_drain_lines_sent_total", "Lines that were sent to drains.",
		[]string{"app_id", "drain"}, nil)
	lostLines = prometheus.NewDesc("ingot_log_drain_lines_lost_total",
		"Lines that drains did not send: the app's log was full while the receiver did not accept them.",
		[]string{"app_id", "drain"}, nil)
	waitingLines = prometheus.NewDesc("ingot_log_drain_lines_waiting",
		"Lines that were sent and are not known to have arrived.", []string{"app_id", "drain"}, nil)
	drainUp = prometheus.NewDesc("ingot_log_drain_up", "1 if the last attempt to send succeeded, 0 otherwise.",
		[]string{"app_id", "drain"}, nil)
)

var _ prometheus.Collector = (*Manager)(nil)

// Describe implements prometheus.Collector.
func (m *Manager) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sentLines, lostLines, waitingLines, drainUp} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Manager) Collect(to chan<- prometheus.Metric) {
	for _, s := range m.Stats() {
		up := 1.0
		if s.Error != "" {
			up = 0
		}
		add := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
			to <- prometheus.MustNewConstMetric(d, kind, value, s.App, s.ID)
		}
		add(sentLines, prometheus.CounterValue, float64(s.Sent))
		add(lostLines, prometheus.CounterValue, float64(s.Lost))
		add(waitingLines, prometheus.GaugeValue, float64(s.Waiting))
		add(drainUp, prometheus.GaugeValue, up)
	}
}
