//go:build !linux || !amd64

package testkit

import (
	"testing"
	"time"
)

// SetClock sets the clock of another process; it is implemented for Linux on amd64.
func SetClock(t testing.TB, _ int, _ time.Duration) {
	t.Helper()
	t.Skip("the clock of a process can be set on Linux on amd64 only")
}
