package uploads

import (
	"archive/zip"
	"context"
	"io"
	"io/fs"
	"mime"
	"os"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/deltas"
)

// Blobs implements builds.Blobs.
type Blobs struct {
	Store blob.Store
	// Scratch is the directory for temporary files.
	Scratch string
	// Sign, unless it is nil, lets clients download from the store itself.
	Sign blob.Signer
	// Deltas, unless it is nil, remembers droplets that were made by changing others.
	Deltas *deltas.Droplets
}

var _ builds.Blobs = Blobs{}

// PutPackage merges the uploaded zip with the matched files into one checked zip.
func (b Blobs) PutPackage(ctx context.Context, guid, pool string, bits io.ReaderAt, size int64,
	matched []builds.Resource) (string, error) {
	merge := archive.Merge{Bits: bits, Size: size, Open: func(r archive.Resource) (io.ReadCloser, error) {
		return b.Store.OpenResource(ctx, pool, blob.Resource{SHA1: r.SHA1, Size: r.Size})
	}}
	for _, m := range matched {
		mode, err := strconv.ParseUint(m.Mode, 8, 32)
		if err != nil {
			return "", fault.Invalid("Resources: the mode '" + m.Mode + "' is not an octal number")
		}
		merge.Matched = append(merge.Matched, archive.Resource{Path: m.Path, SHA1: m.SHA1, Size: m.Size,
			Mode: fs.FileMode(mode) & fs.ModePerm})
	}
	file, err := b.temp()
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := archive.MergeZip(file, merge); err != nil {
		return "", err
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	info, err := b.Store.Put(ctx, blob.Packages, guid, io.NewSectionReader(file, 0, end), blob.PutOptions{Once: true})
	if err != nil {
		return "", err
	}
	// The pool only makes later uploads smaller; a push does not fail because of it.
	if contents, err := zip.NewReader(file, end); err == nil {
		_, _ = b.Store.AddResources(ctx, pool, contents)
	}
	return info.SHA256, nil
}

// temp returns a file that is already removed, so that it is never left behind.
func (b Blobs) temp() (*os.File, error) {
	file, err := os.CreateTemp(b.Scratch, "package-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// LocatePackage implements builds.Blobs.
func (b Blobs) LocatePackage(ctx context.Context, guid string) (string, error) {
	return b.locate(ctx, packageFile(guid))
}

// OpenPackage implements builds.Blobs.
func (b Blobs) OpenPackage(ctx context.Context, guid string) (builds.Download, error) {
	return b.open(ctx, packageFile(guid))
}

// LocateDroplet implements builds.Blobs.
func (b Blobs) LocateDroplet(ctx context.Context, guid string) (string, error) {
	return b.locate(ctx, dropletFile(guid))
}

// OpenDroplet implements builds.Blobs.
func (b Blobs) OpenDroplet(ctx context.Context, guid string) (builds.Download, error) {
	return b.open(ctx, dropletFile(guid))
}

// file is a blob with the headers of its download.
type file struct {
	kind                     blob.Kind
	guid                     string
	disposition, contentType string
}

func packageFile(guid string) file {
	return file{blob.Packages, guid, attachment("package_" + guid + ".zip"), "application/zip"}
}

func dropletFile(guid string) file {
	return file{blob.Droplets, guid, attachment("droplet_" + guid + ".tgz"), "application/gzip"}
}

func attachment(name string) string {
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}

func (b Blobs) locate(ctx context.Context, f file) (string, error) {
	if b.Sign != nil {
		return b.Sign(ctx, f.kind, f.guid, f.disposition, f.contentType)
	}
	_, err := b.Store.Stat(ctx, f.kind, f.guid)
	return "", err
}

func (b Blobs) open(ctx context.Context, f file) (builds.Download, error) {
	content, err := b.Store.Open(ctx, f.kind, f.guid)
	if err != nil {
		return builds.Download{}, err
	}
	return builds.Download{File: content, Disposition: f.disposition, ContentType: f.contentType}, nil
}

// CopyPackage implements builds.Blobs.
func (b Blobs) CopyPackage(ctx context.Context, from, to string) error {
	return b.copy(ctx, blob.Packages, from, to)
}

// CopyDroplet implements builds.Blobs.
func (b Blobs) CopyDroplet(ctx context.Context, from, to string) error {
	return b.copy(ctx, blob.Droplets, from, to)
}

func (b Blobs) copy(ctx context.Context, kind blob.Kind, from, to string) error {
	file, err := b.Store.Open(ctx, kind, from)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = b.Store.Put(ctx, kind, to, file, blob.PutOptions{Once: true})
	return err
}

// PutDroplet stores a droplet.
func (b Blobs) PutDroplet(ctx context.Context, guid string, r io.Reader) (string, int64, error) {
	info, err := b.Store.Put(ctx, blob.Droplets, guid, r, blob.PutOptions{Once: true})
	return info.SHA256, info.Size, err
}

// PutBuildpack checks a zip and stores it.
func (b Blobs) PutBuildpack(ctx context.Context, guid string, bits io.ReaderAt, size int64) (string, error) {
	if _, err := archive.CheckZip(bits, size, archive.Limits{}); err != nil {
		return "", err
	}
	info, err := b.Store.Put(ctx, blob.Buildpacks, guid, io.NewSectionReader(bits, 0, size), blob.PutOptions{})
	return info.SHA256, err
}

// DeleteBuildpack removes the file of a buildpack.
func (b Blobs) DeleteBuildpack(ctx context.Context, guid string) error {
	return b.Store.Delete(ctx, blob.Buildpacks, guid)
}

// ClearBuildCache deletes the build cache of an app, or those of all apps.
func (b Blobs) ClearBuildCache(ctx context.Context, appGUID string) error {
	if appGUID != "" {
		return b.clear(ctx, strings.ToLower(appGUID))
	}
	for item, err := range b.Store.List(ctx, blob.BuildCache) {
		if err == nil {
			err = b.clear(ctx, item.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b Blobs) clear(ctx context.Context, key string) error {
	err := b.Store.Delete(ctx, blob.BuildCache, key)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// OpenRepository implements gitpush.Repositories.
func (b Blobs) OpenRepository(ctx context.Context, appGUID string) (io.ReadCloser, error) {
	return b.Store.Open(ctx, blob.Repositories, strings.ToLower(appGUID))
}

// PutRepository implements gitpush.Repositories.
func (b Blobs) PutRepository(ctx context.Context, appGUID string, r io.Reader) error {
	_, err := b.Store.Put(ctx, blob.Repositories, strings.ToLower(appGUID), r, blob.PutOptions{})
	return err
}

// Match returns those of resources whose content is in the pool.
func (b Blobs) Match(ctx context.Context, pool string, resources []builds.Resource) ([]builds.Resource, error) {
	asked := make([]blob.Resource, 0, len(resources))
	for _, r := range resources {
		asked = append(asked, blob.Resource{SHA1: r.SHA1, Size: r.Size})
	}
	found, err := b.Store.Match(ctx, pool, asked)
	if err != nil {
		return nil, err
	}
	have := map[blob.Resource]bool{}
	for _, f := range found {
		have[f] = true
	}
	var out []builds.Resource
	for _, r := range resources {
		if have[blob.Resource{SHA1: r.SHA1, Size: r.Size}] {
			out = append(out, r)
		}
	}
	return out, nil
}
