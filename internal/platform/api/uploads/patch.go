package uploads

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"ingot/internal/base/background"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/deltas"
)

// appDir is the folder of an app's files in a droplet.
const appDir = "app"

func checked(p builds.Patch) (*archive.CheckedPatch, error) {
	return archive.Patch{Bits: p.Files, Size: p.Size, Deleted: p.Deleted}.Check()
}

// PatchPackage stores a copy of a package with a change.
func (b Blobs) PatchPackage(ctx context.Context, from, to string, p builds.Patch) (string, builds.PatchedFiles, error) {
	c, err := checked(p)
	if err != nil {
		return "", builds.PatchedFiles{}, err
	}
	var files archive.Changes
	info, err := b.rewrite(ctx, blob.Packages, from, to, func(w io.Writer, base *blob.Blob) (err error) {
		files, err = c.Zip(w, base, base.Size())
		return err
	})
	if err == nil && b.Deltas != nil && !slices.ContainsFunc(slices.Concat(files.Added, files.Changed, files.Deleted),
		namesDependencies) {
		b.Deltas.AddPackage(to)
	}
	return info.SHA256, builds.PatchedFiles(files), err
}

// dependencies are the files in which languages name what a build downloads.
var dependencies = []string{
	"go.mod", "go.sum", "modules.txt", "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock",
	"requirements.txt", "Pipfile", "Pipfile.lock",
	"pyproject.toml", "setup.py", "Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "pom.xml", "build.gradle",
	"build.gradle.kts", "Cargo.lock",
}

// namesDependencies reports whether a change to a file may change what is downloaded. A
// name that is not known costs a download.
func namesDependencies(name string) bool { return slices.Contains(dependencies, path.Base(name)) }

// PatchDroplet stores a copy of a droplet with a change to the files of its app.
func (b Blobs) PatchDroplet(ctx context.Context, from, to string, p builds.Patch) (string, int64, error) {
	c, err := checked(p)
	if err != nil {
		return "", 0, err
	}
	old := deltas.Base{GUID: from}
	var layer *archive.Overlay
	info, err := b.rewrite(ctx, blob.Droplets, from, to, func(w io.Writer, base *blob.Blob) (err error) {
		old.Checksum = base.SHA256
		layer, err = c.Tar(w, base, appDir)
		return err
	})
	if errors.Is(err, archive.ErrNotPatchable) {
		err = fmt.Errorf("%w: %w", builds.ErrNeedsBuild, err)
	}
	if err == nil && b.Deltas != nil {
		b.Deltas.Add(to, old, layer)
	}
	return info.SHA256, info.Size, err
}

// DiscardPatched deletes the files of a change that failed.
func (b Blobs) DiscardPatched(ctx context.Context, packageGUID, dropletGUID string) error {
	return errors.Join(b.Store.Delete(ctx, blob.Packages, packageGUID), b.Store.Delete(ctx, blob.Droplets, dropletGUID))
}

// rewrite stores what write makes of another blob.
func (b Blobs) rewrite(ctx context.Context, kind blob.Kind, from, to string,
	write func(io.Writer, *blob.Blob) error) (blob.Info, error) {
	base, err := b.Store.Open(ctx, kind, from)
	if err != nil {
		return blob.Info{}, err
	}
	defer base.Close()
	pr, pw := io.Pipe()
	done := background.Feed("changed files", pw, func() error {
		buffered := bufio.NewWriterSize(pw, 64<<10)
		if err := write(buffered, base); err != nil {
			return err
		}
		return buffered.Flush()
	})
	info, err := b.Store.Put(ctx, kind, to, pr, blob.PutOptions{Once: true})
	_ = pr.CloseWithError(errors.New("the reader was closed")) // never fails
	<-done
	return info, err
}
