package s3

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// client has the requests of minio.Core that are used. They are functions, because
// the linker keeps all methods of a type that reflection can reach, and minio.Core
// has 1.4 MB of them.
type client struct {
	GetCreds     func() (credentials.Value, error)
	BucketExists func(ctx context.Context, bucket string) (bool, error)

	PutObject func(ctx context.Context, bucket, object string, data io.Reader, size int64, md5Base64, sha256Hex string,
		o minio.PutObjectOptions) (minio.UploadInfo, error)
	StatObject func(ctx context.Context, bucket, object string, o minio.StatObjectOptions) (minio.ObjectInfo, error)
	GetObject  func(ctx context.Context, bucket, object string, o minio.GetObjectOptions) (io.ReadCloser,
		minio.ObjectInfo, http.Header, error)
	RemoveObject func(ctx context.Context, bucket, object string, o minio.RemoveObjectOptions) error
	CopyObject   func(ctx context.Context, bucket, object, toBucket, toObject string, metadata map[string]string,
		from minio.CopySrcOptions, o minio.PutObjectOptions) (minio.ObjectInfo, error)

	ListObjectsIter    func(ctx context.Context, bucket string, o minio.ListObjectsOptions) iter.Seq[minio.ObjectInfo]
	PresignedGetObject func(ctx context.Context, bucket, object string, expires time.Duration,
		parameters url.Values) (*url.URL, error)

	NewMultipartUpload func(ctx context.Context, bucket, object string, o minio.PutObjectOptions) (string, error)
	PutObjectPart      func(ctx context.Context, bucket, object, id string, part int, data io.Reader, size int64,
		o minio.PutObjectPartOptions) (minio.ObjectPart, error)
	CompleteMultipartUpload func(ctx context.Context, bucket, object, id string, parts []minio.CompletePart,
		o minio.PutObjectOptions) (minio.UploadInfo, error)
	AbortMultipartUpload func(ctx context.Context, bucket, object, id string) error
	ListMultipartUploads func(ctx context.Context, bucket, prefix, key, id, delimiter string,
		most int) (minio.ListMultipartUploadsResult, error)
}

func newClient(c Config, transport http.RoundTripper) (client, error) {
	core, err := minio.NewCore(c.endpoint, &minio.Options{
		Creds: c.keys(), Secure: !c.insecure, Transport: transport, Region: c.region, BucketLookup: c.lookup,
		MaxRetries: attempts,
	})
	if err != nil {
		return client{}, err
	}
	return client{
		core.GetCreds, core.BucketExists,
		core.PutObject, core.StatObject, core.GetObject, core.RemoveObject, core.CopyObject,
		core.ListObjectsIter, core.PresignedGetObject,
		core.NewMultipartUpload, core.PutObjectPart, core.CompleteMultipartUpload, core.AbortMultipartUpload,
		core.ListMultipartUploads,
	}, nil
}
