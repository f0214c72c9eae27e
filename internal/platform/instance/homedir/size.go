//go:build linux

package homedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Size returns the disk usage of a directory. Files that cannot be read, or vanish, do not
// count.
func Size(ctx context.Context, dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || e == nil {
			return nil //nolint:nilerr // a directory of another user, or one just removed
		}
		if info, err := e.Info(); err == nil {
			sum += onDisk(info)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return sum, err
}

// Hidden returns the disk usage of the files of lower directories, the lowest first, that are not
// seen when another directory is mounted over them.
func Hidden(ctx context.Context, upper string, lower []string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(upper, func(name string, _ fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		rel, err := filepath.Rel(upper, name)
		if err != nil {
			return err
		}
		for _, dir := range slices.Backward(lower) {
			if info, err := os.Lstat(filepath.Join(dir, rel)); err == nil {
				sum += onDisk(info)
				return nil
			}
		}
		return nil
	})
	return sum, err
}

func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
