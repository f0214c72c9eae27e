//go:build !linux

package diskspace

import (
	"errors"
	"math"
	"os"
)

// measure always reports enough space.
func measure(string) (size, free int64, err error) { return maxReserve * 20, math.MaxInt64, nil }

func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fill(f, size), f.Close())
}
