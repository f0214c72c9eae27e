package actions

import (
	"cmp"
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
			return fault.Invalid("Source droplet has the lifecycle '" + source.Lifecycle + "', and the app '" +
				app.Lifecycle.Type + "'.")
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
func (p *Platform) DropletUploaded(tx platform.Tx, by Actor, app *platform.App, d, found *platform.Droplet,
	checksum string, size int64) error {
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
	d.ProcessTypes, d.Buildpacks, d.Sidecars, d.ExecutionMetadata = types, found.Buildpacks, found.Sidecars,
		found.ExecutionMetadata
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
	d.Stack = cmp.Or(d.Stack, p.Stack)
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

// Superseded is the error of a build that a newer one replaced.
const Superseded = "StagingError - The server was restarted during this build, and a newer build of the app has " +
	"replaced it."

// CreateBuild stores a build of a package that is to be staged.
func (p *Platform) CreateBuild(tx platform.Tx, by Actor, app *platform.App, pkg *platform.Package,
	b *platform.Build) error {
	if pkg.State != platform.PackageReady {
		return fault.New(fault.BadRequest, "Bad request: Cannot stage package whose state is not ready.")
	}
	if err := p.supersedeBuilds(tx, app, by); err != nil {
		return err
	}
	if err := p.CheckLifecycle(tx, &b.Lifecycle); err != nil {
		return err
	}
	if _, err := p.StackUsable(tx, app, b.Lifecycle.Stack); err != nil {
		return err
	}
	if (b.Lifecycle.Type == platform.LifecycleDocker) != (pkg.Type == platform.PackageDocker) {
		return fault.Invalid("Lifecycle type '" + b.Lifecycle.Type + "' cannot stage a package of type '" + pkg.Type + "'")
	}
	if b.MemoryMB <= 0 {
		return fault.Invalid("Staging memory in mb must be greater than 0")
	}
	if b.DiskMB <= 0 {
		return fault.Invalid("Staging disk in mb must be greater than 0")
	}
	b.AppGUID, b.PackageGUID, b.State = app.GUID, pkg.GUID, platform.BuildStaging
	b.CreatorGUID, b.CreatorName, b.CreatorMail = by.GUID, by.Name, by.Mail
	if err := tx.Builds().Insert(b); err != nil {
		return err
	}
	tx.Announce(platform.Changes{Builds: []string{b.GUID}})
	return p.RecordApp(tx, "audit.app.build.create", by, app, map[string]any{"build_guid": b.GUID,
		"package_guid": pkg.GUID})
}

// supersedeBuilds returns an error when a build of the app is being staged. One
// that an earlier server process began is marked as failed instead: its client has
// lost the connection and tries again.
func (p *Platform) supersedeBuilds(tx platform.Tx, app *platform.App, by Actor) error {
	staging, _, err := tx.Builds().List(platform.Where("app_guid", app.GUID).
		And(platform.In("state", platform.BuildStaging)))
	if err != nil {
		return err
	}
	for _, b := range staging {
		if !b.Created.Before(p.Began) {
			return fault.New(fault.Unprocessable, "Only one build can be STAGING at a time per application.")
		}
	}
	for _, b := range staging {
		b.State, b.Error = platform.BuildFailed, Superseded
		if err := tx.Builds().Update(b); err != nil {
			return err
		}
		if err := p.RecordApp(tx, "audit.app.build.failed", by, app, map[string]any{
			"build_guid": b.GUID, "package_guid": b.PackageGUID, "error_message": b.Error,
		}); err != nil {
			return err
		}
	}
	return nil
}

// ChangeBase returns the current droplet of an app and its package, to which a change can
// be applied. named is the droplet that the client knows.
func ChangeBase(tx platform.Tx, app *platform.App, named string) (*platform.Droplet, *platform.Package, error) {
	if named == "" || named != app.DropletGUID {
		return nil, nil, fault.New(fault.PreconditionFailed,
			"The droplet is not the app's current one: the app was changed since. Push all its files.")
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
		return nil, nil, fault.New(fault.PreconditionFailed,
			"The package of the app's current droplet no longer exists. Push all its files.")
	}
	return d, pkg, nil
}

// ApplyChange stores the package of a change and, unless it is nil, the droplet: that of
// the base with other files. Their blobs exist.
func (p *Platform) ApplyChange(tx platform.Tx, by Actor, app *platform.App, base *platform.Droplet,
	pkg *platform.Package, d *platform.Droplet) error {
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

// The numbers of staged droplets and ready packages of an app that are kept besides those
// that it uses. They are Cloud Foundry's defaults of max_staged_droplets_stored and
// max_valid_packages_stored.
const (
	KeptDroplets = 5
	KeptPackages = 5
)

// ExpireDroplets expires all but the newest droplets of an app. As in Cloud Foundry a
// revision whose droplet expired cannot be deployed any more.
func (p *Platform) ExpireDroplets(tx platform.Tx, app *platform.App) error {
	q := newest(app, string(platform.DropletStaged))
	if n, err := tx.Droplets().Count(q); err != nil || n <= KeptDroplets {
		return err
	}
	used, err := usedDroplets(tx, app)
	if err != nil {
		return err
	}
	droplets, _, err := tx.Droplets().List(q)
	if err != nil {
		return err
	}
	kept := 0
	for _, d := range droplets {
		if used[d.GUID] {
			continue
		}
		if kept++; kept <= KeptDroplets {
			continue
		}
		d.State = platform.DropletExpired
		if err := tx.Droplets().Update(d); err != nil {
			return err
		}
	}
	return nil
}

func (p *Platform) expireDropletsOf(tx platform.Tx, appGUID string) error {
	app, err := tx.Apps().Get(appGUID)
	if err != nil {
		return err
	}
	return p.ExpireDroplets(tx, app)
}

// newest returns the query for the packages or droplets of an app in a state, the newest
// first.
func newest(app *platform.App, state string) platform.Query {
	q := platform.Where("app_guid", app.GUID).And(platform.In("state", state))
	q.Order, q.Desc = "created_at", true
	return q
}

// usedDroplets returns the droplets that an app runs, or may start: that of the app, those
// of its processes and of its deployment, and those of its tasks.
func usedDroplets(tx platform.Tx, app *platform.App) (map[string]bool, error) {
	used := map[string]bool{app.DropletGUID: true}
	deployment, err := ActiveDeployment(tx, app.GUID)
	if err != nil {
		return nil, err
	}
	if deployment != nil {
		used[deployment.DropletGUID], used[deployment.PreviousDropletGUID] = true, true
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		used[process.DropletGUID] = true
	}
	tasks, _, err := tx.Tasks().List(platform.Where("app_guid", app.GUID).
		And(platform.In("state", string(platform.TaskPending), string(platform.TaskRunning), string(platform.TaskCanceling))))
	for _, task := range tasks {
		used[task.DropletGUID] = true
	}
	return used, err
}

// expirePackages expires all but the newest packages of an app.
func (p *Platform) expirePackages(tx platform.Tx, app *platform.App) error {
	q := newest(app, string(platform.PackageReady))
	if n, err := tx.Packages().Count(q); err != nil || n <= KeptPackages {
		return err
	}
	used := map[string]bool{}
	if app.DropletGUID != "" {
		d, err := tx.Droplets().Get(app.DropletGUID)
		if err != nil {
			return err
		}
		used[d.PackageGUID] = true
	}
	builds, _, err := tx.Builds().List(platform.Where("app_guid", app.GUID).
		And(platform.In("state", platform.BuildStaging)))
	if err != nil {
		return err
	}
	for _, b := range builds {
		used[b.PackageGUID] = true
	}
	packages, _, err := tx.Packages().List(q)
	if err != nil {
		return err
	}
	kept := 0
	for _, pkg := range packages {
		if used[pkg.GUID] {
			continue
		}
		if kept++; kept <= KeptPackages {
			continue
		}
		pkg.State = platform.PackageExpired
		if err := tx.Packages().Update(pkg); err != nil {
			return err
		}
	}
	return nil
}
