package system

import (
	"context"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/blob"
	"ingot/internal/platform/controller"
)

const (
	// sweepEvery is how often what nothing refers to is removed.
	sweepEvery = time.Minute
	// reliefEvery is how often it is removed while the disk is low.
	reliefEvery = 10 * time.Second
	// logsKept is how long the log of a deleted app stays.
	logsKept = 24 * time.Hour
	// clockSlack is how far the times of files and of rows may be apart.
	clockSlack = 5 * time.Second
)

// trimmer is an engine that keeps archives unpacked for instances to come.
type trimmer interface {
	// Trim removes those that no instance uses and that are not wanted.
	Trim(wanted func(key string) bool) error
}

// sweep removes what nothing refers to any more: blobs of packages, droplets,
// buildpacks and build caches, unpacked droplets, and logs of deleted apps.
func (r *runtime) sweep(ctx context.Context) {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	r.swept = time.Now()
	var checksums map[string]bool
	err := r.store.View(ctx, func(tx platform.Tx) error {
		began := r.now().Add(-clockSlack)
		cutoff, err := dropletsBefore(tx, began)
		if err != nil {
			return err
		}
		for _, of := range []struct {
			kind   blob.Kind
			before time.Time
			get    func(key string) error
		}{
			{blob.Packages, began, func(guid string) error { _, err := tx.Packages().Get(guid); return err }},
			{blob.Droplets, cutoff, func(guid string) error { _, err := tx.Droplets().Get(guid); return err }},
			{blob.Buildpacks, began, func(guid string) error { _, err := tx.Buildpacks().Get(guid); return err }},
			{blob.BuildCache, cutoff, func(key string) error { _, err := tx.Apps().Get(key); return err }},
		} {
			keep := func(key string) bool { return !fault.Is(of.get(key), fault.NotFound) }
			if _, err := r.blobs.Sweep(ctx, of.kind, keep, time.Since(of.before)); err != nil {
				return err
			}
		}
		for app, meta := range r.logs.Meta() {
			if _, err := tx.Apps().Get(app); fault.Is(err, fault.NotFound) && r.now().Sub(meta.Newest) > logsKept {
				_ = r.logs.DeleteApp(app) // tried again by the next sweep
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "what nothing refers to could not be removed; this is tried again", "error", err)
	}
	if t, ok := r.engine.(trimmer); ok {
		if err := t.Trim(func(key string) bool {
			if !strings.HasPrefix(key, controller.DropletKey) {
				return key != ""
			}
			if checksums == nil {
				checksums = r.dropletChecksums(ctx)
			}
			return checksums == nil || checksums[strings.TrimPrefix(key, controller.DropletKey)]
		}); err != nil {
			r.log.WarnContext(ctx, "unpacked droplets that nothing needs could not be removed", "error", err)
		}
	}
	_ = r.stager.Sweep(ctx)
}

// dropletsBefore returns the time before which a droplet without a row is one
// that was deleted. The blob of a build's droplet is written before its row.
func dropletsBefore(tx platform.Tx, now time.Time) (time.Time, error) {
	builds, _, err := tx.Builds().List(platform.Where("state", platform.BuildStaging))
	for _, b := range builds {
		if b.Created.Before(now) {
			now = b.Created
		}
	}
	return now, err
}

// dropletChecksums returns those of all droplets, nil when they cannot be read.
func (r *runtime) dropletChecksums(ctx context.Context) map[string]bool {
	var all map[string]bool
	err := r.store.View(ctx, func(tx platform.Tx) error {
		all = map[string]bool{}
		for page := 1; ; page++ {
			droplets, total, err := tx.Droplets().List(platform.Query{Page: page, PerPage: 1000})
			if err != nil {
				return err
			}
			for _, d := range droplets {
				all[d.Checksum] = true
			}
			if len(droplets) == 0 || page*1000 >= total {
				return nil
			}
		}
	})
	if err != nil {
		r.log.WarnContext(ctx, "droplets cannot be listed", "error", err)
		return nil
	}
	return all
}

// relieve sweeps at once when the disk runs low.
func (r *runtime) relieve(ctx context.Context) {
	r.sweeping.Lock()
	recently := time.Since(r.swept) < reliefEvery
	r.sweeping.Unlock()
	if !recently {
		r.sweep(ctx)
	}
}
