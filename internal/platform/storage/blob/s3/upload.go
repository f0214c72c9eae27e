package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // S3's checksum of a request, against accidents
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform/storage/blob"
)

// partsAtOnce is how many parts of one upload are sent at the same time.
const partsAtOnce = 3

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, kind blob.Kind, key string, r io.Reader,
	o blob.PutOptions) (blob.Info, error) {
	if kind == blob.Resources {
		return blob.Info{}, errors.New("blob: resources are put by AddResources")
	}
	if err := blob.CheckKey(kind, key); err != nil {
		return blob.Info{}, err
	}
	spooled, err := s.cache.Spool(ctx, kind, r, o.MaxSize)
	if err != nil {
		return blob.Info{}, err
	}
	defer spooled.Discard()
	return spooled.Info, s.store(ctx, kind, key, spooled, o.Once)
}

// store uploads a file and keeps it in the cache.
func (s *Store) store(ctx context.Context, kind blob.Kind, key string, spooled *blob.Spooled, once bool) error {
	if err := s.upload(ctx, kind, key, spooled, once); err != nil {
		return err
	}
	if err := spooled.Keep(ctx, key); err != nil {
		s.log.WarnContext(ctx, "a blob was stored, but not kept in the cache", "kind", kind, "key", key, "error", err)
		_ = s.cache.Delete(ctx, kind, key) // an older one
	}
	return nil
}

func (s *Store) upload(ctx context.Context, kind blob.Kind, key string, spooled *blob.Spooled, once bool) error {
	release, err := slot(ctx, s.uploads)
	if err != nil {
		return err
	}
	defer release()
	large := spooled.Size >= s.multipart
	if once && (large || !s.conditional) {
		if err := s.stored(ctx, kind, key, spooled.Info); !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	content, err := spooled.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	o := minio.PutObjectOptions{UserMetadata: metadata(spooled.Info), DisableContentSha256: true}
	if once && s.conditional {
		o.SetMatchETagExcept("*")
	}
	if large {
		err = s.putParts(ctx, s.name(kind, key), content, o)
	} else {
		err = s.putObject(ctx, s.name(kind, key), content, o)
	}
	if once && hasCode(err, minio.PreconditionFailed, "ConditionalRequestConflict") {
		// Another server stored it, or this one, with a request whose answer was lost.
		return s.stored(ctx, kind, key, spooled.Info)
	}
	return failed(ctx, err, "storing", kind)
}

// stored returns nil if a blob with this content exists, fault.Conflict if it has
// other content, and fault.NotFound.
func (s *Store) stored(ctx context.Context, kind blob.Kind, key string, want blob.Info) error {
	have, err := s.Stat(ctx, kind, key)
	if err == nil && !have.Same(want) {
		return blob.Exists(kind)
	}
	return err
}

// body is the content of one request. The library does not repeat a request whose body
// cannot seek: the connection may still read when it would, if the store answers before it
// has read everything. Store.repeat does, each time with another body.
type body struct{ moving }

// repeat makes a request up to some times, as long as it fails in a way that may pass. Each
// attempt may pause for a limited time.
func (s *Store) repeat(ctx context.Context, stall time.Duration, request func(ctx context.Context,
	moved func()) error) error {
	for try := 0; ; try++ {
		watched, moved, stop := watch(ctx, stall)
		err := cause(watched, request(watched, moved))
		stop()
		if err == nil || try == attempts-1 || !passing(err) {
			return err
		}
		if !background.Sleep(ctx, minio.DefaultRetryUnit<<try+rand.N(minio.DefaultRetryUnit)) { //nolint:gosec // not a secret
			return ctx.Err()
		}
	}
}

// passing reports whether a request that failed may succeed if it is repeated.
func passing(err error) bool {
	var response minio.ErrorResponse
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &response):
		return response.StatusCode >= 500 || response.StatusCode == http.StatusRequestTimeout ||
			response.StatusCode == http.StatusTooManyRequests ||
			hasCode(err, "RequestTimeout", "SlowDown", "IncompleteBody", "BadDigest")
	case errors.Is(err, errStalled), errors.Is(err, context.Canceled), errors.Is(err, errDamaged),
		errors.As(err, &authority):
		return false
	}
	return true
}

// section returns a part of content as the body of a request, with its checksums.
func section(content io.ReaderAt, offset, size int64, moved func()) (b *body, md5Base64, sha256Hex string, err error) {
	short, long := md5.New(), sha256.New() //nolint:gosec // see the import
	if _, err := io.CopyBuffer(io.MultiWriter(short, long),
		struct{ io.Reader }{io.NewSectionReader(content, offset, size)}, make([]byte, 128<<10)); err != nil {
		return nil, "", "", err
	}
	return &body{moving{io.NewSectionReader(content, offset, size), moved}},
		base64.StdEncoding.EncodeToString(short.Sum(nil)), hex.EncodeToString(long.Sum(nil)), nil
}

func (s *Store) putObject(ctx context.Context, name string, content *blob.Blob, o minio.PutObjectOptions) error {
	return s.repeat(ctx, s.stall, func(ctx context.Context, moved func()) error {
		r, md5, sha256, err := section(content, 0, content.Size(), moved)
		if err == nil {
			_, err = s.client.PutObject(ctx, s.config.bucket, name, r, content.Size(), md5, sha256, o)
		}
		return err
	})
}

// putParts uploads content in several requests. After an error none of it stays.
func (s *Store) putParts(ctx context.Context, name string, content *blob.Blob, o minio.PutObjectOptions) error {
	watched, moved, stop := watch(ctx, s.stall)
	defer stop()
	// The condition is for the last request, which makes the object.
	id, err := s.client.NewMultipartUpload(watched, s.config.bucket, name,
		minio.PutObjectOptions{UserMetadata: o.UserMetadata})
	if err != nil {
		return cause(watched, err)
	}
	parts := make([]minio.CompletePart, (content.Size()+s.part-1)/s.part)
	numbers := make([]int, len(parts))
	for i := range numbers {
		numbers[i] = i
	}
	err = background.Each(watched, "upload parts", partsAtOnce, numbers, func(ctx context.Context, i int) error {
		offset := int64(i) * s.part
		size := min(s.part, content.Size()-offset)
		return s.repeat(ctx, s.stall, func(ctx context.Context, movedPart func()) error {
			r, md5, sha256, err := section(content, offset, size, func() { moved(); movedPart() })
			if err != nil {
				return err
			}
			part, err := s.client.PutObjectPart(ctx, s.config.bucket, name, id, i+1, r, size,
				minio.PutObjectPartOptions{Md5Base64: md5, Sha256Hex: sha256, DisableContentSha256: true})
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.ETag}
			return err
		})
	})
	if err == nil {
		moved()
		o.UserMetadata = nil
		_, err = s.client.CompleteMultipartUpload(watched, s.config.bucket, name, id, parts, o)
	}
	if err != nil {
		// Purge removes what this cannot.
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.request)
		defer cancel()
		_ = s.client.AbortMultipartUpload(rest, s.config.bucket, name, id)
	}
	return cause(watched, err)
}

// cause replaces the error of a context that ended by its cause.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// abortUploads removes uploads in parts that were begun long ago.
func (s *Store) abortUploads(ctx context.Context) error {
	before := s.clock.now().Add(-sweepAge)
	watched, moved, stop := watch(ctx, s.request)
	defer stop()
	for key, id := "", ""; ; moved() {
		list, err := s.client.ListMultipartUploads(watched, s.config.bucket, s.config.prefix, key, id, "", 1000)
		if hasCode(err, minio.NoSuchUpload) {
			return nil // what some stores say if there are none
		}
		if err != nil {
			return failed(ctx, err, "listing uploads of", blob.Packages)
		}
		for _, u := range list.Uploads {
			if u.Initiated.After(before) {
				continue
			}
			moved()
			err := s.client.AbortMultipartUpload(watched, s.config.bucket, u.Key, u.UploadID)
			if err != nil && !hasCode(err, minio.NoSuchUpload) {
				return failed(ctx, err, "removing an upload of", blob.Packages)
			}
		}
		if !list.IsTruncated || len(list.Uploads) == 0 {
			return nil
		}
		key, id = list.NextKeyMarker, list.NextUploadIDMarker
	}
}
