package blob

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
)

// Copied is what Copy did.
type Copied struct {
	Blobs, Skipped int
	Size           int64
}

// copyWorkers is how many blobs Copy copies at the same time.
const copyWorkers = 4

// Copy copies all blobs of from to to, except those that to has already, and the
// pool of resources, which is only a cache. Every copy has the checksum of its
// original. After an error, or for blobs that came meanwhile, it can be called
// again. Done is called after each kind.
func Copy(ctx context.Context, from, to Store, done func(Kind, Copied)) error {
	for _, kind := range []Kind{Packages, Droplets, Buildpacks, BuildCache, Repositories} {
		var keys []string
		for item, err := range from.List(ctx, kind) {
			if err != nil {
				return err
			}
			keys = append(keys, item.Key)
		}
		var mu sync.Mutex
		var sum Copied
		err := background.Each(ctx, "copy blobs", copyWorkers, keys, func(ctx context.Context, key string) error {
			size, err := copyBlob(ctx, from, to, kind, key)
			mu.Lock()
			defer mu.Unlock()
			if size < 0 {
				sum.Skipped++
			} else {
				sum.Blobs, sum.Size = sum.Blobs+1, sum.Size+size
			}
			return err
		})
		if err != nil {
			return err
		}
		done(kind, sum)
	}
	return nil
}

// copyBlob copies a blob and returns its size, or -1 if it need not be copied.
func copyBlob(ctx context.Context, from, to Store, kind Kind, key string) (int64, error) {
	want, err := from.Stat(ctx, kind, key)
	if fault.Is(err, fault.NotFound) {
		return -1, nil // deleted meanwhile
	}
	if err != nil {
		return -1, err
	}
	if have, err := to.Stat(ctx, kind, key); err == nil && have.Same(want) {
		return -1, nil
	}
	b, err := from.Open(ctx, kind, key)
	if err != nil {
		return -1, err
	}
	defer b.Close()
	got, err := to.Put(ctx, kind, key, b, PutOptions{})
	if err != nil {
		return -1, err
	}
	if !got.Same(b.Info) {
		err := fmt.Errorf("the %s %s is damaged: its SHA-256 is %s and should be %s", kind, key, got.SHA256, b.SHA256)
		return -1, errors.Join(err, to.Delete(ctx, kind, key))
	}
	return got.Size, nil
}
