//go:build !windows

package apps

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// rawOutput does nothing: the raw mode of the input is that of the terminal.
func rawOutput(io.Writer) (restore func()) { return func() {} }

// sizeChanges returns a channel that receives a value when the size of the terminal
// changed.
func sizeChanges() <-chan struct{} {
	signals, changed := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for range signals {
			changed <- struct{}{}
		}
	}()
	return changed
}
