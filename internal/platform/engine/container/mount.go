//go:build linux

package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/internal/base/mounts"
)

func mountPoints() ([]string, error) {
	table, err := mounts.Table()
	if err != nil {
		return nil, err
	}
	points := make([]string, len(table))
	for i, m := range table {
		points[i] = m.Point
	}
	return points, nil
}

// unmountBelow unmounts everything at or below the directories, the latest first. A mount
// in use disappears, but stays alive until its last user ends.
func unmountBelow(dirs ...string) error {
	table, err := mounts.Table()
	if err != nil {
		return err
	}
	return unmountOf(table, dirs...)
}

// unmountOf is unmountBelow for a table that was read before. Reading it takes time for every mount of the machine.
func unmountOf(table []mounts.Mount, dirs ...string) error {
	var errs []error
	for _, m := range slices.Backward(table) {
		if slices.ContainsFunc(dirs, func(dir string) bool { return m.Point == dir || strings.HasPrefix(m.Point, dir+"/") }) {
			errs = append(errs, unmount(m.Point))
		}
	}
	return errors.Join(errs...)
}

// unmount unmounts a mount point; it is not an error if nothing is mounted.
func unmount(point string) error {
	err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "unmount", Path: point, Err: err}
}

// resolved returns the path without links, as mount points are listed.
func resolved(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// bindMount mounts a directory at another path, without set-user-id programs and devices.
func bindMount(from, at string) error {
	err := unix.Mount(from, at, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	if err != nil {
		return errors.Join(&os.PathError{Op: "bind", Path: at, Err: err}, unmount(at))
	}
	return nil
}

// needs are what instances need of their root file system: its programs are executed, and
// /bin and others are links.
var needs = []mounts.Option{mounts.NoExec, mounts.NoSymlinks}

// ownMount makes a directory its own mount, on which programs can be executed and links
// are followed, whatever the options of the mount below it: Debian mounts /run with noexec.
// It may be one already.
func ownMount(dir string) error {
	points, err := mountPoints()
	if err != nil {
		return err
	}
	if slices.Contains(points, dir) && mounts.Check(dir, needs...) == nil {
		return nil
	}
	why := mounts.Check(filepath.Dir(dir), needs...)
	if err := bindMount(dir, dir); err != nil {
		if why != nil {
			return fmt.Errorf("%w; a mount without that option is not possible here: %w", why, err)
		}
		return err
	}
	return mounts.Check(dir, needs...)
}
