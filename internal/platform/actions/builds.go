package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Superseded is the error of a build that a newer one replaced.
const Superseded = "StagingError - The server was restarted during this build, and a newer build of the app has replaced it."

// MakeWayForBuild returns an error when a build of the app is being staged. One
// that an earlier server process began does not count: whoever asked for it has
// lost the connection, and asks again. It fails, so that the new one can begin.
func (p *Platform) MakeWayForBuild(tx platform.Tx, app *platform.App, by Actor) error {
	staging, _, err := tx.Builds().List(platform.Where("app_guid", app.GUID).And(platform.In("state", platform.Staging)))
	if err != nil {
		return err
	}
	for _, b := range staging {
		if !b.Created.Before(p.Began) {
			return fault.New(fault.Unprocessable, "Only one build can be STAGING at a time per application.")
		}
	}
	for _, b := range staging {
		b.State, b.Error = platform.Failed, Superseded
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
