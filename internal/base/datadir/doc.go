// Package datadir is the data directory of a server: its lock, the version of its
// format, its secrets, and files that are written atomically.
//
//	DIR/lock           held by the server that uses the directory, with its pid
//	DIR/version.json   the version of the format; a newer one is refused
//	DIR/server-id      identifies the directory among the servers of a database
//	DIR/secrets/       encryption keys and initial secrets, for the server's user only
//
// Other files belong to the packages that use them. It must not import a wing:
// the caller says whose secrets it keeps.
//
// Imports: base/filelock, base/seal, base/version, golang.org/x/sys/unix.
package datadir
