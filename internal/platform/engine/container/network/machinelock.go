//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/filelock"
)

// machineLock is the file whose lock engines hold while they change what they share. Only root can open it, because
// every user who can open a file can lock it, and keep all engines from starting. It is never removed, because another
// engine could hold the lock of the removed file.
const machineLock = runDir + "/ingot-network.lock"

// lockPatience is how long an engine waits for the lock before it says so. Others hold it for milliseconds.
const lockPatience = 5 * time.Second

// lockMachine locks out other engines of this machine while f runs.
func lockMachine(log *slog.Logger, f func() error) error {
	return lockedBy(machineLock, lockPatience, log, f)
}

func lockedBy(path string, patience time.Duration, log *slog.Logger, f func() error) error {
	lock, err := openLock(path)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx := context.Background()
	err = filelock.Lock(ctx, lock, patience)
	if errors.Is(err, filelock.ErrLocked) {
		log.Warn("another engine is changing the network of this machine: waiting until it has finished", "lock", path)
		err = filelock.Lock(ctx, lock, math.MaxInt64)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return f() // closing releases the lock
}

// openLock opens a file that only the user of this process can open.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		_ = f.Close() // nothing was written
		return nil, &os.PathError{Op: "fstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("lock %s: it is not a file that only user %d can open: remove it", path, os.Geteuid())
	}
	return f, nil
}
