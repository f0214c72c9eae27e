package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// getenv returns a variable. HOME, where the client keeps its configuration, is the
// user's profile unless it is set to a path of Windows; shells for Unix set it to one of theirs.
func getenv(name string) string {
	if name == "HOME" && !filepath.IsAbs(os.Getenv(name)) {
		return os.Getenv("USERPROFILE")
	}
	return os.Getenv(name)
}

// prepareConsole lets the console interpret escape sequences, for colors and progress, and
// reports whether it does: one in legacy mode would show them.
func prepareConsole() (escapes bool) {
	escapes = true
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		var mode uint32
		console := windows.Handle(f.Fd())
		if windows.GetConsoleMode(console, &mode) == nil { // otherwise it is not a console
			err := windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
			escapes = escapes && err == nil
		}
	}
	return escapes
}
