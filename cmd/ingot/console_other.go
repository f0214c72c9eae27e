//go:build !windows

package main

import "os"

func getenv(name string) string { return os.Getenv(name) }

// prepareConsole does nothing: terminals interpret escape sequences.
func prepareConsole() {}
