//go:build linux

package container

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/internal/base/loopdisk"
	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine/local"
)

// regain mounts the disk and the home of an adopted instance if they are not mounted in this
// server's mount namespace. A unit of systemd with ProtectSystem= has its own namespace,
// which ends with its process: what the previous server has mounted is then left in the
// instances only.
func (e *Engine) regain(in *instance) error {
	disk := filepath.Join(e.bundle(in.dir.ID()), "disk")
	if _, err := os.Stat(disk); err != nil || loopdisk.Mounted(disk) {
		return nil //nolint:nilerr // before the last boot, or nothing is missing
	}
	if in.runs() {
		inside := map[string]string{disk: "/tmp", in.dir.Home(): homeInside}
		if in.Image != nil {
			inside = map[string]string{disk: "/"} // the overlay shows the use of the disk below it
		}
		err := graft(in.Init, inside)
		if err == nil || in.Init.Alive() {
			return err
		}
	}
	return e.mountAgain(in, disk)
}

// graft mounts directories of a running process's mount namespace in that of this process.
// inside has a path there for each path here.
func graft(of local.ProcessID, inside map[string]string) error {
	trees := map[string]int{}
	defer func() {
		for _, tree := range trees {
			_ = unix.Close(tree) // attached by then
		}
	}()
	err := rootless.OnOwnThread(func() error {
		namespace, err := os.Open("/proc/" + strconv.Itoa(of.PID) + "/ns/mnt")
		if err != nil {
			return err
		}
		defer namespace.Close()
		if !of.Alive() { // the pid was reused
			return os.ErrProcessDone
		}
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("setns", err)
		}
		for here, there := range inside {
			tree, err := unix.OpenTree(unix.AT_FDCWD, there, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return &os.PathError{Op: "open_tree", Path: there, Err: err}
			}
			trees[here] = tree
		}
		return nil
	})
	if err != nil {
		return err
	}
	for here, tree := range trees {
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, here, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: here, Err: err}
		}
	}
	return nil
}

// mountAgain mounts the disk of an instance that has ended, and its home for reading: a
// finished build is collected from there.
func (e *Engine) mountAgain(in *instance, disk string) error {
	image := filepath.Join(in.dir.Path(), diskImage)
	loop, err := loopdisk.DeviceOf(image)
	switch {
	case err != nil:
		return err
	case loop != "":
		// Still mounted in a namespace that lives: mounting the device again is the same
		// file system, another device would be a second one on the same blocks.
		if err := unix.Mount(loop, disk, "ext4", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, ""); err != nil {
			return &os.PathError{Op: "mount " + loop + " at", Path: disk, Err: err}
		}
	default:
		if err := loopdisk.Mount(image, disk, diskOptions); err != nil {
			return err
		}
	}
	own := filepath.Join(disk, "files", filepath.Base(in.dir.Home()))
	if in.Image != nil || len(in.Layers) == 0 {
		return bindMount(own, in.dir.Home())
	}
	lower := []string{own}
	for _, id := range slices.Backward(in.Layers) {
		d, err := local.Open(e.layers.root, id)
		if err != nil {
			return fmt.Errorf("layer %s: %w", id, err)
		}
		below, err := filepath.Rel(e.layers.root, d.Home())
		if err != nil {
			return err
		}
		lower = append(lower, below)
	}
	return inDirectory(e.layers.root, func() error {
		return mountOverlay(in.dir.Home(), "lowerdir="+
			strings.Join(lower, ":"))
	})
}
