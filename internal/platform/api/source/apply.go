package source

import (
	"errors"
	"io"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/manifest"
	"ingot/internal/platform/services"
)

// Apply creates or changes the apps of a manifest, and waits until their services are bound. It returns
// warnings for the user.
func (a *API) Apply(r *http.Request, in apps.SpaceOf, m *manifest.Manifest) (warnings []string, err error) {
	pending, warnings, err := a.Apps.ApplyManifest(r, in, m)
	if err != nil {
		return nil, err
	}
	for _, app := range m.Apps {
		warnings = append(warnings, app.Warnings...)
	}
	for _, child := range pending {
		if err := a.await(r, child); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

// await waits for the end of a job.
func (a *API) await(r *http.Request, child services.Child) error {
	a.Services.Wait(r.Context(), child.Job)
	return a.Store.View(r.Context(), func(tx platform.Tx) error {
		job, err := tx.Jobs().Get(child.Job)
		if err != nil {
			return err
		}
		if job.State == platform.JobComplete {
			return nil
		}
		why := "a service is not bound yet: deploy again later"
		for _, e := range job.Errors {
			why = child.Prefix + e.Detail
		}
		return fault.New(fault.Unprocessable, "%s", why)
	})
}

// Package makes a package of the files in a zip.
func (a *API) Package(r *http.Request, app string, file io.ReaderAt, size int64) (*platform.Package, error) {
	ctx := r.Context()
	pkg, err := rest.Update(a.Server, r, func(req *rest.Request) (*platform.Package, error) {
		app, err := req.AppNamed(app, platform.Develop)
		if err != nil {
			return nil, err
		}
		pkg := &platform.Package{Type: platform.PackageBits}
		if err := a.Platform.CreatePackage(req.Tx, req.Caller.Actor(), app, pkg, nil); err != nil {
			return nil, err
		}
		return pkg, a.Platform.BeginPackageUpload(req.Tx, pkg)
	})
	if err != nil {
		return nil, err
	}
	sum, err := a.Blobs.PutPackage(ctx, pkg.GUID, rest.CallerOf(r).GUID, file, size, nil)
	if err != nil {
		failed := a.Store.Update(ctx, func(tx platform.Tx) error {
			return a.Platform.PackageUploadFailed(tx, pkg.GUID, err)
		})
		return nil, errors.Join(err, failed)
	}
	return rest.Update(a.Server, r, func(req *rest.Request) (*platform.Package, error) {
		app, err := req.AppNamed(app, platform.Develop)
		if err != nil {
			return nil, err
		}
		fresh, err := req.Tx.Packages().Get(pkg.GUID)
		if err != nil {
			return nil, err
		}
		return fresh, a.Platform.PackageUploaded(req.Tx, req.Caller.Actor(), app, fresh, sum)
	})
}

// Build begins a build of a package with the settings of its app.
func (a *API) Build(req *rest.Request, app *platform.App, pkg *platform.Package) (*platform.Build, error) {
	if pkg.Type == platform.PackageDocker {
		if err := rest.NeedEnabled(req.Tx, rest.FlagDocker); err != nil {
			return nil, err
		}
	}
	b := &platform.Build{Lifecycle: app.Lifecycle, MemoryMB: a.Platform.StagingMemoryMB,
		DiskMB: a.Platform.StagingDiskMB, LogRate: platform.DefaultLogRate}
	return b, a.Platform.CreateBuild(req.Tx, req.Caller.Actor(), app, pkg, b)
}
