package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
)

// flight is a download that several callers may wait for.
type flight struct {
	done chan struct{}
	err  error
}

// changes reports whether blobs of a kind are replaced.
func changes(kind blob.Kind) bool {
	return kind == blob.Buildpacks || kind == blob.BuildCache || kind == blob.Repositories
}

// Open implements blob.Store, through the cache.
func (s *Store) Open(ctx context.Context, kind blob.Kind, key string) (*blob.Blob, error) {
	if blob.CheckKey(kind, key) != nil {
		return nil, blob.NotFound(kind)
	}
	for range attempts { // it may be replaced, or leave the cache, in between
		b, err := s.cached(ctx, kind, key)
		if b != nil || err != nil {
			return b, err
		}
		if err := s.fetch(ctx, kind, key); err != nil {
			return nil, failed(ctx, err, "loading", kind)
		}
	}
	return nil, failed(ctx, errors.New("it leaves the cache before it can be opened"), "loading", kind)
}

// cached opens a blob in the cache; nil if it has none that can be used.
func (s *Store) cached(ctx context.Context, kind blob.Kind, key string) (*blob.Blob, error) {
	b, err := s.cache.Open(ctx, kind, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil //nolint:nilnil // says the comment
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		s.log.WarnContext(ctx, "a blob in the cache cannot be read and is loaded again", "kind", kind, "key", key,
			"error", err)
		return nil, s.cache.Delete(ctx, kind, key)
	case !changes(kind):
		return b, nil
	}
	now, err := s.Stat(ctx, kind, key)
	if err == nil && now.Same(b.Info) {
		return b, nil
	}
	_ = b.Close() // only read from
	return nil, err
}

// fetch puts a blob into the cache. All callers that want it at the same time wait
// for one download, which goes on if they leave.
func (s *Store) fetch(ctx context.Context, kind blob.Kind, key string) error {
	name := s.name(kind, key)
	s.mu.Lock()
	f := s.flying[name]
	if f == nil {
		if s.open.Err() != nil {
			s.mu.Unlock()
			return errors.New("the blob store is closed")
		}
		f = &flight{done: make(chan struct{})}
		s.flying[name] = f
		s.flights.Go("download blob", func() {
			defer func() {
				s.mu.Lock()
				delete(s.flying, name)
				s.mu.Unlock()
				close(f.done)
			}()
			f.err = background.Do("download blob", func() error { return s.download(s.open, kind, key) })
		})
	}
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Downloads that end so are repeated.
var (
	errBroken  = errors.New("the download broke off")
	errDamaged = errors.New("the object is damaged")
)

func (s *Store) download(ctx context.Context, kind blob.Kind, key string) error {
	release, err := slot(ctx, s.downloads)
	if err != nil {
		return err
	}
	defer release()
	for range attempts {
		if err = s.downloadOnce(ctx, kind, key); !errors.Is(err, errBroken) && !errors.Is(err, errDamaged) {
			return err
		}
		s.log.WarnContext(ctx, "a download from the blob store is repeated", "kind", kind, "key", key, "error", err)
	}
	return err
}

func (s *Store) downloadOnce(ctx context.Context, kind blob.Kind, key string) error {
	watched, moved, stop := watch(ctx, s.stall)
	defer stop()
	r, object, _, err := s.client.GetObject(watched, s.config.bucket, s.name(kind, key), minio.GetObjectOptions{})
	if err != nil {
		return cause(watched, err)
	}
	defer r.Close()
	want, err := infoOf(object)
	if err != nil {
		return err
	}
	spooled, err := s.cache.Spool(watched, kind, moving{r, moved}, 0)
	if err != nil {
		var disk *fault.Error
		if errors.As(err, &disk) || watched.Err() != nil {
			return cause(watched, err)
		}
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	defer spooled.Discard()
	if !spooled.Same(want) {
		return fmt.Errorf("%w: the SHA-256 of %d bytes is %s, want %d bytes with %s", errDamaged, spooled.Size,
			spooled.SHA256, want.Size, want.SHA256)
	}
	return spooled.Keep(ctx, key)
}
