package actions

import (
	"errors"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// CreatePackage stores a package of an app: a container image, which is ready, or one
// to upload to or, with a source, a copy of it that is ready once PackageCopied is called.
func (p *Platform) CreatePackage(tx platform.Tx, by Actor, app *platform.App, pkg, source *platform.Package) error {
	pkg.AppGUID, pkg.State = app.GUID, platform.PackageAwaitingUpload
	if source != nil {
		if source.State != platform.PackageReady {
			return fault.Invalid("Source package must be READY")
		}
		pkg.Type, pkg.State, pkg.Checksum = source.Type, platform.PackageCopying, source.Checksum
		pkg.Image, pkg.Username, pkg.Password = source.Image, source.Username, source.Password
	}
	docker := app.Lifecycle.Type == platform.LifecycleDocker
	switch {
	case pkg.Type == platform.PackageDocker && !docker:
		return fault.Invalid("Cannot create Docker package for a Buildpack app.")
	case pkg.Type == platform.PackageBits && docker:
		return fault.Invalid("Cannot create bits package for a Docker app.")
	case docker:
		if err := checkImage(pkg); err != nil {
			return err
		}
		pkg.State = platform.PackageReady
	}
	if err := tx.Packages().Insert(pkg); err != nil {
		return err
	}
	if err := p.expirePackages(tx, app); err != nil {
		return err
	}
	return p.recordPackage(tx, "create", by, app, pkg)
}

// PackageCopied makes a copy ready whose bits are stored.
func (p *Platform) PackageCopied(tx platform.Tx, pkg *platform.Package) error {
	pkg.State = platform.PackageReady
	if err := tx.Packages().Update(pkg); err != nil {
		return err
	}
	app, err := tx.Apps().Get(pkg.AppGUID)
	if err != nil {
		return err
	}
	return p.expirePackages(tx, app)
}

// BeginPackageUpload reserves a package for one upload: of two that arrive at the
// same time, one is refused.
func (p *Platform) BeginPackageUpload(tx platform.Tx, pkg *platform.Package) error {
	if err := platform.CheckPackageUpload(pkg); err != nil {
		return err
	}
	pkg.State = platform.PackageProcessingUpload
	return tx.Packages().Update(pkg)
}

// PackageUploaded makes a package ready whose bits are stored.
func (p *Platform) PackageUploaded(tx platform.Tx, by Actor, app *platform.App, pkg *platform.Package,
	checksum string) error {
	pkg.State, pkg.Checksum = platform.PackageReady, checksum
	if err := tx.Packages().Update(pkg); err != nil {
		return err
	}
	if err := p.expirePackages(tx, app); err != nil {
		return err
	}
	return p.recordPackage(tx, "upload", by, app, pkg)
}

// PackageUploadFailed stores why bits were refused. After any other failure, such
// as a full disk, they can be uploaded again.
func (p *Platform) PackageUploadFailed(tx platform.Tx, guid string, cause error) error {
	pkg, err := tx.Packages().Get(guid)
	if err != nil {
		return err
	}
	pkg.State = platform.PackageAwaitingUpload
	var refused *fault.Error
	if errors.As(cause, &refused) && refused.Code == fault.Unprocessable {
		pkg.State, pkg.Error = platform.PackageFailed, strings.Join(refused.Messages(), "; ")
	}
	return tx.Packages().Update(pkg)
}

// PackageDownloaded records that a user downloads the bits of a package.
func (p *Platform) PackageDownloaded(tx platform.Tx, by Actor, app *platform.App, pkg *platform.Package) error {
	return p.recordPackage(tx, "download", by, app, pkg)
}

// DeletePackage removes a package.
func (p *Platform) DeletePackage(tx platform.Tx, by Actor, app *platform.App, pkg *platform.Package) error {
	if err := tx.Packages().Delete(pkg.GUID); err != nil {
		return err
	}
	return p.recordPackage(tx, "delete", by, app, pkg)
}

func (p *Platform) recordPackage(tx platform.Tx, what string, by Actor, app *platform.App,
	pkg *platform.Package) error {
	return p.RecordApp(tx, "audit.app.package."+what, by, app, map[string]any{"package_guid": pkg.GUID})
}

const (
	longestImage    = 4096
	longestUsername = 1024
	longestPassword = 16 << 10 // tokens of cloud registries have several kB
)

// checkImage checks the image of a package. Whether it exists is known when it is staged.
func checkImage(pkg *platform.Package) error {
	switch {
	case pkg.Image == "":
		return fault.Invalid("Data Image required")
	case len(pkg.Image) > longestImage || strings.ContainsFunc(pkg.Image, func(r rune) bool {
		return r <= ' ' ||
			r == 0x7f
	}):
		return fault.Invalid("Data Image must be the name of an image, such as registry.example.com/shop:1.2, of at most " +
			"4096 characters")
	case len(pkg.Username) > longestUsername || strings.ContainsAny(pkg.Username, "\x00\r\n"):
		return fault.Invalid("Data Username must be at most 1024 characters in one line")
	case len(pkg.Password) > longestPassword || strings.ContainsRune(pkg.Password, 0):
		return fault.Invalid("Data Password must be at most 16384 characters")
	}
	return nil
}
