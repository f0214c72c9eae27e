package staging_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/staging"
)

// A buildpack that a new version brings gets its own position, where it
// belongs among those of the version before and the operator's.
func TestEnsureBundledAddsNewOnes(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	store := platformdb.New(d)
	names := func() []string {
		t.Helper()
		var list []string
		err := store.View(t.Context(), func(tx platform.Tx) error {
			all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
			for i, b := range all {
				if b.Position != i+1 {
					t.Errorf("%s has position %d, want %d", b.Name, b.Position, i+1)
				}
				list = append(list, b.Name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	ensureAll := func() {
		t.Helper()
		if err := store.Update(t.Context(), staging.EnsureBundled); err != nil {
			t.Fatal(err)
		}
	}
	ensureAll()
	fresh := names()
	// As the version before left it: without nginx, with the operator's own one last.
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		nginx, err := tx.Buildpacks().First(platform.Where("name", "nginx_buildpack"))
		if err != nil {
			return err
		}
		if err := tx.Buildpacks().Delete(nginx.GUID); err != nil {
			return err
		}
		binary, err := tx.Buildpacks().First(platform.Where("name", "binary_buildpack"))
		if err != nil {
			return err
		}
		binary.Position--
		if err := tx.Buildpacks().Update(binary); err != nil {
			return err
		}
		return tx.Buildpacks().Insert(&platform.Buildpack{Name: "mine", Position: binary.Position + 1, Enabled: true,
			Lifecycle: "buildpack"})
	})
	if err != nil {
		t.Fatal(err)
	}
	names()
	ensureAll()
	if got, want := names(), append(slices.Clone(fresh), "mine"); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// started keeps the files of the last instance that an engine started.
type started struct {
	engine.Engine
	files []engine.Archive
}

func (s *started) Start(ctx context.Context, spec engine.Spec) error {
	s.files = spec.Files
	return s.Engine.Start(ctx, spec)
}

// TestFilesToShare checks the order of a build's files: an engine keeps unpacked what has a
// key, up to the first that has none.
func TestFilesToShare(t *testing.T) {
	t.Parallel()
	var e *started
	w, _ := withCatalog(t, map[string]map[string]string{"simple": simple}, func(c *staging.Config) {
		e = &started{Engine: c.Engine}
		c.Engine = e
	})
	req, log := w.request(map[string]string{"a": "b"})
	w.stage(req, log)
	req.BuildGUID = "second"
	w.stage(req, log)
	var keys []string
	for _, a := range e.files {
		keys = append(keys, a.Target+" "+strconv.FormatBool(a.Key != ""))
	}
	if got, want := strings.Join(keys, ", "),
		"builder true, buildpacks/0 true, cache true, app false, stage false"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}
