// Package s3 stores blobs as objects in a bucket of an S3-compatible store, so that
// several servers can share them. It implements blob.Store.
//
// # Objects
//
// The blob with a key is the object PREFIX/<kind>/<key>, with its SHA-256, SHA-1 and
// size as user metadata. Content is first written to a local file, so that its size
// and checksums are known and a failed request can be repeated, and then uploaded
// with Content-MD5: in one request, or from 64 MiB on in parts of 16 MiB. Blobs that
// are put once are written with If-None-Match: *, so that of two servers the first
// wins.
//
// Trailing checksums of the library are off: several stores that are compatible
// otherwise corrupt content with them. The checksums in the metadata are checked
// whenever content is downloaded.
//
// # The cache
//
// Blobs are opened through a cache on the local disk, which survives restarts and
// holds what this server uploaded or downloaded last. Packages, droplets and
// resources never change, so that they are opened without a request; other kinds are
// compared with the object. Many readers of one blob wait for one download.
//
// # The pool of resources
//
// There is no index: a match is a HEAD request for each file, several at a time, and
// only for files of at least 64 KiB, like in Cloud Foundry. An index in the database
// would have to be kept in step with the bucket, and the packages that have
// thousands of files have thousands of small ones. An object that is matched is
// copied onto itself once a day, which renews its time; Purge removes those that were
// not used for 30 days.
//
// # Failures
//
// Every request ends: connecting, waiting for an answer and pauses in between are
// limited, and the number of uploads and downloads at a time. When the store does
// not answer, the error is fault.Unavailable, and what is in the cache can still be
// opened.
//
// Imports: base/background, base/fault, platform/storage/blob,
// github.com/google/uuid, github.com/minio/minio-go/v7,
// github.com/minio/minio-go/v7/pkg/credentials,
// github.com/minio/minio-go/v7/pkg/s3utils.
package s3
