package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/version"
	"ingot/internal/server/backup"
	"ingot/internal/server/databases"
	"ingot/internal/server/dbcopy"
)

// RestoreConfig says what Restore restores, and where to.
type RestoreConfig struct {
	// From is where the backup is; ID is its id, empty means the newest.
	From, ID string
	Key      BackupKey
	// DataDir does not exist or is empty. DatabaseURL is an empty PostgreSQL if the backup
	// is of one; BlobURL is the bucket of the new server.
	DataDir, DatabaseURL, BlobURL string
	// SkipServices leaves the data of service instances out.
	SkipServices bool
	Log          *slog.Logger
	Tell         func(string)
}

// checkHeader returns an error if this program cannot use a backup.
func (p Parts) checkHeader(h backup.Header) error {
	if h.DataFormat > version.DataFormat {
		return &backup.NewerError{Wrote: h.Ingot, What: fmt.Sprintf("format %d of the data directory, known up to %d",
			h.DataFormat, version.DataFormat)}
	}
	dialect := db.SQLite
	if h.Database == db.Postgres.String() {
		dialect = db.Postgres
	}
	for _, m := range p.Schemas(dialect) {
		known, err := m.Newest()
		if err != nil {
			return err
		}
		if h.Schemas[m.Name] > known {
			return &backup.NewerError{Wrote: h.Ingot, What: fmt.Sprintf("version %d of the %q tables, known up to %d",
				h.Schemas[m.Name], m.Name, known)}
		}
	}
	return nil
}

// Restore brings a server back from a backup, into an empty data directory. After an
// error the directory is as before. If the process is killed, the server refuses to start
// until Restore has been called again.
func (p Parts) Restore(ctx context.Context, c RestoreConfig) error {
	trust, err := c.Key.read()
	if err != nil {
		return err
	}
	if err := databases.CheckURL(c.DatabaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	r := &restoring{opened: opened{Parts: p}, RestoreConfig: c, trust: trust}
	defer r.Unwind()
	if r.target, err = r.openBackups(ctx, c.From, c.Log); err != nil {
		return err
	}
	archive, check, err := r.target.openArchive(ctx, c.ID)
	if err != nil {
		return err
	}
	defer archive.Close()
	dir, err := datadir.BeginRestore(c.DataDir)
	if err != nil {
		return err
	}
	r.dir = dir
	if err := r.restore(ctx, archive, check); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		return errors.Join(err, dir.Abort())
	}
	return dir.Commit()
}

// restoring is a backup that is being restored, or verified.
type restoring struct {
	opened
	RestoreConfig
	trust  backup.Trust
	target place
	dir    *datadir.Restoring
	stage  string
	root   *os.Root
	blobs  Blobs
	to     *db.DB // PostgreSQL
	header backup.Header
	put    map[blobRef]bool // blobs of the archive
}

func (r *restoring) restore(ctx context.Context, archive io.Reader, check func(*backup.Manifest) error) (err error) {
	r.stage = r.dir.Dir()
	if r.root, err = os.OpenRoot(r.stage); err != nil {
		return err
	}
	defer r.root.Close()
	if r.blobs, err = r.openBlobStore(ctx, r.BlobURL, filepath.Join(r.stage, BlobsDir), r.Log); err != nil {
		return err
	}
	r.put = map[blobRef]bool{}
	m, err := backup.Read(stoppable{ctx, archive}, r.trust, backup.Visitor{
		Header: func(h backup.Header) error { return r.begin(ctx, h) },
		File:   func(name string, mode fs.FileMode, in io.Reader) error { return r.file(ctx, name, mode, in) },
	})
	if err == nil {
		err = check(m)
	}
	if err != nil {
		return err
	}
	if m.Signer == "" {
		r.Tell(unsignedNote)
	}
	if err := r.fetchBlobs(ctx, m); err != nil {
		return err
	}
	if err := r.database(ctx, m); err != nil {
		return err
	}
	r.Tell(fmt.Sprintf("Restored the database and %d packages, droplets and buildpacks of %s", len(m.Blobs),
		m.Created.Local().Format("2006-01-02 15:04:05")))
	if len(m.Missing) > 0 {
		r.Tell(fmt.Sprintf("%d packages or droplets were missing on the server already: %s", len(m.Missing),
			strings.Join(m.Missing, ", ")))
	}
	return r.restoreServices(ctx)
}

// unsignedNote is said of a backup that is accepted without a signature.
const unsignedNote = "Warning: the backup is not signed. Anyone who knows the public key and can write there may " +
	"have made it (--accept-unsigned)"

// stoppable is a reader that ends with its context.
type stoppable struct {
	ctx context.Context //nolint:containedctx // it lives as long as a call
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// begin checks that the backup can be restored here.
func (r *restoring) begin(ctx context.Context, h backup.Header) error {
	r.header = h
	if err := r.checkHeader(h); err != nil {
		return err
	}
	if h.Database != db.Postgres.String() {
		if databases.IsPostgres(r.DatabaseURL) {
			return errors.New("--database-url: the backup has SQLite databases: restore it without this flag, and move it " +
				"with 'ingot db copy'")
		}
		if path, ok := strings.CutPrefix(r.DatabaseURL, "sqlite:"); ok && filepath.Dir(path) != filepath.Clean(r.DataDir) {
			return errors.New("--database-url: the databases are restored into the data directory: restore without this flag, " +
				"and move the files afterwards")
		}
		return nil
	}
	if !databases.IsPostgres(r.DatabaseURL) {
		return errors.New("--database-url: the backup is of a server with PostgreSQL: name an empty database, " +
			"postgres://USER:PASSWORD@HOST/NAME")
	}
	var err error
	if r.to, err = r.OpenDB(ctx, db.Options{URL: r.DatabaseURL, Log: r.Log}); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	if err := dbcopy.Alone(ctx, &r.Stack, r.to, r.Log); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	return nil
}

// file writes a file of the archive.
func (r *restoring) file(ctx context.Context, name string, mode fs.FileMode, in io.Reader) error {
	if kind, key, ok := backup.ParseBlobName(name); ok {
		return r.putBlob(ctx, kind, key, in)
	}
	if err := r.makeDir(path.Dir(name)); err != nil {
		return err
	}
	f, err := r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode&0o755)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, in, make([]byte, 128<<10))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// makeDir creates a directory, and its parents. Users of apps and services pass through
// some.
func (r *restoring) makeDir(dir string) error {
	if top, _, _ := strings.Cut(dir, "/"); slices.Contains(r.Passable, top) {
		if err := r.root.MkdirAll(top, 0o711); err != nil {
			return err
		}
	}
	return r.root.MkdirAll(dir, 0o700)
}

// knows returns an error if this program has no such kind of blobs.
func (r *restoring) knows(kind string) error {
	if slices.ContainsFunc(r.Kinds, func(k BlobKind) bool { return k.Name == kind }) {
		return nil
	}
	return fmt.Errorf("the backup has blobs of the kind %q, which this program does not know", kind)
}

func (r *restoring) putBlob(ctx context.Context, kind, key string, in io.Reader) error {
	if err := r.knows(kind); err != nil {
		return err
	}
	r.put[blobRef{kind, key}] = true
	return r.blobs.Put(ctx, kind, key, in)
}

// fetchWorkers is how many blobs are read at the same time.
const fetchWorkers = 4

// fetchBlobs gets the blobs that are separate objects, and removes those of the
// archive that nothing needs.
func (r *restoring) fetchBlobs(ctx context.Context, m *backup.Manifest) error {
	for _, b := range m.Blobs {
		delete(r.put, blobRef{b.Kind, b.Key})
	}
	for ref := range r.put {
		if err := r.blobs.Delete(ctx, ref.kind, ref.key); err != nil {
			return err
		}
	}
	return r.eachObject(ctx, m, func(ctx context.Context, b backup.Blob, content io.Reader) error {
		if err := r.knows(b.Kind); err != nil {
			return err
		}
		return r.blobs.Put(ctx, b.Kind, b.Key, content)
	})
}

// eachObject calls f with the content of every blob that is a separate object.
func (r *restoring) eachObject(ctx context.Context, m *backup.Manifest, f func(context.Context, backup.Blob,
	io.Reader) error) error {
	var own []backup.Blob
	for _, b := range m.Blobs {
		if b.Object != "" {
			own = append(own, b)
		}
	}
	if len(own) > 0 && r.target.objects == nil {
		return errors.New("the blobs of this backup are not in the file: name the directory or bucket that it is from, and " +
			"--id " + m.ID)
	}
	return background.Each(ctx, "read blobs", fetchWorkers, own, func(ctx context.Context, b backup.Blob) error {
		object, err := r.target.objects.Open(ctx, b.Object)
		if errors.Is(err, fs.ErrNotExist) {
			return &backup.DamagedError{Err: fmt.Errorf("the object of %s %s is missing: %s", b.Kind, b.Key, b.Object)}
		}
		if err != nil {
			return err
		}
		defer object.Close()
		content, err := backup.ReadBlob(object, r.trust.Keys, b)
		if err != nil {
			return err
		}
		return f(ctx, b, content)
	})
}

// database checks the databases, or fills PostgreSQL.
func (r *restoring) database(ctx context.Context, m *backup.Manifest) error {
	if r.header.Database == db.SQLite.String() {
		return r.checkFiles(ctx, m)
	}
	f, err := r.root.Open(dumpFile)
	if err != nil {
		return &backup.DamagedError{Err: err}
	}
	defer f.Close()
	if r.dir.Interrupted {
		from, err := db.Within(ctx, r.to.View, func(tx *db.Tx) (string, error) { return r.Note(tx, noteRestored) })
		if err == nil && from == m.ID {
			return r.root.RemoveAll(path.Dir(dumpFile)) // the restore that was interrupted got so far
		}
	}
	restored := func(tx *db.Tx) error {
		if !r.HasNotes(m.Schemas) {
			return nil // it is migrated afterwards
		}
		return r.SetNote(tx, noteRestored, m.ID)
	}
	err = dbcopy.Load(ctx, dbcopy.Options{
		Tables: r.Tables, To: r.to, Transient: notInBackup, Report: func(dbcopy.Progress) {},
	}, m.Schemas, f, restored)
	var full *dbcopy.NotEmptyError
	if errors.As(err, &full) {
		return fmt.Errorf("--database-url: %w", err)
	}
	if err != nil {
		return err
	}
	return r.root.RemoveAll(path.Dir(dumpFile))
}

// checkFiles checks the SQLite databases and that every blob that they need exists.
func (r *restoring) checkFiles(ctx context.Context, m *backup.Manifest) error {
	have := map[blobRef]bool{}
	for _, b := range m.Blobs {
		have[blobRef{b.Kind, b.Key}] = true
	}
	for _, name := range m.Missing {
		kind, key, _ := strings.Cut(name, "/")
		have[blobRef{kind, key}] = true
	}
	for _, name := range []string{databases.PlatformFile, databases.NotificationsFile} {
		if _, ok := m.Find(name); !ok {
			return &backup.DamagedError{Err: fmt.Errorf("it has no %s", name)}
		}
		if err := r.checkDatabaseFile(ctx, filepath.Join(r.stage, name), have, name == databases.PlatformFile); err != nil {
			return &backup.DamagedError{Err: fmt.Errorf("%s: %w", name, err)}
		}
	}
	return nil
}

func (r *restoring) checkDatabaseFile(ctx context.Context, file string, have map[blobRef]bool, refs bool) error {
	d, err := db.Open(ctx, db.Options{URL: "sqlite:" + file, Log: r.Log})
	if err != nil {
		return err
	}
	var missing atomic.Int64
	err = d.View(ctx, func(tx *db.Tx) error {
		if err := tx.CheckIntegrity(); err != nil || !refs {
			return err
		}
		return r.BlobRefs(tx, func(kind, key string) {
			if !have[blobRef{kind, key}] {
				missing.Add(1)
			}
		})
	})
	if err == nil && missing.Load() > 0 {
		err = fmt.Errorf("%d packages, droplets or buildpacks that it refers to are not in the backup", missing.Load())
	}
	return errors.Join(err, d.Close())
}

// Verify reads a whole backup, compares all checksums, and checks the databases.
func (p Parts) Verify(ctx context.Context, from, id string, key BackupKey, log *slog.Logger) (*backup.Manifest, error) {
	trust, err := key.read()
	if err != nil {
		return nil, err
	}
	r := &restoring{opened: opened{Parts: p}, RestoreConfig: RestoreConfig{Log: log}, trust: trust}
	defer r.Unwind()
	if r.target, err = r.openBackups(ctx, from, log); err != nil {
		return nil, err
	}
	archive, check, err := r.target.openArchive(ctx, id)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	if r.stage, err = r.scratchDir(); err != nil {
		return nil, err
	}
	if r.root, err = os.OpenRoot(r.stage); err != nil {
		return nil, err
	}
	defer r.root.Close()
	m, err := backup.Read(stoppable{ctx, archive}, trust, backup.Visitor{
		Header: func(h backup.Header) error { r.header = h; return r.checkHeader(h) },
		File: func(name string, mode fs.FileMode, in io.Reader) error {
			switch name {
			case databases.PlatformFile, databases.NotificationsFile:
				return r.file(ctx, name, mode, in)
			case dumpFile:
				if _, err := dbcopy.CheckDump(in); err != nil {
					return &backup.DamagedError{Err: err}
				}
			}
			return nil
		},
	})
	if err == nil {
		err = check(m)
	}
	if err != nil {
		return nil, err
	}
	if r.header.Database == db.SQLite.String() {
		if err := r.checkFiles(ctx, m); err != nil {
			return nil, err
		}
	}
	return m, r.eachObject(ctx, m, func(_ context.Context, _ backup.Blob, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	})
}
