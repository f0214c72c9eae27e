//go:build linux

package container

import (
	"bufio"
	"cmp"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
)

// accountsSize limits how much of an image's passwd and group files is read.
const accountsSize = 1 << 20

// userOf returns whom the members of an image run as, with the ids that the image uses.
func userOf(layers []layer, i engine.Image) (imageUser, error) {
	name, group, hasGroup := strings.Cut(i.User, ":")
	name = cmp.Or(name, "0")
	who := imageUser{Home: "/", Dir: i.Dir}
	if !path.IsAbs(who.Dir) {
		who.Dir = path.Join("/", who.Dir)
	}
	id, numeric := number(name)
	known := false
	for _, f := range accounts(layers, "etc/passwd", 6) {
		uid, ok1 := number(f[2])
		gid, ok2 := number(f[3])
		if !ok1 || !ok2 || !(numeric && uid == id || !numeric && f[0] == name) {
			continue
		}
		who.User, who.Group, known = uid, gid, true
		if path.IsAbs(f[5]) {
			who.Home = path.Clean(f[5])
		}
		break
	}
	switch {
	case known:
	case numeric:
		who.User = id
	default:
		return imageUser{}, fault.New(fault.Unprocessable,
			"the image runs as the user %q, which is not in its /etc/passwd: set USER to a number, or add the user to the image",
			name)
	}
	if hasGroup {
		gid, err := groupOf(layers, group)
		if err != nil {
			return imageUser{}, err
		}
		who.Group = gid
	}
	if who.User >= idRange || who.Group >= idRange {
		return imageUser{}, fault.New(fault.Unprocessable,
			"the image runs as the user %d:%d, and ids up to %d are possible: set USER to a smaller one", who.User,
			who.Group, idRange-1)
	}
	return who, nil
}

func groupOf(layers []layer, name string) (int, error) {
	if id, ok := number(name); ok {
		return id, nil
	}
	for _, f := range accounts(layers, "etc/group", 3) {
		if id, ok := number(f[2]); ok && f[0] == name {
			return id, nil
		}
	}
	return 0, fault.New(fault.Unprocessable,
		"the image runs in the group %q, which is not in its /etc/group: set USER to numbers, or add the group to the image",
		name)
}

func number(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil //nolint:gosec // 31 bits
}

// accounts returns the lines of a file of accounts that have at least n fields.
func accounts(layers []layer, name string, n int) [][]string {
	f := openTop(layers, name)
	if f == nil {
		return nil
	}
	defer f.Close()
	var out [][]string
	lines := bufio.NewScanner(io.LimitReader(f, accountsSize))
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= n {
			out = append(out, fields)
		}
	}
	return out
}

// openTop opens a file as it is in the image: that of the highest layer that has it, unless
// a layer above removes it. It returns nil if there is none.
func openTop(layers []layer, name string) *os.File {
	for i := len(layers) - 1; i >= 0; i-- {
		f, hidden := openIn(layers[i].path, name)
		if f != nil || hidden {
			return f
		}
	}
	return nil
}

// openIn opens a file of one layer, and reports whether the layer hides that of those below.
func openIn(dir, name string) (f *os.File, hidden bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, true
	}
	defer root.Close()
	if parent, err := root.Lstat(path.Dir(name)); err == nil {
		var value [1]byte
		at := path.Join(dir, path.Dir(name))
		n, err := unix.Lgetxattr(at, "trusted.overlay.opaque", value[:])
		hidden = !parent.IsDir() || err == nil && n == 1 && value[0] == 'y'
	}
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, hidden
	case info.Mode().IsRegular():
		f, err = root.Open(name)
		return f, err != nil
	case info.Mode()&fs.ModeSymlink != 0:
		f, _ = root.Open(name) // inside the layer, or not at all
		return f, true
	}
	return nil, true
}
