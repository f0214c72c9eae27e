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

	"ingot/internal/base/backup"
	"ingot/internal/base/fault"
)

func isGone(err error) bool { return fault.Is(err, fault.NotFound) }

// backupTarget is where backups are: a file, or a repository.
type backupTarget struct {
	file    string
	objects backup.Objects
}

func (t backupTarget) String() string {
	if t.objects != nil {
		return t.objects.String()
	}
	return t.file
}

// openTarget opens the place of backups until the steps are undone: s3://…, a directory
// (one that exists, or a name with a slash at its end), or a file.
func (s *steps) openTarget(ctx context.Context, target string, log *slog.Logger) (t backupTarget, err error) {
	if strings.HasPrefix(target, "s3:") {
		cache, err := s.scratchDir()
		if err != nil {
			return t, err
		}
		bucket, err := openBucket(ctx, target, cache, nil, log)
		if err != nil {
			return t, err
		}
		s.later(bucket.Close)
		return backupTarget{objects: bucket.Backups()}, nil
	}
	if before, _, found := strings.Cut(target, "://"); found {
		return t, fmt.Errorf("%s:// is not supported: name a file, a directory or s3://BUCKET/PREFIX", before)
	}
	info, err := os.Stat(target)
	if err == nil && info.IsDir() || strings.HasSuffix(target, "/") {
		folder, err := backup.NewFolder(target)
		return backupTarget{objects: folder}, err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	t.file, err = filepath.Abs(target)
	return t, err
}

// openRepository is openTarget for commands that need several backups.
func (s *steps) openRepository(ctx context.Context, target string, log *slog.Logger) (backup.Objects, error) {
	t, err := s.openTarget(ctx, target, log)
	if err == nil && t.objects == nil {
		err = fmt.Errorf("%s is not a directory: name one that has backups, or s3://BUCKET/PREFIX", target)
	}
	return t.objects, err
}

// ListBackups returns the backups of a directory or bucket, the oldest first.
func ListBackups(ctx context.Context, target string, log *slog.Logger) ([]backup.Index, error) {
	var s steps
	defer s.unwind()
	o, err := s.openRepository(ctx, target, log)
	if err != nil {
		return nil, err
	}
	return backup.List(ctx, o)
}

// PruneBackups removes all backups of a directory or bucket but the newest.
func PruneBackups(ctx context.Context, target string, keep int, log *slog.Logger, tell func(string)) error {
	var s steps
	defer s.unwind()
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
// newest.
func (t backupTarget) openArchive(ctx context.Context, id string) (io.ReadCloser, error) {
	if t.objects == nil {
		if id != "" {
			return nil, errors.New("--id: a file has one backup only")
		}
		return os.Open(t.file)
	}
	found, err := backup.Find(ctx, t.objects, id)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return t.objects.Open(ctx, backup.ArchiveName(found.ID))
}

// BackupKey is how the private key of backups is read.
type BackupKey struct {
	File string
	// Passphrase is called if the file is encrypted.
	Passphrase func() (string, error)
}

func (k BackupKey) read() (backup.Identities, error) {
	if k.File == "" {
		return nil, errors.New("--key: the file with the private key is needed, which 'ingot backup keygen' created; it should not be on the server")
	}
	keys, err := backup.ReadKey(k.File, k.Passphrase)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	return keys, nil
}

// NewBackupKey writes a new private key to a file that does not exist, and returns the
// public key that belongs to it. With a passphrase the file is encrypted.
func NewBackupKey(path, passphrase string) (recipient string, err error) {
	text, recipient, err := backup.NewKey(passphrase, time.Now())
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return recipient, nil
}
