//go:build unix

package db

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

const lockPoll = 10 * time.Millisecond

// lockFile locks the file against other processes and other callers in this
// one.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = f.Close() } // closing unlocks
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			unlock()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			unlock()
			return nil, context.Cause(ctx)
		}
	}
}
