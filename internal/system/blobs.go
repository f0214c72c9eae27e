package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"ingot/internal/base/datadir"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/blob/s3"
	"ingot/internal/server/installation"
	"ingot/internal/server/roots"
)

// linkSecret is the name of the secret that signs links to packages and droplets.
const linkSecret = "download-links"

// openBlobs opens the store of packages, droplets and buildpacks: the bucket of
// --blob-url, or a directory.
func (s *System) openBlobs(ctx context.Context, dir *datadir.Dir, r *runtime, trusted *roots.Roots) (err error) {
	c := s.config
	if r.links.Key, _, err = r.store.Secret(ctx, linkSecret, func() ([]byte, error) {
		return builds.NewLinkKey(), nil
	}); err != nil {
		return err
	}
	if c.BlobURL == "" {
		files, err := blob.Open(dir.File(installation.BlobsDir))
		r.blobs = files
		return err
	}
	bucket, err := openBucket(ctx, c.BlobURL, dir.File("blob-cache"), trusted, c.Log)
	if err != nil {
		return fmt.Errorf("--blob-url: %w", err)
	}
	s.steps.Later(bucket.Close)
	r.blobs = bucket
	r.objects = bucket.Objects("logs")
	if c.BlobRedirect {
		r.sign = bucket.SignedURL
	}
	return nil
}

func openBucket(ctx context.Context, url, cache string, trusted *roots.Roots, log *slog.Logger) (*s3.Store, error) {
	c, err := s3.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return s3.Open(ctx, c.Trusting(trusted.TLS()), cache, log)
}

func checkBlobURL(s string, redirect bool) error {
	if s == "" {
		if redirect {
			return errors.New("--blob-redirect needs a bucket, because only that has URLs")
		}
		return nil
	}
	_, err := s3.ParseURL(s)
	return err
}

// CopyBlobs copies packages, droplets, buildpacks, build caches and git repositories from
// one store to another. A store is s3://BUCKET/PREFIX?PARAMETERS or file://DIR, where DIR is
// the folder blobs of a data directory. Done is called with a line of text after
// each kind.
func CopyBlobs(ctx context.Context, from, to string, log *slog.Logger, done func(string)) error {
	cache, err := os.MkdirTemp("", "ingot-blobs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	source, closeSource, err := openBlobURL(ctx, from, cache+"/from", log)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer closeSource()
	target, closeTarget, err := openBlobURL(ctx, to, cache+"/to", log)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer closeTarget()
	return blob.Copy(ctx, source, target, func(kind blob.Kind, c blob.Copied) {
		done(fmt.Sprintf("%-12s %6d copied (%.1f MB), %d already there", kind, c.Blobs, float64(c.Size)/1e6, c.Skipped))
	})
}

func openBlobURL(ctx context.Context, text, cache string, log *slog.Logger) (blob.Store, func(), error) {
	if !strings.HasPrefix(text, "file:") {
		bucket, err := openBucket(ctx, text, cache, nil, log)
		if err != nil {
			return nil, nil, err
		}
		return bucket, bucket.Close, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return nil, nil, errors.New("it must be file:///DIR or s3://BUCKET")
	}
	files, err := blob.Open(u.Path)
	return files, func() {}, err
}
