package apps

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// rawOutput makes the console leave line feeds as they are: programs in the instance end lines
// with a carriage return where they want one.
func rawOutput(out io.Writer) (restore func()) {
	f, ok := out.(*os.File)
	var mode uint32
	if !ok || windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) != nil {
		return func() {}
	}
	// Old consoles refuse it, and show lines at wrong columns.
	_ = windows.SetConsoleMode(windows.Handle(f.Fd()), mode|windows.DISABLE_NEWLINE_AUTO_RETURN)
	return func() { _ = windows.SetConsoleMode(windows.Handle(f.Fd()), mode) }
}

// sizeChanges returns a channel that receives a value when the size of the terminal may
// have changed. Windows sends no signal, so it is a clock.
func sizeChanges() <-chan struct{} {
	changed := make(chan struct{})
	go func() {
		for range time.Tick(250 * time.Millisecond) {
			changed <- struct{}{}
		}
	}()
	return changed
}
