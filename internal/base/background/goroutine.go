package background

import (
	"context"
	"io"
	"sync"
	"time"
)

// Go calls f in a new goroutine. A panic in f ends only that goroutine. A
// caller that waits for f has to be notified also in this case: deferred
// functions of f run, and Async delivers an error.
func Go(name string, f func()) {
	go Safely(name, f)
}

// Async calls f in a new goroutine and delivers its error, or a *PanicError.
// The channel is buffered and need not be read.
func Async(name string, f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- Do(name, f) }()
	return result
}

// AfterFunc is like time.AfterFunc, but recovers from panics in f.
func AfterFunc(name string, d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() { Safely(name, f) })
}

// OnDone is like context.AfterFunc, but recovers from panics in f.
func OnDone(ctx context.Context, name string, f func()) (stop func() bool) {
	return context.AfterFunc(ctx, func() { Safely(name, f) })
}

// WaitGroup is like sync.WaitGroup, but recovers from panics in its goroutines.
// The zero value is ready to use.
type WaitGroup struct{ wg sync.WaitGroup }

// Go calls f in a new goroutine.
func (w *WaitGroup) Go(name string, f func()) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		Safely(name, f)
	}()
}

// Try calls f in a new goroutine and stores its error, or a *PanicError, in err
// before Wait returns.
func (w *WaitGroup) Try(name string, err *error, f func() error) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		*err = Do(name, f)
	}()
}

// Loop calls the function Loop in a new goroutine.
func (w *WaitGroup) Loop(ctx context.Context, name string, f func()) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		Loop(ctx, name, f)
	}()
}

// Add adds n to the counter, like sync.WaitGroup.Add.
func (w *WaitGroup) Add(n int) { w.wg.Add(n) }

// Done decrements the counter.
func (w *WaitGroup) Done() { w.wg.Done() }

// Wait waits until the counter is zero.
func (w *WaitGroup) Wait() { w.wg.Wait() }

// Loops pause between consecutive panics, so that a loop that always panics
// uses little CPU time.
const (
	restFirst = 100 * time.Millisecond
	restMost  = 30 * time.Second
)

// rest returns the pause after a number of consecutive panics.
func rest(panics int) time.Duration {
	if panics <= 0 {
		return 0
	}
	return min(restFirst<<min(panics-1, 20), restMost)
}

// Loop calls f until it returns or ctx is done. When f panics, it is called
// again after a pause that doubles with every consecutive panic from 100 ms to
// 30 s.
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
		if !Sleep(ctx, rest(n)) {
			return
		}
	}
}

// GoLoop calls Loop in a new goroutine.
func GoLoop(ctx context.Context, name string, f func()) {
	go Loop(ctx, name, f)
}

// Feed calls f in a new goroutine and then closes the pipe writer with the
// error of f, or with a *PanicError. The returned channel is closed after that.
func Feed(name string, w *io.PipeWriter, f func() error) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.CloseWithError(Do(name, f)) // never fails
	}()
	return ended
}
