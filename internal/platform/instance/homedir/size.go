//go:build linux

package homedir

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
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

func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
