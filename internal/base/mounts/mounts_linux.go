package mounts

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// noSymlinks is ST_NOSYMFOLLOW, which golang.org/x/sys lacks.
const noSymlinks = 0x2000

var flags = map[Option]int64{NoExec: unix.ST_NOEXEC, NoSymlinks: noSymlinks}

// Check returns an *OptionError if path, or the directory in which it would be created, is on
// a mount with one of the options. An error means that this is not known.
func Check(path string, options ...Option) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at := path
	var st unix.Statfs_t
	for err = unix.Statfs(at, &st); errors.Is(err, fs.ErrNotExist) && at != "/"; err = unix.Statfs(at, &st) {
		at = filepath.Dir(at)
	}
	if err != nil {
		return &os.PathError{Op: "statfs", Path: at, Err: err}
	}
	for _, o := range options {
		if st.Flags&flags[o] != 0 {
			return &OptionError{Path: path, Point: pointOf(at), Option: o}
		}
	}
	return nil
}

// pointOf returns where the mount of an existing path is.
func pointOf(path string) string {
	table, err := Table()
	if err != nil {
		return path
	}
	var st unix.Statx_t
	id := ""
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st) == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		id = strconv.FormatUint(st.Mnt_id, 10)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	point := "/"
	for _, m := range table {
		if m.id == id {
			return m.Point
		}
		// A kernel before 5.8 does not tell: the longest path, and the last mount on it.
		if below := path == m.Point || m.Point == "/" || strings.HasPrefix(path, m.Point+"/"); below &&
			len(m.Point) >= len(point) {
			point = m.Point
		}
	}
	return point
}

// Table reads the mount table of this process, oldest mount first.
func Table() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var table []Mount
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20) // overlays have long lines
	for in.Scan() {
		left, right, ok := strings.Cut(in.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		table = append(table, Mount{id: l[0], Point: unescape(l[4]), Kind: r[0], Source: unescape(r[1]), Super: r[2]})
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
