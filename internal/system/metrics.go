package system

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/server/diskspace"
	"ingot/internal/server/health"
)

// scrapeTime limits what a scrape of the metrics waits for the database.
const scrapeTime = 2 * time.Second

// diskMetrics returns the figures of the disk of the data directory.
func diskMetrics(g *diskspace.Guard) []prometheus.Collector {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return health.Recovering{Collector: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })}
	}
	return []prometheus.Collector{
		gauge("ingot_disk_free_bytes", "Free space on the disk of the data directory, as of the last check, at most a few seconds ago.", func() int64 { _, free := g.State(); return free }),
		gauge("ingot_disk_size_bytes", "Size of the disk of the data directory.", g.Size),
		gauge("ingot_disk_reserve_bytes", "Free space below which uploads, builds and starts are refused.", g.Reserve),
	}
}

var (
	descInstances = prometheus.NewDesc("ingot_app_instances", "Instances of apps in the database, by state.", []string{"state"}, nil)
	descApps      = prometheus.NewDesc("ingot_apps", "Apps by the state that their users want.", []string{"state"}, nil)
	descTasks     = prometheus.NewDesc("ingot_tasks", "Tasks that have not ended, by state.", []string{"state"}, nil)
	descJobs      = prometheus.NewDesc("ingot_service_jobs", "Jobs of service brokers that have not ended, by state: processing, or polling for a broker's operation.", []string{"state"}, nil)
	descAccessLog = prometheus.NewDesc("ingot_router_access_log_waiting", "Lines of the access log that wait to be written; requests wait when there are 16384.", nil, nil)
)

// census counts rows of the database, which all servers that share it have in common.
type census struct{ r *runtime }

// Describe implements prometheus.Collector.
func (census) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descInstances, descApps, descTasks, descJobs, descAccessLog} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Without the database there are no figures.
func (c census) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(descAccessLog, prometheus.GaugeValue, float64(c.r.access.Waiting()))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	var found []prometheus.Metric
	err := c.r.store.View(ctx, func(tx platform.Tx) error {
		found = nil
		return firstError(
			countStates(&found, descInstances, tx.Instances(), platform.InstanceStarting, platform.InstanceRunning, platform.InstanceStopping, platform.InstanceCrashed, platform.InstanceDown),
			countStates(&found, descApps, tx.Apps(), platform.AppStarted, platform.AppStopped),
			countStates(&found, descTasks, tx.Tasks(), platform.TaskPending, platform.TaskRunning, platform.TaskCanceling),
			countStates(&found, descJobs, tx.Jobs(), platform.JobProcessing, platform.JobPolling),
		)
	})
	if err != nil {
		return
	}
	for _, m := range found {
		to <- m
	}
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func countStates[T any, S ~string](to *[]prometheus.Metric, d *prometheus.Desc, repo platform.Repo[T], states ...S) error {
	for _, state := range states {
		n, err := repo.Count(platform.Where("state", state))
		if err != nil {
			return err
		}
		*to = append(*to, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), strings.ToLower(string(state))))
	}
	return nil
}

var (
	descBlobBytes = prometheus.NewDesc("ingot_blob_store_bytes", "Size of the stored blobs by kind, as of the last count.", []string{"kind"}, nil)
	descBlobs     = prometheus.NewDesc("ingot_blob_store_blobs", "Stored blobs by kind, as of the last count.", []string{"kind"}, nil)
)

// The blobs are counted so often; a bucket less often, because listing it costs money.
const (
	blobsInterval  = 10 * time.Minute
	bucketInterval = time.Hour
)

// blobSizes counts the blobs from time to time. It is a prometheus.Collector.
type blobSizes struct {
	store blob.Store
	log   *slog.Logger
	mu    sync.Mutex
	bytes map[blob.Kind]int64
	blobs map[blob.Kind]int
}

// service returns the part that counts.
func (s *blobSizes) service(bucket bool) background.Service {
	interval := blobsInterval
	if bucket {
		interval = bucketInterval
	}
	return background.Every(interval, s.count)
}

func (s *blobSizes) count(ctx context.Context) {
	bytes, blobs := map[blob.Kind]int64{}, map[blob.Kind]int{}
	for _, kind := range []blob.Kind{blob.Packages, blob.Droplets, blob.Buildpacks, blob.BuildCache, blob.Resources} {
		bytes[kind], blobs[kind] = 0, 0
		for item, err := range s.store.List(ctx, kind) {
			if err != nil {
				if ctx.Err() == nil {
					s.log.WarnContext(ctx, "the blobs could not be counted for the metrics", "kind", kind.Dir(), "error", err)
				}
				return
			}
			bytes[kind] += item.Size
			blobs[kind]++
		}
	}
	s.mu.Lock()
	s.bytes, s.blobs = bytes, blobs
	s.mu.Unlock()
}

// Describe implements prometheus.Collector.
func (s *blobSizes) Describe(to chan<- *prometheus.Desc) { to <- descBlobBytes; to <- descBlobs }

// Collect implements prometheus.Collector.
func (s *blobSizes) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, n := range s.bytes {
		to <- prometheus.MustNewConstMetric(descBlobBytes, prometheus.GaugeValue, float64(n), kind.Dir())
		to <- prometheus.MustNewConstMetric(descBlobs, prometheus.GaugeValue, float64(s.blobs[kind]), kind.Dir())
	}
}
