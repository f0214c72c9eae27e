// Package filelock locks files against other processes, on Unix and on Windows.
//
// Imports: base/background, golang.org/x/sys/unix.
package filelock
