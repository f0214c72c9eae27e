package logfiles

import (
	"cmp"
	"log/slog"
	"time"

	"ingot/internal/platform/logs"
)

// Options limit a store. Zero fields mean the default.
type Options struct {
	PerAppBytes int64 // on disk, per app; 8 MiB
	// TotalBytes limits the disk usage of all apps; 2 GiB. When it is reached, the app with
	// the most loses its oldest lines first.
	TotalBytes int64
	// MemoryBytes limits the memory of concurrent reads, for all apps; 64 MiB.
	MemoryBytes int64
	OpenFiles   int           // how many segment files stay open; 256
	IdleAfter   time.Duration // when the file of a quiet app is closed; 30 s
	Log         *slog.Logger
}

const (
	maxStreams = 1000            // positions remembered per app, fewer when segments are small
	minSegment = 4 << 10         //
	maxSegment = 1 << 20         //
	segments   = 32              // an app's share in segments
	defaultMem = int64(64 << 20) //
)

func (o Options) withDefaults() Options {
	if o.PerAppBytes <= 0 {
		o.PerAppBytes = logs.DefaultShare
	}
	if o.TotalBytes <= 0 {
		o.TotalBytes = logs.DefaultTotal
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = defaultMem
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = 256
	}
	if o.IdleAfter <= 0 {
		o.IdleAfter = 30 * time.Second
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

func (o Options) segmentBytes() int64 {
	return min(max(o.PerAppBytes/segments, minSegment), maxSegment)
}

// streams returns how many positions an app may have: they must leave room in a segment.
func (o Options) streams() int {
	return int(min(max(o.segmentBytes()/128, 32), maxStreams))
}
