package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/windows"
)

// getenv returns a variable. HOME, where the client keeps its configuration, is the
// user's profile unless it is set.
func getenv(name string) string {
	if name == "HOME" {
		return cmp.Or(os.Getenv(name), os.Getenv("USERPROFILE"))
	}
	return os.Getenv(name)
}

// prepareConsole lets the console interpret escape sequences, for colors and progress.
func prepareConsole() {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		var mode uint32
		console := windows.Handle(f.Fd())
		if windows.GetConsoleMode(console, &mode) == nil { // otherwise it is not a console
			_ = windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
		}
	}
}
