package diskspace

import "github.com/prometheus/client_golang/prometheus"

var (
	descFree = prometheus.NewDesc("ingot_disk_free_bytes",
		"Free space on the disk of the data directory, as of the last check, at most a few seconds ago.", nil, nil)
	descSize    = prometheus.NewDesc("ingot_disk_size_bytes", "Size of the disk of the data directory.", nil, nil)
	descReserve = prometheus.NewDesc("ingot_disk_reserve_bytes",
		"Free space below which uploads, builds and starts are refused.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g *Guard) Describe(to chan<- *prometheus.Desc) {
	to <- descFree
	to <- descSize
	to <- descReserve
}

// Collect implements prometheus.Collector.
func (g *Guard) Collect(to chan<- prometheus.Metric) {
	_, free := g.State()
	for d, value := range map[*prometheus.Desc]int64{descFree: free, descSize: g.Size(), descReserve: g.Reserve()} {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
}
