package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// damagedMark comes between the name of a damaged file and the time when it was set aside.
	damagedMark = ".damaged-"
	// maxDamaged is how many damaged files of one name are kept.
	maxDamaged = 3
	// maxRebuilt limits what is read of a file that the server can recreate.
	maxRebuilt = 64 << 20
)

// IsDamaged reports whether the error of opening a file means that it is something else: a
// directory, or a link to itself. A file that cannot be read for another reason, such as
// missing rights, may be whole.
func IsDamaged(err error) bool {
	return errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ELOOP)
}

// SetAside renames a damaged file that the server recreates, or whatever has its name, so
// that the operator can look at it, and logs a warning. The newest few of each name are kept.
func SetAside(path string, why error, log *slog.Logger) error {
	to := path + damagedMark + time.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(path, to); err != nil {
		return fmt.Errorf("%s is damaged (%w) and cannot be set aside: %w", path, why, err)
	}
	log.Warn("a damaged file was set aside and is recreated", "file", path, "kept_as", to, "error", why)
	kept, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+damagedMark+"*"))
	kept = slices.DeleteFunc(kept, func(name string) bool { return len(name) != len(to) || name[:len(path)] != path })
	if err != nil || len(kept) <= maxDamaged {
		return nil //nolint:nilerr // the pattern is valid
	}
	slices.Sort(kept)
	for _, name := range kept[:len(kept)-maxDamaged] {
		if err := os.RemoveAll(name); err != nil {
			log.Warn("an old damaged file cannot be removed", "file", name, "error", err)
		}
	}
	return nil
}

// ReadRebuilt reads a file that the server recreates if it is missing: then known is false. If use
// returns an error, or the path is not a file, it is set aside.
func ReadRebuilt(path string, use func(content []byte) error, log *slog.Logger) (known bool, err error) {
	info, err := os.Stat(path)
	var content []byte
	if err == nil {
		if info.Size() > maxRebuilt {
			return false, SetAside(path, fmt.Errorf("it has %d bytes", info.Size()), log)
		}
		content, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case IsDamaged(err):
		return false, SetAside(path, err, log)
	case err != nil:
		return false, err
	}
	if err := use(content); err != nil {
		return false, SetAside(path, err, log)
	}
	return true, nil
}

// OpenRebuilt opens a file that the server recreates if it is missing. If the path is not a file,
// it is set aside.
func OpenRebuilt(path string, flags int, log *slog.Logger) (*os.File, error) {
	f, err := os.OpenFile(path, flags|os.O_CREATE, 0o600)
	if !IsDamaged(err) {
		return f, err
	}
	if err := SetAside(path, err, log); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags|os.O_CREATE, 0o600)
}
