//go:build linux

package container

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountInfo is one line of the mount table.
type mountInfo struct {
	point, kind, source, super string
	root                       string // the mounted part of the file system
}

// mountTable reads the mount table of this process, oldest mount first.
func mountTable() ([]mountInfo, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var table []mountInfo
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20) // overlays have long lines
	for in.Scan() {
		left, right, ok := strings.Cut(in.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		table = append(table, mountInfo{point: unescape(l[4]), root: unescape(l[3]), kind: r[0], source: unescape(r[1]), super: r[2]})
	}
	return table, in.Err()
}

// unescape decodes the kernel's \040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func mountPoints() ([]string, error) {
	table, err := mountTable()
	if err != nil {
		return nil, err
	}
	points := make([]string, len(table))
	for i, m := range table {
		points[i] = m.point
	}
	return points, nil
}

// unmountBelow unmounts everything at or below the directories, the latest first. A mount
// in use disappears, but stays alive until its last user ends.
func unmountBelow(dirs ...string) error {
	points, err := mountPoints()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range slices.Backward(points) {
		if slices.ContainsFunc(dirs, func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }) {
			errs = append(errs, unmount(p))
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
