package cleanup

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/storage/blob"
)

const (
	// interval is how often Sweep runs.
	interval = time.Minute
	// lowDiskInterval is how often it runs at most while the disk is low.
	lowDiskInterval = 10 * time.Second
	// logsKept is how long the log of a deleted app is kept.
	logsKept = 24 * time.Hour
	// jobsKept is how long the results of jobs are kept; they are purged every
	// purgeInterval.
	jobsKept      = 90 * 24 * time.Hour
	purgeInterval = time.Hour
	// clockSlack is how far the times of files and of rows may be apart.
	clockSlack = 5 * time.Second
)

// trimmer is implemented by engines that keep archives unpacked for future
// instances.
type trimmer interface {
	// Trim removes the archives that no instance uses and that are not wanted.
	Trim(wanted func(key string) bool) error
}

// Config contains what a Cleaner works on.
type Config struct {
	Store platform.Store
	Blobs blob.Store
	Logs  logs.Store
	// Engine is asked to remove unpacked archives if it is a trimmer.
	Engine engine.Engine
	// Builds removes what is left of builds that are no longer wanted.
	Builds interface{ Sweep(context.Context) error }
	// Rows removes rows that are no longer needed.
	Rows interface {
		// PurgeJobs removes finished jobs that have not changed since a time.
		PurgeJobs(ctx context.Context, before time.Time) error
		// PurgeTraffic forgets the requests to instances that no longer exist.
		PurgeTraffic(ctx context.Context) error
		// PurgeSeries removes points of apps that no longer exist, and those that are too old.
		PurgeSeries(ctx context.Context, now int64) error
		// FillSpaces completes rows that servers of an older version have inserted.
		FillSpaces(ctx context.Context) error
	}
	// PurgeTasks removes tasks that were over long ago.
	PurgeTasks func(platform.Tx) error
	// PurgeUsage removes usage events that are too old.
	PurgeUsage func(platform.Tx) error
	// Lead reports whether this server does the work of a name, of which all servers
	// together need one at a time; nil means yes. SharedLogs means that they share the logs.
	Lead       func(ctx context.Context, name string) bool
	SharedLogs bool
	Log        *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Cleaner removes what nothing refers to any more.
type Cleaner struct {
	Config
	mu     sync.Mutex
	swept  time.Time // when Sweep ran last
	purged map[string]time.Time
}

// New returns a Cleaner.
func New(c Config) *Cleaner {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Lead == nil {
		c.Lead = func(context.Context, string) bool { return true }
	}
	return &Cleaner{Config: c, purged: map[string]time.Time{}}
}

// Periodic returns the service that runs Sweep from time to time.
func (c *Cleaner) Periodic() background.Service { return background.Every(interval, c.Sweep) }

// Sweep removes blobs of packages, droplets, buildpacks, build caches and git repositories,
// unpacked droplets, logs of deleted apps, old jobs and usage events. A failure is logged, and the next
// call tries again.
func (c *Cleaner) Sweep(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = time.Now()
	if !c.SharedLogs || c.Lead(ctx, "sweep-logs") {
		if err := c.sweepLogs(ctx); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "logs of deleted apps could not be removed; this is tried again", "error", err)
		}
	}
	if c.Lead(ctx, "fill-spaces") {
		if err := c.Rows.FillSpaces(ctx); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "rows of an older server could not be completed; this is tried again", "error", err)
		}
	}
	c.trim(ctx)
	_ = c.Builds.Sweep(ctx) // tried again by the next sweep
	c.purge(ctx, "purge-jobs", func() error { return c.Rows.PurgeJobs(ctx, c.Now().Add(-jobsKept)) })
	c.purge(ctx, "purge-tasks", func() error { return c.Store.Update(ctx, c.PurgeTasks) })
	c.purge(ctx, "purge-usage", func() error { return c.Store.Update(ctx, c.PurgeUsage) })
	c.purge(ctx, "purge-traffic", func() error { return c.Rows.PurgeTraffic(ctx) })
	c.purge(ctx, "purge-series", func() error { return c.Rows.PurgeSeries(ctx, c.Now().Unix()) })
	// Last, because their store may be slow.
	err := c.Blobs.Tidy(ctx)
	if c.Lead(ctx, "sweep-blobs") {
		err = errors.Join(err, c.sweepBlobs(ctx))
	}
	if err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "unused blobs could not be removed; this is tried again", "error", err)
	}
}

// purge does something once an hour, on one of the servers.
func (c *Cleaner) purge(ctx context.Context, name string, do func() error) {
	now := c.Now()
	if now.Sub(c.purged[name]) < purgeInterval || !c.Lead(ctx, name) {
		return
	}
	c.purged[name] = now
	if err := do(); err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "rows that are no longer needed could not be removed", "work", name, "error", err)
	}
}

// sweepBlobs removes blobs without a row. The store may be slow, so that no
// transaction waits for it.
func (c *Cleaner) sweepBlobs(ctx context.Context) error {
	began := c.Now().Add(-clockSlack)
	cutoff, err := db.Within(ctx, c.Store.View, func(tx platform.Tx) (time.Time, error) { return oldestBuild(tx, began) })
	if err != nil {
		return err
	}
	for _, of := range []struct {
		kind   blob.Kind
		before time.Time
		get    func(tx platform.Tx, key string) error
	}{
		{blob.Packages, began, keptPackage},
		{blob.Droplets, cutoff, keptDroplet},
		{blob.Buildpacks, began, func(tx platform.Tx, guid string) error { _, err := tx.Buildpacks().Get(guid); return err }},
		{blob.BuildCache, cutoff, keptApp},
		{blob.Repositories, began, keptApp},
	} {
		unused := func(keys []string) (gone []string, err error) {
			err = c.Store.View(ctx, func(tx platform.Tx) error {
				gone = nil
				for _, key := range keys {
					if fault.Is(of.get(tx, key), fault.NotFound) {
						gone = append(gone, key)
					}
				}
				return nil
			})
			return gone, err
		}
		if _, err := c.Blobs.Sweep(ctx, of.kind, unused, time.Since(of.before)); err != nil {
			return err
		}
	}
	if shared, ok := c.Blobs.(blob.Purger); ok {
		return shared.Purge(ctx)
	}
	return nil
}

// errExpired means that a row exists and its blob is not kept.
var errExpired = fault.New(fault.NotFound, "expired")

func keptApp(tx platform.Tx, guid string) error {
	_, err := tx.Apps().Get(guid)
	return err
}

func keptPackage(tx platform.Tx, guid string) error {
	pkg, err := tx.Packages().Get(guid)
	if err == nil && pkg.State == platform.PackageExpired {
		return errExpired
	}
	return err
}

func keptDroplet(tx platform.Tx, guid string) error {
	d, err := tx.Droplets().Get(guid)
	if err == nil && d.State == platform.DropletExpired {
		return errExpired
	}
	return err
}

// sweepLogs removes the logs of deleted apps.
func (c *Cleaner) sweepLogs(ctx context.Context) error {
	all, err := c.Logs.Meta(ctx)
	if err != nil {
		return err
	}
	return c.Store.View(ctx, func(tx platform.Tx) error {
		for app, meta := range all {
			if _, err := tx.Apps().Get(app); fault.Is(err, fault.NotFound) && c.Now().Sub(meta.Newest) > logsKept {
				_ = c.Logs.DeleteApp(app) // tried again by the next sweep
			}
		}
		return nil
	})
}

// trim removes unpacked droplets and layers of images that the store does not have any
// more.
func (c *Cleaner) trim(ctx context.Context) {
	t, ok := c.Engine.(trimmer)
	if !ok {
		return
	}
	var checksums map[string]bool
	if err := t.Trim(func(key string) bool {
		checksum, ok := strings.CutPrefix(key, controller.DropletKey)
		if !ok && !strings.HasPrefix(key, platform.ImageLayerKey) {
			return key != ""
		}
		if checksums == nil {
			checksums = c.dropletChecksums(ctx)
		}
		return checksums == nil || checksums[checksum]
	}); err != nil {
		c.Log.WarnContext(ctx, "unused unpacked droplets could not be removed", "error", err)
	}
}

// oldestBuild returns when the oldest running build was created, or now if there
// is none. A droplet that is older and has no row was deleted; the blob of a
// build's droplet is written before its row.
func oldestBuild(tx platform.Tx, now time.Time) (time.Time, error) {
	builds, _, err := tx.Builds().List(platform.Where("state", platform.BuildStaging))
	for _, b := range builds {
		if b.Created.Before(now) {
			now = b.Created
		}
	}
	return now, err
}

// dropletChecksums returns the checksums of all droplets and the keys of the layers of
// their images, nil when they cannot be read.
func (c *Cleaner) dropletChecksums(ctx context.Context) map[string]bool {
	var all map[string]bool
	err := c.Store.View(ctx, func(tx platform.Tx) error {
		all = map[string]bool{}
		for page := 1; ; page++ {
			droplets, total, err := tx.Droplets().List(platform.Query{Page: page, PerPage: 1000})
			if err != nil {
				return err
			}
			for _, d := range droplets {
				if d.State == platform.DropletExpired {
					continue
				}
				all[d.Checksum] = true
				if d.Container != nil {
					for _, l := range d.Container.Layers {
						all[l.Key()] = true
					}
				}
			}
			if len(droplets) == 0 || page*1000 >= total {
				return nil
			}
		}
	})
	if err != nil {
		c.Log.WarnContext(ctx, "droplets could not be listed", "error", err)
		return nil
	}
	return all
}

// LowDisk runs Sweep now, unless it is running or has just run.
func (c *Cleaner) LowDisk(ctx context.Context) {
	if !c.mu.TryLock() {
		return
	}
	recently := time.Since(c.swept) < lowDiskInterval
	c.mu.Unlock()
	if !recently {
		c.Sweep(ctx)
	}
}
