package s3

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
)

const (
	// resourceAge is how long a resource is kept after it was used, and resourceFresh
	// how long its time is not renewed.
	resourceAge   = 30 * 24 * time.Hour
	resourceFresh = 24 * time.Hour
	// matchWorkers is how many files are looked for at the same time.
	matchWorkers = 32
)

// Match implements blob.Pool.
func (s *Store) Match(ctx context.Context, scope string, files []blob.Resource) ([]blob.Resource, error) {
	found := make([]bool, len(files))
	var asked []int
	for i, r := range files {
		if s.limits.Key(scope, r) != "" {
			asked = append(asked, i)
		}
	}
	if err := background.Each(ctx, "match resources", matchWorkers, asked, func(ctx context.Context, i int) (err error) {
		found[i], err = s.touch(ctx, s.limits.Key(scope, files[i]), files[i].Size)
		return err
	}); err != nil {
		return nil, err
	}
	var matched []blob.Resource
	for i, r := range files {
		if found[i] {
			matched = append(matched, r)
		}
	}
	return matched, nil
}

// touch reports whether a file exists, and renews its time once a day.
func (s *Store) touch(ctx context.Context, key string, size int64) (bool, error) {
	short, cancel := context.WithTimeout(ctx, s.request)
	defer cancel()
	name := s.name(blob.Resources, key)
	object, err := s.client.StatObject(short, s.config.bucket, name, minio.StatObjectOptions{})
	if err != nil {
		err = failed(ctx, err, "looking for", blob.Resources)
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		return false, err
	}
	info, err := infoOf(object)
	if err != nil || info.Size != size {
		return false, nil //nolint:nilerr // written again
	}
	if s.clock.now().Sub(object.LastModified) < resourceFresh {
		return true, nil
	}
	headers := map[string]string{"X-Amz-Metadata-Directive": "REPLACE"}
	for name, value := range maps.All(metadata(info)) {
		headers["X-Amz-Meta-"+name] = value
	}
	_, err = s.client.CopyObject(short, s.config.bucket, name, s.config.bucket, name, headers, minio.CopySrcOptions{},
		minio.PutObjectOptions{})
	err = failed(ctx, err, "renewing", blob.Resources)
	if fault.Is(err, fault.NotFound) {
		return false, nil // Purge was faster
	}
	return err == nil, err
}

// OpenResource implements blob.Pool.
func (s *Store) OpenResource(ctx context.Context, scope string, r blob.Resource) (*blob.Blob, error) {
	key := s.limits.Key(scope, r)
	if key == "" {
		return nil, blob.NotFound(blob.Resources)
	}
	b, err := s.Open(ctx, blob.Resources, key)
	if err != nil || b.SHA1 == strings.ToLower(r.SHA1) {
		return b, err
	}
	_ = b.Close() // only read from
	if err := s.Delete(ctx, blob.Resources, key); err != nil {
		return nil, err
	}
	return nil, blob.NotFound(blob.Resources)
}

// AddResources implements blob.Pool.
func (s *Store) AddResources(ctx context.Context, scope string, fsys fs.FS) (int, error) {
	names, err := s.limits.FilesOf(ctx, scope, fsys)
	if err != nil {
		return 0, err
	}
	var added atomic.Int64
	err = background.Each(ctx, "add resources", workers, names, func(ctx context.Context, name string) error {
		isNew, err := s.limits.Add(ctx, scope, fsys, name,
			func(key string, size int64) (bool, error) { return s.touch(ctx, key, size) },
			func(key string, r io.Reader) (bool, error) { return s.putResource(ctx, scope, key, r) })
		if isNew {
			added.Add(1)
		}
		return err
	})
	return int(added.Load()), err
}

func (s *Store) putResource(ctx context.Context, scope, key string, r io.Reader) (bool, error) {
	spooled, err := s.cache.Spool(ctx, blob.Resources, r, s.limits.MaxFile)
	if err != nil {
		return false, err
	}
	defer spooled.Discard()
	// What was copied gives the key, not what was hashed before.
	if s.limits.Key(scope, blob.Resource{SHA1: spooled.SHA1, Size: spooled.Size}) != key {
		return false, nil
	}
	return true, s.store(ctx, blob.Resources, key, spooled, false)
}
