package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/version"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/server/backup"
	"ingot/internal/server/dbcopy"
)

// BackupConfig says what Backup saves, and where.
type BackupConfig struct {
	// DataDir, DatabaseURL, BlobURL, PostgresURL and MySQLURL are those of the server.
	// With PostgreSQL and an EncryptionKey there need not be a data directory.
	DataDir, DatabaseURL, BlobURL, PostgresURL, MySQLURL string
	EncryptionKey                                        string
	// Target is a file that does not exist yet, a directory, or s3://….
	Target string
	// Recipients are public keys, age1…. SigningKey is the text of the signing keys that belong to
	// them; empty means that of the data directory, DIR/secrets/backup-signing-key.
	Recipients, SigningKey string
	// Keep is how many backups a directory or bucket keeps; 0 means all.
	Keep int
	// SkipServices leaves out the data of service instances.
	SkipServices bool
	Log          *slog.Logger
	// Tell is called with lines of text for the user.
	Tell func(string)
}

// Names of the databases in a backup. Those of SQLite are also the names in the data
// directory.
const dumpFile = "database/postgres.dump"

// Backup saves a server, which may be running, and records in its data directory or
// database how it went. If the state has Unsaved services, there is a backup and an error.
func Backup(ctx context.Context, c BackupConfig) (BackupState, error) {
	state := BackupState{Attempted: time.Now().UTC()}
	to, err := backup.ParseRecipients(c.Recipients)
	if err != nil {
		return state, fmt.Errorf("--recipient: %w", err)
	}
	in := &installation{BackupConfig: c}
	defer in.unwind()
	if err := in.open(ctx); err != nil {
		return state, err
	}
	target, err := in.openTarget(ctx, c.Target, c.Log)
	if err == nil {
		state.Target = target.String()
		err = in.saveSigned(ctx, to, target, &state)
	}
	if err != nil {
		state.Failure = err.Error()
	}
	if err := in.record(context.WithoutCancel(ctx), state); err != nil {
		c.Log.Warn("the result of the backup could not be recorded, so that metrics do not show it", "error", err)
	}
	return state, err
}

// signingKeyFile is the file of the signing key of backups in the data directory.
const signingKeyFile = datadir.SecretsDir + "/backup-signing-key"

// signingKeys returns the keys with which the backup is signed; none if the server has none.
func (in *installation) signingKeys(to backup.Recipients) (backup.SigningKeys, error) {
	text, from := in.SigningKey, "INGOT_BACKUP_SIGNING_KEY"
	if text == "" && in.hasDir {
		from = filepath.Join(in.DataDir, filepath.FromSlash(signingKeyFile))
		var err error
		text, err = datadir.ReadSecret(from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if text == "" {
		return nil, nil
	}
	keys, err := backup.ParseSigningKeys(text, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return keys, nil
}

// saveSigned is save with the signing keys of the server. Without one the backup is not signed,
// so that servers of an older version go on to be backed up.
func (in *installation) saveSigned(ctx context.Context, to backup.Recipients, target backupTarget, state *BackupState) error {
	by, err := in.signingKeys(to)
	if err != nil {
		return err
	}
	if state.Unsigned = len(by) == 0; state.Unsigned {
		in.Log.Warn("the backup is not signed, so that a restore cannot tell it from one that someone else made: set INGOT_BACKUP_SIGNING_KEY, which 'ingot backup signing-key --key FILE' shows where the private key is")
	}
	return in.save(ctx, to, by, target, state)
}

// save writes the backup, and removes those that are not kept any more.
func (in *installation) save(ctx context.Context, to backup.Recipients, by backup.SigningKeys, target backupTarget, state *BackupState) error {
	h := backup.Header{
		ID: backup.NewID(state.Attempted), Created: state.Attempted, Ingot: version.Version, DataFormat: version.DataFormat,
		Database: in.database(), Schemas: in.schemas,
	}
	if target.file != "" {
		if in.Keep > 0 {
			return errors.New("--keep: a file has one backup; name a directory or s3://BUCKET/PREFIX to keep several")
		}
		if _, err := os.Lstat(target.file); err == nil {
			return fmt.Errorf("%s already exists: name another file, or a directory, which keeps several backups", target.file)
		}
		a := &archiving{installation: in, header: h, to: to, by: by}
		if err := backup.WriteFile(target.file, func(w io.Writer) error { return a.write(ctx, w) }); err != nil {
			return err
		}
		info, err := os.Stat(target.file)
		if err != nil {
			return err
		}
		a.finish(state, info.Size(), info.Size())
		return a.incomplete()
	}
	ctx, unlock, err := target.objects.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	a := &archiving{installation: in, header: h, to: to, by: by, objects: target.objects}
	if a.have, err = to.BlobObjects(ctx, target.objects); err != nil {
		return err
	}
	size, err := backup.PutArchive(ctx, target.objects, h.ID, func(w io.Writer) error { return a.write(ctx, w) })
	if err == nil {
		err = backup.Commit(ctx, target.objects, a.index(size))
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return errors.Join(err, target.objects.Delete(context.WithoutCancel(ctx), backup.ArchiveName(h.ID)))
	}
	a.finish(state, size, size+a.added)
	if err := a.incomplete(); err != nil {
		return err // an older backup may have what this one does not
	}
	if in.Keep > 0 {
		return pruneBackups(ctx, target.objects, in.Keep, in.Tell)
	}
	return nil
}

func pruneBackups(ctx context.Context, o backup.Objects, keep int, tell func(string)) error {
	pruned, err := backup.Prune(ctx, o, keep)
	for _, id := range pruned.Backups {
		tell("Removed the backup " + id)
	}
	if err == nil && pruned.Objects > 0 {
		tell(fmt.Sprintf("Removed %s of objects that no backup needs (%d)", sizeOf(pruned.Size), pruned.Objects))
	}
	return err
}

func sizeOf(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// archiving is a backup that is being written.
type archiving struct {
	*installation
	header   backup.Header
	to       backup.Recipients
	by       backup.SigningKeys
	objects  backup.Objects  // nil if blobs go into the archive
	have     map[string]bool // objects of blobs that exist
	w        *backup.Writer
	saved    map[platformdb.BlobRef]backup.Blob
	added    int64
	manifest *backup.Manifest
	services int // whose data was saved
	// unsaved is the number of instances whose data was not saved, firstUnsaved why.
	unsaved      int
	firstUnsaved error
}

func (a *archiving) index(size int64) backup.Index {
	i := backup.Index{
		Format: backup.Format, ID: a.header.ID, Created: a.header.Created, Finished: a.manifest.Finished, Ingot: a.header.Ingot, Database: a.header.Database,
		Size: size, Added: size + a.added, Unsaved: a.unsaved,
	}
	for _, b := range a.manifest.Blobs {
		i.BlobSize += b.Size
		i.Objects = append(i.Objects, b.Object)
	}
	return i
}

func (a *archiving) finish(state *BackupState, size, added int64) {
	now := time.Now().UTC()
	state.ID, state.Finished, state.Size, state.Added = a.header.ID, &now, size, added
	state.Blobs, state.Missing, state.Services, state.Unsaved = len(a.manifest.Blobs), len(a.manifest.Missing), a.services, a.unsaved
	for _, b := range a.manifest.Blobs {
		state.BlobSize += b.Size
	}
}

// maxSnapshots is how often the database is saved at most.
const maxSnapshots = 5

// write writes the archive. Blobs are saved before the database, and those that came
// meanwhile after it. A blob is stored before the row that needs it is, and deleted after
// that row: so one that a row of the snapshot needs and that is not saved was deleted
// after the snapshot, and a later snapshot does not need it. Unless it does: then the
// server itself has lost it.
func (a *archiving) write(ctx context.Context, w io.Writer) (err error) {
	if a.w, err = backup.NewWriter(w, a.to, a.by, a.header); err != nil {
		return err
	}
	a.saved = map[platformdb.BlobRef]backup.Blob{}
	if err := a.saveBlobs(ctx); err != nil {
		return err
	}
	var position string
	var needed, missing map[platformdb.BlobRef]bool
	for n := range maxSnapshots {
		if needed, position, err = a.saveDatabases(ctx, n > 0); err != nil {
			return fmt.Errorf("database: %w", err)
		}
		if err := a.saveBlobs(ctx); err != nil {
			return err
		}
		before := missing
		missing = map[platformdb.BlobRef]bool{}
		lost := 0
		for ref := range needed {
			if _, ok := a.saved[ref]; !ok {
				missing[ref] = true
				if before[ref] {
					lost++
				}
			}
		}
		if lost == len(missing) {
			break
		}
		a.Log.Info("a blob was deleted while the database was saved, which is saved again", "blobs", len(missing)-lost)
		if n == maxSnapshots-1 {
			return fmt.Errorf("%d blobs were deleted while the database was saved, %d times in a row: try again", len(missing)-lost, maxSnapshots)
		}
	}
	for ref, b := range a.saved {
		if !needed[ref] {
			a.w.Forget(b)
		}
	}
	var names []string
	for ref := range missing {
		names = append(names, ref.Kind+"/"+ref.Key)
		a.Log.Warn("the server has no blob for this row; it is not in the backup either", "kind", ref.Kind, "key", ref.Key)
	}
	if err := a.saveFiles(ctx); err != nil {
		return err
	}
	if err := a.saveServices(ctx); err != nil {
		return fmt.Errorf("services: %w; --skip-services leaves out their data", err)
	}
	a.manifest, err = a.w.Close(position, names)
	return err
}

// saveDatabases saves the databases and returns which blobs they need. Again means that
// only the one with blobs is saved.
func (a *archiving) saveDatabases(ctx context.Context, again bool) (needed map[platformdb.BlobRef]bool, position string, err error) {
	needed = map[platformdb.BlobRef]bool{}
	need := func(ref platformdb.BlobRef) { needed[ref] = true }
	if a.postgres != nil {
		err = snapshot(ctx, a.postgres, func(tx *db.Tx) error {
			if err := tx.QueryRow("SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text").Scan(&position); err != nil {
				return err
			}
			if err := platformdb.BlobRefs(tx, need); err != nil {
				return err
			}
			_, err := a.w.Stream(dumpFile, 0o600, func(w io.Writer) error { return dbcopy.Dump(tx, w, notInBackup) })
			return err
		})
		return needed, position, err
	}
	for _, file := range a.files {
		if again && file.name != databaseFile {
			continue
		}
		err = snapshot(ctx, file.db, func(tx *db.Tx) error {
			if file.name == databaseFile {
				if err := platformdb.BlobRefs(tx, need); err != nil {
					return err
				}
			}
			_, err := a.w.Stream(file.name, 0o600, func(w io.Writer) error {
				_, err := tx.WritePages(w)
				return err
			})
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	return needed, "", nil
}

// snapshot calls f in a transaction, once: what it writes cannot be taken back.
func snapshot(ctx context.Context, d *db.DB, f func(*db.Tx) error) error {
	began := false
	return d.View(ctx, func(tx *db.Tx) error {
		if began {
			return errors.New("the database broke off the transaction: try again")
		}
		began = true
		return f(tx)
	})
}

// notInBackup reports whether a table is left out: running servers, and log lines with
// the positions in them.
func notInBackup(table string) bool {
	return strings.HasPrefix(table, "cluster_") || strings.HasPrefix(table, "log_") || table == "platform_drain_positions" || table == "platform_backups"
}

// savedKinds are the kinds of blobs in a backup. Build caches and the pool of resources
// are left out: builds and pushes fill them again.
var savedKinds = []blob.Kind{blob.Packages, blob.Droplets, blob.Buildpacks}

// saveBlobs saves the blobs that are not saved yet.
func (a *archiving) saveBlobs(ctx context.Context) error {
	for _, kind := range savedKinds {
		for item, err := range a.blobs.List(ctx, kind) {
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			ref := platformdb.BlobRef{Kind: kind.Dir(), Key: item.Key}
			// A package or droplet never changes.
			if _, ok := a.saved[ref]; ok && kind != blob.Buildpacks {
				continue
			}
			if err := a.saveBlob(ctx, kind, ref); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *archiving) saveBlob(ctx context.Context, kind blob.Kind, ref platformdb.BlobRef) error {
	info, err := a.blobs.Stat(ctx, kind, ref.Key)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if old, ok := a.saved[ref]; ok && old.SHA256 == info.SHA256 {
		return nil
	}
	if a.objects != nil {
		one := backup.Blob{Kind: ref.Kind, Key: ref.Key, Size: info.Size, SHA256: info.SHA256, Object: a.to.BlobObject(info.SHA256)}
		if a.have[one.Object] {
			a.saved[ref] = one
			return a.w.Blob(one, nil)
		}
	}
	content, err := a.blobs.Open(ctx, kind, ref.Key)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer content.Close()
	one := backup.Blob{Kind: ref.Kind, Key: ref.Key, Size: content.Size(), SHA256: content.SHA256}
	if a.objects == nil {
		err = a.w.Blob(one, content)
		var damaged *backup.BlobError
		if errors.As(err, &damaged) {
			// The backup of all others is worth more than none. Its row is reported as one without a blob.
			a.Log.Error("a blob is damaged and not in the backup", "error", damaged)
			return nil
		}
		if err == nil {
			a.saved[ref] = one
		}
		return err
	}
	return a.saveObject(ctx, ref, one, content)
}

// saveObject writes the object of a blob.
func (a *archiving) saveObject(ctx context.Context, ref platformdb.BlobRef, one backup.Blob, content io.Reader) error {
	one.Object = a.to.BlobObject(one.SHA256)
	checked := backup.NewChecked(content, one)
	size, err := a.to.PutSealed(ctx, a.objects, one.Object, checked)
	var damaged *backup.BlobError
	if errors.As(err, &damaged) {
		a.Log.Error("a blob is damaged and not in the backup", "error", damaged)
		return nil
	}
	if err != nil {
		return err
	}
	a.have[one.Object] = true
	a.added += size
	a.saved[ref] = one
	return a.w.Blob(one, nil)
}
