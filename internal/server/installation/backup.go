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
	"strings"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/version"
	"ingot/internal/server/backup"
	"ingot/internal/server/databases"
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
	// them; empty means the file DIR/secrets/backup-signing-key.
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
func (p Parts) Backup(ctx context.Context, c BackupConfig) (BackupState, error) {
	state := BackupState{Attempted: time.Now().UTC()}
	to, err := backup.ParseRecipients(c.Recipients)
	if err != nil {
		return state, fmt.Errorf("--recipient: %w", err)
	}
	in := &source{opened: opened{Parts: p}, BackupConfig: c}
	defer in.Unwind()
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
func (in *source) signingKeys(to backup.Recipients) (backup.SigningKeys, error) {
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
// so that backups of servers from an older version keep working.
func (in *source) saveSigned(ctx context.Context, to backup.Recipients, target place, state *BackupState) error {
	by, err := in.signingKeys(to)
	if err != nil {
		return err
	}
	if state.Unsigned = len(by) == 0; state.Unsigned {
		in.Log.Warn("the backup is not signed, so that a restore cannot tell it from one that someone else made: set " +
			"INGOT_BACKUP_SIGNING_KEY, which 'ingot backup signing-key --key FILE' shows where the private key is")
	}
	return in.save(ctx, to, by, target, state)
}

// save writes the backup, and removes those that are not kept any more.
func (in *source) save(ctx context.Context, to backup.Recipients, by backup.SigningKeys, target place,
	state *BackupState) error {
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
		a := &archiving{source: in, header: h, to: to, by: by}
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
	a := &archiving{source: in, header: h, to: to, by: by, objects: target.objects}
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
	*source
	header   backup.Header
	to       backup.Recipients
	by       backup.SigningKeys
	objects  backup.Objects  // nil if blobs go into the archive
	have     map[string]bool // objects of blobs that exist
	w        *backup.Writer
	saved    map[blobRef]backup.Blob
	added    int64
	manifest *backup.Manifest
	// savedServices is the number of instances whose data was saved.
	savedServices int
	// unsaved is the number of instances whose data was not saved, firstUnsaved why.
	unsaved      int
	firstUnsaved error
}

func (a *archiving) index(size int64) backup.Index {
	i := backup.Index{
		Format: backup.Format, ID: a.header.ID, Created: a.header.Created, Finished: a.manifest.Finished,
		Ingot: a.header.Ingot, Database: a.header.Database,
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
	state.Blobs, state.Missing, state.Services, state.Unsaved = len(a.manifest.Blobs), len(a.manifest.Missing),
		a.savedServices, a.unsaved
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
	a.saved = map[blobRef]backup.Blob{}
	if err := a.saveBlobs(ctx); err != nil {
		return err
	}
	var position string
	var needed, missing map[blobRef]bool
	for n := range maxSnapshots {
		if needed, position, err = a.saveDatabases(ctx, n > 0); err != nil {
			return fmt.Errorf("database: %w", err)
		}
		if err := a.saveBlobs(ctx); err != nil {
			return err
		}
		before := missing
		missing = map[blobRef]bool{}
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
			return fmt.Errorf("%d blobs were deleted while the database was saved, %d times in a row: try again",
				len(missing)-lost, maxSnapshots)
		}
	}
	for ref, b := range a.saved {
		if !needed[ref] {
			a.w.Forget(b)
		}
	}
	var names []string
	for ref := range missing {
		names = append(names, ref.kind+"/"+ref.key)
		a.Log.Warn("the server has no blob for this row; it is not in the backup either", "kind", ref.kind, "key", ref.key)
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
func (a *archiving) saveDatabases(ctx context.Context, again bool) (needed map[blobRef]bool, position string,
	err error) {
	needed = map[blobRef]bool{}
	need := func(kind, key string) { needed[blobRef{kind, key}] = true }
	if a.postgres != nil {
		err = snapshot(ctx, a.postgres, func(tx *db.Tx) error {
			if err := tx.QueryRow("SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE " +
				"pg_current_wal_lsn() END::text").Scan(&position); err != nil {
				return err
			}
			if err := a.BlobRefs(tx, need); err != nil {
				return err
			}
			_, err := a.w.Stream(dumpFile, 0o600, func(w io.Writer) error { return dbcopy.Dump(tx, w, notInBackup) })
			return err
		})
		return needed, position, err
	}
	for _, file := range a.files {
		if again && file.name != databases.PlatformFile {
			continue
		}
		err = snapshot(ctx, file.db, func(tx *db.Tx) error {
			if file.name == databases.PlatformFile {
				if err := a.BlobRefs(tx, need); err != nil {
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
	return strings.HasPrefix(table, "cluster_") || strings.HasPrefix(table, "log_") ||
		table == "platform_drain_positions" || table == "platform_backups"
}

// blobRef is the kind and key of a blob.
type blobRef struct{ kind, key string }

// saveBlobs saves the blobs that are not saved yet.
func (a *archiving) saveBlobs(ctx context.Context) error {
	for _, kind := range a.Kinds {
		err := a.blobs.List(ctx, kind.Name, func(key string) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			ref := blobRef{kind.Name, key}
			if _, ok := a.saved[ref]; ok && !kind.Changes {
				return nil
			}
			return a.saveBlob(ctx, ref)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *archiving) saveBlob(ctx context.Context, ref blobRef) error {
	one, err := a.blobs.Stat(ctx, ref.kind, ref.key)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if old, ok := a.saved[ref]; ok && old.SHA256 == one.SHA256 {
		return nil
	}
	if a.objects != nil {
		one.Object = a.to.BlobObject(one.SHA256)
		if a.have[one.Object] {
			a.saved[ref] = one
			return a.w.Blob(one, nil)
		}
	}
	one, content, err := a.blobs.Open(ctx, ref.kind, ref.key)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer content.Close()
	if a.objects == nil {
		err = a.w.Blob(one, content)
	} else {
		one, err = a.saveObject(ctx, one, content)
	}
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

// saveObject writes the object of a blob.
func (a *archiving) saveObject(ctx context.Context, one backup.Blob, content io.Reader) (backup.Blob, error) {
	one.Object = a.to.BlobObject(one.SHA256)
	size, err := a.to.PutSealed(ctx, a.objects, one.Object, backup.NewChecked(content, one))
	if err != nil {
		return one, err
	}
	a.have[one.Object] = true
	a.added += size
	return one, a.w.Blob(one, nil)
}
