// Package pgproc runs a private PostgreSQL server for tests: a fresh data
// directory, a socket that only its owner can reach, no TCP. The server and its
// files are removed when the process that started it exits, for whatever reason.
//
// It must not be imported by anything but dbtest and its programs.
//
// Imports: base/background, base/daemon, github.com/jackc/pgx/v5.
package pgproc
