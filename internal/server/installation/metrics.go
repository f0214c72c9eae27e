package installation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/db"
)

// scrapeTime limits what a scrape of the metrics waits for the database.
const scrapeTime = time.Second

// Metrics show the last backup to monitoring. Last returns what is known about it.
type Metrics struct {
	Database *db.DB
	Last     func(context.Context, *db.DB) (BackupState, error)
}

var (
	backupSuccess = prometheus.NewDesc("ingot_backup_last_success_timestamp_seconds",
		"When the last backup that was written was finished, also one that lacks the data of a service instance, as Unix "+
			"time; absent if there is none.", nil, nil)
	backupTook = prometheus.NewDesc("ingot_backup_last_run_seconds", "How long the last backup that succeeded took.",
		nil, nil)
	backupSize = prometheus.NewDesc("ingot_backup_last_size_bytes",
		"Size of the archive of the last backup that succeeded.", nil, nil)
	backupBlobs = prometheus.NewDesc("ingot_backup_last_blob_bytes",
		"Size of the packages, droplets and buildpacks in the last backup that succeeded.", nil, nil)
	backupAttempt = prometheus.NewDesc("ingot_backup_last_attempt_timestamp_seconds",
		"When the last backup began, as Unix time; absent if there was none.", nil, nil)
	backupOK = prometheus.NewDesc("ingot_backup_last_attempt_success",
		"Whether the last backup succeeded and lacks nothing: 1 or 0; absent if there was none.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{backupSuccess, backupTook, backupSize, backupBlobs, backupAttempt, backupOK} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	s, err := m.Last(ctx, m.Database)
	if err != nil || s.Attempted.IsZero() {
		return // absent says it
	}
	show := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	ok := 1.0
	if s.Failure != "" {
		ok = 0
	}
	show(backupAttempt, float64(s.Attempted.Unix()))
	show(backupOK, ok)
	if s.Finished != nil {
		show(backupSuccess, float64(s.Finished.Unix()))
		show(backupTook, s.Finished.Sub(s.Started).Seconds())
		show(backupSize, float64(s.Size))
		show(backupBlobs, float64(s.BlobSize))
	}
}
