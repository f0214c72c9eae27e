package actions

import (
	"maps"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// CreateDroplet stores a droplet of an app: one to upload to or, with a source, a
// copy of it that is staged once DropletCopied is called.
func (p *Platform) CreateDroplet(tx platform.Tx, by Actor, app *platform.App, d, source *platform.Droplet) error {
	d.State, d.Lifecycle = platform.DropletAwaitingUpload, platform.LifecycleBuildpack
	switch {
	case source != nil:
		if source.State != platform.DropletStaged {
			return fault.Invalid("Source droplet is not staged.")
		}
		if source.Lifecycle != app.Lifecycle.Type {
			return fault.Invalid("Source droplet has the lifecycle '" + source.Lifecycle + "', and the app '" + app.Lifecycle.Type + "'.")
		}
		*d = *source
		d.Resource, d.State, d.PackageGUID = platform.Resource{}, platform.DropletCopying, ""
	case app.Lifecycle.Type == platform.LifecycleDocker:
		return fault.Invalid("Droplet creation is not available for apps with docker lifecycles.")
	}
	d.AppGUID = app.GUID
	if d.ProcessTypes == nil {
		d.ProcessTypes = map[string]string{platform.WebProcess: ""}
	}
	if err := tx.Droplets().Insert(d); err != nil {
		return err
	}
	data := map[string]any{"droplet_guid": d.GUID}
	if source != nil {
		data["request"] = map[string]any{"source_droplet_guid": source.GUID}
	}
	return p.RecordApp(tx, "audit.app.droplet.create", by, app, data)
}

// DropletCopied makes a copy usable whose file is stored.
func (p *Platform) DropletCopied(tx platform.Tx, d *platform.Droplet) error {
	d.State = platform.DropletStaged
	if err := tx.Droplets().Update(d); err != nil {
		return err
	}
	return p.expireDropletsOf(tx, d.AppGUID)
}

// DropletUploaded makes a droplet usable whose file is stored; found is what the
// file says of itself.
func (p *Platform) DropletUploaded(tx platform.Tx, by Actor, app *platform.App, d, found *platform.Droplet, checksum string, size int64) error {
	d.State, d.Checksum, d.Size = platform.DropletStaged, checksum, size
	// Commands that were given when the droplet was created take precedence.
	types := maps.Clone(found.ProcessTypes)
	if types == nil {
		types = map[string]string{}
	}
	for kind, command := range d.ProcessTypes {
		if _, known := types[kind]; command != "" || !known {
			types[kind] = command
		}
	}
	d.ProcessTypes, d.Buildpacks, d.Sidecars, d.ExecutionMetadata = types, found.Buildpacks, found.Sidecars, found.ExecutionMetadata
	if err := p.updateUploaded(tx, d); err != nil {
		return err
	}
	if err := p.ExpireDroplets(tx, app); err != nil {
		return err
	}
	return p.recordDroplet(tx, "upload", by, app, d)
}

// DropletRefused stores why an uploaded file cannot be a droplet.
func (p *Platform) DropletRefused(tx platform.Tx, d *platform.Droplet, why string) error {
	d.State, d.Error = platform.DropletFailed, why
	return p.updateUploaded(tx, d)
}

func (p *Platform) updateUploaded(tx platform.Tx, d *platform.Droplet) error {
	if d.Stack == "" {
		d.Stack = p.Stack
	}
	return tx.Droplets().Update(d)
}

// DropletDownloaded records that a user downloads a droplet.
func (p *Platform) DropletDownloaded(tx platform.Tx, by Actor, app *platform.App, d *platform.Droplet) error {
	return p.recordDroplet(tx, "download", by, app, d)
}

// DeleteDroplet removes a droplet that neither its app nor a deployment uses.
func (p *Platform) DeleteDroplet(tx platform.Tx, by Actor, app *platform.App, d *platform.Droplet) error {
	if app.DropletGUID == d.GUID {
		return fault.Invalid("The droplet is currently used by an app.")
	}
	if err := notDeployed(tx, d); err != nil {
		return err
	}
	if err := tx.Droplets().Delete(d.GUID); err != nil {
		return err
	}
	return p.recordDroplet(tx, "delete", by, app, d)
}

func (p *Platform) recordDroplet(tx platform.Tx, what string, by Actor, app *platform.App, d *platform.Droplet) error {
	return p.RecordApp(tx, "audit.app.droplet."+what, by, app, map[string]any{"droplet_guid": d.GUID})
}
