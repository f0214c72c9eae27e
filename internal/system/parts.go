package system

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"

	"ingot/internal/auth/authdb"
	"ingot/internal/base/db"
	"ingot/internal/broker"
	"ingot/internal/console/consoledb"
	"ingot/internal/notify/notifydb"
	"ingot/internal/platform/alerts"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/server/backup"
	"ingot/internal/server/cluster"
	"ingot/internal/server/dbcopy"
	"ingot/internal/server/installation"
)

// Tables returns the tables of all services.
func Tables() dbcopy.Tables {
	return dbcopy.Tables{
		Schemas: schemas,
		Sealed: slices.Concat(authdb.SealedColumns, platformdb.SealedColumns, consoledb.SealedColumns,
			notifydb.SealedColumns()),
		Seeded: []string{"notify_numbers"},
		Prepare: func(from, to *db.Tx) error {
			if from.Dialect() != db.Postgres {
				return nil // its lines are in files
			}
			return logdb.CopyPartitions(from, to)
		},
	}
}

func schemas(dialect db.Dialect) []db.Migrations {
	all := []db.Migrations{authdb.Migrations, platformdb.Migrations, consoledb.Migrations, notifydb.Migrations(dialect)}
	if dialect == db.Postgres {
		all = append(all, cluster.Migrations(), logdb.Migrations)
	}
	return all
}

// savedKinds are the kinds of blobs in a backup. Build caches, git repositories and the pool
// of resources are left out: builds and pushes fill them again.
var savedKinds = []blob.Kind{blob.Packages, blob.Droplets, blob.Buildpacks}

// containersDir contains the instances of the container engine.
const containersDir = "containers"

// Parts returns what a server consists of, for the commands for backups.
func Parts() installation.Parts {
	p := installation.Parts{
		Tables: Tables(),
		BlobRefs: func(tx *db.Tx, yield func(kind, key string)) error {
			return platformdb.BlobRefs(tx, func(ref platformdb.BlobRef) { yield(ref.Kind, ref.Key) })
		},
		OpenBlobs: func(dir string) (installation.Blobs, error) {
			files, err := blob.Open(dir)
			return savedBlobs{files}, err
		},
		OpenBucket: func(ctx context.Context, url, cache string, log *slog.Logger) (installation.Bucket, error) {
			bucket, err := openBucket(ctx, url, cache, nil, log)
			if err != nil {
				return installation.Bucket{}, err
			}
			return installation.Bucket{Blobs: savedBlobs{bucket}, Backups: bucket.Backups(backup.ErrBusy), Close: bucket.Close},
				nil
		},
		Files: []string{
			"engine.json", alerts.PositionFile, alerts.OldPositionFile, // the old one while a server of an older version runs
			"notifications", servicesDir + "/broker",
			// The credentials of service bindings have an address of this network.
			containersDir + "/network.json",
		},
		Passable: []string{servicesDir, containersDir},
		Note:     platformdb.BackupNote, SetNote: platformdb.SetBackupNote,
		HasNotes: func(schemas map[string]int64) bool {
			return schemas[platformdb.Migrations.Name] >= platformdb.BackupNotes
		},
		Services: installation.Services{
			Dir: servicesDir, Savable: savableServices, Restore: restoreServices, FailedSuffix: broker.FailedSuffix,
		},
	}
	for _, kind := range savedKinds {
		// A package or droplet never changes.
		p.Kinds = append(p.Kinds, installation.BlobKind{Name: kind.Dir(), Changes: kind == blob.Buildpacks})
	}
	return p
}

// savedBlobs adapts a store of blobs for backups.
type savedBlobs struct{ blob.Store }

// kindOf returns the kind of a folder of blobs.
func kindOf(dir string) blob.Kind {
	for _, kind := range savedKinds {
		if kind.Dir() == dir {
			return kind
		}
	}
	return 0
}

func (s savedBlobs) List(ctx context.Context, kind string, each func(key string) error) error {
	for item, err := range s.Store.List(ctx, kindOf(kind)) {
		if err == nil {
			err = each(item.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s savedBlobs) Stat(ctx context.Context, kind, key string) (backup.Blob, error) {
	info, err := s.Store.Stat(ctx, kindOf(kind), key)
	return backup.Blob{Kind: kind, Key: key, Size: info.Size, SHA256: info.SHA256}, err
}

func (s savedBlobs) Open(ctx context.Context, kind, key string) (backup.Blob, io.ReadCloser, error) {
	content, err := s.Store.Open(ctx, kindOf(kind), key)
	if err != nil {
		return backup.Blob{}, nil, err
	}
	return backup.Blob{Kind: kind, Key: key, Size: content.Size(), SHA256: content.SHA256}, content, nil
}

func (s savedBlobs) Put(ctx context.Context, kind, key string, r io.Reader) error {
	_, err := s.Store.Put(ctx, kindOf(kind), key, r, blob.PutOptions{})
	return err
}

func (s savedBlobs) Delete(ctx context.Context, kind, key string) error {
	return s.Store.Delete(ctx, kindOf(kind), key)
}

func brokerConfig(c installation.ServicesConfig) broker.Config {
	return broker.Config{Dir: c.Dir, Keys: c.Keys, PostgresURL: c.PostgresURL, MySQLURL: c.MySQLURL, Log: c.Log}
}

func savableServices(c installation.ServicesConfig) ([]installation.Service, error) {
	found, err := broker.Savable(brokerConfig(c))
	all := make([]installation.Service, 0, len(found))
	for _, one := range found {
		all = append(all, installation.Service{Name: one.Name, Save: func(ctx context.Context,
			w io.Writer) ([]string, error) {
			missing, err := one.Save(ctx, w)
			var unsaved *broker.UnsavedError
			if errors.As(err, &unsaved) {
				err = &installation.UnsavedError{Err: unsaved, Why: unsaved.Why}
			}
			return missing, err
		}})
	}
	return all, err
}

func restoreServices(ctx context.Context, c installation.ServicesConfig,
	open func(string) (io.ReadCloser, error)) (installation.RestoredServices, error) {
	done, err := broker.Restore(ctx, brokerConfig(c), open)
	return installation.RestoredServices(done), err
}
