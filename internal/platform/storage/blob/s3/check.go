package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// checkTimeout is how long the check of a bucket may take.
const checkTimeout = time.Minute

// checkedFile, in the cache, names the last bucket that passed the check.
const checkedFile = "checked"

// Open returns the store of a bucket, with a cache in dir, after checking that
// objects can be written, read, listed and deleted. The error names the step that
// failed and what to do. A store that passed the check before and does not answer
// now is only reported: the apps that run do not need it.
func Open(ctx context.Context, c Config, dir string, log *slog.Logger) (*Store, error) {
	s, err := newStore(c, dir, log)
	if err != nil {
		return nil, err
	}
	if err := s.check(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	file := filepath.Join(s.cache.Dir(), checkedFile)
	passed := s.config.String()
	err := s.try(ctx)
	if !s.conditional {
		passed += " (unconditional)"
	}
	if err == nil {
		return os.WriteFile(file, []byte(passed), 0o600)
	}
	err = fmt.Errorf("blob store %s: %w", s.config, err)
	before, readErr := os.ReadFile(file)
	if readErr != nil || !away(err) || !strings.HasPrefix(string(before), s.config.String()) {
		return err
	}
	s.conditional = string(before) == s.config.String()
	s.log.Warn("the blob store does not answer; apps run and start from the cache, pushes fail until it does",
		"error", err)
	return nil
}

// String returns the bucket, for messages.
func (c Config) String() string {
	scheme := "https"
	if c.insecure {
		scheme = "http"
	}
	return fmt.Sprintf("s3://%s at %s://%s", strings.TrimSuffix(c.bucket+"/"+c.prefix, "/"), scheme, c.endpoint)
}

// away reports whether err means that the store does not answer, and not that it
// refuses.
func away(err error) bool {
	var response minio.ErrorResponse
	return !errors.As(err, &response) || response.StatusCode >= 500
}

// errNoKeys is reported as a refusal.
var errNoKeys = minio.ErrorResponse{Code: "NoKeys", Message: "there are none", StatusCode: 401}

// try writes, reads, lists and deletes an object.
func (s *Store) try(ctx context.Context) error {
	name := s.config.prefix + "check-" + uuid.NewString()
	content := []byte("Ingot checks that it can write, read and delete objects.")
	put := func() error {
		o := minio.PutObjectOptions{DisableContentSha256: true}
		if s.conditional {
			o.SetMatchETagExcept("*")
		}
		r, md5, sha256, err := section(bytes.NewReader(content), 0, int64(len(content)), func() {})
		if err == nil {
			_, err = s.client.PutObject(ctx, s.config.bucket, name, r, int64(len(content)), md5, sha256, o)
		}
		return err
	}
	for _, step := range []struct {
		what, todo string
		do         func() error
	}{
		{"find keys", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or credentials-file=FILE in the URL, or run with " +
			"an identity of the cloud", s.findKeys},
		{"find the bucket",
			"create it, check the keys, and endpoint, region, path-style and ca-file in the URL, and allow s3:ListBucket",
			func() error {
				found, err := s.client.BucketExists(ctx, s.config.bucket)
				if err == nil && !found {
					err = minio.ErrorResponse{Code: minio.NoSuchBucket, Message: "it does not exist", StatusCode: 404}
				}
				return err
			}},
		{"write an object", "allow s3:PutObject and s3:AbortMultipartUpload", func() error {
			err := put()
			if hasCode(err, "NotImplemented", "InvalidArgument") {
				s.conditional = false
				err = put()
			}
			return err
		}},
		{"write an object only once", "", func() error {
			if !s.conditional {
				return nil
			}
			err := put()
			if err == nil {
				s.conditional = false
				s.log.Warn(
					"the blob store ignores If-None-Match: two servers that write an object at the same time are not noticed")
			}
			if hasCode(err, minio.PreconditionFailed) {
				return nil
			}
			return err
		}},
		{"read the object", "allow s3:GetObject", func() error {
			r, _, _, err := s.client.GetObject(ctx, s.config.bucket, name, minio.GetObjectOptions{})
			if err != nil {
				return err
			}
			defer r.Close()
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				return fmt.Errorf("%d of %d bytes, or other ones, were read (%w)", len(got), len(content), err)
			}
			return nil
		}},
		{"list objects", "allow s3:ListBucket", func() error {
			for object := range s.client.ListObjectsIter(ctx, s.config.bucket, minio.ListObjectsOptions{Prefix: name}) {
				return object.Err
			}
			return errors.New("the object is not in the list")
		}},
		{"delete the object", "allow s3:DeleteObject", func() error {
			return s.client.RemoveObject(ctx, s.config.bucket, name, minio.RemoveObjectOptions{})
		}},
	} {
		if err := step.do(); err != nil {
			_ = s.client.RemoveObject(ctx, s.config.bucket, name, minio.RemoveObjectOptions{}) // it may not exist
			return fmt.Errorf("cannot %s: %w (%s)", step.what, err, step.todo)
		}
	}
	return nil
}

func (s *Store) findKeys() error {
	value, err := s.client.GetCreds()
	if err != nil {
		return minio.ErrorResponse{Code: errNoKeys.Code, Message: err.Error(), StatusCode: errNoKeys.StatusCode}
	}
	if value.SignerType == credentials.SignatureAnonymous || value.AccessKeyID == "" {
		return errNoKeys
	}
	return nil
}
