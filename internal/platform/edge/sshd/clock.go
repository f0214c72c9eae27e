package sshd

import (
	"time"

	"ingot/internal/base/background"
)

// Clock provides the time and timers. Tests use a fake one.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() {
	t := background.AfterFunc("ssh timer", d, f)
	return func() { t.Stop() }
}
