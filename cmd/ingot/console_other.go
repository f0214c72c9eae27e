//go:build !windows

package main

import "os"

func getenv(name string) string { return os.Getenv(name) }

// prepareConsole does nothing: terminals interpret escape sequences, unless TERM says otherwise.
func prepareConsole() (escapes bool) { return true }
