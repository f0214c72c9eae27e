package ownserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"ingot/internal/base/cgroup"
	"ingot/internal/base/loopdisk"
)

// Each server has its own disk, where that is possible: a file with a file system,
// beside the directory where it is mounted while the server runs. Data, logs and temporary files
// together cannot exceed it.

// Disks makes disks. Nil means that this machine cannot.
type Disks struct{ mkfs, resize string }

const (
	mib        = 1 << 20
	diskSuffix = ".disk"
	newSuffix  = ".new"
	// reservePercent of a disk is kept for a server that cannot start because the rest is used.
	reservePercent = "3"
	// diskMount: what is deleted is given back, and an error of the disk below does not change more.
	diskMount = "discard,errors=remount-ro"
)

// ProbeDisks returns a way to make disks, after it has tried one in a directory.
func ProbeDisks(ctx context.Context, dir string) (*Disks, error) {
	mkfs, err := loopdisk.Program("mkfs.ext4")
	resize, resizeErr := loopdisk.Program("resize2fs")
	if err := errors.Join(err, resizeErr); err != nil {
		return nil, err
	}
	disks := &Disks{mkfs, resize}
	point := filepath.Join(dir, "probe")
	defer os.Remove(point)
	defer os.Remove(point + diskSuffix)
	if err := os.MkdirAll(point, 0o700); err != nil {
		return nil, err
	}
	if err := disks.make(ctx, point+diskSuffix, 16*mib); err != nil {
		return nil, err
	}
	if err := loopdisk.MountOnce(point+diskSuffix, point, diskMount); err != nil {
		return nil, err
	}
	return disks, loopdisk.Unmount(point)
}

// make creates an empty disk. The blocks of a journal are enough for small transactions.
func (d *Disks) make(ctx context.Context, image string, size int64) error {
	fresh := image + newSuffix
	defer os.Remove(fresh) // does nothing after the rename
	if err := os.WriteFile(fresh, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(fresh, size); err != nil {
		return err
	}
	err := loopdisk.Run(ctx, d.mkfs, "-q", "-F", "-t", "ext4", "-m", reservePercent, "-J",
		fmt.Sprintf("size=%d", min(8, size/(4*mib))),
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0", fresh)
	if err != nil {
		return err
	}
	return os.Rename(fresh, image)
}

// Attach mounts the disk of a server at the directory of the server, and gives it a size. A server
// that was created without a disk has none.
func (d *Disks) Attach(ctx context.Context, point string, size int64, log *slog.Logger) error {
	image := point + diskSuffix
	if loopdisk.Mounted(point) {
		return nil
	}
	info, err := os.Stat(image)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (d == nil || !isEmpty(point)):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := d.make(ctx, image, size); err != nil {
			return err
		}
	case err != nil:
		return err
	case d != nil && info.Size() != size:
		if err := d.change(ctx, image, info.Size(), size); err != nil {
			log.Warn("change the size of a database's disk failed", "error", err)
		}
	}
	return loopdisk.MountOnce(image, point, diskMount)
}

// change gives a disk that is not mounted another size. One that holds too much keeps its size.
func (d *Disks) change(ctx context.Context, image string, from, to int64) error {
	if to > from {
		if err := os.Truncate(image, to); err != nil {
			return err
		}
	}
	if err := loopdisk.Run(ctx, d.resize, "-f", image, fmt.Sprintf("%dK", to>>10)); err != nil {
		return errors.Join(err, os.Truncate(image, from)) // tried again by the next start
	}
	return os.Truncate(image, to)
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// Detach unmounts the disk of a server that has stopped, if it has one.
func Detach(point string) error {
	if loopdisk.Mounted(point) {
		cgroup.UnlimitDisk(point)
	}
	return loopdisk.Unmount(point)
}

// Remove deletes the directory and the disk of a server that has stopped.
func Remove(point string) error {
	if err := Detach(point); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(point+diskSuffix+newSuffix), os.RemoveAll(point+diskSuffix), os.RemoveAll(point))
}

// Used returns how many bytes the files of a server take.
func Used(dir string) (n int64, err error) {
	if loopdisk.Mounted(dir) {
		return loopdisk.Used(dir)
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // deleted meanwhile
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n, err
}

// CopyTree copies a directory. The copy belongs to owner.
func CopyTree(to, from string, owner *syscall.Credential) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case e.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			err = copyFile(target, path, info.Mode().Perm())
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", path)
		}
		if err == nil && owner != nil {
			err = os.Chown(target, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
}

func copyFile(to, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
