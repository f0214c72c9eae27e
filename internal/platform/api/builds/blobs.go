package builds

import (
	"context"
	"errors"
	"io"
)

// Blobs stores packages, droplets and buildpacks by guid.
type Blobs interface {
	// PutPackage stores a package made of a zip, which may be nil, and of files that
	// are already stored in a pool. Content is never matched across pools.
	PutPackage(ctx context.Context, guid, pool string, zip io.ReaderAt, size int64,
		matched []Resource) (sha256 string, err error)
	// LocatePackage returns the URL with which clients can download a package from the store itself, for some
	// minutes; it is empty if they have to download it from this server, with OpenPackage. A package that is not
	// stored is an error of both.
	LocatePackage(ctx context.Context, guid string) (url string, err error)
	OpenPackage(ctx context.Context, guid string) (Download, error)
	CopyPackage(ctx context.Context, from, to string) error
	// PatchPackage stores a package with the files of another one and a change. PatchDroplet
	// does it with a droplet, or returns ErrNeedsBuild.
	PatchPackage(ctx context.Context, from, to string, p Patch) (sha256 string, files PatchedFiles, err error)
	PatchDroplet(ctx context.Context, from, to string, p Patch) (sha256 string, size int64, err error)
	// DiscardPatched deletes what these two have stored for a change that failed.
	DiscardPatched(ctx context.Context, packageGUID, dropletGUID string) error
	PutDroplet(ctx context.Context, guid string, r io.Reader) (sha256 string, size int64, err error)
	LocateDroplet(ctx context.Context, guid string) (url string, err error)
	OpenDroplet(ctx context.Context, guid string) (Download, error)
	CopyDroplet(ctx context.Context, from, to string) error
	PutBuildpack(ctx context.Context, guid string, zip io.ReaderAt, size int64) (sha256 string, err error)
	DeleteBuildpack(ctx context.Context, guid string) error
	// ClearBuildCache deletes what builds keep for the next one, of an app or, if guid
	// is empty, of all apps.
	ClearBuildCache(ctx context.Context, appGUID string) error
	// Match returns those of resources whose content is already stored.
	Match(ctx context.Context, pool string, resources []Resource) ([]Resource, error)
}

// Download is a package or droplet for a client.
type Download struct {
	File io.ReadSeekCloser
	// Disposition and ContentType are the values of the headers.
	Disposition, ContentType string
}

// Resource is a file of an app, identified by its content.
type Resource struct {
	Path string
	Mode string // octal
	SHA1 string
	Size int64
}

// ErrNeedsBuild is returned by Blobs.PatchDroplet if a change cannot be applied to a
// droplet without a build.
var ErrNeedsBuild = errors.New("the change needs a build")

// Patch is a change to the files of an app.
type Patch struct {
	Files   io.ReaderAt // a zip of new and changed files; nil if there are none
	Size    int64
	Deleted []string
}

// PatchedFiles are the paths that a change concerned.
type PatchedFiles struct{ Added, Changed, Deleted []string }
