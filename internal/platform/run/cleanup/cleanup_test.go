package cleanup_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/actions/metering"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/cleanup"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/storage/blob"
)

// keeper is an engine that keeps archives unpacked.
type keeper struct {
	engine.Engine
	keys []string
}

func (k *keeper) Trim(wanted func(string) bool) error {
	k.keys = slices.DeleteFunc(k.keys, func(key string) bool { return !wanted(key) })
	return nil
}

// What belonged to a deleted app is removed by the next sweep; what a build has
// just written, and what has a row, is kept.
func TestSweep(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := logfiles.Open(t.TempDir(), logfiles.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{keys: []string{"droplet-1", "droplet-2", "builder-3", "", "image-sha256:1", "image-sha256:2"}}
	store := platformdb.New(d)
	cleaner := cleanup.New(cleanup.Config{
		Store: store, Blobs: blobs, Logs: lines, Engine: k, Rows: store, PurgeTasks: actions.New().PurgeTasks,
		PurgeUsage: func(tx platform.Tx) error { return metering.Purge(tx, time.Now()) }, Log: slog.New(slog.DiscardHandler),
		Builds: staging.New(staging.Config{Scratch: t.TempDir(), Blobs: blobs}),
		// Files were written a moment ago: let that moment be long past.
		Now: func() time.Time { return time.Now().Add(time.Minute) },
	})
	stored := map[blob.Kind][]string{
		blob.Packages: {"kept-package", "gone-package", "old-package"}, blob.Droplets: {"kept-droplet", "gone-droplet",
			"old-droplet"},
		blob.Buildpacks: {"kept-pack", "gone-pack"}, blob.BuildCache: {"kept-app", "gone-app"},
		blob.Repositories: {"kept-app", "gone-app"},
	}
	for kind, keys := range stored {
		for _, key := range keys {
			if _, err := blobs.Put(t.Context(), kind, key, strings.NewReader("x"), blob.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	build := &platform.Build{Resource: platform.Resource{GUID: "build", Created: time.Now().Add(-time.Hour)},
		AppGUID: "kept-app", State: platform.BuildStaging}
	update := func(f func(tx platform.Tx) error) {
		t.Helper()
		if err := store.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx platform.Tx) error {
		id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
		org := &platform.Organization{Resource: id("o"), Name: "o"}
		space := &platform.Space{Resource: id("s"), Name: "s", OrgGUID: "o"}
		for _, insert := range []func() error{
			func() error { return tx.Organizations().Insert(org) },
			func() error { return tx.Spaces().Insert(space) },
			func() error {
				return tx.Apps().Insert(&platform.App{Resource: id("kept-app"), Name: "a", SpaceGUID: "s"})
			},
			func() error {
				return tx.Packages().Insert(&platform.Package{Resource: id("kept-package"), AppGUID: "kept-app"})
			},
			func() error {
				return tx.Droplets().Insert(&platform.Droplet{Resource: id("kept-droplet"), AppGUID: "kept-app", Checksum: "1",
					Container: &platform.Image{Layers: []platform.ImageLayer{{Digest: "sha256:1"}}}})
			},
			func() error { // expired: their files are not kept
				return tx.Packages().Insert(&platform.Package{Resource: id("old-package"), AppGUID: "kept-app",
					State: platform.PackageExpired})
			},
			func() error {
				return tx.Droplets().Insert(&platform.Droplet{Resource: id("old-droplet"), AppGUID: "kept-app", Checksum: "2",
					State: platform.DropletExpired})
			},
			func() error { return tx.Buildpacks().Insert(&platform.Buildpack{Resource: id("kept-pack"), Name: "p"}) },
			func() error { return tx.Builds().Insert(build) },
			func() error {
				return tx.Jobs().Insert(&platform.Job{Resource: platform.Resource{GUID: "old-job", Updated: time.Now().
					AddDate(-1, 0, 0)}, State: platform.JobComplete})
			},
			func() error {
				return tx.Jobs().Insert(&platform.Job{Resource: id("new-job"), State: platform.JobComplete})
			},
		} {
			if err := insert(); err != nil {
				return err
			}
		}
		return nil
	})
	left := func() []string {
		var all []string
		for kind := range stored {
			for item, err := range blobs.List(t.Context(), kind) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, item.Key)
			}
		}
		slices.Sort(all)
		return all
	}
	cleaner.Sweep(t.Context())
	if got, want := left(), []string{"gone-app", "gone-droplet", "kept-app", "kept-app", "kept-droplet", "kept-pack",
		"kept-package", "old-droplet"}; !slices.Equal(got, want) {
		t.Errorf("during a build %v are left, want %v", got, want)
	}
	if want := []string{"droplet-1", "builder-3", "image-sha256:1"}; !slices.Equal(k.keys, want) {
		t.Errorf("unpacked are %v, want %v", k.keys, want)
	}
	update(func(tx platform.Tx) error {
		if jobs, n, err := tx.Jobs().List(platform.Query{}); err != nil || n != 1 || jobs[0].GUID != "new-job" {
			t.Errorf("%d jobs are left, %v, want only the new one", n, err)
		}
		build.State = platform.BuildStaged
		return tx.Builds().Update(build)
	})
	cleaner.Sweep(t.Context())
	if got, want := left(), []string{"kept-app", "kept-app", "kept-droplet", "kept-pack",
		"kept-package"}; !slices.Equal(got, want) {
		t.Errorf("after it %v are left, want %v", got, want)
	}
}
