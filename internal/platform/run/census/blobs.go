package census

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/platform/storage/blob"
)

var (
	descBlobBytes = prometheus.NewDesc("ingot_blob_store_bytes", "Size of the stored blobs by kind, as of the last count.",
		[]string{"kind"}, nil)
	descBlobs = prometheus.NewDesc("ingot_blob_store_blobs", "Stored blobs by kind, as of the last count.",
		[]string{"kind"}, nil)
)

// The blobs are counted so often; a bucket less often, because listing it costs money.
const (
	blobsInterval  = 10 * time.Minute
	bucketInterval = time.Hour
)

// Blobs counts the blobs from time to time. It is a prometheus.Collector.
type Blobs struct {
	Store blob.Store
	Log   *slog.Logger

	mu    sync.Mutex
	bytes map[blob.Kind]int64
	blobs map[blob.Kind]int
}

// Service returns the part that counts.
func (s *Blobs) Service(bucket bool) background.Service {
	interval := blobsInterval
	if bucket {
		interval = bucketInterval
	}
	return background.Every(interval, s.count)
}

func (s *Blobs) count(ctx context.Context) {
	bytes, blobs := map[blob.Kind]int64{}, map[blob.Kind]int{}
	for _, kind := range []blob.Kind{blob.Packages, blob.Droplets, blob.Buildpacks, blob.BuildCache, blob.Resources,
		blob.Repositories} {
		bytes[kind], blobs[kind] = 0, 0
		for item, err := range s.Store.List(ctx, kind) {
			if err != nil {
				if ctx.Err() == nil {
					s.Log.WarnContext(ctx, "the blobs could not be counted for the metrics", "kind", kind.Dir(), "error", err)
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
func (s *Blobs) Describe(to chan<- *prometheus.Desc) { to <- descBlobBytes; to <- descBlobs }

// Collect implements prometheus.Collector.
func (s *Blobs) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, n := range s.bytes {
		to <- prometheus.MustNewConstMetric(descBlobBytes, prometheus.GaugeValue, float64(n), kind.Dir())
		to <- prometheus.MustNewConstMetric(descBlobs, prometheus.GaugeValue, float64(s.blobs[kind]), kind.Dir())
	}
}
