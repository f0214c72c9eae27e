//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// disks creates the disks of instances: ext4 in a sparse file, whose size is the limit for
// all users. A disk is copied from an empty one of the same size: for a gigabyte that is 44
// kB, and much faster than formatting.
type disks struct {
	templates string // directory of empty disks, by size
	mkfs      string
	mu        sync.Mutex // one formatting at a time
}

// diskFlags: no journal and no spare super block, because an instance's disk does not
// outlive the instance.
var diskFlags = []string{
	"-q", "-F", "-t", "ext4", "-m", "0", "-I", "256",
	"-O", "^has_journal,^resize_inode,sparse_super2", "-E", "lazy_itable_init=1,nodiscard,num_backup_sb=0,root_owner=0:0",
}

func newDisks(dir string) (*disks, error) {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		for _, p := range []string{"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"} {
			if _, e := os.Stat(p); e == nil {
				mkfs, err = p, nil
				break
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (apt-get install e2fsprogs)", err)
	}
	// There is one for each size that was ever requested: start over when there are too
	// many.
	if old, _ := os.ReadDir(dir); len(old) > manyTemplates {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &disks{templates: dir, mkfs: mkfs}, nil
}

const (
	inodeEvery    = 8192 // bytes of disk
	manyTemplates = 200
)

// imageSize returns the size of a file whose file system holds limit bytes.
func imageSize(limit int64) int64 {
	const mb = 1 << 20
	size := limit + limit/(inodeEvery/256) + limit/128 + mb
	return (size + mb - 1) / mb * mb
}

// template returns the empty disk of a size.
func (d *disks) template(ctx context.Context, size int64) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := filepath.Join(d.templates, strconv.FormatInt(size, 10))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	tmp := path + ".new"
	defer os.Remove(tmp)
	if err := os.WriteFile(tmp, nil, 0o600); err != nil {
		return "", err
	}
	if err := os.Truncate(tmp, size); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, d.mkfs, slices.Concat(diskFlags, []string{"-i", strconv.Itoa(inodeEvery), tmp})...)
	cmd.Env = []string{"PATH=" + pathInside, "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mkfs.ext4: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, os.Rename(tmp, path)
}

// attach creates a disk that holds limit bytes in the file image, and mounts it. If it
// fails, nothing is mounted.
func (d *disks) attach(ctx context.Context, image, point string, limit int64) error {
	size := imageSize(limit)
	for again := false; ; again = true {
		template, err := d.template(ctx, size)
		if err != nil {
			return err
		}
		if err := copySparse(image, template); err != nil {
			return err
		}
		err = mountImage(image, point)
		if err == nil || again {
			return err
		}
		// An old template may have been damaged by a power failure.
		_ = os.Remove(template)
	}
}

// copySparse copies the parts of a file that are not holes.
func copySparse(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, end-data)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// mountImage mounts a file through a loop device that is removed with the mount.
func mountImage(image, point string) error {
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	loop, err := freeLoop(file)
	if err != nil {
		return err
	}
	defer loop.Close() // the mount holds it; without a mount it is removed now
	err = unix.Mount(loop.Name(), point, "ext4", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "noinit_itable,errors=continue")
	if err != nil {
		return &os.PathError{Op: "mount " + loop.Name() + " at", Path: point, Err: err}
	}
	return nil
}

// freeLoop attaches a file to a loop device. Other programs may take a free one first, so
// it may need several tries.
func freeLoop(file *os.File) (*os.File, error) {
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
			if err := unix.Mknod(name, unix.S_IFBLK|0o660, int(unix.Mkdev(7, uint32(n)))); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // a small number
				return nil, &os.PathError{Op: "mknod", Path: name, Err: err}
			}
			loop, err = os.OpenFile(name, os.O_RDWR, 0)
		}
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd())} //nolint:gosec // a file descriptor
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		copy(config.Info.File_name[:len(config.Info.File_name)-1], filepath.Base(filepath.Dir(file.Name())))
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

// diskUsed returns the used bytes of the disk mounted at point.
func diskUsed(point string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(point, &st); err != nil {
		return 0, err
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, nil //nolint:gosec // far below 2^63
}

// isMounted reports whether point is on another file system than its parent directory.
func isMounted(point string) bool {
	var at, above unix.Stat_t
	return unix.Stat(point, &at) == nil && unix.Stat(filepath.Dir(point), &above) == nil && at.Dev != above.Dev
}
