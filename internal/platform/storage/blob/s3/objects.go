package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"ingot/internal/base/fault"
)

// Objects keeps small pieces of data in a folder of the bucket, without a cache: sealed
// log lines.
type Objects struct {
	store  *Store
	folder string
}

// Objects returns the objects of a folder, which must not be that of a kind of blob.
func (s *Store) Objects(folder string) *Objects { return &Objects{s, folder} }

func (o *Objects) name(name string) string { return o.store.config.prefix + o.folder + "/" + name }

// maxObject limits what is read into memory.
const maxObject = 64 << 20

// Put stores an object.
func (o *Objects) Put(ctx context.Context, name string, data []byte) error {
	s := o.store
	sum := sha256.Sum256(data)
	return o.failed(s.repeat(ctx, s.request, func(ctx context.Context, moved func()) error {
		r, md5, sha, err := section(bytes.NewReader(data), 0, int64(len(data)), moved)
		if err != nil {
			return err
		}
		_, err = s.client.PutObject(ctx, s.config.bucket, o.name(name), r, int64(len(data)), md5, sha, minio.PutObjectOptions{
			UserMetadata: map[string]string{metaSHA256: hex.EncodeToString(sum[:])}, DisableContentSha256: true,
		})
		return err
	}), "storing")
}

// Get returns an object. It is fault.NotFound if there is none.
func (o *Objects) Get(ctx context.Context, name string) ([]byte, error) {
	s := o.store
	var data []byte
	err := s.repeat(ctx, s.request, func(ctx context.Context, moved func()) error {
		r, object, _, err := s.client.GetObject(ctx, s.config.bucket, o.name(name), minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer r.Close()
		if data, err = io.ReadAll(io.LimitReader(moving{r, moved}, maxObject)); err != nil { // a part has another SHA-256
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != object.UserMetadata[metaSHA256] {
			return fmt.Errorf("%w: %s has another SHA-256 than it says", errDamaged, object.Key)
		}
		return nil
	})
	return data, o.failed(err, "loading")
}

// Delete deletes an object. It is not an error if that does not exist.
func (o *Objects) Delete(ctx context.Context, name string) error {
	short, cancel := context.WithTimeout(ctx, o.store.request)
	defer cancel()
	return o.failed(o.store.client.RemoveObject(short, o.store.config.bucket, o.name(name), minio.RemoveObjectOptions{}),
		"deleting")
}

func (o *Objects) failed(err error, doing string) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errDamaged):
		return err
	case hasCode(err, minio.NoSuchKey, "NotFound"):
		return fault.Wrap(err, fault.NotFound, "The object is not stored here")
	}
	return fault.Wrap(err, fault.Unavailable,
		"The blob store of the platform does not work at the moment (%s %s). Try again later.", doing, o.folder)
}
