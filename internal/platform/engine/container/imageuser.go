//go:build linux

package container

import (
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
)

// userOf returns whom the members of an image run as, with the ids that the image uses.
func userOf(layers []layer, i engine.Image) (imageUser, error) {
	found, err := local.ImageAccount(i.User, func(name string) io.ReadCloser {
		if f := openTop(layers, name); f != nil {
			return f
		}
		return nil
	})
	if err != nil {
		return imageUser{}, err
	}
	who := imageUser{User: found.User, Group: found.Group, Home: found.Home, Dir: i.Dir}
	if !path.IsAbs(who.Dir) {
		who.Dir = path.Join("/", who.Dir)
	}
	if who.User >= idRange || who.Group >= idRange {
		return imageUser{}, fault.New(fault.Unprocessable,
			"the image runs as the user %d:%d, and ids up to %d are possible: set USER to a smaller one", who.User,
			who.Group, idRange-1)
	}
	return who, nil
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
