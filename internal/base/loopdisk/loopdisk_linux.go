package loopdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/internal/base/cgroup"
	"ingot/internal/base/distro"
)

// Program returns the path of a program for file systems, such as mkfs.ext4.
func Program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path := filepath.Join(dir, name); isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w (%s)", err, distro.Install("mkfs.ext4"))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Run runs such a program.
func Run(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Mount mounts a file through a new loop device, which is removed with the mount.
func Mount(image, point, options string) error {
	loop, err := attach(image, unix.LO_FLAGS_AUTOCLEAR)
	if err != nil {
		return err
	}
	defer loop.Close() // the mount holds it; without a mount it is removed now
	return mount(loop.Name(), point, options)
}

// MountOnce is like Mount, but uses the device that the file has already: it may be mounted where
// this process does not see it, and two devices would destroy its content. Writes are not
// cached a second time.
func MountOnce(image, point, options string) error {
	if Mounted(point) {
		return nil
	}
	device, err := DeviceOf(image)
	if err != nil {
		return err
	}
	if device != "" {
		if mount(device, point, options) == nil {
			return nil
		}
		if now, err := DeviceOf(image); err != nil || now == device {
			return errors.Join(err, fmt.Errorf("%s is in use by %s, which cannot be mounted", image, device))
		}
	}
	loop, err := attach(image, unix.LO_FLAGS_AUTOCLEAR|unix.LO_FLAGS_DIRECT_IO)
	if errors.Is(err, unix.EINVAL) { // not on every file system
		loop, err = attach(image, unix.LO_FLAGS_AUTOCLEAR)
	}
	if err != nil {
		return err
	}
	defer loop.Close()
	return mount(loop.Name(), point, options)
}

func mount(device, point, options string) error {
	err := unix.Mount(device, point, "ext4", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, options)
	if err != nil {
		return &os.PathError{Op: "mount " + device + " at", Path: point, Err: err}
	}
	cgroup.UnlimitDisk(point) // what is left of a server that was killed with its database
	return nil
}

// DeviceOf returns the loop device of a file, or "". It compares the file itself and not its path: the
// path of a device changes when the mount namespace ends in which it was attached, such as that of a
// unit of systemd whose process was killed, and a second device would destroy the content.
func DeviceOf(image string) (string, error) {
	all, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return "", err
	}
	for _, one := range all {
		name := "/dev/" + filepath.Base(filepath.Dir(one))
		if attached, err := Attached(name, image); attached || err != nil {
			return name, err
		}
	}
	return "", nil
}

// Attached reports whether a file is attached to a loop device.
func Attached(device, image string) (bool, error) {
	var file unix.Stat_t
	if err := unix.Stat(image, &file); err != nil {
		return false, &os.PathError{Op: "stat", Path: image, Err: err}
	}
	info, err := status(device)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, os.ErrNotExist) { // just detached
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "status of", Path: device, Err: err}
	}
	return info.Inode == file.Ino && info.Device == file.Dev, nil
}

func status(device string) (*unix.LoopInfo64, error) {
	loop, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	return unix.IoctlLoopGetStatus64(int(loop.Fd()))
}

// attach attaches a file to a loop device. Other programs may take a free one first, so it may
// need several tries.
func attach(image string, flags uint32) (*os.File, error) {
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("no free loop device: %w", err)
		}
		name := "/dev/loop" + strconv.Itoa(n)
		loop, err := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			// In a container /dev may be a static copy.
			if err := unix.Mknod(name, unix.S_IFBLK|0o660, //nolint:gosec // a small number
				int(unix.Mkdev(7, uint32(n)))); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, &os.PathError{Op: "mknod", Path: name, Err: err}
			}
			loop, err = os.OpenFile(name, os.O_RDWR, 0)
		}
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd())} //nolint:gosec // a file descriptor
		config.Info.Flags = flags
		copy(config.Info.File_name[:len(config.Info.File_name)-1], filepath.Base(filepath.Dir(image)))
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			return loop, nil
		}
		_ = loop.Close() // taken by another program
		if !errors.Is(err, unix.EBUSY) {
			return nil, &os.PathError{Op: "loop configure", Path: name, Err: err}
		}
	}
	return nil, errors.New("no free loop device after several tries")
}

// Used returns the used bytes of the file system at a path.
func Used(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, nil //nolint:gosec // far below 2^63
}

// GiveReserve lets a user use the blocks that are reserved for root, until the next mount.
func GiveReserve(point string, user uint32) error {
	err := unix.Mount("", point, "ext4", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME,
		fmt.Sprintf("resuid=%d", user))
	if err != nil {
		return &os.PathError{Op: "remount", Path: point, Err: err}
	}
	return nil
}

// Free returns the bytes that users other than root can still use of the file system at a path.
func Free(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil //nolint:gosec // far below 2^63
}

// Mounted reports whether a directory is on another file system than its parent.
func Mounted(point string) bool {
	var at, above unix.Stat_t
	return unix.Stat(point, &at) == nil && unix.Stat(filepath.Dir(point), &above) == nil && at.Dev != above.Dev
}

// Unmount unmounts a directory; what is still used is detached, and unmounted with its last use.
func Unmount(point string) error {
	if !Mounted(point) {
		return nil
	}
	err := unix.Unmount(point, 0)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(point, unix.MNT_DETACH)
	}
	if err != nil {
		return &os.PathError{Op: "unmount", Path: point, Err: err}
	}
	return nil
}

// Sync writes everything of the file system at a path to its disk.
func Sync(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd())))
}
