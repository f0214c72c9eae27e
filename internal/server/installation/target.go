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

	"ingot/internal/base/fault"
	"ingot/internal/server/backup"
	"ingot/internal/server/databases"
)

func isGone(err error) bool { return fault.Is(err, fault.NotFound) }

// place is where backups are: a file, or a repository.
type place struct {
	file    string
	objects backup.Objects
}

func (t place) String() string {
	if t.objects != nil {
		return t.objects.String()
	}
	return t.file
}

// fileSuffix ends the name of a target that is a file, if it does not exist yet.
const fileSuffix = ".age"

// openTarget opens the place of backups until the steps are undone: s3://…, a file (one that
// exists, or a name with the suffix), or a directory.
func (o *opened) openTarget(ctx context.Context, target string, log *slog.Logger) (t place, err error) {
	if strings.HasPrefix(target, "s3:") {
		bucket, err := o.openBucket(ctx, target, log)
		return place{objects: bucket.Backups}, err
	}
	if before, _, found := strings.Cut(target, "://"); found {
		return t, fmt.Errorf("%s:// is not supported: name a file, a directory or s3://BUCKET/PREFIX", before)
	}
	info, err := os.Stat(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	isFile := err == nil && !info.IsDir()
	if err != nil {
		isFile = strings.HasSuffix(target, fileSuffix)
	}
	if isFile {
		t.file, err = filepath.Abs(target)
		return t, err
	}
	folder, err := backup.NewFolder(target)
	return place{objects: folder}, err
}

// openBackups is openTarget for commands that read backups.
func (o *opened) openBackups(ctx context.Context, target string, log *slog.Logger) (place, error) {
	t, err := o.openTarget(ctx, target, log)
	if err == nil && !strings.HasPrefix(target, "s3:") && !databases.FileExists(target) {
		err = fmt.Errorf("%s does not exist: name the file or directory that has the backup, or s3://BUCKET/PREFIX", target)
	}
	return t, err
}

// openRepository is openTarget for commands that need several backups.
func (o *opened) openRepository(ctx context.Context, target string, log *slog.Logger) (backup.Objects, error) {
	t, err := o.openBackups(ctx, target, log)
	if err == nil && t.objects == nil {
		err = fmt.Errorf("%s is a file, which has one backup: 'ingot backup verify' shows it. Name a directory that has "+
			"backups, or s3://BUCKET/PREFIX", target)
	}
	return t.objects, err
}

// List returns the backups of a directory or bucket, the oldest first.
func (p Parts) List(ctx context.Context, target string, log *slog.Logger) ([]backup.Index, error) {
	s := opened{Parts: p}
	defer s.Unwind()
	o, err := s.openRepository(ctx, target, log)
	if err != nil {
		return nil, err
	}
	return backup.List(ctx, o)
}

// Prune removes all backups of a directory or bucket but the newest.
func (p Parts) Prune(ctx context.Context, target string, keep int, log *slog.Logger, tell func(string)) error {
	s := opened{Parts: p}
	defer s.Unwind()
	o, err := s.openRepository(ctx, target, log)
	if err != nil {
		return err
	}
	ctx, unlock, err := o.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return pruneBackups(ctx, o, keep, tell)
}

// openArchive opens a backup for reading: of a repository the one with the id, or the
// newest. check compares it with what the repository says about it.
func (t place) openArchive(ctx context.Context, id string) (archive io.ReadCloser, check func(*backup.Manifest) error,
	err error) {
	if t.objects == nil {
		if id != "" {
			return nil, nil, errors.New("--id: a file has one backup only")
		}
		archive, err = os.Open(t.file)
		return archive, func(*backup.Manifest) error { return nil }, err
	}
	found, err := backup.Find(ctx, t.objects, id)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", t, err)
	}
	archive, err = t.objects.Open(ctx, backup.ArchiveName(found.ID))
	return archive, found.Check, err
}

// BackupKey is how the private key of backups is read, and whose backups it is for.
type BackupKey struct {
	File string
	// Passphrase is called if the file is encrypted.
	Passphrase func() (string, error)
	// Signers are public parts of signing keys, ingot-signer-…, whose backups are accepted beside
	// those of the signing key that belongs to the private key.
	Signers string
	// AcceptUnsigned accepts backups without a signature.
	AcceptUnsigned bool
}

func (k BackupKey) read() (trust backup.Trust, err error) {
	if k.File == "" {
		return trust,
			errors.New("--key: the file with the private key is needed, which 'ingot backup keygen' created; it should not be " +
				"on the server")
	}
	signers, err := backup.ParseSigners(k.Signers)
	if err != nil {
		return trust, fmt.Errorf("--signer: %w", err)
	}
	keys, err := backup.ReadKey(k.File, k.Passphrase)
	if err != nil {
		return trust, fmt.Errorf("--key: %w", err)
	}
	return backup.Trust{Keys: keys, Signers: signers, AcceptUnsigned: k.AcceptUnsigned}, nil
}

// SigningKeys returns the signing keys that belong to the private keys in the file, which are for
// servers, and their public parts.
func (k BackupKey) SigningKeys() (private, public []string, err error) {
	trust, err := k.read()
	if err != nil {
		return nil, nil, err
	}
	return trust.Keys.SigningKeys()
}

// NewBackupKey writes a new private key to a file that does not exist, and returns what a server
// gets: the public key that belongs to it, and the signing key. With a passphrase the file is
// encrypted.
func NewBackupKey(path, passphrase string) (recipient, signingKey string, err error) {
	text, recipient, signingKey, err := backup.NewKey(passphrase, time.Now())
	if err != nil {
		return "", "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", "", err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", "", errors.Join(err, os.Remove(path))
	}
	return recipient, signingKey, nil
}
