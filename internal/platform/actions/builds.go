package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Superseded is the error of a build that a newer one replaced.
const Superseded = "StagingError - The server was restarted during this build, and a newer build of the app has replaced it."

// CreateBuild stores a build of a package that is to be staged.
func (p *Platform) CreateBuild(tx platform.Tx, by Actor, app *platform.App, pkg *platform.Package, b *platform.Build) error {
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
	return p.RecordApp(tx, "audit.app.build.create", by, app, map[string]any{"build_guid": b.GUID, "package_guid": pkg.GUID})
}

// supersedeBuilds returns an error when a build of the app is being staged. One
// that an earlier server process began is marked as failed instead: its client has
// lost the connection and tries again.
func (p *Platform) supersedeBuilds(tx platform.Tx, app *platform.App, by Actor) error {
	staging, _, err := tx.Builds().List(platform.Where("app_guid", app.GUID).And(platform.In("state", platform.BuildStaging)))
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
