package staging

import (
	"context"
	"io"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/storage/archive"
)

// StoreCatalog is the Catalog of the buildpacks in a store.
type StoreCatalog struct{ Store platform.Store }

// Buildpacks implements Catalog. A buildpack without a stack is for all of them.
func (c StoreCatalog) Buildpacks(ctx context.Context, stack string) ([]platform.Buildpack, error) {
	var out []platform.Buildpack
	err := c.Store.View(ctx, func(tx platform.Tx) error {
		out = nil
		all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
		for _, b := range all {
			if (b.Stack == "" || b.Stack == stack) && b.State == platform.BuildpackReady {
				out = append(out, *b)
			}
		}
		return err
	})
	return out, err
}

// Wanted reports whether a build exists in the store and is still staging. It is
// Config.Wanted.
func (c StoreCatalog) Wanted(ctx context.Context, guid string) (wanted bool, err error) {
	err = c.Store.View(ctx, func(tx platform.Tx) error {
		b, err := tx.Builds().Get(guid)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		wanted = err == nil && b.State == platform.BuildStaging
		return err
	})
	return wanted, err
}

// EnsureBundled stores the buildpacks that come with this version. One that the
// previous version did not have is inserted at its position among the others.
func EnsureBundled(tx platform.Tx) error {
	before := 0 // the position of the previous one
	for _, b := range buildpacks.Bundled() {
		existing, err := tx.Buildpacks().First(platform.Where("name", b.Name))
		if err == nil {
			before = existing.Position
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.Position > before {
				other.Position++
				if err := tx.Buildpacks().Update(other); err != nil {
					return err
				}
			}
		}
		before++
		if err := tx.Buildpacks().Insert(&platform.Buildpack{
			Name: b.Name, Position: before, Enabled: true, State: platform.BuildpackReady, Lifecycle: "buildpack", Bundled: true,
			Filename: b.Name + "-v" + buildpacks.Version + ".zip",
		}); err != nil {
			return err
		}
	}
	return nil
}

// maxUnpacked is the largest unpacked size of an uploaded droplet. It is the
// largest disk of an app.
const maxUnpacked = 8 << 30

// InspectUpload returns what an uploaded droplet says about itself. The error for
// one that could not run is a fault.Unprocessable.
func InspectUpload(ctx context.Context, r io.Reader) (*platform.Droplet, error) {
	found, err := Inspect(ctx, r, archive.Limits{Size: maxUnpacked})
	if err != nil {
		return nil, err
	}
	d := &platform.Droplet{}
	found.Apply(d)
	return d, nil
}
