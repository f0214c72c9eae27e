package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/manifest"
)

// work is a request to deploy an app.
type work struct {
	*API
	r     *http.Request
	order *order
	space string
	app   string // its guid; empty for an app that is to be created
	// git is the source of the files; nil if they are not from git.
	git *platform.GitSource
}

// run deploys an app, and responds with the job that is complete when the app runs.
func (a *API) run(w http.ResponseWriter, r *http.Request, d *work) error {
	if err := d.allowed(); err != nil {
		return err
	}
	pkg, warnings, err := d.files()
	if err != nil {
		return err
	}
	var out struct{ app, build, job string }
	_, err = rest.Update(a.Server, r, func(req *rest.Request) (*platform.Job, error) {
		app, err := req.AppNamed(d.app, platform.Operate)
		if err != nil {
			return nil, err
		}
		if pkg == nil {
			if pkg, err = newestPackage(req.Tx, app); err != nil {
				return nil, err
			}
		}
		build, err := d.begin(req, app, pkg)
		if err != nil {
			return nil, err
		}
		job, err := a.Services.Deploy(req.Tx, req.Caller.Actor(), app, build, warnings)
		if err == nil {
			out.app, out.build, out.job = app.GUID, build.GUID, job.GUID
		}
		return job, err
	})
	if err != nil {
		return err
	}
	a.Services.Kick()
	w.Header().Set("Location", rest.BaseURL(r)+"/v3/jobs/"+rest.Escape(out.job))
	return web.Answer(w, http.StatusAccepted, map[string]any{"app": rest.RelationData{GUID: out.app},
		"build": rest.RelationData{GUID: out.build}, "job": rest.RelationData{GUID: out.job}}, nil)
}

// begin begins the build of a package, and stores the source of its files.
func (d *work) begin(req *rest.Request, app *platform.App, pkg *platform.Package) (*platform.Build, error) {
	build, err := d.Build(req, app, pkg)
	switch {
	case err != nil || d.git == nil:
		return build, err
	case d.order.Git == nil: // the stored one, which may have been changed or removed since it was read
		return build, d.Platform.GitDeployed(req.Tx, d.git)
	}
	old, err := actions.GitSourceOf(req.Tx, app.GUID)
	if err != nil {
		return nil, err
	}
	src, err := d.order.Git.checked(old) // a password that is kept is today's
	if err != nil {
		return nil, err
	}
	src.Commit, src.Subject, src.Deployed, src.Error = d.git.Commit, d.git.Subject, d.git.Deployed, ""
	return build, d.Platform.SetGitSource(req.Tx, req.Caller.Actor(), app, src)
}

// allowed decides whether the caller may deploy this, before more of the body is read.
func (d *work) allowed() error {
	if d.order.Restage {
		return nil // decided already
	}
	if err := platform.CheckAppName(d.order.Name); err != nil {
		return err
	}
	_, err := rest.View(d.Server, d.r, func(req *rest.Request) (*platform.Space, error) {
		if d.order.Docker == nil {
			if err := req.NeedFlag("app_bits_upload"); err != nil {
				return nil, err
			}
		}
		return d.target(req)
	})
	return err
}

// target returns the space of the app, if the caller may develop apps there and the name of a new app is free.
func (d *work) target(req *rest.Request) (*platform.Space, error) {
	space, err := req.SpaceNamed(d.space, platform.Develop)
	if err != nil || d.app != "" {
		return space, err
	}
	found, err := d.named(req.Tx)
	if err != nil || found == nil {
		return space, err
	}
	// One without a package is left of an attempt that failed.
	packages, err := req.Tx.Packages().Count(platform.Where("app_guid", found.GUID).And(platform.In("state",
		platform.PackageReady, platform.PackageProcessingUpload, platform.PackageAwaitingUpload)))
	if err == nil && (packages > 0 || found.DropletGUID != "") {
		err = fault.Invalid(fmt.Sprintf("The space has an app named %s already: choose another name, or deploy a new "+
			"version of that app", found.Name))
	}
	return space, err
}

// named returns the app with the name of the order, or nil.
func (d *work) named(tx platform.Tx) (*platform.App, error) {
	app, err := tx.Apps().First(platform.Where("space_guid", d.space).And(platform.In("name", d.order.Name)))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return app, err
}

// newestPackage returns the package that is built again.
func newestPackage(tx platform.Tx, app *platform.App) (*platform.Package, error) {
	q := platform.Where("app_guid", app.GUID).And(platform.In("state", platform.PackageReady))
	q.Desc = true
	pkg, err := tx.Packages().First(q)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.Unprocessable, "The app has no package to build: deploy it first")
	}
	return pkg, err
}

// files returns the package of the order, after its manifest was applied; nil if there is one already.
func (d *work) files() (*platform.Package, []string, error) {
	switch {
	case d.order.Restage:
		return nil, nil, nil
	case d.order.Docker != nil:
		return d.image()
	case d.order.Git != nil, d.order.Redeploy:
		return d.fetched("")
	case d.order.Sample:
		b, err := sampleZip()
		if err != nil {
			return nil, nil, err
		}
		return d.zip(bytes.NewReader(b), int64(len(b)))
	}
	file, size, err := d.receive()
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	return d.zip(file, size)
}

// receive stores the zip of the request in a temporary file, which is removed already.
func (d *work) receive() (*os.File, int64, error) {
	file, err := temp(d.Scratch)
	if err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(file, io.LimitReader(d.order.zip, d.MaxUpload+1))
	switch {
	case err != nil:
		err = fault.Wrap(err, fault.BadRequest, "The upload ended early")
	case size > d.MaxUpload:
		_, _ = io.Copy(io.Discard, d.order.zip)
		err = fault.New(fault.TooLarge, "The upload is larger than the limit of %d MB and was not stored. List files that "+
			"the app does not need in a .cfignore file.", d.MaxUpload>>20)
	case size == 0:
		err = fault.Invalid("The upload is empty: choose a zip file or a folder")
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, size, nil
}

// temp returns a temporary file that is removed already.
func temp(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "deploy-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// zip applies the manifest in a zip, and makes a package of the app's files in it.
func (d *work) zip(from io.ReaderAt, size int64) (*platform.Package, []string, error) {
	f, err := open(from, size, d.git == nil)
	if err != nil {
		return nil, nil, err
	}
	text, err := f.manifest()
	if err != nil {
		return nil, nil, err
	}
	m, folder, err := d.manifest(text)
	if err != nil {
		return nil, nil, err
	}
	if kind := m.Apps[0].Lifecycle; kind != nil && *kind == platform.LifecycleDocker {
		return nil, nil, fault.Invalid("The manifest names a container image: deploy the image instead of files")
	}
	packed, n, err := f.pack(d.Scratch, folder)
	if err != nil {
		return nil, nil, err
	}
	defer packed.Close()
	warnings, err := d.apply(m)
	if err != nil {
		return nil, nil, err
	}
	pkg, err := d.Package(d.r, d.app, packed, n)
	return pkg, warnings, err
}

// image makes a package of a container image.
func (d *work) image() (*platform.Package, []string, error) {
	m, _, err := d.manifest(nil)
	if err != nil {
		return nil, nil, err
	}
	warnings, err := d.apply(m)
	if err != nil {
		return nil, nil, err
	}
	pkg, err := rest.Update(d.Server, d.r, func(req *rest.Request) (*platform.Package, error) {
		app, err := req.AppNamed(d.app, platform.Develop)
		if err != nil {
			return nil, err
		}
		of := d.order.Docker
		pkg := &platform.Package{Type: platform.PackageDocker, Image: of.Image, Username: of.Username, Password: of.Password}
		return pkg, d.Platform.CreatePackage(req.Tx, req.Caller.Actor(), app, pkg, nil)
	})
	return pkg, warnings, err
}

// manifest parses a manifest with the settings of the order.
func (d *work) manifest(text []byte) (*manifest.Manifest, string, error) {
	rules, err := d.Apps.ManifestRules(d.r)
	if err != nil {
		return nil, "", err
	}
	flags := manifest.Flags{Instances: d.order.Instances, RandomRoute: d.order.RandomRoute}
	if d.order.MemoryMB > 0 {
		flags.Memory = fmt.Sprint(d.order.MemoryMB, "M")
	}
	if of := d.order.Docker; of != nil {
		flags.Image, flags.Username = of.Image, of.Username
	}
	return manifest.ParseOne(text, d.order.Name, flags, rules...)
}

// apply applies a manifest, and finds the app that it creates.
func (d *work) apply(m *manifest.Manifest) ([]string, error) {
	warnings, err := d.Apply(d.r, d.target, m)
	var e *fault.Error
	if errors.As(err, &e) && e.Code == fault.NotFound { // of a service that the manifest names, not of the space
		return nil, fault.Wrap(err, fault.Unprocessable, "%s", e.Message)
	}
	if err != nil {
		return nil, err
	}
	app, err := rest.View(d.Server, d.r, func(req *rest.Request) (*platform.App, error) { return d.named(req.Tx) })
	if err == nil && app == nil {
		err = fault.New(fault.Unprocessable, "The app was deleted in the meantime: deploy it again")
	}
	if err != nil {
		return nil, err
	}
	d.app = app.GUID
	return warnings, nil
}
