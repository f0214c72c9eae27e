package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/filelock"
)

// Folder is a repository in a directory.
type Folder struct{ dir string }

var _ Objects = (*Folder)(nil)

// partialSuffix ends the names of files that are being written.
const partialSuffix = ".partial"

// NewFolder returns the repository in a directory, which Put creates if necessary.
func NewFolder(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	return &Folder{dir}, err
}

func (f *Folder) String() string { return f.dir }

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Put implements Objects.
func (f *Folder) Put(ctx context.Context, name string, r io.Reader) (int64, error) {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	var size int64
	err := WriteFile(path, func(w io.Writer) (err error) {
		size, err = io.CopyBuffer(struct{ io.Writer }{w}, stopping{ctx, r}, make([]byte, 256<<10))
		return err
	})
	return size, err
}

// stopping is a reader that ends with its context.
type stopping struct {
	ctx context.Context //nolint:containedctx // it lives as long as a call
	r   io.Reader
}

func (s stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.r.Read(p)
}

// Open implements Objects.
func (f *Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.path(name))
}

// List implements Objects.
func (f *Folder) List(ctx context.Context, prefix string, each func(name string, size int64) error) error {
	root := f.path(strings.TrimSuffix(prefix, "/"))
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the repository is new, or it was removed meanwhile
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if !e.Type().IsRegular() || strings.HasSuffix(path, partialSuffix) {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(f.dir, path)
		if err != nil {
			return err
		}
		return each(filepath.ToSlash(name), info.Size())
	})
}

// Delete implements Objects.
func (f *Folder) Delete(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lock implements Objects. The system releases the lock when the process ends.
func (f *Folder) Lock(ctx context.Context) (context.Context, func(), error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, nil, err
	}
	lock, err := lockFile(f.path("lock"))
	if err != nil {
		return nil, nil, err
	}
	unlock := func() { _ = lock.Close() } // closing unlocks
	if err := f.removePartial(ctx); err != nil {
		unlock()
		return nil, nil, err
	}
	return ctx, unlock, nil
}

// removePartial removes what a process that was killed left.
func (f *Folder) removePartial(ctx context.Context) error {
	return filepath.WalkDir(f.dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if !e.Type().IsRegular() || !strings.HasSuffix(path, partialSuffix) {
			return nil
		}
		return os.Remove(path) //nolint:gosec // the folder belongs to the operator
	})
}

// ErrBusy means that another process writes there.
var ErrBusy = errors.New("another backup is being written there: wait until it has finished")

// lockFile opens and locks a file.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = filelock.Lock(context.Background(), f, 0); errors.Is(err, filelock.ErrLocked) {
		err = ErrBusy
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// WriteFile writes a file that others cannot read, completely or not at all: after an
// error, or if the process is killed, the file is missing, or the previous one remains.
// What a killed process left under the same name is replaced.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+partialSuffix)
	f, err := lockFile(temp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
			_ = f.Close()
		}
	}()
	if err := f.Truncate(0); err != nil {
		return err
	}
	if err := write(f); err != nil {
		return full(err, filepath.Dir(path))
	}
	if err := f.Sync(); err != nil {
		return full(err, filepath.Dir(path))
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	_ = f.Close() // everything was synced
	return SyncDir(filepath.Dir(path))
}

// full says what to do if a disk is full.
func full(err error, dir string) error {
	if fault.IsDiskFull(err) {
		return fmt.Errorf("the disk of %s is full, nothing was kept: make room or choose another place (%w)", dir, err)
	}
	return err
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
