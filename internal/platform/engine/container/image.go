//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/storage/archive"
)

const (
	// imageRoot is the directory of a bundle where the image is mounted.
	imageRoot = "root"
	// mostLayers is the limit of Docker, and far below that of the kernel.
	mostLayers = 127
	// mostFiles is the number of files and directories of one layer.
	mostFiles = 300_000
)

// imageUser is whom the members of an image run as, and where.
type imageUser struct {
	User  int    `json:"user"`
	Group int    `json:"group"`
	Home  string `json:"home"`
	Dir   string `json:"dir"`
}

// Fetch unpacks the layers of an image that the engine does not have.
func (e *Engine) Fetch(ctx context.Context, i engine.Image, limit int64) (engine.Fetched, error) {
	leave, err := e.enter()
	if err != nil {
		return engine.Fetched{}, err
	}
	defer leave()
	held := &layerHolds{}
	defer held.releaseUnlessKept()
	layers, err := e.imageLayers(ctx, &i, limit, held)
	if err != nil {
		return engine.Fetched{}, err
	}
	e.pruneLater()
	if _, err := userOf(layers, i); err != nil {
		return engine.Fetched{}, err
	}
	var found engine.Fetched
	for _, l := range layers {
		found.Size += l.Size
	}
	return found, nil
}

// imageLayers returns the layers of an image, which may have limit bytes together.
func (e *Engine) imageLayers(ctx context.Context, i *engine.Image, limit int64, held *layerHolds) ([]layer, error) {
	if !e.sharing {
		return nil, engine.NoImages(
			"Docker images need Linux 5.19 or newer, and a data directory on a file system with mapped mounts, such as ext4 " +
				"or xfs. " +
				"The server's log says what is missing.")
	}
	if len(i.Layers) > mostLayers {
		return nil, fault.New(fault.Unprocessable,
			"the image has %d layers, and %d are possible: build it with fewer, for example in several stages",
			len(i.Layers), mostLayers)
	}
	var all []layer
	left := limit
	for n, l := range i.Layers {
		found, release, err := e.layers.get(ctx, contentOfLayer(l, left))
		if err == nil {
			held.add(release)
			if left -= found.Size; left <= 0 {
				err = fmt.Errorf("all layers together: %w", archive.ErrTooLarge)
			}
		}
		if errors.Is(err, archive.ErrTooLarge) {
			return nil, fault.Wrap(err, fault.Unprocessable,
				"the image needs more than the disk limit of %d MB: raise it with 'cf scale APP -k' or 'cf push -k'", limit>>20)
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d of the image: %w", n+1, err)
		}
		all = append(all, found)
	}
	return all, nil
}

// contentOfLayer returns the content of a layer, which may have at most limit bytes.
func contentOfLayer(l engine.Layer, limit int64) content {
	return content{hashID("image %q", l.Key), l.Key, func(ctx context.Context, d *local.Dir) error {
		r, err := l.Open(ctx)
		if err != nil {
			return err
		}
		defer r.Close()
		found, err := archive.ExtractLayer(r, d.Home(), archive.Limits{Size: limit, Files: mostFiles})
		if err == nil {
			// What comes last is the checksum.
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			return err
		}
		return hideBelow(d.Home(), found)
	}}
}

// hideBelow makes an unpacked layer hide what it removes from the layers below, in the
// format of overlay: a removed file is a device without a number, and a directory that
// hides another has an attribute.
func hideBelow(dir string, l archive.Layer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in := func(name string, f func(fd int) error) error {
		d, err := root.Open(name)
		if err != nil {
			return err
		}
		defer d.Close()
		return f(int(d.Fd()))
	}
	for _, name := range l.Removed {
		err := in(path.Dir(name), func(fd int) error { return unix.Mknodat(fd, path.Base(name), unix.S_IFCHR, 0) })
		if err != nil {
			return fmt.Errorf("removed file %q: %w", name, err)
		}
	}
	for _, name := range l.Opaque {
		err := in(name, func(fd int) error { return unix.Fsetxattr(fd, "trusted.overlay.opaque", []byte("y"), 0) })
		if err != nil {
			return fmt.Errorf("replaced directory %q: %w", name, err)
		}
	}
	return nil
}

// mountImage mounts the image of an instance below its own disk.
//
//	disk/root     what it writes, over its layers
//	disk/work     work directory of overlay
//	disk/files    its service bindings
func (e *Engine) mountImage(ctx context.Context, in *instance, s engine.Spec, limits engine.Limits,
	held *layerHolds) error {
	layers, err := e.imageLayers(ctx, s.Image, limits.Disk, held)
	if err != nil {
		return err
	}
	who, err := userOf(layers, *s.Image)
	if err != nil {
		return err
	}
	// The image's root is an unprivileged user, as everywhere: ingot-init alone is root in
	// an instance. So their files change places, and what belongs to root in the image
	// belongs to that user.
	asRoot, inRootGroup := who.User == 0, who.Group == 0
	if asRoot {
		who.User = vcapID
	}
	if inRootGroup {
		who.Group = vcapID
	}
	in.Image = &who
	users, err := newNamespace(idMap(in.Base, asRoot), idMap(in.Base, inRootGroup))
	if err != nil {
		return err
	}
	defer users.Close()
	bundle, disk, err := e.attachDisk(ctx, in, layers, limits)
	if err != nil {
		return err
	}
	base := int(in.Base)
	rootUser, rootGroup := base, base
	if asRoot {
		rootUser += vcapID
	}
	if inRootGroup {
		rootGroup += vcapID
	}
	upper, point := filepath.Join(disk, imageRoot), filepath.Join(bundle, imageRoot)
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Lchown(upper, rootUser, rootGroup),
		os.Mkdir(point, 0o755)); err != nil {
		return err
	}
	files, err := local.Create(disk, "files")
	if err != nil {
		return err
	}
	if err := errors.Join(files.Unpack(ctx, s.Files, limits.Disk), files.Own(base+who.User, base+who.Group),
		bindMount(files.Home(), in.dir.Home())); err != nil {
		return err
	}
	if err := overlay(point, layers, upper, filepath.Join(disk, "work"), filepath.Join(bundle, "layers"),
		users); err != nil {
		return err
	}
	return addDirectories(point, who, base)
}

// addDirectories creates the directories that every instance has, and refuses an image in
// which a mount point is something else, so that runc need not resolve links of an image.
func addDirectories(point string, who imageUser, base int) error {
	root, err := os.OpenRoot(point)
	if err != nil {
		return err
	}
	defer root.Close()
	odd := func(name string) error {
		return fault.New(fault.Unprocessable,
			"the image has something else at /%s than a mount can replace: build it without that", name)
	}
	for _, name := range []string{"proc", "dev", "sys", "etc", controlInside[1:]} {
		if info, err := root.Lstat(name); err == nil && !info.IsDir() {
			return odd(name)
		}
	}
	for _, name := range []string{initInside[1:], SFTPInside[1:]} {
		if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
			return odd(name)
		}
	}
	made := func(name string, mode fs.FileMode) error {
		err := root.Mkdir(name, 0o755)
		if err != nil {
			return nil //nolint:nilerr // it exists, or a link of the image is in the way: the member's start says so
		}
		return errors.Join(root.Lchown(name, base+who.User, base+who.Group), root.Chmod(name, mode))
	}
	if err := made("tmp", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	var dir string
	for part := range strings.SplitSeq(strings.Trim(path.Clean(who.Dir), "/"), "/") {
		if dir = path.Join(dir, part); dir == "" || dir == "." {
			continue
		}
		if err := made(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// imageBinds returns the mounts of the instance of an image besides those of all instances.
// host is the directory with the files of its names and addresses.
func (e *Engine) imageBinds(in *instance, host string) []specs.Mount {
	binds := []specs.Mount{bind(filepath.Join(e.host.root, initInside), initInside, "ro")}
	if _, err := os.Stat(filepath.Join(e.host.root, SFTPInside)); err == nil {
		binds = append(binds, bind(filepath.Join(e.host.root, SFTPInside), SFTPInside, "ro"))
	}
	for _, name := range []string{"hosts", "hostname", "resolv.conf"} {
		binds = append(binds, bind(filepath.Join(host, name), path.Join("/etc", name), "ro", "noexec"))
	}
	// Its files, such as service bindings and its certificate, are where {{home}} says.
	dirs, _ := os.ReadDir(in.dir.Home()) // none if it cannot be read
	plain := noLinks(filepath.Join(e.bundle(in.dir.ID()), imageRoot), in.Image.Home)
	for _, d := range dirs {
		dir := filepath.Join(in.dir.Home(), d.Name())
		if d.Name() == BindingsTarget {
			binds = append(binds, bind(dir, BindingsInside, "ro", "noexec"))
		} else if d.IsDir() && plain {
			binds = append(binds, bind(dir, path.Join(in.Image.Home, d.Name()), "noexec"))
		}
	}
	return binds
}

// noLinks reports whether no part of a path in an image is a link, so that something can be
// mounted below it.
func noLinks(point, name string) bool {
	root, err := os.OpenRoot(point)
	if err != nil {
		return false
	}
	defer root.Close()
	for at := strings.Trim(name, "/"); at != "" && at != "."; at = path.Dir(at) {
		if info, err := root.Lstat(at); err == nil && !info.IsDir() {
			return false
		}
	}
	return true
}
