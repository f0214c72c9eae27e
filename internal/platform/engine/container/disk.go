//go:build linux

package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/base/loopdisk"
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

// diskOptions are those of the mount.
const diskOptions = "noinit_itable,errors=continue"

func newDisks(dir string) (*disks, error) {
	mkfs, err := loopdisk.Program("mkfs.ext4")
	if err != nil {
		return nil, err
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
	if err := loopdisk.Run(ctx, d.mkfs, slices.Concat(diskFlags, []string{"-i", strconv.Itoa(inodeEvery),
		tmp})...); err != nil {
		return "", err
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
		err = loopdisk.Mount(image, point, diskOptions)
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

const (
	// loopTime is how long an unmounted disk may stay in use: udev opens new devices for a moment,
	// and a container that is just being created has copies of all mounts.
	loopTime    = 20 * time.Second
	mostHolders = 3 // that are named
	loopMajor   = 7
)

// awaitLoop waits until an unmounted disk is detached from its loop device, which the kernel does
// when its last user is gone. The error says who uses it.
func awaitLoop(ctx context.Context, loop, image string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		attached, err := loopdisk.Attached("/dev/"+loop, image)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the image: nothing keeps it
		}
		if !attached || err != nil {
			return err
		}
		if !background.Sleep(ctx, wait) {
			who := "its unknown user ends"
			if names := holdersOf(loop); len(names) > 0 {
				who = "these end: " + strings.Join(names, ", ")
			}
			return fmt.Errorf("its disk %s stays attached to /dev/%s until %s", image, loop, who)
		}
	}
}

// holdersOf names processes that use a loop device: its file system is mounted for them, or they
// have a file, the working directory or the device itself open.
func holdersOf(loop string) (names []string) {
	minor, err := strconv.ParseUint(strings.TrimPrefix(loop, "loop"), 10, 32)
	if err != nil {
		return nil
	}
	line := fmt.Sprintf(" %d:%d ", loopMajor, minor)
	uses := func(path string) bool {
		var st unix.Statx_t
		// Without asking a server: a file may be on one that does not answer.
		if unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st) != nil {
			return false
		}
		device := st.Mode&unix.S_IFMT == unix.S_IFBLK && st.Rdev_major == loopMajor && uint64(st.Rdev_minor) == minor
		return device || st.Dev_major == loopMajor && uint64(st.Dev_minor) == minor
	}
	procs, _ := filepath.Glob("/proc/[0-9]*") // none without /proc
	for _, proc := range procs {
		table, _ := os.ReadFile(proc + "/mountinfo") // it may have ended
		files, _ := filepath.Glob(proc + "/fd/*")
		if !bytes.Contains(table, []byte(line)) && !slices.ContainsFunc(append(files, proc+"/cwd", proc+"/root"), uses) {
			continue
		}
		name, _ := os.ReadFile(proc + "/comm")
		if names = append(names, fmt.Sprintf("process %s (%s)", filepath.Base(proc), strings.TrimSpace(string(name)))); len(
			names) == mostHolders {
			break
		}
	}
	return names
}
