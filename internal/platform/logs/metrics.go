package logs

import "github.com/prometheus/client_golang/prometheus"

var (
	lostLines = prometheus.NewDesc("ingot_log_lines_lost_total",
		"Log lines of apps that are known to be lost; the logs of the apps say where.", nil, nil)
	storeBytes = prometheus.NewDesc("ingot_log_store_bytes", "Size of the logs of all apps.", nil, nil)
	storeApps  = prometheus.NewDesc("ingot_log_store_apps", "Apps that have a log.", nil, nil)
	openTails  = prometheus.NewDesc("ingot_log_tails", "Open live tails of logs.", nil, nil)

	openStreams  = prometheus.NewDesc("ingot_log_streams", "Open log streams and firehose connections.", nil, nil)
	droppedLines = prometheus.NewDesc("ingot_log_stream_lines_dropped_total",
		"Lines that were dropped because a reader of a log stream was too slow.", nil, nil)
)

// Metrics collects the figures of a store.
type Metrics struct{ Store Store }

var _ prometheus.Collector = Metrics{}

// Describe implements prometheus.Collector.
func (Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lostLines, storeBytes, storeApps, openTails, openStreams, droppedLines} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	add := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
		to <- prometheus.MustNewConstMetric(d, kind, value)
	}
	t, readers := m.Store.Totals(), m.Store.Readers()
	add(lostLines, prometheus.CounterValue, float64(t.Lost))
	add(storeBytes, prometheus.GaugeValue, float64(t.Bytes))
	add(storeApps, prometheus.GaugeValue, float64(t.Apps))
	add(openTails, prometheus.GaugeValue, float64(readers.tails.Load()))
	add(openStreams, prometheus.GaugeValue, float64(readers.Hoses()))
	add(droppedLines, prometheus.CounterValue, float64(readers.dropped.Load()))
}
