package clock

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

// System is the clock of the machine. Its value names the timers in the log.
type System string

// Now returns the time.
func (System) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (s System) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := background.AfterFunc(string(s), d, f)
	return func() { t.Stop() }
}
