package datadir

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
)

// ErrLocked means that another process, or another open file of this one, holds the lock of a file.
var ErrLocked = errors.New("locked by another process")

// LockFile locks a file until it is closed. It waits for the lock as long as patience and ctx allow.
func LockFile(ctx context.Context, f *os.File, patience time.Duration) error {
	for began := time.Now(); ; {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Since(began) >= patience {
			return ErrLocked
		}
		if !background.Sleep(ctx, lockPoll) {
			return context.Cause(ctx)
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
