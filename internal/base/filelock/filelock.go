package filelock

import (
	"context"
	"errors"
	"os"
	"time"

	"ingot/internal/base/background"
)

// ErrLocked means that another process, or another open file of this one, holds the lock of a file.
var ErrLocked = errors.New("locked by another process")

// poll is how often a lock that is held is tried again.
const poll = 20 * time.Millisecond

// Lock locks a file until it is closed. It waits for the lock as long as patience and ctx allow.
func Lock(ctx context.Context, f *os.File, patience time.Duration) error {
	for began := time.Now(); ; {
		err := try(f)
		if !errors.Is(err, ErrLocked) || time.Since(began) >= patience {
			return err
		}
		if !background.Sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
}
