package logs

import (
	"log/slog"
	"time"
)

// Options limit a store. Zero fields mean the default.
type Options struct {
	PerAppBytes int64 // on disk, per app; 8 MiB
	// TotalBytes limits the disk usage of all apps; 2 GiB. When it is reached, the app with
	// the most loses its oldest lines first.
	TotalBytes int64
	// MemoryBytes limits the memory of concurrent reads, for all apps; 64 MiB.
	MemoryBytes int64
	// Tails limits the number of concurrent tails over HTTP; 1000.
	Tails int
	// Heartbeat is the interval of keep-alives of a quiet tail over HTTP; 15 s.
	Heartbeat time.Duration
	OpenFiles int           // how many segment files stay open; 256
	IdleAfter time.Duration // when the file of a quiet app is closed; 30 s
	Log       *slog.Logger
}

const (
	maxText      = 1 << 20         // longer lines are truncated and marked
	maxSkew      = time.Minute     // a time further ahead is replaced
	maxStreams   = 1000            // positions remembered per app, fewer when segments are small
	maxPageBytes = 2 << 20         // text in the response to one Read
	minSegment   = 4 << 10         //
	maxSegment   = 1 << 20         //
	segments     = 32              // an app's share in segments
	defaultShare = int64(8 << 20)  //
	defaultTotal = int64(2 << 30)  //
	defaultMem   = int64(64 << 20) //
)

func (o Options) withDefaults() Options {
	if o.PerAppBytes <= 0 {
		o.PerAppBytes = defaultShare
	}
	if o.TotalBytes <= 0 {
		o.TotalBytes = defaultTotal
	}
	if o.Tails <= 0 {
		o.Tails = 1000
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
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) segmentBytes() int64 {
	return min(max(o.PerAppBytes/segments, minSegment), maxSegment)
}

// streams returns how many positions an app may have: they must leave room in a segment.
func (o Options) streams() int {
	return int(min(max(o.segmentBytes()/128, 32), maxStreams))
}

// validApp reports whether a guid can be the name of a folder.
func validApp(app string) bool {
	if app == "" || len(app) > 128 || app[0] == '.' {
		return false
	}
	for _, c := range []byte(app) {
		ok := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.'
		if !ok {
			return false
		}
	}
	return true
}
