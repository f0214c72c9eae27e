package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ChangeBase returns the current droplet of an app and its package, to which a change can
// be applied. named is the droplet that the client knows.
func ChangeBase(tx platform.Tx, app *platform.App, named string) (*platform.Droplet, *platform.Package, error) {
	if named == "" || named != app.DropletGUID {
		return nil, nil, fault.New(fault.PreconditionFailed, "The droplet is not the app's current one: the app was changed since. Push all its files.")
	}
	d, err := tx.Droplets().Get(named)
	if err != nil {
		return nil, nil, err
	}
	if d.State != platform.DropletStaged || d.Lifecycle != platform.LifecycleBuildpack {
		return nil, nil, fault.Invalid("Files of the app can only be changed if its droplet was staged by buildpacks.")
	}
	pkg, err := tx.Packages().Get(d.PackageGUID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, nil, err
	}
	if err != nil || pkg.State != platform.PackageReady || pkg.Type != platform.PackageBits {
		return nil, nil, fault.New(fault.PreconditionFailed, "The package of the app's current droplet no longer exists. Push all its files.")
	}
	return d, pkg, nil
}

// ApplyChange stores the package of a change and, unless it is nil, the droplet: that of
// the base with other files. Their blobs exist.
func (p *Platform) ApplyChange(tx platform.Tx, by Actor, app *platform.App, base *platform.Droplet, pkg *platform.Package, d *platform.Droplet) error {
	pkg.AppGUID, pkg.Type, pkg.State = app.GUID, platform.PackageBits, platform.PackageReady
	if err := tx.Packages().Insert(pkg); err != nil {
		return err
	}
	if err := p.expirePackages(tx, app); err != nil {
		return err
	}
	if err := p.recordPackage(tx, "upload", by, app, pkg); err != nil || d == nil {
		return err
	}
	made := *base
	made.Resource, made.Metadata, made.BuildGUID = d.Resource, platform.Metadata{}, ""
	made.PackageGUID, made.Checksum, made.Size = pkg.GUID, d.Checksum, d.Size
	if err := tx.Droplets().Insert(&made); err != nil {
		return err
	}
	if err := p.ExpireDroplets(tx, app); err != nil {
		return err
	}
	*d = made
	return p.RecordApp(tx, "audit.app.droplet.create", by, app, map[string]any{
		"droplet_guid": d.GUID, "package_guid": pkg.GUID, "request": map[string]any{"source_droplet_guid": base.GUID},
	})
}
