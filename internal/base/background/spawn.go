package background

import (
	"context"
	"io"
	"sync"
	"time"
)

// Go calls f in a goroutine of its own. A panic of f ends that goroutine and
// nothing else. Whoever waits for f has to hear of its end also then: deferred
// functions of f run, and Async delivers an error.
func Go(name string, f func()) {
	go Safely(name, f)
}

// Async calls f in a goroutine of its own and delivers its error, or that it
// panicked. The channel has room for it: it need not be read.
func Async(name string, f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- Do(name, f) }()
	return result
}

// AfterFunc is time.AfterFunc for a function that may panic.
func AfterFunc(name string, d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { Safely(name, f) })
}

// OnDone is context.AfterFunc for a function that may panic.
func OnDone(ctx context.Context, name string, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { Safely(name, f) })
}

// WaitGroup is a sync.WaitGroup whose goroutines may panic: they count as ended
// then. The zero value is ready.
type WaitGroup struct{ wg sync.WaitGroup }

// Go calls f in a goroutine of its own.
func (w *WaitGroup) Go(name string, f func()) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		Safely(name, f)
	}()
}

// Try calls f in a goroutine of its own and stores its error, or that it
// panicked, before Wait returns.
func (w *WaitGroup) Try(name string, err *error, f func() error) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		*err = Do(name, f)
	}()
}

// Loop calls the function Loop in a goroutine of its own.
func (w *WaitGroup) Loop(ctx context.Context, name string, f func()) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		Loop(ctx, name, f)
	}()
}

// Add counts work that is done elsewhere, as that of sync.WaitGroup.
func (w *WaitGroup) Add(n int) { w.wg.Add(n) }

// Done ends what Add counted.
func (w *WaitGroup) Done() { w.wg.Done() }

// Wait waits for all.
func (w *WaitGroup) Wait() { w.wg.Wait() }

// Between panics in a row a loop rests, so that one that always panics costs
// nothing worth mentioning.
const (
	restFirst = 100 * time.Millisecond
	restMost  = 30 * time.Second
)

// rest is how long a loop rests after panics in a row.
func rest(panics int) time.Duration {
	if panics <= 0 {
		return 0
	}
	return min(restFirst<<min(panics-1, 20), restMost)
}

// Loop calls f until it returns, or ctx ends. When f panics it is called again
// after a rest, which doubles with every panic in a row from 100 ms to 30 s.
func Loop(ctx context.Context, name string, f func()) {
	for n := 0; ; {
		began := time.Now()
		if Safely(name, f) {
			return
		}
		if time.Since(began) > 2*restMost {
			n = 0
		}
		n++
		if !pause(ctx, rest(n)) {
			return
		}
	}
}

// pause waits, and reports whether it was long enough before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// GoLoop calls Loop in a goroutine of its own.
func GoLoop(ctx context.Context, name string, f func()) {
	go Loop(ctx, name, f)
}

// Feed calls f in a goroutine of its own and closes the pipe that it writes to
// with its error, or with that it panicked. The channel is closed after that.
func Feed(name string, w *io.PipeWriter, f func() error) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.CloseWithError(Do(name, f)) // never fails
	}()
	return ended
}
