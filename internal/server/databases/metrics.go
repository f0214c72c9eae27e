package databases

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/db"
)

// scrapeTime limits what a scrape of the metrics waits for a database.
const scrapeTime = 2 * time.Second

// Names of the databases of a server, in metrics.
const (
	Platform      = "platform"
	Notifications = "notifications"
)

var (
	descDatabaseUp = prometheus.NewDesc("ingot_database_up", "1 if the database answers, 0 otherwise.",
		[]string{"database"}, nil)
	descDatabaseSize = prometheus.NewDesc("ingot_database_size_bytes",
		"Size of the database; for SQLite with its write-ahead log.", []string{"database"}, nil)
	descDatabaseConnections = prometheus.NewDesc("ingot_database_connections",
		"Open connections to the database, by pool (write, read) and state (used, idle).",
		[]string{"database", "pool", "state"}, nil)
	descDatabaseWaits = prometheus.NewDesc("ingot_database_connection_wait_seconds_total",
		"Time that transactions waited for a connection of the pool.", []string{"database", "pool"}, nil)
)

// Metrics are the figures of the databases of a server. It is a
// prometheus.Collector.
type Metrics struct {
	took *prometheus.HistogramVec
	mu   sync.Mutex
	all  []namedDatabase
}

type namedDatabase struct {
	name string
	db   *db.DB
}

// NewMetrics returns the figures of a server that has no databases yet.
func NewMetrics() *Metrics {
	return &Metrics{took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "ingot_database_transaction_duration_seconds",
		Help:    "Time of transactions with their retries, by database and mode: read or write.",
		Buckets: []float64{.0005, .002, .01, .05, .25, 1, 5},
	}, []string{"database", "mode"})}
}

// Observe returns a function for db.Options.Observe.
func (d *Metrics) Observe(name string) func(write bool, took time.Duration) {
	write, read := d.took.WithLabelValues(name, "write"), d.took.WithLabelValues(name, "read")
	return func(writes bool, took time.Duration) {
		if writes {
			write.Observe(took.Seconds())
		} else {
			read.Observe(took.Seconds())
		}
	}
}

// Add adds a database.
func (d *Metrics) Add(name string, opened *db.DB) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, namedDatabase{name, opened})
}

// Platform returns the database of the platform.
func (d *Metrics) Platform() *db.DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		if one.name == Platform {
			return one.db
		}
	}
	return nil
}

// Describe implements prometheus.Collector.
func (d *Metrics) Describe(to chan<- *prometheus.Desc) {
	d.took.Describe(to)
	for _, one := range []*prometheus.Desc{descDatabaseUp, descDatabaseSize, descDatabaseConnections, descDatabaseWaits} {
		to <- one
	}
}

// Collect implements prometheus.Collector.
func (d *Metrics) Collect(to chan<- prometheus.Metric) {
	d.took.Collect(to)
	d.mu.Lock()
	all := d.all
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	for _, one := range all {
		up := 1.0
		if one.db.Ping(ctx) != nil {
			up = 0
		}
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{one.name}, labels...)...)
		}
		gauge(descDatabaseUp, up)
		if size, err := one.db.Size(ctx); err == nil {
			gauge(descDatabaseSize, float64(size))
		}
		write, read := one.db.Stats()
		for pool, stats := range map[string]sql.DBStats{"write": write, "read": read} {
			if stats.MaxOpenConnections == 0 {
				continue // PostgreSQL has one pool for both
			}
			gauge(descDatabaseConnections, float64(stats.InUse), pool, "used")
			gauge(descDatabaseConnections, float64(stats.Idle), pool, "idle")
			to <- prometheus.MustNewConstMetric(descDatabaseWaits, prometheus.CounterValue, stats.WaitDuration.Seconds(),
				one.name, pool)
		}
	}
}
