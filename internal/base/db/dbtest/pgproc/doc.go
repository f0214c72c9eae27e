// Package pgproc runs a private PostgreSQL server for tests: a fresh data
// directory, a socket that only its owner can reach, no TCP, and nothing left
// behind when the process that started it ends, however it ends.
//
// It may import the standard library, the PostgreSQL driver, and package
// servers, which knows where the programs are and as whom they run. It must not be
// imported by anything but dbtest and its programs.
package pgproc
