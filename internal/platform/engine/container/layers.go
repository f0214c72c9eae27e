//go:build linux

package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/keyed"
	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/homedir"
)

// layers keeps unpacked archives and layers of images that instances share. Each is a
// directory of package local, whose home holds the files: those of an archive like the home
// of an instance, owned by vcap's unmapped id, and those of an image with the ids of the
// image. Every instance maps them to its own.
type layers struct {
	root  string
	space int64 // limit for the unused ones, in bytes

	mu    sync.Mutex
	using map[string]int // number of Starts in progress that use it
	keyed keyed.Mutex
	grew  atomic.Bool // since prune
}

// layer is one of them.
type layer struct {
	ID   string
	path string
	Size int64 `json:"size"`
	// Key is the archive's key; empty in layers of older versions.
	Key string `json:"key,omitempty"`
}

// openLayers opens the directory of layers, and removes incomplete ones.
func openLayers(root string, space int64) (*layers, error) {
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, err
	}
	if err := local.Recover(root, nil); err != nil {
		return nil, err
	}
	return &layers{root: root, space: space, using: map[string]int{}}, nil
}

func layerID(a engine.Archive) string {
	return hashID("%q %q %v", a.Key, filepath.Clean(a.Target), a.ReadOnly)
}

func hashID(format string, args ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return hex.EncodeToString(sum[:16])
}

// content is what a layer is made of.
type content struct {
	id, key string
	// unpack writes the files to the home of a directory.
	unpack func(ctx context.Context, d *local.Dir) error
}

// contentOf returns the content of an archive, which may have at most limit bytes.
func contentOf(a engine.Archive, limit int64) content {
	return content{layerID(a), a.Key, func(ctx context.Context, d *local.Dir) error {
		if err := d.Unpack(ctx, []engine.Archive{a}, limit); err != nil {
			return err
		}
		return d.Own(vcapID, vcapID)
	}}
}

// get returns the layer with a content, unpacking it if needed. It exists until release is
// called, and as long as an instance names it: the caller registers its instance first, and
// then calls release. With an error there is nothing to release.
func (l *layers) get(ctx context.Context, c content) (layer, func(), error) {
	id := c.id
	l.mu.Lock()
	l.using[id]++
	l.mu.Unlock()
	release := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.using[id]--; l.using[id] <= 0 {
			delete(l.using, id)
		}
	}
	kept := false
	defer func() {
		if !kept { // also after a panic
			release()
		}
	}()
	found, err := l.find(ctx, c)
	if err != nil {
		return layer{}, nil, err
	}
	kept = true
	return found, release, nil
}

// find returns a layer that is in use, unpacking it if needed.
func (l *layers) find(ctx context.Context, c content) (layer, error) {
	unlock, err := l.keyed.Lock(ctx, c.id)
	if err != nil {
		return layer{}, err
	}
	defer unlock()
	d, err := local.Open(l.root, c.id)
	if errors.Is(err, engine.ErrNotFound) {
		d, err = l.unpack(ctx, c)
	} else if err == nil {
		now := time.Now()
		_ = os.Chtimes(d.Path(), now, now) // time of the last use, for prune
	}
	if err != nil {
		return layer{}, err
	}
	return asLayer(d)
}

func asLayer(d *local.Dir) (layer, error) {
	var found layer
	if err := json.Unmarshal(d.Meta().Engine, &found); err != nil {
		return layer{}, fmt.Errorf("layer %s: %w", d.ID(), err)
	}
	found.ID, found.path = d.ID(), d.Home()
	return found, nil
}

func (l *layers) unpack(ctx context.Context, c content) (_ *local.Dir, err error) {
	d, err := local.Create(l.root, c.id)
	if err != nil {
		return nil, err
	}
	made := false
	defer func() {
		if !made { // also after a panic
			err = errors.Join(err, d.Remove())
		}
	}()
	if err := c.unpack(ctx, d); err != nil {
		return nil, err
	}
	size, err := homedir.Size(ctx, d.Home())
	if err != nil {
		return nil, err
	}
	about, err := json.Marshal(layer{Size: size, Key: c.key})
	if err != nil {
		return nil, err
	}
	if err := d.Commit(local.Meta{Created: time.Now().UTC(), Engine: about}); err != nil {
		return nil, err
	}
	l.grew.Store(true)
	made = true
	return d, nil
}

// prune removes the least recently used of the unused layers, until the rest fit into the
// space for them. named reports whether an instance names a layer.
func (l *layers) prune(named func(id string) bool) error {
	return l.remove(named, func(_ layer, unused int64) bool { return unused > l.space })
}

// trim removes the unused layers that are not wanted.
func (l *layers) trim(named func(id string) bool, wanted func(key string) bool) error {
	return l.remove(named, func(c layer, _ int64) bool { return !wanted(c.Key) })
}

// remove removes unused layers, the least recently used first. drop is called for each,
// with the bytes of all that are left.
func (l *layers) remove(named func(id string) bool, drop func(c layer, unused int64) bool) error {
	l.grew.Store(false)
	dirs, err := local.List(l.root)
	if err != nil {
		return err
	}
	type candidate struct {
		dir *local.Dir
		layer
		last time.Time
	}
	var unused []candidate
	var sum int64
	for _, d := range dirs {
		if named(d.ID()) {
			continue
		}
		found, err := asLayer(d)
		info, statErr := os.Stat(d.Path())
		if err != nil || statErr != nil {
			continue
		}
		unused = append(unused, candidate{d, found, info.ModTime()})
		sum += found.Size
	}
	slices.SortFunc(unused, func(a, b candidate) int { return a.last.Compare(b.last) })
	var errs []error
	for _, c := range unused {
		if !drop(c.layer, sum) {
			continue
		}
		// A concurrent get waits, and unpacks it again.
		unlock, err := l.keyed.Lock(context.Background(), c.dir.ID())
		if err != nil {
			return err
		}
		l.mu.Lock()
		using := l.using[c.dir.ID()]
		l.mu.Unlock()
		if using == 0 && !named(c.dir.ID()) {
			errs = append(errs, c.dir.Remove())
			sum -= c.Size
		}
		unlock()
	}
	return errors.Join(errs...)
}

// overlay mounts the layers, later ones over earlier ones, below a writable directory.
// scratch is a directory for temporary mounts; users is the user namespace for the owner
// mapping. Paths of upper, work and scratch must not contain colons and commas.
func overlay(point string, lower []layer, upper, work, scratch string, users *os.File) (err error) {
	options := "lowerdir="
	var mapped []string
	defer func() {
		for _, at := range mapped {
			err = errors.Join(err, unmount(at))
		}
	}()
	for i, l := range slices.Backward(lower) {
		at := filepath.Join(scratch, strconv.Itoa(i))
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		mapped = append(mapped, at)
		if err := mountMapped(l.path, at, users); err != nil {
			return err
		}
		if i < len(lower)-1 {
			options += ":"
		}
		options += strconv.Itoa(i) // below scratch
	}
	if err := inDirectory(scratch, func() error {
		return mountOverlay(point, options+",upperdir="+upper+",workdir="+
			work)
	}); err != nil {
		return &os.PathError{Op: "overlay", Path: point, Err: err}
	}
	return nil
}

func mountOverlay(point, options string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME
	// Volatile: these files need not survive a crash of the machine.
	err := unix.Mount("overlay", point, "overlay", flags, options+",volatile")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("overlay", point, "overlay", flags, options)
	}
	return err
}

// inDirectory calls f on a thread with another working directory: the options of a mount
// have 4096 bytes, which is not enough for the paths of the layers of an image.
func inDirectory(dir string, f func() error) error {
	return rootless.OnOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Chdir(dir); err != nil {
			return &os.PathError{Op: "chdir", Path: dir, Err: err}
		}
		return f()
	})
}

// mountMapped mounts a directory read-only with mapped owners.
func mountMapped(from, at string, users *os.File) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: from, Err: err}
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID,
		Propagation: unix.MS_PRIVATE,
		Userns_fd:   uint64(users.Fd()),
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: from, Err: err}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: at, Err: err}
	}
	return nil
}
