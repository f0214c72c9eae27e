package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// stagingName is the directory in a data directory in which a restore prepares it.
	stagingName = ".restore"
	// markName is a file there. While it exists, the data directory is not complete and no
	// server uses it. A directory without it is not one of a restore, and nothing in it or
	// beside it is removed.
	markName = "ingot-restore"
)

// Restoring is a data directory that is being restored. It is locked.
type Restoring struct {
	path    string
	lock    *os.File
	created bool // by BeginRestore
	// Interrupted means that an earlier restore did not finish.
	Interrupted bool
}

// BeginRestore locks a data directory that does not exist, is empty, or is left from a
// restore that was interrupted, and removes what that left.
func BeginRestore(path string) (*Restoring, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r := &Restoring{path: path}
	_, err = os.Stat(path)
	r.created = errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w; choose another with --data-dir", err)
	}
	if r.lock, err = acquireForRestore(path); err == nil {
		if err = r.prepare(); err != nil {
			r.unlock()
		}
	}
	if err != nil && r.created && !errors.Is(err, errRunning) {
		_ = os.RemoveAll(path) // the disk may be full
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

var errRunning = errors.New("a backup is restored into an empty directory, never into that of a running server. " +
	"Nothing was changed")

// acquireForRestore is acquire that leaves no lock file in a directory of another use.
func acquireForRestore(path string) (*os.File, error) {
	used, err := contents(path)
	if err == nil && len(used) > 0 && !interrupted(path) {
		_, statErr := os.Stat(filepath.Join(path, lockName))
		if statErr != nil {
			return nil, notEmpty(path, used)
		}
	}
	lock, err := acquire(path)
	var held *HeldError
	if errors.As(err, &held) {
		return nil, fmt.Errorf("the process %d uses %s: %w", held.PID, path, errRunning)
	}
	return lock, err
}

func notEmpty(path string, used []string) error {
	return fmt.Errorf("the data directory %s is not empty, it has %s: name an empty one with --data-dir, or move this "+
		"one away. Nothing was changed", path, used[0])
}

// contents returns what is in a directory, without what an empty one may have.
func contents(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	var names []string
	for _, e := range entries {
		if e.Name() == stagingName {
			// An empty one is left if the process was killed at its very end.
			if left, err := os.ReadDir(filepath.Join(path, stagingName)); err == nil && len(left) == 0 {
				continue
			}
		}
		if e.Name() != lockName && e.Name() != "lost+found" {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (r *Restoring) prepare() error {
	used, err := contents(r.path)
	if err != nil {
		return err
	}
	r.Interrupted = interrupted(r.path)
	if len(used) > 0 && !r.Interrupted {
		return notEmpty(r.path, used)
	}
	if err := r.clear(); err != nil {
		return err
	}
	if err := os.MkdirAll(r.Dir(), //nolint:gosec // the servers of services enter it; the data directory decides
		0o711); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Dir(), markName), nil, 0o600); err != nil {
		return errors.Join(err, os.RemoveAll(r.Dir()))
	}
	return errors.Join(syncDir(r.Dir()), syncDir(r.path))
}

// interrupted reports whether a restore of a directory did not finish.
func interrupted(path string) bool {
	_, err := os.Lstat(filepath.Join(path, stagingName, markName))
	return err == nil
}

// clear removes everything, the mark of an interrupted restore last.
func (r *Restoring) clear() error {
	used, err := contents(r.path)
	for _, name := range used {
		if err == nil && name != stagingName {
			err = os.RemoveAll(filepath.Join(r.path, name))
		}
	}
	prepared, readErr := os.ReadDir(r.Dir())
	if errors.Is(readErr, fs.ErrNotExist) {
		return err
	}
	err = errors.Join(err, readErr)
	for _, e := range prepared {
		if err == nil && e.Name() != markName {
			err = os.RemoveAll(filepath.Join(r.Dir(), e.Name()))
		}
	}
	if err == nil {
		err = os.RemoveAll(r.Dir())
	}
	return err
}

func (r *Restoring) unlock() { (&Dir{path: r.path, lock: r.lock}).Close() }

// Dir is the directory in which the data directory is prepared.
func (r *Restoring) Dir() string { return filepath.Join(r.path, stagingName) }

// Open lets the users of services enter the directory, as AllowTraversal does.
func (r *Restoring) Open() error { return (&Dir{path: r.path}).AllowTraversal() }

// Commit makes what was prepared the content of the data directory, and unlocks it. What
// was written has to be synced.
func (r *Restoring) Commit() error {
	defer r.unlock()
	entries, err := os.ReadDir(r.Dir())
	if err != nil {
		return err
	}
	if err := syncDir(r.Dir()); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == markName {
			continue
		}
		if err := os.Rename(filepath.Join(r.Dir(), e.Name()), filepath.Join(r.path, e.Name())); err != nil {
			return err
		}
	}
	if err := syncDir(r.path); err != nil {
		return err
	}
	// From now on it is complete.
	if err := os.RemoveAll(r.Dir()); err != nil {
		return err
	}
	return syncDir(r.path)
}

// Abort removes what was prepared, and unlocks the directory.
func (r *Restoring) Abort() error {
	defer r.unlock()
	if err := r.clear(); err != nil {
		return err
	}
	if !r.created {
		return nil
	}
	return os.RemoveAll(r.path)
}

// checkRestored returns an error if a restore of the directory did not finish.
func (d *Dir) checkRestored() error {
	if interrupted(d.path) {
		return fmt.Errorf("the restore of a backup into %s did not finish: run 'ingot restore' again, with the same "+
			"--data-dir; it begins anew", d.path)
	}
	return nil
}
