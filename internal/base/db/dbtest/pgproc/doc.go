// Package pgproc runs a private PostgreSQL server for tests: a fresh data
// directory, a socket that only its owner can reach, no TCP, and nothing left
// behind when the process that started it ends, however it ends.
//
// It must not be imported by anything but dbtest and its programs.
//
// Imports: base/daemon, github.com/jackc/pgx/v5.
package pgproc
