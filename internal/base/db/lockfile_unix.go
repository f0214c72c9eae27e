//go:build unix

package db

import (
	"context"
	"io"
	"log/slog"
	"math"
	"os"
	"syscall"

	"ingot/internal/base/datadir"
	"ingot/internal/base/filelock"
)

// OpenedBy returns the process that has an SQLite file open, 0 if no other process has.
// This process must not have it open.
func OpenedBy(path string) (pid int) {
	f, err := os.OpenFile(path+"-shm", os.O_RDWR, 0)
	if err != nil {
		return 0 // the last connection removes it
	}
	defer f.Close()
	// Every connection in WAL mode holds a shared lock on this byte.
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: 128, Len: 1}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil || lock.Type == syscall.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

// lockFile locks the file against other processes and other callers in this
// one.
func lockFile(ctx context.Context, path string, log *slog.Logger) (unlock func(), err error) {
	f, err := datadir.OpenRebuilt(path, os.O_RDWR, log)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = f.Close() } // closing unlocks
	if err := filelock.Lock(ctx, f, math.MaxInt64); err != nil {
		unlock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return unlock, nil
}
