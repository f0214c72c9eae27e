package installation

import (
	"context"
	"io"
	"log/slog"

	"ingot/internal/base/db"
	"ingot/internal/base/seal"
	"ingot/internal/server/backup"
	"ingot/internal/server/dbcopy"
)

// Parts are what a server consists of. Its methods are the commands for backups.
type Parts struct {
	dbcopy.Tables
	// Kinds are the blobs that are saved.
	Kinds []BlobKind
	// BlobRefs calls yield with every blob that the database of the platform refers to.
	BlobRefs func(tx *db.Tx, yield func(kind, key string)) error
	// OpenBlobs opens the blobs in a directory.
	OpenBlobs func(dir string) (Blobs, error)
	// OpenBucket opens a bucket by its URL, with a cache in a directory.
	OpenBucket func(ctx context.Context, url, cache string, log *slog.Logger) (Bucket, error)
	// Files are files and folders of the data directory that are saved beside its secrets. They
	// may be missing, and may vanish while they are read.
	Files []string
	// Passable are folders of the data directory that users of apps and services pass through.
	Passable []string
	// Note returns a text about backups in the database of the platform, "" if there is none, and
	// SetNote writes it. HasNotes reports whether tables of these versions have them.
	Note     func(tx *db.Tx, name string) (string, error)
	SetNote  func(tx *db.Tx, name, value string) error
	HasNotes func(schemas map[string]int64) bool
	Services Services
}

// BlobKind is a kind of blobs.
type BlobKind struct {
	Name string
	// Changes means that a blob can get another content.
	Changes bool
}

// Blobs are the packages, droplets and buildpacks of a server.
type Blobs interface {
	// List calls each with the keys of a kind, until it returns an error.
	List(ctx context.Context, kind string, each func(key string) error) error
	// Stat describes a blob; fault.NotFound means that there is none.
	Stat(ctx context.Context, kind, key string) (backup.Blob, error)
	// Open is Stat with the content.
	Open(ctx context.Context, kind, key string) (backup.Blob, io.ReadCloser, error)
	Put(ctx context.Context, kind, key string, r io.Reader) error
	Delete(ctx context.Context, kind, key string) error
}

// Bucket is a bucket with the blobs of a server or with backups.
type Bucket struct {
	Blobs   Blobs
	Backups backup.Objects
	Close   func()
}

// Services are the service instances of the bundled broker. Dir is its folder in the data
// directory.
type Services struct {
	Dir string
	// Savable returns the instances whose data can be saved.
	Savable func(ServicesConfig) ([]Service, error)
	// Restore creates the instances with the data that open returns by its name.
	Restore func(ctx context.Context, c ServicesConfig, open func(name string) (io.ReadCloser, error)) (RestoredServices,
		error)
	// FailedSuffix follows the name of an instance's data in the name of a file that says why
	// the data is not complete.
	FailedSuffix string
}

// ServicesConfig says where service instances are.
type ServicesConfig struct {
	Dir                   string
	Keys                  *seal.Keyring
	PostgresURL, MySQLURL string
	Log                   *slog.Logger
}

// Service is a service instance.
type Service struct {
	// Name is a file name that identifies it.
	Name string
	// Save writes its data to w, and returns a line about each object that is missing in it. An
	// UnsavedError means that the data is not complete, any other that the backup fails.
	Save func(ctx context.Context, w io.Writer) ([]string, error)
}

// UnsavedError means that the data of a service instance could not be saved.
type UnsavedError struct {
	Err error
	Why string // without the name of the instance
}

func (e *UnsavedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnsavedError) Unwrap() error { return e.Err }

// RestoredServices is what a restore of service instances did.
type RestoredServices struct {
	Instances int
	Lost      []string // lines about what could not be restored
}
