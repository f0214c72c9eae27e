package background

import (
	"context"
	"iter"
	"time"
)

// Sleep waits for d, or until ctx is done. It reports whether ctx is not done.
func Sleep(ctx context.Context, d time.Duration) bool { return Wait(ctx, d, nil) }

// Wait is like Sleep, but also ends when it receives from wake.
func Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Ticks yields the time once per interval, and whenever it receives from wake, until ctx is
// done. wake may be nil.
func Ticks(ctx context.Context, interval time.Duration, wake <-chan struct{}) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			var now time.Time
			select {
			case <-ctx.Done():
				return
			case now = <-tick.C:
			case <-wake:
				now = time.Now()
			}
			if !yield(now) {
				return
			}
		}
	}
}

// Kick wakes the goroutine that receives from c, or the next one that does: c has a buffer
// of one, and a kick that was not received yet stands for all later ones. It never blocks.
func Kick(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
