// Package blob stores large files: packages, droplets, buildpacks, build caches, git
// repositories, and the pool of files that clients need not upload again. A Store is a directory,
// Files, or a bucket, package s3; package blobtest is the specification of both.
//
// # Files
//
// A blob is one file, DIR/<kind>/<key>: the content, then 72 bytes with its size
// and checksums (see trailer.go). It is written to DIR/tmp, synced, and renamed;
// so after any crash it exists completely or not at all, and a reader keeps what
// it opened when the key is written again or deleted. Tools that ignore trailing
// data (unzip, gunzip) can be used on the files; gunzip warns about it.
//
// There is no index and nothing is kept in memory, so that several servers can
// share a directory on one file system. What a crash leaves in DIR/tmp is removed
// by Open and Tidy when it has not been written to for an hour.
//
// A directory can also be a bounded cache of a store elsewhere, see OpenCache.
//
// # The pool of resources
//
// Before an upload, a client lists its files by SHA-1 and size, and leaves out of
// the upload those that the server says it has. The checksum is Cloud Foundry's
// choice and part of its protocol; SHA-1 can be made to collide. With one pool for
// all, an attacker could upload one of two colliding files and wait until another
// user is told that the other need not be uploaded: that user would run the
// attacker's code. Any user could also find out whether another user has a certain
// file.
//
// So every file in the pool belongs to a scope, and is matched and opened in that
// scope only. The scope should be the user who uploads, by issuer and id. It cannot
// be a space, because the request to match names none. A collision can then only be
// used against oneself. The price is that equal files of different users are stored
// twice; the pool is bounded and removes the least recently used files.
//
// The pool is only a cache: its files are not synced when they are written, but
// compared with their checksum when they are opened, and removed if they differ.
//
// It does not know who owns a blob, or which are still used: see package cleanup.
//
// Imports: base/background, base/fault.
package blob
