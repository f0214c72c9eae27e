package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

// opened is what a command has opened, until it is undone.
type opened struct {
	Parts
	steps.Stack
}

// source is what is backed up.
type source struct {
	opened
	BackupConfig
	hasDir bool
	// postgres is the database of several servers; otherwise there are files.
	postgres *db.DB
	files    []savedDatabase
	blobs    Blobs
	schemas  map[string]int64
}

// savedDatabase is an SQLite database and its name in a data directory.
type savedDatabase struct {
	name string
	db   *db.DB
}

// open opens the databases and blobs, which a server may be using.
func (in *source) open(ctx context.Context) error {
	if err := databases.CheckURL(in.DatabaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	err := datadir.Readable(in.DataDir)
	in.hasDir = err == nil
	if !in.hasDir && (!databases.IsPostgres(in.DatabaseURL) || in.EncryptionKey == "" ||
		databases.FileExists(filepath.Join(in.DataDir, "version.json"))) {
		return err
	}
	if in.hasDir || in.EncryptionKey != "" {
		// A backup without its keys could not be used.
		if _, err := datadir.ReadKeys(in.DataDir, in.EncryptionKey); err != nil {
			return err
		}
	}
	if err := in.openDatabases(ctx); err != nil {
		return err
	}
	if in.BlobURL == "" && !in.hasDir {
		return errors.New("--blob-url: without a data directory the bucket of packages and droplets is needed")
	}
	in.blobs, err = in.openBlobStore(ctx, in.BlobURL, filepath.Join(in.DataDir, BlobsDir), in.Log)
	return err
}

// openBlobStore opens a bucket, with a cache that is removed afterwards, or a directory.
func (o *opened) openBlobStore(ctx context.Context, url, dir string, log *slog.Logger) (Blobs, error) {
	if url == "" {
		return o.OpenBlobs(dir)
	}
	bucket, err := o.openBucket(ctx, url, log)
	if err != nil {
		return nil, fmt.Errorf("--blob-url: %w", err)
	}
	return bucket.Blobs, nil
}

// openBucket opens a bucket with a cache that is removed afterwards.
func (o *opened) openBucket(ctx context.Context, url string, log *slog.Logger) (Bucket, error) {
	cache, err := o.scratchDir()
	if err != nil {
		return Bucket{}, err
	}
	bucket, err := o.OpenBucket(ctx, url, cache, log)
	if err == nil {
		o.Later(bucket.Close)
	}
	return bucket, err
}

// scratchDir returns a directory that is removed when the steps are undone.
func (o *opened) scratchDir() (string, error) {
	dir, err := os.MkdirTemp("", "ingot-backup-") // 0700
	if err == nil {
		o.Later(func() { _ = os.RemoveAll(dir) })
	}
	return dir, err
}

func (in *source) openDatabases(ctx context.Context) error {
	in.schemas = map[string]int64{}
	urls := map[string]string{databases.PlatformFile: in.DatabaseURL}
	if !databases.IsPostgres(in.DatabaseURL) {
		dir, err := filepath.Abs(in.DataDir)
		if err != nil {
			return err
		}
		if in.DatabaseURL == "" {
			urls[databases.PlatformFile] = "sqlite:" + filepath.Join(dir, databases.PlatformFile)
		}
		urls[databases.NotificationsFile] = databases.NotificationsURL(urls[databases.PlatformFile], dir)
	}
	// users and clients after what refers to them
	for _, name := range []string{databases.NotificationsFile, databases.PlatformFile} {
		url, ok := urls[name]
		if !ok {
			continue
		}
		if path, isFile := strings.CutPrefix(url, "sqlite:"); isFile && !databases.FileExists(path) {
			return fmt.Errorf("the database %s does not exist: has the server been started once? --database-url names another",
				path)
		}
		d, err := in.OpenDB(ctx, db.Options{URL: url, Log: in.Log})
		if err != nil {
			return err
		}
		if d.Dialect() == db.Postgres {
			in.postgres = d
		} else {
			in.files = append(in.files, savedDatabase{name, d})
		}
		for _, m := range in.Schemas(d.Dialect()) {
			found, _, err := d.SchemaVersion(ctx, m)
			if err != nil {
				return err
			}
			if found > 0 {
				in.schemas[m.Name] = found
			}
		}
	}
	return nil
}

func (in *source) database() string {
	if in.postgres != nil {
		return db.Postgres.String()
	}
	return db.SQLite.String()
}

// BlobsDir is the folder of blobs in a data directory.
const BlobsDir = "blobs"

// saveFiles saves files of the data directory. Secrets come after the database: a key
// that is added later is not needed.
func (a *archiving) saveFiles(ctx context.Context) error {
	if a.EncryptionKey != "" {
		text := a.EncryptionKey + "\n" // the file may have commas, too
		if _, err := a.w.File(datadir.KeysPath, 0o600, int64(len(text)), strings.NewReader(text)); err != nil {
			return err
		}
	}
	if !a.hasDir {
		return nil
	}
	for i, from := range slices.Concat([]string{datadir.SecretsDir, "version.json"}, a.Files) {
		may := i > 1 // it can be missing, or vanish while it is read
		err := filepath.WalkDir(filepath.Join(a.DataDir, filepath.FromSlash(from)), func(path string, e fs.DirEntry,
			err error) error {
			if may && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			// Files whose names begin with a dot are being written.
			if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
				return nil
			}
			name, err := filepath.Rel(a.DataDir, path)
			if err != nil || a.EncryptionKey != "" && filepath.ToSlash(name) == datadir.KeysPath {
				return err
			}
			err = a.saveFile(path, filepath.ToSlash(name))
			if may && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// smallFile is the size up to which a file is read at once, so that it may change.
const smallFile = 1 << 20

func (a *archiving) saveFile(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > smallFile {
		_, err = a.w.Stream(name, info.Mode(), func(w io.Writer) error {
			_, err := io.Copy(w, f)
			return err
		})
		return err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	_, err = a.w.File(name, info.Mode(), int64(len(text)), strings.NewReader(string(text)))
	return err
}
